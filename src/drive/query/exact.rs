//! Index rows taken as they stand: the way of an [atomic](crate::table::Store::is_atomic) store.
//!
//! There the index rows of a file change at the instant at which its entry changes, and a scan is of one instant. So a
//! row was exact when it was read, but for its directory: the move or delete of a directory changes no index row at its
//! instant. The steps:
//!
//! 1. The caller reads the move epoch, and then the index rows.
//! 2. Each directory must be live at its path. That is read once, and remembered until any directory moves.
//! 3. Attributes that the index does not have are read from the directory rows: those of a version never change.
//! 4. No directory has moved since step 1. So each one was at its path, and live, at the instant of the scan.
//!
//! If a step does not hold, [`exact`] returns none, and [`super::verify`] decides. A directory may also have been removed
//! empty since the scan; then step 2 may find it in the cache alone, which is right: its row was there at the scan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::reconcile::IndexCell;
use super::verify::{CellsRead, IndexEntry};
use crate::drive::error::Result;
use crate::drive::model::Node;
use crate::drive::namespace::dir_paths::DirPath;
use crate::drive::namespace::lookup::LiveDir;
use crate::drive::namespace::scope::Scope;
use crate::drive::namespace::{Namespace, visibility};
use crate::schema::dir::{self, FileEntry};
use crate::schema::file::Attributes;
use crate::schema::{DirId, FileId, Name, index};
use crate::table::{Column, RowQuery};

pub type LiveDirs = HashMap<DirId, Arc<DirPath>>;

/// Which index rows are of directories outside the scope, as far as the cached paths say. So most rows of a query below
/// a folder are left out before they are decoded.
///
/// IMPORTANT: a path is that of the instant of the scan only if [`exact`] then gives an answer for the other rows.
pub struct Outside<'a> {
    ns: &'a Namespace,
    scope: &'a Scope,
    known: HashMap<DirId, bool>,
}

impl<'a> Outside<'a> {
    pub fn new(ns: &'a Namespace, scope: &'a Scope) -> Self {
        Self { ns, scope, known: HashMap::new() }
    }

    /// Whether this row is outside for certain.
    pub fn has(&mut self, cell: &IndexCell<'_>) -> bool {
        if self.scope.is_everything() || !cell.alone {
            return false;
        }
        let Some(dir) = index::dir_of(&cell.cell.value) else { return false };
        let dir_paths = &self.ns.dir_paths;
        let is_outside = || {
            let cached = dir_paths.live(dir);
            dir_paths.count_cached(usize::from(cached.is_some()));
            cached.is_some_and(|dir_path| !dir_path.is_within(self.scope))
        };
        *self.known.entry(dir).or_insert_with(is_outside)
    }

    /// Whether any row was.
    pub fn is_any(&self) -> bool {
        self.known.values().any(|outside| *outside)
    }
}

/// The files of these index rows at the instant of their scan, in the order of the rows; none where a file is outside the
/// scope. No answer at all if that cannot be told from the rows; if there is one, the attributes are taken out of the
/// entries.
///
/// IMPORTANT: `epoch` is read before the rows.
pub async fn exact(
    ns: &Namespace,
    entries: &mut [IndexEntry],
    scope: &Scope,
    epoch: u64,
    reads: &mut CellsRead,
) -> Result<Option<Vec<Option<Node>>>> {
    let is_unmoved = || ns.dir_paths.moves.unchanged_since(epoch);
    // An atomic store never shows a row with two cells.
    if !ns.tables.is_atomic() || !is_unmoved() || !entries.iter().all(|entry| entry.alone) {
        return Ok(None);
    }
    let Some(dirs) = live_dirs(ns, entries.iter().map(|entry| entry.dir), epoch, reads).await? else { return Ok(None) };
    let inside = |entry: &IndexEntry| dirs.get(&entry.dir).filter(|dir| dir.is_within(scope));
    let lacking = entries.iter().filter(|entry| entry.attributes.is_none() && inside(entry).is_some());
    let Some(mut read) = attributes(ns, lacking, &dirs, reads).await? else { return Ok(None) };
    if !is_unmoved() {
        return Ok(None);
    }
    let mut nodes = Vec::with_capacity(entries.len());
    for entry in entries {
        let path = inside(entry).and_then(|dir| dir.path.as_ref());
        let attributes = entry.attributes.take().or_else(|| read.remove(&entry.id));
        nodes.push(match (path, attributes) {
            (Some(path), Some(attributes)) => {
                let file = FileEntry { id: entry.id, stay: entry.stay, attributes };
                Some(Node::File { path: path.join(&entry.name)?, entry: file })
            }
            _ => None,
        });
    }
    Ok(Some(nodes))
}

