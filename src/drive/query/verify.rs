//! Verifies index entries against the directory rows: from what an index says to what is true.
//!
//! An index entry is put before the commit that makes it true and deleted after the commit that makes it untrue; it
//! never changes. So it can be early or stale, but the entry of a live file is never missing. Each row of an index is
//! verified once, from any of its cells:
//!
//! 1. Walk to the entry's directory, read it and the entry. Not this file's: ask the file row where it stands
//!    and read the entry there; again, until the row is gone or says the same twice.
//! 2. Nothing at the path walked to: walk again from the store; it is not there only if both walks are equal.
//! 3. Show the file if the entry's key, made anew from the entry found, is this one, and it lies in the scope;
//!    with a scope the walk must be proved.
//! 4. A directory outside the scope skips an entry early only by a walk that is proved since before the row was read,
//!    and only if the row has no other cell: an old one may wait for its removal beside the one that counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::drive::error::{DriveError, Result};
use crate::drive::model::Node;
use crate::drive::namespace::dir_paths::DirPath;
use crate::drive::namespace::lookup::LiveDir;
use crate::drive::namespace::{Namespace, visibility};
use crate::drive::settings::TRIES;
use crate::schema::dir::{self, FileEntry};
use crate::schema::file::{self, FilePosition};
use crate::schema::index::by_time::Clock;
use crate::schema::{DirId, DrivePath, FileId, Name, Timestamp};
use crate::table::{Column, Row, RowQuery};

/// What the key of an index row says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexKey {
    Time(Clock, Timestamp),
    Name(String),
}

impl IndexKey {
    /// Whether the key of a file of this name and these times is this one.
    fn is_of(&self, name: &Name, entry: &FileEntry) -> bool {
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
    /// Whether the row has no other cell: then the file was there when the row was read, or nowhere.
    pub alone: bool,
}

/// Whether the file is at a name of a directory.
enum Located {
    Found(Box<FileEntry>, DrivePath, bool),
    Other,
}

/// Cells of a row that are read: of a directory's for a file in it, or of a file's for where it stands.
const CELLS: usize = 3;

/// Cells read to verify entries one by one, and how many of them are enough.
pub struct CellsRead {
    pub done: usize,
    most: usize,
}

impl CellsRead {
    pub fn up_to(most: usize) -> Self {
        Self { done: 0, most }
    }

    /// One link for each level. Of a walk that does not reach the root it is not known how far it came.
    fn walked(&mut self, walk: &DirPath) {
        self.done += walk.path.as_ref().map_or(1, DrivePath::levels);
    }

