//! The two tables that the worked example ends with: directories keyed by full path with a cell for each child, files
//! keyed by random UUID; and what the drive adds to them, one step at a time. A rename never touches a file's row.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use rowdrive::schema::dir::{self, FILE, SUB};
use rowdrive::schema::file::Attributes;
use rowdrive::schema::file_row;
use rowdrive::schema::{CF, DirId, FileId, Name, StayId};
use rowdrive::table::{Change, KeyLifecycle, Plan, Row, RowChange, RowKey, RowRange, Tables};

use super::answers::Newest;
use super::dir_table::{DirTable, Slot, child};
use super::indexes::{Ids, Indexes};
use super::links::{Known, Links, position};
use super::rows::{CONTENT, DATA, Next, SCAN, Table, commit, equals, pack, put_content, unpack};
use super::{Child, Layout, List, NewFile, Node, Period, Verdict, is_within};

/// The cell of packed attributes in a file's row.
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
    indexed: Option<Indexed>,
}

struct Indexed {
    indexes: Indexes,
    links: Links,
}

/// A file as its directory's cell says it.
struct FileCell {
    ids: Ids,
    /// None in the steps that keep the UUID alone.
    attributes: Option<Attributes>,
}

impl Uuid {
    pub async fn create(tables: &Tables, step: Step) -> Result<Self> {
        let directories = DirTable::create(tables, DirId::ROOT.key(), true).await?;
        let cells: &[&[u8]] = if step.cells { &file_row::OLD_ATTRIBUTES } else { &[PACKED] };
        let files = Table::create(tables, ("file", KeyLifecycle::UniqueId), &[CONTENT], cells).await?;
        let indexed = if step.indexes {
            Some(Indexed { indexes: Indexes::create(tables).await?, links: Links::create(tables).await? })
        } else {
            None
        };
        Ok(Self { step, directories, files, indexed })
    }

    /// The value of a directory's cell of a file.
    fn encode(&self, ids: Ids, attributes: &Attributes) -> Bytes {
        if self.step.copies { [pack(attributes), ids.encode()].concat().into() } else { ids.file.key() }
    }

    fn decode(&self, value: &[u8]) -> Result<FileCell> {
        if self.step.copies {
            let (attributes, rest) = unpack(value)?;
            return Ok(FileCell {
                ids: Ids::decode(rest).context("a file lacks its ids")?,
                attributes: Some(attributes),
            });
        }
        let file = FileId(uuid::Uuid::from_slice(value).context("a file's cell is no UUID")?);
        Ok(FileCell { ids: Ids { file, stay: StayId::CREATED }, attributes: None })
    }

    fn file(&self, slot: &Slot) -> Result<Option<FileCell>> {
        slot.file.as_ref().map(|value| self.decode(value)).transpose()
    }

    /// The attributes of files, from their cells or else from their rows.
    async fn attributes(&self, files: Vec<FileCell>) -> Result<Vec<Attributes>> {
        if self.step.copies {
            return Ok(files.into_iter().filter_map(|file| file.attributes).collect());
        }
        let rows = self.files.get_many(files.iter().map(|file| file.ids.file.key())).await?;
        rows.iter().map(|row| self.attributes_of(row)).collect()
    }

    fn attributes_of(&self, row: &Row) -> Result<Attributes> {
        if self.step.cells {
            return file_row::old_attributes(row)?.context("a file's row has no attributes");
        }
        Ok(unpack(row.get(CF, PACKED).context("a file's row has no attributes")?)?.0)
    }

    /// The row of a new file.
    fn file_row(&self, ids: Ids, new: &NewFile) -> RowChange {
        let mut changes = match self.step.cells {
            true => file_row::put_old_attributes(&new.attributes),
            false => vec![Change::put(CF, PACKED, pack(&new.attributes))],
        };
        changes.extend(put_content(&new.content));
        RowChange { table: self.files.name, row: ids.file.key(), changes }
    }

    /// The rows that go with a file.
    fn dropped(&self, slot: &Slot, old: &FileCell) -> Result<Vec<RowChange>> {
        let mut rows = self.unindexed(slot, old)?;
        let changes = self.files.delete_cells().chain([Change::delete(CONTENT, DATA)]).collect();
        rows.push(RowChange { table: self.files.name, row: old.ids.file.key(), changes });
        Ok(rows)
    }

    fn indexed(&self, slot: &Slot, ids: Ids, attributes: &Attributes) -> Result<Vec<RowChange>> {
        let Some(Indexed { indexes, .. }) = &self.indexed else { return Ok(Vec::new()) };
        indexes.put(ids, attributes, &slot.name, position(slot))
    }

