//! The model of rights: who may do what in a state. It is written by the contract alone, and shares no code with the
//! server's decisions.

use std::collections::BTreeMap;

use rowdrive::auth::Credential;
use rowdrive::schema::grant::Giver;
use rowdrive::schema::rights::{Right, Rights};
use rowdrive::schema::secret::{SecretKind, TokenScope};
use rowdrive::schema::share::ShareTarget;
use rowdrive::schema::user_name::UserName;
use rowdrive::schema::{DirId, DrivePath, Timestamp};

use super::states::{Entry, State};

/// Who asks, as a state knows him.
pub struct Asker<'a> {
    pub state: &'a State,
    pub name: &'a UserName,
    is_admin: bool,
    scope: Option<TokenScope>,
    /// What the share is of by which a stranger asks.
    target: Option<ShareTarget>,
    /// When his token ends.
    pub token_end: Option<Timestamp>,
}

impl<'a> Asker<'a> {
    /// None if his credential is not valid in this state. `now`: the time by which it may have ended.
    pub fn of(state: &'a State, credential: &'a Credential, now: Timestamp) -> Option<Self> {
        let name = credential.user()?;
        let account = state.user(name)?;
        let profile = account.profile.as_ref().filter(|profile| !profile.disabled)?;
        let mut asker = Self { state, name, is_admin: profile.admin, scope: None, target: None, token_end: None };
        let Some(owner) = credential.secret() else { return Some(asker) };
        let held = account.secrets.get(&owner.id)?;
        if held.expires.is_some_and(|expires| expires <= now) {
            return None;
        }
        asker.scope = held.scope;
        asker.target = held.target;
        asker.token_end = held.expires.filter(|_| held.kind == SecretKind::Token);
        if let Some(ShareTarget::Dir(dir)) = held.target {
            asker.scope = Some(TokenScope { dir, rights: Rights::from_iter([Right::Read]) });
        }
        Some(asker)
    }

    /// Whether he may do all that his user may.
    pub fn has_whole_account(&self) -> bool {
        self.scope.is_none() && self.target.is_none()
    }

    pub fn is_admin(&self) -> bool {
        self.is_admin && self.has_whole_account()
    }

    /// Whether he makes and ends shares.
    pub fn may_share(&self) -> bool {
        self.target.is_none() && self.scope.is_none_or(|scope| scope.rights.contains(Right::Share))
    }

    /// Whether he has a right on the last directory of a chain.
    pub fn has(&self, chain: &[DirId], right: Right) -> bool {
        let is_in_scope = self.scope.is_none_or(|scope| scope.rights.contains(right) && chain.contains(&scope.dir));
        is_in_scope && self.user_has(chain, right)
    }

    fn user_has(&self, chain: &[DirId], right: Right) -> bool {
        user_has(self.state, self.name, chain, right, &mut Vec::new())
    }

    /// Whether he may change what is in a directory or, if it is missing, in the deepest one above it that is there.
    pub fn may_write_in(&self, path: &DrivePath) -> bool {
        self.has(&self.state.tree.chain(path), Right::Write)
    }

    fn may_read(&self, path: &DrivePath) -> bool {
        self.has(&self.state.tree.chain(path), Right::Read)
    }

    /// Whether a directory leads to one that he may read. Without a right on it he sees that alone of it.
    fn is_way(&self, path: &DrivePath) -> bool {
        let tree = &self.state.tree;
        let is_in_scope = self.scope.is_none_or(|scope| tree.chain(path).contains(&scope.dir));
        let mut dirs = tree.below(path).filter(|(_, entry)| entry.dir().is_some());
        is_in_scope && dirs.any(|(at, _)| self.may_read(at))
    }

    /// What he sees at a path.
    pub fn seen(&self, path: &DrivePath) -> Option<Entry> {
        let entry = *self.state.tree.nodes.get(path)?;
        let is_seen = match entry {
            Entry::Dir(_) => self.may_read(path) || self.is_way(path),
            Entry::File(_) => self.may_read(path),
        };
        is_seen.then_some(entry)
    }

    /// What he sees in a directory, by name; none if he does not see the directory.
    pub fn list(&self, path: &DrivePath) -> Option<BTreeMap<String, Entry>> {
        self.seen(path)?.dir()?;
        let is_child = |at: &DrivePath| at.levels() == path.levels() + 1;
        let children = self.state.tree.below(path).filter(|(at, _)| is_child(at));
        let seen = children.filter_map(|(at, _)| Some((at.last().to_owned(), self.seen(at)?)));
        Some(seen.collect())
    }

    /// All files that he sees, by path.
    pub fn files(&self) -> BTreeMap<String, Entry> {
        let nodes = self.state.tree.nodes.iter().filter(|(_, entry)| entry.dir().is_none());
        let seen = nodes.filter(|(path, _)| self.may_read(path));
        seen.map(|(path, entry)| (path.as_str().to_owned(), *entry)).collect()
    }

    /// What his share is of, where it is now; none while its maker may not read and share there.
    pub fn shared(&self) -> Option<Shared> {
        let tree = &self.state.tree;
        let (path, shared) = match self.target? {
            ShareTarget::Dir(id) => {
                let path = tree.path_of_dir(id)?;
                (path, Shared::Dir(path.clone()))
            }
            ShareTarget::File(id) => {
                let path = tree.path_of_file(id)?;
                (path, Shared::File(path.last().to_owned(), Entry::File(id)))
            }
        };
        let chain = tree.chain(path);
        let may = [Right::Read, Right::Share].into_iter().all(|right| self.user_has(&chain, right));
        may.then_some(shared)
    }
}

/// What a share is of.
pub enum Shared {
    /// A directory at this path.
    Dir(DrivePath),
    /// A file of this name.
    File(String, Entry),
}

/// Whether a user has a right on the last directory of a chain, whether or not he may log in. `asking`: those whose
/// right depends on this, so that givers in a circle have nothing.
fn user_has<'a>(
    state: &'a State,
    name: &'a UserName,
    chain: &[DirId],
    right: Right,
    asking: &mut Vec<&'a UserName>,
) -> bool {
    let Some(account) = state.user(name).filter(|_| !asking.contains(&name)) else { return false };
    if account.profile.as_ref().is_some_and(|profile| profile.admin) {
        return true;
    }
    asking.push(name);
    let mut grants = account.grants.iter().chain(state.everyone().into_iter().flatten());
    let has = grants.any(|((dir, giver), rights)| {
        let Some(level) = chain.iter().position(|id| id == dir).filter(|_| rights.contains(right)) else {
            return false;
        };
        match giver {
            Giver::Admins => true,
            // As long as he may share there, and has as much there.
            Giver::User(giver) => {
                [Right::Share, right].into_iter().all(|needed| user_has(state, giver, &chain[..=level], needed, asking))
            }
        }
    });
    asking.pop();
    has
}
