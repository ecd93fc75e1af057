//! Verifies index entries against the directory rows.
//!
//! An index entry is put before the commit that makes it true, and deleted after the commit that makes it false; it
//! never changes. So it can be early or late, but a live file always has one. Each row of an index is verified once,
//! from any of its cells:
//!
//! 1. Look up the path of the directory that the index entry names, and read the directory entry there. If that is not
//!    this file, read from the file row where the file is now, and look there. Stop when the file row is missing, or
//!    names the same position twice: no name reaches the file.
//! 2. If there is no such directory at its path, look up the path again, from the store. A directory may have moved
//!    between the two reads; the file is not there only if both paths are equal.
//! 3. Return the file if its entry gives the key of this index row, and if its directory is within the scope. With a
//!    scope the path must be proved: no directory moved, or a second lookup after the entry gives the same path.
//! 4. A directory outside the scope drops an index row early only if its path was valid since before the row was read,
//!    and only if the row has no other cell. A row with two cells may have a late one, and the other one is true.
//!
//! Each clause was found to be needed: without it a concurrent move hides a file, or shows one outside the scope.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::drive::error::{DriveError, Result};
use crate::drive::model::Node;
use crate::drive::namespace::dir_paths::DirPath;
use crate::drive::namespace::lookup::LiveDir;
use crate::drive::namespace::scope::Scope;
use crate::drive::namespace::{Namespace, visibility};
use crate::drive::settings::TRIES;
use crate::schema::dir::{self, FileEntry};
use crate::schema::file::{self, Attributes, FilePosition};
use crate::schema::index::by_time::Clock;
use crate::schema::{DirId, DrivePath, FileId, Name, StayId, Timestamp, file_row};
use crate::table::{Column, Row, RowQuery};

/// The attribute of a file that the key of an index row has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKey {
    Time(Clock, Timestamp),
    Name(String),
}

impl IndexKey {
    /// Whether a file of this name and this entry has this key.
    fn matches(&self, name: &Name, entry: &FileEntry) -> bool {
        match self {
            Self::Time(Clock::Modified, time) => entry.attributes.modified == *time,
            Self::Time(Clock::Added, time) => entry.attributes.added == *time,
            Self::Name(folded) => name.folded() == *folded,
        }
    }
}

/// An index row that is to be verified, by one of its cells.
#[derive(Clone, Debug)]
pub struct IndexEntry {
    pub key: IndexKey,
    pub id: FileId,
    pub dir: DirId,
    pub name: Name,
    pub stay: StayId,
    /// The attributes of the file, if the index has them.
    pub attributes: Option<Attributes>,
    /// Whether the row has no other cell: when it was read, the file was at this position, or at none.
    pub alone: bool,
}

/// What a directory has under the name of a file.
enum Located {
    /// The file; the path of its directory, and whether that is within the scope.
    Found(Box<FileEntry>, DrivePath, bool),
    /// Not this file.
    Other,
}

/// Cells that are read of a directory row to find a file in it, or of a file row to find its position.
const CELLS: usize = 3;

/// Cells read to verify index rows one by one, and the number at which verification stops.
pub struct CellsRead {
    pub done: usize,
    most: usize,
}

impl CellsRead {
    pub fn up_to(most: usize) -> Self {
        Self { done: 0, most }
    }

    /// One parent row for each level. A lookup that does not reach the root counts as one, as its depth is unknown.
    fn count_path(&mut self, dir_path: &DirPath) {
        self.done += dir_path.path.as_ref().map_or(1, DrivePath::levels);
    }

    fn row(&mut self) {
        self.done += CELLS;
    }

    /// The rows of these directories, and the paths to them.
    pub fn dirs<'a>(&mut self, paths: impl Iterator<Item = &'a Arc<DirPath>>) {
        for dir_path in paths {
            self.count_path(dir_path);
            self.row();
        }
    }
}