    fn unindexed(&self, slot: &Slot, old: &FileCell) -> Result<Vec<RowChange>> {
        match (&self.indexed, &old.attributes) {
            (Some(Indexed { indexes, .. }), Some(attributes)) => indexes.delete(old.ids, attributes, &slot.name),
            _ => Ok(Vec::new()),
        }
    }

    /// A file's attributes and content anew, under the UUID that it has: in its row alone, unless there are copies.
    async fn overwrite(&self, slot: &Slot, old: FileCell, new: &NewFile) -> Result<Verdict> {
        let ids = if self.step.indexes { old.ids.moved() } else { old.ids };
        let cell = if self.step.cells { MODIFIED } else { PACKED };
        let value = match &old.attributes {
            Some(attributes) => Some(pack(attributes).into()),
            None => self.files.get(&ids.file.key()).await?.get(CF, cell).cloned(),
        };
        let Some(value) = value else { return Ok(Verdict::Missing) };
        let put = Change::put(SUB, child(FILE, &slot.name), self.encode(ids, &new.attributes));
        let changes = if self.step.copies { vec![put] } else { Vec::new() };
        let RowChange { row, changes: own, .. } = self.file_row(ids, new);
        let guarded = vec![self.directories.row(slot, changes), self.files.row(row, vec![equals(cell, value)], own)];
        let (prepare, finish) = (self.indexed(slot, ids, &new.attributes)?, self.unindexed(slot, &old)?);
        commit(&self.files.tables, Plan { prepare, guarded, finish, ..Plan::default() }).await
    }

    async fn rename_file(&self, source: &Slot, target: &Slot, old: FileCell) -> Result<Verdict> {
        let mut plan = Plan { finish: self.unindexed(source, &old)?, ..Plan::default() };
        let value = match &old.attributes {
            Some(attributes) => {
                let ids = if self.step.indexes { old.ids.moved() } else { old.ids };
                plan.prepare = self.indexed(target, ids, attributes)?;
                self.encode(ids, attributes)
            }
            None => old.ids.file.key(),
        };
        plan.guarded = vec![self.directories.take(source, FILE), self.directories.put(target, FILE, value)];
        commit(&self.files.tables, plan).await
    }

    async fn period_in_index(
        &self,
        Indexed { indexes, links }: &Indexed,
        period: &Period,
    ) -> Result<Vec<(i64, String)>> {
        let (mut found, mut after, mut known) = (Vec::new(), None, Known::new());
        loop {
            let (page, is_last) = indexes.period(period, &mut after).await?;
            for (time, position) in page {
                let path = links.path(&position, &mut known).await?;
                if is_within(&path, &period.under) {
                    found.push((time, path));
                }
            }
            if is_last || found.len() >= period.limit {
                found.truncate(period.limit);
                return Ok(found);
            }
        }
    }

    /// Reads the files of every directory below the period's.
    async fn period_in_directories(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut newest = Newest::new(period);
        for (_, directory) in self.directories.subtree(&period.under).await? {
            let (names, files): (Vec<_>, Vec<_>) = self.files_in(&directory).await?.into_iter().unzip();
            for (name, attributes) in names.into_iter().zip(self.attributes(files).await?) {
                newest.offer(&attributes, || format!("{directory}/{}", name.as_str()));
            }
        }
        Ok(newest.done())
    }

    async fn files_in(&self, directory: &str) -> Result<Vec<(Name, FileCell)>> {
        let cells = self.directories.children(directory, dir::range(FILE, ""), usize::MAX).await?.unwrap_or_default().1;
        cells.iter().map(|cell| Ok((dir::child(&cell.qualifier)?.1, self.decode(&cell.value)?))).collect()
    }

