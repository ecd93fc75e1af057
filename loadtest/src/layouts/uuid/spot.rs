//! A name in a directory, and the changes of rows that put a node there or take it away.

use std::marker::PhantomData;

use anyhow::{Context, Result};
use bytes::Bytes;
use rowdrive::schema::dir::{self, DirEntry, FileEntry};
use rowdrive::schema::dir_parent::DirParent;
use rowdrive::schema::file::{self, Attributes, ContentLocation, FilePosition};
use rowdrive::schema::index::IndexRows;
use rowdrive::schema::{CF, DirId, DrivePath, FileId, Name, StayId};
use rowdrive::table::{Change, Check, Column, ConditionalRow, Row, RowChange};

use super::step::Step;

/// The cell `sub:f_<name>` of a file.
#[derive(Clone)]
pub struct FileCell {
    pub id: FileId,
    /// None in the step that keeps the UUID alone.
    pub entry: Option<FileEntry>,
    value: Bytes,
}

impl FileCell {
    pub fn new<S: Step>(entry: FileEntry) -> Self {
        if S::COPIES {
            return Self { id: entry.id, value: entry.encode(), entry: Some(entry) };
        }
        Self { id: entry.id, value: entry.id.key(), entry: None }
    }

    pub fn decode<S: Step>(value: &Bytes) -> Result<Self> {
        if S::COPIES {
            let entry = FileEntry::decode(value)?;
            return Ok(Self { id: entry.id, value: value.clone(), entry: Some(entry) });
        }
        let id = FileId(uuid::Uuid::from_slice(value).context("a file's cell is no UUID")?);
        Ok(Self { id, value: value.clone(), entry: None })
    }
}

/// A name in a directory that exists, and the node of that name.
pub struct Spot<S> {
    pub parent: DrivePath,
    pub id: DirId,
    pub name: Name,
    pub directory: Option<DirEntry>,
    pub file: Option<FileCell>,
    step: PhantomData<S>,
}

impl<S: Step> Spot<S> {
    /// The cells of the parent's row that say what has the name.
    pub fn columns(name: &Name) -> Vec<Column> {
        let children = [dir::file_qualifier(name), dir::directory_qualifier(name)];
        children.into_iter().map(|child| Column::new(dir::SUB, child)).chain([dir::id_column()]).collect()
    }

    /// None if the parent's row does not exist.
    pub fn of(parent: DrivePath, name: Name, row: &Row) -> Result<Option<Self>> {
        let Some(id) = row.get(CF, dir::ID) else { return Ok(None) };
        let child = |qualifier: Bytes| row.get(dir::SUB, &qualifier);
        let file = child(dir::file_qualifier(&name)).map(FileCell::decode::<S>).transpose()?;
        let directory = child(dir::directory_qualifier(&name)).map(|value| DirEntry::decode(value)).transpose()?;
        Ok(Some(Self { parent, id: dir::decode_id(id)?, name, directory, file, step: PhantomData }))
    }

    pub fn is_taken(&self) -> bool {
        self.directory.is_some() || self.file.is_some()
    }

    pub fn position(&self, stay: StayId) -> FilePosition {
        FilePosition { dir: self.id, name: self.name.clone(), stay }
    }

    pub fn link(&self) -> DirParent {
        DirParent { parent: self.id, name: self.name.clone(), operation: dir::NO_OPERATION }
    }

    /// The rows of a new file outside of the directory table.
    pub fn file_rows(&self, id: FileId, attributes: &Attributes) -> Vec<RowChange> {
        let position = self.position(StayId::CREATED);
        let mut rows = if S::INDEXES { index_rows(id, attributes, &position).put() } else { Vec::new() };
        let mut changes = attributes.put_cells();
        changes.extend(self.place(StayId::CREATED));
        rows.push(RowChange { table: file::TABLE, row: id.key(), changes });
        rows
    }

    /// The cells of a file row that a move changes: with indexes the position, without them the name alone.
    pub fn place(&self, stay: StayId) -> Vec<Change> {
        let mut cells = self.position(stay).put_cells();
        cells.retain(|cell| S::INDEXES || is_of(cell, &[file::NAME]));
        cells
    }

    /// The file row of a file that leaves this name, with the cells of its new place. One cell of the old one is checked.
    pub fn file_moves(&self, id: FileId, stay: StayId, place: Vec<Change>) -> ConditionalRow {
        let checks = self.place(stay).pop().into_iter().filter_map(|last| match last {
            Change::Put { family, qualifier, value } => Some(Check::Equals(Column { family, qualifier }, value)),
            _ => None,
        });
        ConditionalRow { table: file::TABLE, row: id.key(), checks: checks.collect(), changes: place }
    }

    /// The rows of a file that has left this name for good.
    pub fn dropped(&self, file: &FileCell) -> Vec<RowChange> {
        let mut rows = match &file.entry {
            Some(entry) if S::INDEXES => index_rows(file.id, &entry.attributes, &self.position(entry.stay)).delete(),
            _ => Vec::new(),
        };
        let mut changes = file::delete_cells(ContentLocation::Inline);
        changes.retain(|cell| S::INDEXES || !is_of(cell, &[file::DIR, file::STAY]));
        rows.push(RowChange { table: file::TABLE, row: file.id.key(), changes });
        rows
    }

    /// Changes of the directory's row, if it is still the same directory and these hold.
    fn row(&self, mut checks: Vec<Check>, changes: Vec<Change>) -> ConditionalRow {
        checks.push(Check::Equals(dir::id_column(), dir::encode_id(self.id)));
        ConditionalRow { table: dir::TABLE, row: self.parent.key(), checks, changes }
    }

    fn no_directory(&self) -> Check {
        Check::Absent(Column::new(dir::SUB, dir::directory_qualifier(&self.name)))
    }

    /// Holds if the name has no file, or just this one.
    fn file_is(&self, file: Option<&FileCell>) -> Check {
        let column = Column::new(dir::SUB, dir::file_qualifier(&self.name));
        file.map_or(Check::Absent(column.clone()), |file| Check::Equals(column, file.value.clone()))
    }

    pub fn put_file(&self, file: &FileCell) -> ConditionalRow {
        let put = Change::put(dir::SUB, dir::file_qualifier(&self.name), file.value.clone());
        self.row(vec![self.no_directory(), self.file_is(self.file.as_ref())], vec![put])
    }

    pub fn take_file(&self, file: &FileCell) -> ConditionalRow {
        let take = Change::delete(dir::SUB, dir::file_qualifier(&self.name));
        self.row(vec![self.file_is(Some(file))], vec![take])
    }

    pub fn put_directory(&self, directory: &DirEntry) -> ConditionalRow {
        let put = Change::put(dir::SUB, dir::directory_qualifier(&self.name), directory.encode());
        self.row(vec![self.no_directory(), self.file_is(None)], vec![put])
    }

    pub fn take_directory(&self, directory: &DirEntry) -> ConditionalRow {
        let column = Column::new(dir::SUB, dir::directory_qualifier(&self.name));
        let take = Change::delete(dir::SUB, column.qualifier.clone());
        self.row(vec![Check::Equals(column, directory.encode())], vec![take])
    }
}

fn is_of(cell: &Change, qualifiers: &[&[u8]]) -> bool {
    match cell {
        Change::Put { qualifier, .. } | Change::Delete { qualifier, .. } => qualifiers.contains(&&qualifier[..]),
        Change::DeleteFamily { .. } => false,
    }
}

pub fn index_rows<'a>(id: FileId, attributes: &'a Attributes, position: &'a FilePosition) -> IndexRows<'a> {
    IndexRows { id, attributes, position }
}
