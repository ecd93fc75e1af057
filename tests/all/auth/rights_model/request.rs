//! Requests of the clients, and their answers.

use std::collections::BTreeMap;
use std::fmt;

use rand::RngExt;
use rand::rngs::StdRng;
use rowdrive::auth::{Credential, DirChain};
use rowdrive::schema::account::Grantee;
use rowdrive::schema::ids::SecretId;
use rowdrive::schema::rights::Rights;
use rowdrive::schema::secret::{SecretKind, SecretOwner, TokenScope};
use rowdrive::schema::share::ShareTarget;
use rowdrive::schema::user_name::UserName;
use rowdrive::schema::{DirId, DrivePath, Timestamp};

use super::states::Entry;

/// A directory that was found at a path, for a change of the rights on it.
#[derive(Clone)]
pub struct Place {
    pub path: DrivePath,
    pub dir: DirId,
    pub chain: DirChain,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.dir)
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Asked {
    Stat(DrivePath),
    List(DrivePath),
    /// All bytes of a file.
    Read(DrivePath),
    /// All files, by name.
    Find,
    Put(DrivePath),
    Mkdir(DrivePath),
    Delete(DrivePath),
    Rmdir(DrivePath),
    /// A directory with all in it.
    Remove(DrivePath),
    /// With true it may replace a file.
    Move(DrivePath, DrivePath, bool),
    /// The directories of a path, for a grant or a token: what is asked for next.
    Chain(DrivePath),
    /// The same for a share.
    Target(DrivePath),
    Give(Place, Grantee, Rights),
    Take(Place, Grantee),
    Change {
        user: UserName,
        disabled: Option<bool>,
        admin: Option<bool>,
    },
    RemoveUser(UserName),
    /// With true his home has to be a new directory.
    AddUser(UserName, DrivePath, bool),
    MakeSession,
    MakeToken(Option<TokenScope>, Option<Timestamp>),
    /// `Place`: the directory itself, or that of the file.
    MakeShare(Place, ShareTarget, Option<Timestamp>),
    End(SecretOwner),
}

impl Asked {
    /// A path that it names, if it names any.
    pub fn path(&self, rng: &mut StdRng) -> Option<DrivePath> {
        let path = match self {
            Self::Stat(path)
            | Self::List(path)
            | Self::Read(path)
            | Self::Put(path)
            | Self::Mkdir(path)
            | Self::Delete(path)
            | Self::Rmdir(path)
            | Self::Remove(path)
            | Self::Chain(path)
            | Self::Target(path)
            | Self::AddUser(_, path, _) => path,
            Self::Move(from, to, _) => [from, to][rng.random_range(0..2)],
            Self::Give(place, ..) | Self::Take(place, _) | Self::MakeShare(place, ..) => &place.path,
            Self::Find
            | Self::Change { .. }
            | Self::RemoveUser(_)
            | Self::MakeSession
            | Self::MakeToken(..)
            | Self::End(_) => return None,
        };
        Some(path.clone())
    }

    /// Whether it changes something.
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::Stat(_) | Self::List(_) | Self::Read(_) | Self::Find | Self::Chain(_) | Self::Target(_))
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stat(_) => "stat",
            Self::List(_) => "list",
            Self::Read(_) => "read",
            Self::Find => "find",
            Self::Put(_) => "put",
            Self::Mkdir(_) => "mkdir",
            Self::Delete(_) => "delete",
            Self::Rmdir(_) => "rmdir",
            Self::Remove(_) => "remove",
            Self::Move(..) => "move",
            Self::Chain(_) => "chain",
            Self::Target(_) => "target",
            Self::Give(..) => "give",
            Self::Take(..) => "take",
            Self::Change { .. } => "change",
            Self::RemoveUser(_) => "remove user",
            Self::AddUser(..) => "add user",
            Self::MakeSession => "make session",
            Self::MakeToken(..) => "make token",
            Self::MakeShare(..) => "make share",
            Self::End(_) => "end",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done. The file or directory that was made, if one was.
    Done(Option<Entry>),
    /// The secret that was made.
    Made(SecretId),
    Seen(Entry),
    /// By name; of files that were found by path.
    Shown(BTreeMap<String, Entry>),
    Missing,
    Forbidden,
    Unauthorized,
    Conflict,
    /// Nothing was done, for want of time.
    Busy,
}

impl Answer {
    /// Whether something was changed.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Made(_))
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Made(_) => "made",
            Self::Seen(_) => "seen",
            Self::Shown(_) => "shown",
            Self::Missing => "missing",
            Self::Forbidden => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::Conflict => "conflict",
            Self::Busy => "busy",
        }
    }
}

/// A request with its answer.
#[derive(Clone)]
pub struct Request {
    pub client: usize,
    pub by: Credential,
    pub asked: Asked,
    pub answer: Answer,
    /// The number of events before it was sent.
    pub from: usize,
    /// The number of events when it was answered.
    pub to: usize,
}

impl Request {
    pub fn is_by_share(&self) -> bool {
        self.by.is_share()
    }

    /// Who asks, and by what.
    pub fn asker(&self) -> String {
        let name = self.by.user().map_or("nobody", UserName::as_str);
        let kind = match self.by.secret() {
            None => "password".to_owned(),
            Some(SecretOwner { kind, id, .. }) => format!("{} {}", secret_kind(*kind), id.0),
        };
        format!("{name} by {kind}")
    }
}

fn secret_kind(kind: SecretKind) -> &'static str {
    match kind {
        SecretKind::Session => "session",
        SecretKind::Token => "token",
        SecretKind::Share => "share",
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, asked, answer, from, to, .. } = self;
        write!(f, "client {client}, {}: {asked:?} -> {answer:?}, in states {from} to {to}", self.asker())
    }
}
