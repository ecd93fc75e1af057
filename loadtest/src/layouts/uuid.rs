//! The two tables that the worked example ends with: directories keyed by full path with a cell for each child, files
//! keyed by random UUID; and what the drive adds to them, one step at a time. A rename never touches a file's row.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use rowdrive::schema::dir::{self, FILE, SUB};
use rowdrive::schema::file::Attributes;
use rowdrive::schema::file_row;
use rowdrive::schema::{CF, DirId, FileId, Name, StayId};
use rowdrive::table::{Cell, Change, Column, KeyLifecycle, Plan, Row, RowChange, RowKey, RowRange, Tables};

use super::dir_table::{DirTable, Slot, child};
use super::indexes::{Ids, Indexes};
use super::rows::{Next, SCAN, Table};
use super::stored::{CONTENT, DATA, equals, pack, put_content, unpack};
use super::{Child, Layout, List, NewFile, Node, Period, Verdict};

const PACKED: &[u8] = b"a";
/// The cell of the time of change, if attributes are not packed: an overwrite checks it.
const MODIFIED: &[u8] = b"modified";

/// What a step adds to the tables of the worked example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Each attribute is a cell of its own in the file's row; otherwise one cell has them all.
    pub cells: bool,
    /// `sub:f_<name>` has a copy of the attributes beside the UUID.
    pub copies: bool,
    /// There are rows by time, creator and name, and a link from each directory to its parent.
    pub indexes: bool,
}

pub struct Uuid {
    step: Step,
    directories: DirTable,
    files: Table,
    indexes: Option<Indexes>,
}

/// A file as its directory's cell says it: its ids, and its attributes unless the step keeps the UUID alone.
type FileCell = (Ids, Option<Attributes>);

impl Uuid {
    pub async fn create(tables: &Tables, step: Step) -> Result<Arc<dyn Layout>> {
        let directories = DirTable::create(tables, DirId::ROOT.key(), true).await?;
        let cells: &[&[u8]] = if step.cells { &file_row::OLD_ATTRIBUTES } else { &[PACKED] };
        let files = Table::create(tables, ("file", KeyLifecycle::UniqueId), &[CONTENT], cells).await?;
        let indexes = if step.indexes { Some(Indexes::create(tables, true).await?) } else { None };
        Ok(Arc::new(Self { step, directories, files, indexes }))
    }

    /// The value of a directory's cell of a file.
    fn encode(&self, ids: Ids, attributes: &Attributes) -> Bytes {
        if self.step.copies { ids.pack(attributes) } else { ids.file.key() }
    }

    fn decode(&self, value: &[u8]) -> Result<FileCell> {
        if self.step.copies {
            return Ids::unpack(value).map(|(attributes, ids)| (ids, Some(attributes)));
        }
        let file = FileId(uuid::Uuid::from_slice(value).context("a file's cell is no UUID")?);
        Ok((Ids { file, stay: StayId::CREATED }, None))
    }

    async fn file(&self, path: &str) -> Result<Option<(Slot, FileCell)>> {
        let Some(slot) = self.directories.slot(path).await? else { return Ok(None) };
        let file = slot.file.as_ref().map(|value| self.decode(value)).transpose()?;
        Ok(file.map(|file| (slot, file)))
    }

    /// The attributes of files, from their cells or else from their rows.
    async fn attributes(&self, files: Vec<FileCell>) -> Result<Vec<Attributes>> {
        if self.step.copies {
            return Ok(files.into_iter().filter_map(|(_, attributes)| attributes).collect());
        }
        let rows = self.files.get_many(files.iter().map(|(ids, _)| ids.file.key())).await?;
        rows.iter().map(|row| self.attributes_of(row)).collect()
    }

    fn attributes_of(&self, row: &Row) -> Result<Attributes> {
        if self.step.cells {
            return file_row::old_attributes(row)?.context("a file's row has no attributes");
        }
        Ok(unpack(row.get(CF, PACKED).context("a file's row has no attributes")?)?.0)
    }

    fn cells(&self, new: &NewFile) -> Vec<Change> {
        let mut changes = match self.step.cells {
            true => file_row::put_old_attributes(&new.attributes),
            false => vec![Change::put(CF, PACKED, pack(&new.attributes))],
        };
        changes.extend(put_content(&new.content));
        changes
    }