/// The files that these index rows lead to, in the order of the rows; none where no name reaches the file, or where it
/// is outside the scope.
///
/// IMPORTANT: `epoch` is read before the rows. A directory that is outside the scope by now may have been inside when
/// the row was read, and the file may have moved to another folder of the scope since: it must not be dropped early.
pub async fn verify(ns: &Namespace, entries: &[IndexEntry], scope: &Scope, epoch: u64) -> Result<Vec<Option<Node>>> {
    verify_some(ns, entries, scope, epoch, &mut CellsRead::up_to(usize::MAX)).await
}

/// As [`verify`], but stops after enough cells are read: the result covers the first rows, at least one. A late index
/// entry costs several path lookups.
pub async fn verify_some(
    ns: &Namespace,
    entries: &[IndexEntry],
    scope: &Scope,
    epoch: u64,
    reads: &mut CellsRead,
) -> Result<Vec<Option<Node>>> {
    let dirs: BTreeSet<DirId> = entries.iter().map(|e| e.dir).collect();
    let dirs: Vec<DirId> = dirs.into_iter().collect();
    let dir_paths = ns.dir_paths.many(&dirs).await?;
    let unmoved = ns.dir_paths.moves.unchanged_since(epoch);
    let outside = |c: &IndexEntry| {
        c.alone
            && unmoved
            && dir_paths.get(&c.dir).is_some_and(|dir_path| dir_path.path.is_some() && !dir_path.is_within(scope))
    };
    let inside: Vec<&IndexEntry> = entries.iter().filter(|e| !outside(e)).collect();
    let rows = rows(ns, &inside, &dir_paths).await?;
    let proved = scope.is_everything() || ns.dir_paths.moves.unchanged_since(epoch);
    let mut verified = Vec::with_capacity(entries.len());
    for index_entry in entries {
        if outside(index_entry) {
            verified.push(None);
            continue;
        }
        let dir_path = dir_paths.get(&index_entry.dir);
        let seen = dir_path.and_then(|dir_path| Some((dir_path, rows.get(&index_entry.dir)?)));
        let entry = match seen {
            Some((_, row)) if proved => entry(row, index_entry.dir, &index_entry.name, index_entry.id)?,
            _ => None,
        };
        verified.push(match (entry, dir_path.and_then(|dir_path| dir_path.path.clone())) {
            (Some(entry), Some(path)) => {
                let inside = dir_path.is_some_and(|dir_path| dir_path.is_within(scope));
                node_of(index_entry, &index_entry.name, entry, &path, inside)?
            }
            _ => verify_one(ns, index_entry, scope, reads).await?,
        });
        if reads.done >= reads.most {
            break;
        }
    }
    Ok(verified)
}

/// The rows of the directories, with the entries that the index rows name: one `get_many`.
async fn rows(
    ns: &Namespace,
    inside: &[&IndexEntry],
    dir_paths: &HashMap<DirId, Arc<DirPath>>,
) -> Result<HashMap<DirId, Row>> {
    let mut queries: BTreeMap<DirId, BTreeSet<&Name>> = BTreeMap::new();
    for index_entry in inside {
        queries.entry(index_entry.dir).or_default().insert(&index_entry.name);
    }
    let paths = queries.iter().filter_map(|(dir, names)| {
        let path = dir_paths.get(dir)?.path.as_ref()?;
        Some((*dir, (path.key(), entries_of(names.iter().copied()))))
    });
    let (dirs, queries): (Vec<DirId>, Vec<_>) = paths.unzip();
    let rows = visibility::rows(ns, &queries).await?;
    Ok(dirs.into_iter().zip(rows).collect())
}

