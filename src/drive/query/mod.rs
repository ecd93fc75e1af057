//! Files by time and by name.
//!
//! Two strategies run for a query below folders. [`by_index`] reads an index in order and drops files outside the
//! folders: it is best for large folders. Beside it [`by_keys`] reads the index rows of the folder's files alone, once the
//! folder has been read for their keys; where that cannot be used, as for names or for several folders, [`by_scan`] reads
//! the folders whole and keeps the first files. The drive has no statistics to choose by. So two run in turns with equal
//! work, and the one that finishes first answers: a query costs at most about twice as much as the better of them, and once
//! more if the keys are given up on the way. The scan has a little lead, so that small folders are answered by it alone,
//! however many files are elsewhere.

mod by_index;
mod by_keys;
mod by_scan;
mod exact;
mod reconcile;
pub mod source;
pub mod stored;
mod verify;

use std::sync::Arc;

use super::authorized::stat_in;
use super::error::{DriveError, Result};
use super::model::{FilePage, NameQuery, Node, TimeQuery};
use super::namespace::Namespace;
use super::namespace::scope::Scope;
use super::rights::{Look, Sight};
use super::settings::TRIES;
use crate::auth::Requester;
use crate::schema::index::by_name::{self, NameIndexEntry};
use crate::schema::index::by_owner::{self, OwnerIndexEntry};
use crate::schema::index::by_time::{self, CopiedAttributes, TimeIndexEntry};
use crate::schema::{DirId, DrivePath, FileId, Timestamp};
use by_index::IndexStrategy;
use by_keys::KeysStrategy;
use by_scan::{Asked, ScanStrategy};
use reconcile::{IndexCell, IndexPage, IndexRange};
use source::{QuerySource, StrategyProgress, name_range, time_range};
use stored::{TimePage, stored_by_time};
use verify::{IndexEntry, IndexKey};

/// Files of a time period, newest first, ties by ascending id; `ascending` is the exact reverse.
pub async fn page_by_time(source: &QuerySource, requester: &Requester, ask: &TimeQuery) -> Result<TimePage> {
    let (ns, root) = (&source.namespace, DrivePath::root());
    let under = ask.under.as_ref().unwrap_or(&root);
    for attempt in 0..TRIES {
        let look = Look::at(ns, requester, under, attempt).await?;
        let stored = if look.sight.is_whole() { stored_by_time(source, ask).await? } else { None };
        let found = match stored {
            Some(files) => Ok(Some(TimePage::Stored(files))),
            None => try_by_time(source, &look, ask).await.map(|found| found.map(TimePage::Decoded)),
        };
        if let (true, Some(found)) = (look.holds().await?, found.transpose()) {
            return found;
        }
    }
    Err(DriveError::Contended)
}