    /// The index rows of a file that comes to a slot.
    fn indexed(&self, slot: &Slot, ids: Ids, attributes: &Attributes) -> Result<Vec<RowChange>> {
        let Some(indexes) = &self.indexes else { return Ok(Vec::new()) };
        indexes.rows(ids, attributes, &slot.name, Some(slot.position()))
    }

    /// The index rows of a file that leaves a slot.
    fn unindexed(&self, slot: &Slot, (ids, attributes): &FileCell) -> Result<Vec<RowChange>> {
        let (Some(indexes), Some(attributes)) = (&self.indexes, attributes) else { return Ok(Vec::new()) };
        indexes.rows(*ids, attributes, &slot.name, None)
    }

    /// A file's attributes and content anew, under the UUID that it has: in its row alone, unless there are copies.
    async fn overwrite(&self, new: &NewFile) -> Result<Verdict> {
        let Some((slot, old)) = self.file(&new.path).await? else { return Ok(Verdict::Missing) };
        let ids = if self.step.indexes { old.0.moved() } else { old.0 };
        let (row, cell) = (ids.file.key(), if self.step.cells { MODIFIED } else { PACKED });
        let value = match &old.1 {
            Some(attributes) => Some(pack(attributes).into()),
            None => self.files.get(&row).await?.get(CF, cell).cloned(),
        };
        let Some(value) = value else { return Ok(Verdict::Missing) };
        let put = || Change::put(SUB, child(FILE, &slot.name), self.encode(ids, &new.attributes));
        let directory = self.directories.row(&slot, Vec::from_iter(self.step.copies.then(put)));
        let guarded = vec![directory, self.files.row(row, vec![equals(cell, value)], self.cells(new))];
        let (prepare, finish) = (self.indexed(&slot, ids, &new.attributes)?, self.unindexed(&slot, &old)?);
        self.files.commit(Plan { prepare, guarded, finish, ..Plan::default() }).await
    }

    /// Reads the files of every directory below the period's.
    async fn period_in_directories(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut found = Vec::new();
        for (_, directory) in self.directories.subtree(&period.under).await? {
            let (names, files): (Vec<_>, Vec<_>) = self.files_in(&directory).await?.into_iter().unzip();
            for (name, attributes) in names.into_iter().zip(self.attributes(files).await?) {
                found.extend(period.time(&attributes).map(|time| (time, format!("{directory}/{}", name.as_str()))));
            }
        }
        Ok(period.newest(found))
    }

    async fn files_in(&self, directory: &str) -> Result<Vec<(Name, FileCell)>> {
        let cells = self.directories.children(directory, dir::range(FILE, ""), usize::MAX).await?.unwrap_or_default().1;
        cells.iter().map(|cell| Ok((dir::child(&cell.qualifier)?.1, self.decode(&cell.value)?))).collect()
    }

    /// Reads the whole file table, which has no paths, and then directories until the paths of all found files are
    /// known.
    async fn period_in_files(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut found = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            found.extend(period.time(&self.attributes_of(row)?).map(|time| (time, key.clone())));
            Ok(Next::Row)
        };
        self.files.scan(RowRange::all(), SCAN, each).await?;
        let mut times: HashMap<Bytes, i64> = period.newest(found).into_iter().map(|(time, key)| (key, time)).collect();
        let mut named = Vec::new();
        for (_, directory) in self.directories.subtree("").await? {
            if times.is_empty() {
                break;
            }
            for (name, (ids, _)) in self.files_in(&directory).await? {
                let time = times.remove(&ids.file.key());
                named.extend(time.map(|time| (time, format!("{directory}/{}", name.as_str()))));
            }
        }
        ensure!(times.is_empty(), "a file has no name");
        Ok(period.newest(named))
    }
}

