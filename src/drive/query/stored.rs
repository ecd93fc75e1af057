//! The usual page of a time query, not decoded: the newest or oldest files of the whole drive, from one scan.
//!
//! It is exact for the reasons of [`super::exact`]: the store is atomic, each directory is live at its path, and no
//! directory has moved since before the scan. If one of them does not hold, or if the query has a filter, there is no such
//! page, and the strategies answer. Both give the same page.

use std::sync::Arc;

use super::exact::live_dirs;
use super::source::{QuerySource, time_range};
use super::verify::CellsRead;
use crate::drive::error::Result;
use crate::drive::model::{EntryRef, FilePage, NodeRef, TimeQuery};
use crate::drive::namespace::Namespace;
use crate::drive::namespace::dir_paths::DirPath;
use crate::schema::dir::FileEntryRef;
use crate::schema::index::by_time::{self, TimeIndexEntryRef};
use crate::schema::{CF, DirId, DrivePath, FileId, StayId, Timestamp, ValueError, index};
use crate::table::{Cell, Row, RowKey, RowQuery, ScanQuery};

/// A page of a time query.
pub enum TimePage {
    /// As stored.
    Stored(StoredFiles),
    /// Decoded.
    Decoded(FilePage<(Timestamp, FileId)>),
}

impl TimePage {
    /// The page, decoded.
    pub fn decoded(self) -> Result<FilePage<(Timestamp, FileId)>> {
        match self {
            Self::Decoded(page) => Ok(page),
            Self::Stored(files) => {
                let nodes = files.nodes().map(|node| node?.to_owned()).collect::<Result<_>>()?;
                Ok(FilePage { nodes, next: files.next })
            }
        }
    }
}

/// Files of a time query as they are stored: each is decoded when it is used.
pub struct StoredFiles {
    rows: Vec<(RowKey, Row)>,
    /// The directory of each row.
    dirs: Vec<Arc<DirPath>>,
    /// Where the next page goes on; none at the end.
    pub next: Option<(Timestamp, FileId)>,
}

impl StoredFiles {
    /// The files, in the order of the query.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Result<NodeRef<'_>>> {
        self.rows.iter().zip(&self.dirs).map(|((key, row), dir)| node(key, row, dir))
    }
}

fn node<'a>(key: &RowKey, row: &'a Row, dir: &'a DirPath) -> Result<NodeRef<'a>> {
    let damaged = ValueError::Damaged { what: "time index row" };
    let (Some(cell), Some(directory)) = (cell_of(row), &dir.path) else { return Err(damaged.into()) };
    let (_, id) = by_time::decode_key(key)?;
    let stay = StayId::from_bytes(&cell.qualifier).ok_or(damaged)?;
    let TimeIndexEntryRef { name, attributes, .. } = TimeIndexEntryRef::decode(&cell.value)?;
    directory.check_child(&name)?;
    let entry = EntryRef::File(FileEntryRef { id, stay, attributes });
    Ok(NodeRef { before_slash: directory.before_slash(), name, entry })
}

/// The page, if it can be taken from the rows as they are.
pub async fn stored_by_time(source: &QuerySource, ask: &TimeQuery) -> Result<Option<StoredFiles>> {
    let ns = &source.namespace;
    // One row more than the page shows: it tells whether a file follows.
    let limit = ask.limit + 1;
    let is_below = !ask.under.as_ref().is_none_or(DrivePath::is_root);
    if is_below || ask.has_filter() || ask.limit > ns.limits.files_queried || !ns.tables.is_atomic() {
        return Ok(None);
    }
    let (table, range, row_query) = (by_time::TABLE, time_range(ask), RowQuery::families(&[CF]));
    // IMPORTANT: before the rows are read: a path that is valid since then is that of the instant of the scan.
    let epoch = ns.dir_paths.moves.now();
    let mut rows = ns.tables.scan(&ScanQuery { table, range, row_query, limit, reverse: ask.ascending }).await?;
    let is_end = rows.len() <= ask.limit;
    rows.truncate(ask.limit);
    let dir_of = |(_, row): &(RowKey, Row)| index::dir_of(&cell_of(row)?.value);
    let Some(dirs) = rows.iter().map(dir_of).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some(dirs) = paths_of(ns, &dirs, epoch, source.cells_per_query).await? else { return Ok(None) };
    if !ns.dir_paths.moves.unchanged_since(epoch) {
        return Ok(None);
    }
    let last = rows.last().filter(|_| !is_end).map(|(key, _)| by_time::decode_key(key)).transpose()?;
    Ok(Some(StoredFiles { rows, dirs, next: last }))
}

/// The only cell of an index row, if it has all attributes.
fn cell_of(row: &Row) -> Option<&Cell> {
    let [(_, cell)] = row.cells() else { return None };
    TimeIndexEntryRef::is_stored_in(&cell.value).then_some(cell)
}

/// The paths of directories, in this order, if each of them is live.
async fn paths_of(ns: &Namespace, dirs: &[DirId], epoch: u64, cells: usize) -> Result<Option<Vec<Arc<DirPath>>>> {
    let mut paths: Vec<Arc<DirPath>> = Vec::with_capacity(dirs.len());
    let (mut before, mut cached) = (None, 0);
    for dir in dirs {
        // Files of a time are often of one directory.
        let is_same = before == Some(dir);
        let path = if is_same { paths.last().cloned() } else { ns.dir_paths.live(*dir) };
        let Some(path) = path else { break };
        cached += usize::from(!is_same);
        paths.push(path);
        before = Some(dir);
    }
    ns.dir_paths.count_cached(cached);
    if paths.len() == dirs.len() {
        return Ok(Some(paths));
    }
    let live = live_dirs(ns, dirs.iter().copied(), epoch, &mut CellsRead::up_to(cells)).await?;
    Ok(live.and_then(|live| dirs.iter().map(|dir| live.get(dir).cloned()).collect()))
}
