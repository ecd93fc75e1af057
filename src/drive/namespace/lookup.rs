//! The lookup of one name in a directory row, by one `get`: both entries of the name, and whether the directory is
//! live, are read at one instant.

use bytes::Bytes;

use super::{Namespace, visibility};
use crate::drive::error::{DriveError, Result};
use crate::drive::model::Node;
use crate::schema::dir::{self, DirEntry, FileEntry};
use crate::schema::{CF, DirId, DrivePath, Name};
use crate::table::{Cell, Check, Column, Row, RowQuery};

/// A directory that reads as live: its id, and the stored bytes for the checks of a plan.
#[derive(Clone, Debug)]
pub struct LiveDir {
    pub id: DirId,
    stored: Bytes,
}

impl LiveDir {
    /// Decodes a row as readers see it. The row may be locked all the same; the checks of a plan find that out.
    pub fn from_row(row: &Row) -> Result<Option<Self>> {
        let Some(id) = row.get(CF, dir::ID) else { return Ok(None) };
        Ok(Some(Self { id: dir::decode_id(id)?, stored: id.clone() }))
    }

    /// The checks that this path still has this directory, and that no subtree operation has locked it. The id matters:
    /// another directory may have this path by now. The lock matters: the subtree operation has listed the children,
    /// and would neither move nor delete a child that is made later.
    pub fn checks(&self) -> Vec<Check> {
        vec![Check::Equals(dir::id_column(), self.stored.clone()), Check::Absent(dir::lock_column())]
    }
}

/// A cell as decoded and as stored: the checks of a plan compare the stored bytes.
#[derive(Clone, Debug)]
pub struct Versioned<T> {
    pub value: T,
    pub bytes: Bytes,
}

/// A name in a directory, and what is stored under it.
#[derive(Clone, Debug)]
pub struct NameLookup {
    /// None if there is no such directory.
    pub parent: Option<LiveDir>,
    pub file: Option<Versioned<FileEntry>>,
    pub directory: Option<Versioned<DirEntry>>,
}

impl NameLookup {
    /// The query of the directory row.
    pub fn query(name: &Name) -> RowQuery {
        let children = [dir::file_qualifier(name), dir::directory_qualifier(name)];
        let children = children.map(|q| Column::new(dir::SUB, q));
        RowQuery::cells(children.into_iter().chain([dir::id_column(), dir::lock_column()]).collect())
    }

    pub fn from_row(row: &Row, name: &Name) -> Result<Self> {
        let file = row.get(dir::SUB, &dir::file_qualifier(name));
        let directory = row.get(dir::SUB, &dir::directory_qualifier(name));
        let file =
            file.map(|bytes| Ok::<_, DriveError>(Versioned { value: FileEntry::decode(bytes)?, bytes: bytes.clone() }));
        let directory = directory
            .map(|bytes| Ok::<_, DriveError>(Versioned { value: DirEntry::decode(bytes)?, bytes: bytes.clone() }));
        Ok(Self { parent: LiveDir::from_row(row)?, file: file.transpose()?, directory: directory.transpose()? })
    }

    /// The check that `f_n` is still as it was read: absent, or the same entry.
    pub fn file_check(&self, name: &Name) -> Check {
        let column = Column::new(dir::SUB, dir::file_qualifier(name));
        match &self.file {
            None => Check::Absent(column),
            Some(file) => Check::Equals(column, file.bytes.clone()),
        }
    }
}

/// `d_n` absent.
pub fn no_directory(name: &Name) -> Check {
    Check::Absent(Column::new(dir::SUB, dir::directory_qualifier(name)))
}

/// `f_n` absent.
pub fn no_file(name: &Name) -> Check {
    Check::Absent(Column::new(dir::SUB, dir::file_qualifier(name)))
}

/// Reads a name in the directory at this path.
pub async fn lookup(ns: &Namespace, parent: &DrivePath, name: &Name) -> Result<NameLookup> {
    NameLookup::from_row(&visibility::row(ns, parent, &NameLookup::query(name)).await?, name)
}

/// The cells of these children of a directory, of those that exist.
///
/// Errors: [`DriveError::NotFound`] if there is no such directory.
pub async fn children(ns: &Namespace, path: &DrivePath, qualifiers: Vec<Bytes>) -> Result<Vec<Cell>> {
    let children = qualifiers.into_iter().map(|qualifier| Column::new(dir::SUB, qualifier));
    let query = RowQuery::cells(children.chain([dir::id_column(), dir::lock_column()]).collect());
    let row = visibility::row(ns, path, &query).await?;
    match LiveDir::from_row(&row)? {
        Some(_) => Ok(row.family(dir::SUB).cloned().collect()),
        None => Err(DriveError::NotFound),
    }
}

/// The file or directory at a path.
pub async fn stat(ns: &Namespace, path: &DrivePath) -> Result<Node> {
    let Some((parent, name)) = path.split() else {
        return root(ns).await;
    };
    if let Some(node) = child_of_live(ns, &parent, &name, path).await? {
        return Ok(node);
    }
    let epoch = ns.live_dirs.now();
    let found = lookup(ns, &parent, &name).await?;
    if found.parent.is_some() {
        ns.live_dirs.found(&parent, epoch);
    }
    let path = path.clone();
    match (found.parent, found.file, found.directory) {
        (Some(_), Some(file), _) => Ok(Node::File { path, entry: file.value }),
        (Some(_), None, Some(directory)) => Ok(Node::Directory { path, entry: directory.value }),
        _ => Err(DriveError::NotFound),
    }
}

/// The child of this name of a directory that is known to be live: one cell, or two if it is a directory. None if that
/// does not decide.
async fn child_of_live(ns: &Namespace, parent: &DrivePath, name: &Name, path: &DrivePath) -> Result<Option<Node>> {
    let Some(since) = ns.live_dirs.since(parent) else { return Ok(None) };
    for qualifier in [dir::file_qualifier(name), dir::directory_qualifier(name)] {
        let is_file = qualifier.starts_with(dir::FILE);
        let query = RowQuery::cells(vec![Column::new(dir::SUB, qualifier)]);
        let row = ns.tables.get(dir::TABLE, parent.as_str().as_bytes(), &query).await?;
        if !ns.live_dirs.unchanged_since(since) {
            return Ok(None);
        }
        if let Some(cell) = row.family(dir::SUB).next() {
            let path = path.clone();
            return Ok(Some(if is_file {
                Node::File { path, entry: FileEntry::decode(&cell.value)? }
            } else {
                Node::Directory { path, entry: DirEntry::decode(&cell.value)? }
            }));
        }
    }
    Ok(None)
}

async fn root(ns: &Namespace) -> Result<Node> {
    let path = DrivePath::root();
    let row = ns.tables.get(dir::TABLE, path.as_str().as_bytes(), &RowQuery::families(&[CF])).await?;
    let (Some(id), Some(creator), Some(created)) =
        (row.get(CF, dir::ID), row.get(CF, dir::CREATOR), row.get(CF, dir::CREATED))
    else {
        return Err(DriveError::NotFound);
    };
    let id = dir::decode_id(id)?;
    let entry = DirEntry { id, creator: dir::decode_creator(creator)?, created: dir::decode_created(created)? };
    Ok(Node::Directory { path, entry })
}