#[async_trait]
impl Layout for Uuid {
    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let Some(slot) = self.directories.slot(path).await? else { return Ok(Verdict::Missing) };
        if slot.is_taken() {
            return Ok(Verdict::Exists);
        }
        let id = DirId::random().key();
        let prepare = self.indexes.iter().filter_map(|indexes| indexes.link(&id, slot.position())).collect();
        let guarded = self.directories.made(&slot, &id);
        self.files.commit(Plan { prepare, guarded, ..Plan::default() }).await
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        if !is_new {
            return self.overwrite(file).await;
        }
        let Some(slot) = self.directories.slot(&file.path).await? else { return Ok(Verdict::Missing) };
        if slot.is_taken() {
            return Ok(Verdict::Exists);
        }
        let ids = Ids::new();
        let mut prepare = self.indexed(&slot, ids, &file.attributes)?;
        prepare.push(RowChange { table: self.files.name, row: ids.file.key(), changes: self.cells(file) });
        let guarded = vec![self.directories.put(&slot, FILE, self.encode(ids, &file.attributes))];
        self.files.commit(Plan { prepare, guarded, ..Plan::default() }).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        loop {
            let Some(slot) = self.directories.slot(path).await? else { return Ok(None) };
            let Some(value) = &slot.file else { return Ok(slot.directory.map(|_| Node::Directory)) };
            let (ids, attributes) = self.decode(value)?;
            if let Some(attributes) = attributes {
                return Ok(Some(Node::File(attributes)));
            }
            // Between the two reads the file may have been deleted.
            let row = self.files.get(&ids.file.key()).await?;
            if !row.is_empty() {
                return self.attributes_of(&row).map(|attributes| Some(Node::File(attributes)));
            }
        }
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        let Some((_, (ids, _))) = self.file(path).await? else { return Ok(None) };
        self.files.content(&ids.file.key()).await.map(Some)
    }

    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        let range = match ask {
            List::Names | List::Attributes => (Bound::Unbounded, Bound::Unbounded),
            List::Page { after, .. } => (Bound::Excluded(child(FILE, after)), dir::range(FILE, "").1),
        };
        let Some((_, cells)) = self.directories.children(path, range, ask.page().1).await? else { return Ok(None) };
        let is_asked = |cell: &&Cell| cell.qualifier.starts_with(FILE) && !matches!(ask, List::Names);
        let files = cells.iter().filter(is_asked).map(|cell| self.decode(&cell.value)).collect::<Result<_>>()?;
        let mut attributes = self.attributes(files).await?.into_iter();
        let child = |cell: &Cell| {
            let (kind, name) = dir::child(&cell.qualifier)?;
            let node = match ask {
                List::Names => None,
                _ if kind == FILE => attributes.next().map(Node::File),
                _ => Some(Node::Directory),
            };
            Ok(Child { name: name.as_str().to_owned(), node })
        };
        cells.iter().map(child).collect::<Result<_>>().map(Some)
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        let (source, target) = (self.directories.slot(from).await?, self.directories.slot(to).await?);
        let (Some(source), Some(target)) = (source, target) else { return Ok(Verdict::Missing) };
        if target.is_taken() {
            return Ok(Verdict::Exists);
        }
        let Some(value) = &source.file else {
            let relinked =
                |indexes: &Indexes| indexes.relink(source.directory.as_ref()?, source.position(), target.position());
            let also = self.indexes.iter().filter_map(relinked).collect();
            return self.directories.rename(&source, &target, also).await;
        };
        let old = self.decode(value)?;
        let mut plan = Plan { finish: self.unindexed(&source, &old)?, ..Plan::default() };
        let mut value = value.clone();
        if let (ids, Some(attributes)) = &old {
            let ids = if self.step.indexes { ids.moved() } else { *ids };
            plan.prepare = self.indexed(&target, ids, attributes)?;
            value = self.encode(ids, attributes);
        }
        plan.guarded = vec![self.directories.take(&source, FILE), self.directories.put(&target, FILE, value)];
        self.files.commit(plan).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        let Some((slot, old)) = self.file(path).await? else { return Ok(Verdict::Missing) };
        let mut finish = self.unindexed(&slot, &old)?;
        let cells = self.files.cells.iter().map(|cell| Change::delete(CF, *cell));
        let changes = cells.chain([Change::delete(CONTENT, DATA)]).collect();
        finish.push(RowChange { table: self.files.name, row: old.0.file.key(), changes });
        let guarded = vec![self.directories.take(&slot, FILE)];
        self.files.commit(Plan { guarded, finish, ..Plan::default() }).await
    }

    /// Without an index every directory is asked for the name.
    async fn find(&self, name: &str) -> Result<Vec<String>> {
        if let Some(indexes) = &self.indexes {
            return indexes.find(name).await;
        }
        let found = self.directories.with_cell(RowRange::all(), Column::new(SUB, child(FILE, name))).await?;
        Ok(found.into_iter().map(|(_, directory)| format!("{directory}/{name}")).collect())
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        match &self.indexes {
            Some(indexes) => indexes.period(period).await,
            None if self.step.copies || !period.under.is_empty() => self.period_in_directories(period).await,
            None => self.period_in_files(period).await,
        }
    }
}