/// None if the answer may not be exact, because other requests have changed rows meanwhile: try again.
///
/// Before each turn of the index strategy the other one does as much work as that has done in all; a scan has a little
/// lead. If the scan is [void](StrategyProgress::Void), it is dropped, and the index strategy answers alone. If the index
/// strategy is void, the attempt ends.
async fn try_by_time(
    source: &QuerySource,
    look: &Look<'_>,
    ask: &TimeQuery,
) -> Result<Option<FilePage<(Timestamp, FileId)>>> {
    // IMPORTANT: from before the lookup of the scope: a move after it makes both strategies below a folder void.
    let epoch = look.moves();
    let Some((scope, folders)) = scope(&source.namespace, look).await? else {
        return Ok(Some(FilePage { nodes: Vec::new(), next: None }));
    };
    let mut scan = ScanStrategy::new(source, Asked::Time(ask), &folders, epoch);
    let mut keys = match folders.as_slice() {
        [folder] => KeysStrategy::new(source, ask, folder, scope.clone(), epoch),
        _ => None,
    };
    let (table, range) = match &ask.creator {
        None => (by_time::TABLE, time_range(ask)),
        Some(creator) => (by_owner::TABLE, by_owner::range(creator, time_range(ask))),
    };
    let mut index =
        IndexStrategy::new(source, IndexRange { table, range, reverse: ask.ascending, limit: ask.limit, scope });
    loop {
        if let Some(running) = &mut keys {
            match running.catch_up(index.work()).await? {
                StrategyProgress::Finished(page) => return time_page(ask, page),
                StrategyProgress::Void => keys = None,
                StrategyProgress::Unfinished => {}
            }
        } else if let Some(running) = &mut scan {
            match running.catch_up(index.work()).await? {
                StrategyProgress::Finished((nodes, last)) => {
                    let next = last.map(|key| by_time::decode_key(&key)).transpose()?;
                    return Ok(Some(FilePage { nodes, next }));
                }
                StrategyProgress::Void => scan = None,
                StrategyProgress::Unfinished => {}
            }
        }
        match index.step(&|cell| by_time(ask, cell)).await? {
            StrategyProgress::Finished(page) => return time_page(ask, page),
            StrategyProgress::Void => return Ok(None),
            StrategyProgress::Unfinished => {}
        }
    }
}

/// The page of an index. None if the directory has moved meanwhile.
fn time_page(ask: &TimeQuery, (nodes, last): IndexPage) -> Result<Option<FilePage<(Timestamp, FileId)>>> {
    if !are_below(&nodes, ask.under.as_ref()) {
        return Ok(None);
    }
    Ok(Some(FilePage { nodes, next: last.map(|key| decode_time(ask, &key)).transpose()? }))
}

/// Files by name anywhere, ordered by folded name, then by id.
pub async fn files_by_name(
    source: &QuerySource,
    requester: &Requester,
    ask: &NameQuery,
) -> Result<FilePage<(String, FileId)>> {
    let root = DrivePath::root();
    let (ns, under) = (&source.namespace, ask.under.as_ref().unwrap_or(&root));
    for attempt in 0..TRIES {
        let look = Look::at(ns, requester, under, attempt).await?;
        let found = try_by_name(source, &look, ask).await;
        if let (true, Some(found)) = (look.holds().await?, found.transpose()) {
            return found;
        }
    }
    Err(DriveError::Contended)
}

/// None as for [`try_by_time`].
async fn try_by_name(
    source: &QuerySource,
    look: &Look<'_>,
    ask: &NameQuery,
) -> Result<Option<FilePage<(String, FileId)>>> {
    // IMPORTANT: from before the lookup of the scope, as for a time query.
    let epoch = look.moves();
    let Some((scope, folders)) = scope(&source.namespace, look).await? else {
        return Ok(Some(FilePage { nodes: Vec::new(), next: None }));
    };
    let mut scan = ScanStrategy::new(source, Asked::Name(ask), &folders, epoch);
    let (table, range) = (by_name::TABLE, name_range(ask));
    let mut index = IndexStrategy::new(source, IndexRange { table, range, reverse: false, limit: ask.limit, scope });
    loop {
        if let Some(running) = &mut scan {
            match running.catch_up(index.work()).await? {
                StrategyProgress::Finished(page) => return name_page(ask, page),
                StrategyProgress::Void => scan = None,
                StrategyProgress::Unfinished => {}
            }
        }
        match index.step(&by_name).await? {
            StrategyProgress::Finished(page) => return name_page(ask, page),
            StrategyProgress::Void => return Ok(None),
            StrategyProgress::Unfinished => {}
        }
    }
}

/// The page of the index by name, or of a scan. None if the directory has moved meanwhile.
fn name_page(ask: &NameQuery, (nodes, last): IndexPage) -> Result<Option<FilePage<(String, FileId)>>> {
    if !are_below(&nodes, ask.under.as_ref()) {
        return Ok(None);
    }
    let next = last.map(|key| by_name::decode_key(&key).map(|(folded, id)| (folded.to_owned(), id)));
    Ok(Some(FilePage { nodes, next: next.transpose()? }))
}

