//! What a directory's row says of one name in it: one `get`.

use bytes::Bytes;

use super::ask::Node;
use super::{Drive, DriveError, Result};
use crate::schema::dir::{self, DirEntry, Entry};
use crate::schema::{CF, DirId, DrivePath, Name};
use crate::table::{Ask, Check, Row};

/// A directory that reads as live: its id, and the stored bytes that a plan is guarded by.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub id: DirId,
    stored: Bytes,
}

impl Live {
    /// Reads it from a row as readers take it; an operation may hold it all the same.
    pub fn of(row: &Row) -> Result<Option<Self>> {
        let Some(id) = row.get(CF, dir::ID) else { return Ok(None) };
        Ok(Some(Self { id: dir::decode_id(id)?, stored: id.clone() }))
    }

    /// Live(D): still this directory, and held by no operation. The id matters: the directory at this path may
    /// be another by now.
    pub fn checks(&self) -> Vec<Check> {
        vec![Check::Equals(dir::id_column(), self.stored.clone()), Check::Absent(dir::state_column())]
    }
}

/// What stands at a name, as decoded and as stored.
#[derive(Clone, Debug)]
pub(super) struct Stored<T> {
    pub value: T,
    pub bytes: Bytes,
}

/// A name in a directory, and what stands there.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// None if there is no such directory.
    pub parent: Option<Live>,
    pub file: Option<Stored<Entry>>,
    pub directory: Option<Stored<DirEntry>>,
}

impl Spot {
    /// What to read of the directory's row.
    pub fn ask(name: &Name) -> Ask {
        let children = [dir::file_qualifier(name), dir::directory_qualifier(name)];
        let children = children.map(|q| crate::table::Column::new(dir::SUB, q));
        Ask::cells(children.into_iter().chain([dir::id_column(), dir::state_column()]).collect())
    }

    pub fn of(row: &Row, name: &Name) -> Result<Self> {
        let file = row.get(dir::SUB, &dir::file_qualifier(name));
        let directory = row.get(dir::SUB, &dir::directory_qualifier(name));
        let file = file.map(|bytes| Ok::<_, DriveError>(Stored { value: Entry::decode(bytes)?, bytes: bytes.clone() }));
        let directory = directory
            .map(|bytes| Ok::<_, DriveError>(Stored { value: DirEntry::decode(bytes)?, bytes: bytes.clone() }));
        Ok(Self { parent: Live::of(row)?, file: file.transpose()?, directory: directory.transpose()? })
    }

    /// `f_n` as it was read: absent, or this very entry.
    pub fn file_check(&self, name: &Name) -> Check {
        let column = crate::table::Column::new(dir::SUB, dir::file_qualifier(name));
        match &self.file {
            None => Check::Absent(column),
            Some(file) => Check::Equals(column, file.bytes.clone()),
        }
    }
}

/// `d_n` absent.
pub(super) fn no_directory(name: &Name) -> Check {
    Check::Absent(crate::table::Column::new(dir::SUB, dir::directory_qualifier(name)))
}

/// `f_n` absent.
pub(super) fn no_file(name: &Name) -> Check {
    Check::Absent(crate::table::Column::new(dir::SUB, dir::file_qualifier(name)))
}

impl Drive {
    pub(super) async fn spot(&self, parent: &DrivePath, name: &Name) -> Result<Spot> {
        Spot::of(&self.row(parent, &Spot::ask(name)).await?, name)
    }

    /// What stands at a path.
    pub async fn stat(&self, path: &DrivePath) -> Result<Node> {
        let Some((parent, name)) = path.split() else {
            return self.root().await;
        };
        let spot = self.spot(&parent, &name).await?;
        let path = path.clone();
        match (spot.parent, spot.file, spot.directory) {
            (Some(_), Some(file), _) => Ok(Node::File { path, entry: file.value }),
            (Some(_), None, Some(directory)) => Ok(Node::Directory { path, entry: directory.value }),
            _ => Err(DriveError::NotFound),
        }
    }

    async fn root(&self) -> Result<Node> {
        let path = DrivePath::root();
        let row = self.inner.tables.get(dir::TABLE, path.as_str().as_bytes(), &Ask::families(&[CF])).await?;
        let (Some(id), Some(creator), Some(created)) =
            (row.get(CF, dir::ID), row.get(CF, dir::CREATOR), row.get(CF, dir::CREATED))
        else {
            return Err(DriveError::NotFound);
        };
        let id = dir::decode_id(id)?;
        let entry = DirEntry { id, creator: dir::decode_creator(creator)?, created: dir::decode_created(created)? };
        Ok(Node::Directory { path, entry })
    }
}