    fn row(&mut self) {
        self.done += CELLS;
    }
}

/// The files that these index rows lead to, in the order of the rows; none where there is no such file (any more), or
/// it lies outside the scope.
///
/// `epoch` was read before the rows were: a directory that lies outside by now may have been inside when its entry was
/// the only one, and the file may have left it for another folder of the scope since.
pub async fn verify(ns: &Namespace, entries: &[IndexEntry], scope: DirId, epoch: u64) -> Result<Vec<Option<Node>>> {
    verify_some(ns, entries, scope, epoch, &mut CellsRead::up_to(usize::MAX)).await
}

/// As [`verify`], of the first rows, one or more, until enough cells are read: an old entry costs several walks to the
/// root.
pub async fn verify_some(
    ns: &Namespace,
    entries: &[IndexEntry],
    scope: DirId,
    epoch: u64,
    reads: &mut CellsRead,
) -> Result<Vec<Option<Node>>> {
    let dirs: BTreeSet<DirId> = entries.iter().map(|e| e.dir).collect();
    let dirs: Vec<DirId> = dirs.into_iter().collect();
    let walks = ns.dir_paths.many(&dirs).await?;
    let quiet = ns.dir_paths.moves.unchanged_since(epoch);
    let outside = |c: &IndexEntry| {
        c.alone && quiet && walks.get(&c.dir).is_some_and(|walk| walk.path.is_some() && !walk.is_within(scope))
    };
    let inside: Vec<&IndexEntry> = entries.iter().filter(|e| !outside(e)).collect();
    let rows = rows(ns, &inside, &walks).await?;
    let proved = scope == DirId::ROOT || ns.dir_paths.moves.unchanged_since(epoch);
    let mut verified = Vec::with_capacity(entries.len());
    for index_entry in entries {
        if outside(index_entry) {
            verified.push(None);
            continue;
        }
        let walk = walks.get(&index_entry.dir);
        let seen = walk.and_then(|walk| Some((walk, rows.get(&index_entry.dir)?)));
        let entry = match seen {
            Some((_, row)) if proved => entry(row, index_entry.dir, &index_entry.name, index_entry.id)?,
            _ => None,
        };
        verified.push(match (entry, walk.and_then(|walk| walk.path.clone())) {
            (Some(entry), Some(path)) => {
                let inside = walk.is_some_and(|walk| walk.is_within(scope));
                show(index_entry, &index_entry.name, entry, &path, inside)?
            }
            _ => verify_one(ns, index_entry, scope, reads).await?,
        });
        if reads.done >= reads.most {
            break;
        }
    }
    Ok(verified)
}

/// The rows of the candidates' directories, with the entries that the hints name: one `get_many`.
async fn rows(
    ns: &Namespace,
    inside: &[&IndexEntry],
    walks: &HashMap<DirId, Arc<DirPath>>,
) -> Result<HashMap<DirId, Row>> {
    let mut asks: BTreeMap<DirId, BTreeSet<&Name>> = BTreeMap::new();
    for index_entry in inside {
        asks.entry(index_entry.dir).or_default().insert(&index_entry.name);
    }
    let paths = asks.iter().filter_map(|(dir, names)| {
        let path = walks.get(dir)?.path.as_ref()?;
        Some((*dir, (path.key(), entries_of(names.iter().copied()))))
    });
    let (dirs, asks): (Vec<DirId>, Vec<_>) = paths.unzip();
    let rows = visibility::rows(ns, &asks).await?;
    Ok(dirs.into_iter().zip(rows).collect())
}

/// The whole rule for one hint, read by read.
async fn verify_one(
    ns: &Namespace,
    index_entry: &IndexEntry,
    scope: DirId,
    reads: &mut CellsRead,
) -> Result<Option<Node>> {
    let mut at = (index_entry.dir, index_entry.name.clone());
    let mut said: Option<FilePosition> = None;
    for _ in 0..TRIES {
        if let Located::Found(entry, path, inside) = locate(ns, &at, index_entry.id, scope, reads).await? {
            return show(index_entry, &at.1, *entry, &path, inside);
        }
        reads.row();
        let ask = RowQuery::cells(FilePosition::columns());
        let row = ns.tables.get(file::TABLE, index_entry.id.0.as_bytes(), &ask).await?;
        // Twice the same, and not there in between: early, never committed, or about to be removed.
        let position = FilePosition::from_row(&row)?.filter(|position| said.as_ref() != Some(position));
        let Some(position) = position else { return Ok(None) };
        at = (position.dir, position.name.clone());
        said = Some(position);
    }
    Err(DriveError::Contended)
}

/// Whether this file stands at this name of this directory, wherever that is now.
async fn locate(
    ns: &Namespace,
    at: &(DirId, Name),
    id: FileId,
    scope: DirId,
    reads: &mut CellsRead,
) -> Result<Located> {
    let mut before: Option<DirPath> = None;
    for _ in 0..TRIES {
        let epoch = ns.dir_paths.moves.now();
        let walk = fresh(ns, at.0, reads).await?;
        if before.as_ref() == Some(&walk) {
            return Ok(Located::Other); // not there, between two equal walks
        }
        let row = match &walk.path {
            None => Row::default(),
            Some(path) => {
                reads.row();
                let ask = entries_of([&at.1].into_iter());
                visibility::row(ns, path, &ask).await?
            }
        };
        let here = LiveDir::from_row(&row)?.is_some_and(|live| live.id == at.0);
        match (entry(&row, at.0, &at.1, id)?, walk.path.clone()) {
            (Some(found), Some(path)) => {
                let proved = scope == DirId::ROOT
                    || ns.dir_paths.moves.unchanged_since(epoch)
                    || fresh(ns, at.0, reads).await? == walk;
                if proved {
                    return Ok(Located::Found(Box::new(found), path, walk.is_within(scope)));
                }
                before = None;
            }
            _ if here => return Ok(Located::Other),
            _ => before = Some(walk),
        }
    }
    Err(DriveError::Contended)
}

async fn fresh(ns: &Namespace, dir: DirId, reads: &mut CellsRead) -> Result<DirPath> {
    let walk = ns.dir_paths.fresh(dir).await?;
    reads.walked(&walk);
    Ok(walk)
}

/// What to read of a directory's row: whether it is this directory, and these entries.
fn entries_of<'a>(names: impl Iterator<Item = &'a Name>) -> RowQuery {
    let entries = names.map(|name| Column::new(dir::SUB, dir::file_qualifier(name)));
    RowQuery::cells(entries.chain([dir::id_column(), dir::lock_column()]).collect())
}

/// The entry of this very file, if the row is that of this very directory.
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

fn show(
    index_entry: &IndexEntry,
    name: &Name,
    entry: FileEntry,
    dir: &DrivePath,
    inside: bool,
) -> Result<Option<Node>> {
    if !inside || !index_entry.key.is_of(name, &entry) {
        return Ok(None);
    }
    Ok(Some(Node::File { path: dir.join(name)?, entry }))
}