/// The paths of these directories, if each of them is live.
pub async fn live_dirs(
    ns: &Namespace,
    dirs: impl Iterator<Item = DirId>,
    epoch: u64,
    reads: &mut CellsRead,
) -> Result<Option<LiveDirs>> {
    let (mut live, mut unknown) = (LiveDirs::new(), BTreeSet::new());
    for dir in dirs {
        if live.contains_key(&dir) {
            continue;
        }
        match ns.dir_paths.live(dir) {
            Some(dir_path) => drop(live.insert(dir, dir_path)),
            None => drop(unknown.insert(dir)),
        }
    }
    ns.dir_paths.count_cached(live.len());
    if unknown.is_empty() {
        return Ok(Some(live));
    }
    let unknown: Vec<DirId> = unknown.into_iter().collect();
    let paths = ns.dir_paths.many(&unknown).await?;
    reads.dirs(paths.values());
    let query = RowQuery::cells(vec![dir::id_column(), dir::lock_column()]);
    let key = |dir: &DirId| Some((paths.get(dir)?.path.as_ref()?.key(), query.clone()));
    let Some(queries) = unknown.iter().map(key).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let rows = visibility::rows(ns, &queries).await?;
    for (dir, row) in unknown.iter().zip(&rows) {
        let is_live = LiveDir::from_row(row)?.is_some_and(|found| found.id == *dir);
        let (true, Some(dir_path)) = (is_live, paths.get(dir)) else { return Ok(None) };
        ns.dir_paths.set_live(*dir, dir_path.clone(), epoch);
        live.insert(*dir, dir_path.clone());
    }
    Ok(Some(live))
}

/// The attributes of files that the index does not have, from the directories that have their entries. None if one of
/// them is not there any more.
async fn attributes<'a>(
    ns: &Namespace,
    lacking: impl Iterator<Item = &'a IndexEntry>,
    dirs: &LiveDirs,
    reads: &mut CellsRead,
) -> Result<Option<HashMap<FileId, Attributes>>> {
    let mut names: BTreeMap<DirId, Vec<(&Name, FileId)>> = BTreeMap::new();
    for entry in lacking {
        reads.done += 1;
        names.entry(entry.dir).or_default().push((&entry.name, entry.id));
    }
    let query = |(dir, files): (&DirId, &Vec<(&Name, FileId)>)| {
        let cells = files.iter().map(|(name, _)| Column::new(dir::SUB, dir::file_qualifier(name))).collect();
        Some((dirs.get(dir)?.path.as_ref()?.key(), RowQuery::cells(cells)))
    };
    let Some(queries) = names.iter().map(query).collect::<Option<Vec<_>>>() else { return Ok(None) };
    // Without their ids and locks: an entry with the id of this file, wherever it is, has its attributes.
    let rows = ns.tables.get_many(dir::TABLE, &queries).await?;
    let mut found = HashMap::new();
    for (files, row) in names.values().zip(&rows) {
        for (name, id) in files {
            let Some(value) = row.get(dir::SUB, &dir::file_qualifier(name)) else { return Ok(None) };
            let entry = FileEntry::decode(value)?;
            if entry.id != *id {
                return Ok(None);
            }
            found.insert(*id, entry.attributes);
        }
    }
    Ok(Some(found))
}