    /// Reads the whole file table, which has no paths, and then directories until the paths of all found files are known.
    async fn period_in_files(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        let mut newest = Newest::new(period);
        let each = |key: &RowKey, row: &Row| {
            newest.offer(&self.attributes_of(row)?, || key.clone());
            Ok(Next::Row)
        };
        self.files.scan(RowRange::all(), SCAN, each).await?;
        let found = newest.done();
        let wanted: HashSet<Bytes> = found.iter().map(|(_, key)| key.clone()).collect();
        let mut paths: HashMap<Bytes, String> = HashMap::new();
        for (_, directory) in self.directories.subtree("").await? {
            if paths.len() == found.len() {
                break;
            }
            for (name, file) in self.files_in(&directory).await? {
                let key = file.ids.file.key();
                if wanted.contains(&key) {
                    paths.insert(key, format!("{directory}/{}", name.as_str()));
                }
            }
        }
        let named = found.into_iter().map(|(time, key)| Ok((time, paths.remove(&key).context("a file has no name")?)));
        named.collect()
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
        let prepare = self.indexed.iter().map(|indexed| indexed.links.put(&id, &slot)).collect();
        let guarded = self.directories.made(&slot, &id);
        commit(&self.files.tables, Plan { prepare, guarded, ..Plan::default() }).await
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        let Some(slot) = self.directories.slot(&file.path).await? else { return Ok(Verdict::Missing) };
        match (self.file(&slot)?, is_new) {
            (None, false) => return Ok(Verdict::Missing),
            (Some(old), false) => return self.overwrite(&slot, old, file).await,
            _ if slot.is_taken() => return Ok(Verdict::Exists),
            _ => {}
        }
        let ids = Ids::new();
        let mut prepare = self.indexed(&slot, ids, &file.attributes)?;
        prepare.push(self.file_row(ids, file));
        let guarded = vec![self.directories.put(&slot, FILE, self.encode(ids, &file.attributes))];
        commit(&self.files.tables, Plan { prepare, guarded, ..Plan::default() }).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        loop {
            let Some(slot) = self.directories.slot(path).await? else { return Ok(None) };
            let Some(file) = self.file(&slot)? else { return Ok(slot.directory.map(|_| Node::Directory)) };
            let key = file.ids.file.key();
            if let Some(attributes) = file.attributes {
                return Ok(Some(Node::File(attributes)));
            }
            // Between the two reads the file may have been deleted.
            let row = self.files.get(&key).await?;
            if !row.is_empty() {
                return self.attributes_of(&row).map(|attributes| Some(Node::File(attributes)));
            }
        }
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        let Some(slot) = self.directories.slot(path).await? else { return Ok(None) };
        match self.file(&slot)? {
            Some(file) => self.files.content(&file.ids.file.key()).await.map(Some),
            None => Ok(None),
        }
    }

    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        let range = match ask {
            List::Names | List::Attributes => (Bound::Unbounded, Bound::Unbounded),
            List::Page { after, .. } if after.is_empty() => dir::range(FILE, ""),
            List::Page { after, .. } => (Bound::Excluded(child(FILE, after)), dir::range(FILE, "").1),
        };
        let Some((_, cells)) = self.directories.children(path, range, ask.limit()).await? else { return Ok(None) };
        let (mut children, mut files) = (Vec::with_capacity(cells.len()), Vec::new());
        for cell in &cells {
            let (kind, name) = dir::child(&cell.qualifier)?;
            let is_file = kind == FILE;
            if is_file && !matches!(ask, List::Names) {
                files.push(self.decode(&cell.value)?);
            }
            children.push((name, is_file));
        }
        let mut attributes = self.attributes(files).await?.into_iter();
        let child = |(name, is_file): (Name, bool)| {
            let node = match ask {
                List::Names => None,
                _ if is_file => attributes.next().map(Node::File),
                _ => Some(Node::Directory),
            };
            Child { name: name.as_str().to_owned(), node }
        };
        Ok(Some(children.into_iter().map(child).collect()))
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        let (Some(source), Some(target)) = (self.directories.slot(from).await?, self.directories.slot(to).await?)
        else {
            return Ok(Verdict::Missing);
        };
        if target.is_taken() {
            return Ok(Verdict::Exists);
        }
        if let Some(file) = self.file(&source)? {
            return self.rename_file(&source, &target, file).await;
        }
        let changed = |indexed: &Indexed| Some(indexed.links.changed(source.directory.as_ref()?, &source, &target));
        let also = self.indexed.iter().filter_map(changed).collect();
        self.directories.rename(&source, &target, also).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        let Some(slot) = self.directories.slot(path).await? else { return Ok(Verdict::Missing) };
        let Some(file) = self.file(&slot)? else { return Ok(Verdict::Missing) };
        let (guarded, finish) = (vec![self.directories.take(&slot, FILE)], self.dropped(&slot, &file)?);
        commit(&self.files.tables, Plan { guarded, finish, ..Plan::default() }).await
    }

    /// Without an index every directory is asked for the name.
    async fn find(&self, name: &str) -> Result<Vec<String>> {
        let Some(Indexed { indexes, links }) = &self.indexed else {
            let found = self.directories.with_child(child(FILE, name)).await?;
            return Ok(found.into_iter().map(|(directory, _)| format!("{directory}/{name}")).collect());
        };
        let (mut found, mut known) = (Vec::new(), Known::new());
        for position in indexes.find(name).await? {
            let path = links.path(&position, &mut known).await?;
            if super::split(&path).1 == name {
                found.push(path);
            }
        }
        Ok(found)
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        match &self.indexed {
            Some(indexed) => self.period_in_index(indexed, period).await,
            None if self.step.copies || !period.under.is_empty() => self.period_in_directories(period).await,
            None => self.period_in_files(period).await,
        }
    }
}
