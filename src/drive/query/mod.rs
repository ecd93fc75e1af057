//! Files by time and by name.
//!
//! Two plans can answer what lies below a folder in a period of time: [`index`] walks an index and skips what lies
//! elsewhere, which is best for large folders; [`tree`] reads the folder whole and keeps the first of the period,
//! which is best for small ones. No statistics tell which: both run, turn by turn with equal work, and the one that
//! ends first answers. So a query costs at most twice what the better plan does.

mod index;
mod passed;
mod tree;

use std::ops::Bound;

use bytes::Bytes;

use super::ask::{FilesAsk, FindAsk, Found, Node};
use super::settle::{Candidate, Key};
use super::{Drive, DriveError, Result, TRIES};
use crate::schema::name::{self, NameHint};
use crate::schema::owner::{self, OwnerHint};
use crate::schema::path::fold;
use crate::schema::time::{self, TimeHint};
use crate::schema::{DirId, DrivePath, FileId, Timestamp};
use crate::table::RowRange;
use index::{Hinted, Walk};
use tree::Tree;

/// How far a plan is with its answer.
enum Progress<T> {
    GoesOn,
    /// Others have changed what it read: what it has proves nothing.
    Void,
    Ended(T),
}

impl Drive {
    /// Files of a time period, newest first, ties by ascending id; `ascending` is the exact reverse.
    pub async fn files(&self, ask: &FilesAsk) -> Result<Found<(Timestamp, FileId)>> {
        for _ in 0..TRIES {
            if let Some(found) = self.try_files(ask).await? {
                return Ok(found);
            }
        }
        Err(DriveError::Contended)
    }

    /// None if the answer would not be exact, for what others have changed meanwhile.
    async fn try_files(&self, ask: &FilesAsk) -> Result<Option<Found<(Timestamp, FileId)>>> {
        // IMPORTANT: before the scope is looked up, so that what moved since is not taken for quiet.
        let mut tree = ask.under.as_ref().filter(|under| !under.is_root()).map(|under| Tree::new(self, ask, under));
        let scope = self.scope(ask.under.as_ref()).await?;
        let (table, range) = match &ask.creator {
            None => (time::TABLE, time_range(ask)),
            Some(creator) => (owner::TABLE, owner::range(creator, time_range(ask))),
        };
        let mut index = Walk::new(self, table, range, ask.ascending, ask.limit, scope);
        loop {
            match index.step(&|hinted| by_time(ask, hinted)).await? {
                Progress::Ended((nodes, _)) if !are_below(&nodes, ask.under.as_ref()) => return Ok(None),
                Progress::Ended((nodes, last)) => {
                    return Ok(Some(Found { nodes, next: last.map(|key| decode_time(ask, &key)).transpose()? }));
                }
                Progress::Void => return Ok(None),
                Progress::GoesOn => {}
            }
            let Some(scan) = &mut tree else { continue };
            match scan.catch_up(index.work()).await? {
                Progress::Ended(found) => return Ok(Some(found)),
                Progress::Void => tree = None,
                Progress::GoesOn => {}
            }
        }
    }

    /// Files by name anywhere, ordered by folded name, then by id.
    pub async fn find(&self, ask: &FindAsk) -> Result<Found<(String, FileId)>> {
        for _ in 0..TRIES {
            if let Some(found) = self.try_find(ask).await? {
                return Ok(found);
            }
        }
        Err(DriveError::Contended)
    }

    /// None as for [`Self::try_files`].
    async fn try_find(&self, ask: &FindAsk) -> Result<Option<Found<(String, FileId)>>> {
        let scope = self.scope(ask.under.as_ref()).await?;
        let folded = fold(&ask.name);
        let mut range = if ask.prefix { name::prefix(&folded) } else { name::exact(&folded) };
        if let Some((at, id)) = &ask.after {
            pass(&mut range, name::key(at, *id), false);
        }
        let mut index = Walk::new(self, name::TABLE, range, false, ask.limit, scope);
        loop {
            match index.step(&by_name).await? {
                Progress::Ended((nodes, _)) if !are_below(&nodes, ask.under.as_ref()) => return Ok(None),
                Progress::Ended((nodes, last)) => {
                    let next = last.map(|key| name::decode_key(&key).map(|(folded, id)| (folded.to_owned(), id)));
                    return Ok(Some(Found { nodes, next: next.transpose()? }));
                }
                Progress::Void => return Ok(None),
                Progress::GoesOn => {}
            }
        }
    }

    /// The directory that a query is bounded to; the root bounds nothing.
    async fn scope(&self, under: Option<&DrivePath>) -> Result<DirId> {
        match under {
            None => Ok(DirId::ROOT),
            Some(path) => match self.stat(path).await? {
                Node::Directory { entry, .. } => Ok(entry.id),
                Node::File { .. } => Err(DriveError::IsFile),
            },
        }
    }
}

/// Whether all of them lie below the path that was asked for. The directory that was there may have moved meanwhile: what
/// lies in it has been found at its new path then.
fn are_below(nodes: &[Node], under: Option<&DrivePath>) -> bool {
    under.is_none_or(|under| nodes.iter().all(|node| node.path().is_within(under)))
}

/// The rows of the time index that are left to be shown.
fn time_range(ask: &FilesAsk) -> RowRange {
    let mut range = time::range(ask.clock, ask.from, ask.to);
    if let Some((at, id)) = ask.after {
        pass(&mut range, time::key(ask.clock, at, id), ask.ascending);
    }
    range
}

fn decode_time(ask: &FilesAsk, key: &[u8]) -> Result<(Timestamp, FileId)> {
    Ok(if ask.creator.is_some() { owner::decode_key(key)? } else { time::decode_key(key)? })
}

/// What a row of the time or owner index may stand for; none if its type is not wanted. Creator and type are the
/// file's for life: any of its hints tells them.
fn by_time(ask: &FilesAsk, hinted: &Hinted<'_>) -> Result<Option<Candidate>> {
    let (at, id) = decode_time(ask, hinted.key)?;
    let (dir, name, mime) = if ask.creator.is_some() {
        let OwnerHint { dir, name, mime } = OwnerHint::decode(hinted.value)?;
        (dir, name, mime)
    } else {
        let TimeHint { dir, name, mime, .. } = TimeHint::decode(hinted.value)?;
        (dir, name, mime)
    };
    let wanted = ask.mime.as_ref().is_none_or(|filter| filter.matches(&mime));
    Ok(wanted.then_some(Candidate { key: Key::Time(ask.clock, at), id, dir, name, alone: hinted.alone }))
}

fn by_name(hinted: &Hinted<'_>) -> Result<Option<Candidate>> {
    let (folded, id) = name::decode_key(hinted.key)?;
    let NameHint { dir, name } = NameHint::decode(hinted.value)?;
    Ok(Some(Candidate { key: Key::Name(folded.to_owned()), id, dir, name, alone: hinted.alone }))
}

/// Leaves out everything up to a key that was passed.
fn pass(range: &mut RowRange, key: Bytes, reverse: bool) {
    if reverse {
        range.to = Bound::Excluded(key);
    } else {
        range.from = Bound::Excluded(key);
    }
}