/// Verifies one index row by the whole rule, read by read.
async fn verify_one(
    ns: &Namespace,
    index_entry: &IndexEntry,
    scope: &Scope,
    reads: &mut CellsRead,
) -> Result<Option<Node>> {
    let mut at = (index_entry.dir, index_entry.name.clone());
    let mut said: Option<FilePosition> = None;
    for _ in 0..TRIES {
        if let Located::Found(entry, path, inside) = locate(ns, &at, index_entry.id, scope, reads).await? {
            return node_of(index_entry, &at.1, *entry, &path, inside);
        }
        reads.row();
        let ask = RowQuery::cells(file_row::position_columns());
        let row = ns.tables.get(file::TABLE, index_entry.id.0.as_bytes(), &ask).await?;
        // The file row names the same position before and after a read that did not find the file there: the index entry
        // is early, or its plan was refused, or it is about to be deleted.
        let position = file_row::position(&row)?.filter(|position| said.as_ref() != Some(position));
        let Some(position) = position else { return Ok(None) };
        at = (position.dir, position.name.clone());
        said = Some(position);
    }
    Err(DriveError::Contended)
}

/// Whether this directory has this file under this name, wherever the directory is now.
///
/// The order is path, row, path. A directory that moves between the first two reads is missing at its old path, so a
/// missing directory counts only between two equal paths. Operation ids are part of a path: a directory that has moved
/// away and back has another one.
async fn locate(
    ns: &Namespace,
    at: &(DirId, Name),
    id: FileId,
    scope: &Scope,
    reads: &mut CellsRead,
) -> Result<Located> {
    let mut before: Option<DirPath> = None;
    for _ in 0..TRIES {
        let epoch = ns.dir_paths.moves.now();
        let dir_path = read_path(ns, at.0, reads).await?;
        if before.as_ref() == Some(&dir_path) {
            return Ok(Located::Other); // no such directory, between two equal paths
        }
        let row = match &dir_path.path {
            None => Row::default(),
            Some(path) => {
                reads.row();
                let ask = entries_of([&at.1].into_iter());
                visibility::row(ns, path, &ask).await?
            }
        };
        let same_dir = LiveDir::from_row(&row)?.is_some_and(|live| live.id == at.0);
        match (entry(&row, at.0, &at.1, id)?, dir_path.path.clone()) {
            (Some(found), Some(path)) => {
                let proved = scope.is_everything()
                    || ns.dir_paths.moves.unchanged_since(epoch)
                    || read_path(ns, at.0, reads).await? == dir_path;
                if proved {
                    return Ok(Located::Found(Box::new(found), path, dir_path.is_within(scope)));
                }
                before = None;
            }
            _ if same_dir => return Ok(Located::Other),
            _ => before = Some(dir_path),
        }
    }
    Err(DriveError::Contended)
}

async fn read_path(ns: &Namespace, dir: DirId, reads: &mut CellsRead) -> Result<DirPath> {
    let dir_path = ns.dir_paths.read_path(dir).await?;
    reads.count_path(&dir_path);
    Ok(dir_path)
}

/// The query of a directory row for its id, its lock, and these entries.
fn entries_of<'a>(names: impl Iterator<Item = &'a Name>) -> RowQuery {
    let entries = names.map(|name| Column::new(dir::SUB, dir::file_qualifier(name)));
    RowQuery::cells(entries.chain([dir::id_column(), dir::lock_column()]).collect())
}

/// The entry of this file, if the row is the row of this directory.
fn entry(row: &Row, dir: DirId, name: &Name, id: FileId) -> Result<Option<FileEntry>> {
    if LiveDir::from_row(row)?.is_none_or(|live| live.id != dir) {
        return Ok(None);
    }
    let Some(value) = row.get(dir::SUB, &dir::file_qualifier(name)) else {
        return Ok(None);
    };
    let entry = FileEntry::decode(value)?;
    Ok(Some(entry).filter(|entry| entry.id == id))
}

/// The file, if it is within the scope and has the key of the index row.
fn node_of(
    index_entry: &IndexEntry,
    name: &Name,
    entry: FileEntry,
    dir: &DrivePath,
    inside: bool,
) -> Result<Option<Node>> {
    if !inside || !index_entry.key.matches(name, &entry) {
        return Ok(None);
    }
    Ok(Some(Node::File { path: dir.join(name)?, entry }))
}