/// The scope of a query, and its folders: none if it is everything. None at all if there is nothing that the requester may
/// read.
///
/// In a directory that he sees as a way, it is all that he may read below it.
async fn scope(ns: &Namespace, look: &Look<'_>) -> Result<Option<(Scope, Vec<DrivePath>)>> {
    if look.path.is_root() {
        return Ok(match &look.sight {
            Sight::Ways(_, ways) => scope_of(ways.readable()),
            Sight::Unrestricted | Sight::Whole(..) => Some((Scope::Everything, Vec::new())),
        });
    }
    let dir = match stat_in(ns, &look.sight, look.path).await? {
        Node::Directory { entry, .. } => entry.id,
        Node::File { .. } => return Err(DriveError::IsFile),
    };
    Ok(match look.sight.ways_in(look.path) {
        Some((_, ways)) => scope_of(ways.readable_below(dir)),
        None => Some((Scope::below(dir), vec![look.path.clone()])),
    })
}

/// The scope of these directories.
fn scope_of<'a>(dirs: impl Iterator<Item = &'a (DrivePath, DirId)>) -> Option<(Scope, Vec<DrivePath>)> {
    let (folders, ids): (Vec<_>, Vec<_>) = dirs.cloned().unzip();
    match ids.as_slice() {
        [] => None,
        [id] => Some((Scope::below(*id), folders)),
        _ => Some((Scope::BelowAny(Arc::new(ids.into_iter().collect())), folders)),
    }
}

/// Whether all files are below the path that was asked for. The directory may have moved meanwhile: then its files were
/// found at its new path.
fn are_below(nodes: &[Node], under: Option<&DrivePath>) -> bool {
    under.is_none_or(|under| nodes.iter().all(|node| node.path().is_within(under)))
}

fn decode_time(ask: &TimeQuery, key: &[u8]) -> Result<(Timestamp, FileId)> {
    Ok(if ask.creator.is_some() { by_owner::decode_key(key)? } else { by_time::decode_key(key)? })
}

/// The entry of a row of the time or owner index; none if the query asks for another media type. Creator and type of a
/// file never change, so the value of any of its index entries is enough to drop it early.
fn by_time(ask: &TimeQuery, cell: &IndexCell<'_>) -> Result<Option<IndexEntry>> {
    let (at, id) = decode_time(ask, cell.key)?;
    let is_wanted = |mime: &str| ask.mime.as_ref().is_none_or(|filter| filter.matches(mime));
    let (dir, name, attributes) = if ask.creator.is_some() {
        let OwnerIndexEntry { dir, name, mime } = OwnerIndexEntry::decode(&cell.cell.value)?;
        if !is_wanted(&mime) {
            return Ok(None);
        }
        (dir, name, None)
    } else {
        let TimeIndexEntry { dir, name, copied } = TimeIndexEntry::decode(&cell.cell.value)?;
        if !is_wanted(copied.mime()) {
            return Ok(None);
        }
        let all = match copied {
            CopiedAttributes::All(attributes) => Some(attributes),
            CopiedAttributes::Filters { .. } => None,
        };
        (dir, name, all)
    };
    let (key, stay) = (IndexKey::Time(ask.clock, at), cell.stay()?);
    Ok(Some(IndexEntry { key, id, dir, name, stay, attributes, alone: cell.alone }))
}

fn by_name(cell: &IndexCell<'_>) -> Result<Option<IndexEntry>> {
    let (folded, id) = by_name::decode_key(cell.key)?;
    let NameIndexEntry { dir, name } = NameIndexEntry::decode(&cell.cell.value)?;
    let (key, stay) = (IndexKey::Name(folded.to_owned()), cell.stay()?);
    Ok(Some(IndexEntry { key, id, dir, name, stay, attributes: None, alone: cell.alone }))
}
