//! The directory table of the worked example, which `dirid-name` and `uuid` have: a row for each directory, keyed by
//! its full path, with the cells `cf:id`, `sub:d_<name>` for each directory in it and, in `uuid`, `sub:f_<name>` for
//! each file. A rename of a directory writes its row and those of the directories below it anew.

use std::ops::Bound;

use anyhow::{Context, Result};
use bytes::Bytes;
use rowdrive::schema::CF;
use rowdrive::schema::dir::{DIRECTORY, FILE, ID, SUB};
use rowdrive::table::{
    Cell, CellCursor, Change, Check, Column, ConditionalRow, KeyLifecycle, PageQuery, Row, RowCursor, RowKey, RowQuery,
    RowRange, Tables,
};

use super::rows::{Groups, LIST, Table, guarded};
use super::stored::{absent, equals};
use super::{Verdict, split};

pub struct DirTable {
    table: Table,
    /// Whether files have cells too.
    has_files: bool,
}

/// A name in a directory that exists, and the nodes of that name.
pub struct Slot {
    pub parent: String,
    pub parent_id: Bytes,
    pub name: String,
    /// The directory's id.
    pub directory: Option<Bytes>,
    pub file: Option<Bytes>,
}

impl Slot {
    pub fn is_taken(&self) -> bool {
        self.directory.is_some() || self.file.is_some()
    }

    pub fn position(&self) -> Bytes {
        [&self.parent_id, self.name.as_bytes()].concat().into()
    }
}

/// The cell of a child: `kind` is `d_` or `f_`.
pub fn child(kind: &[u8], name: &str) -> Bytes {
    [kind, name.as_bytes()].concat().into()
}

/// The row key of a directory: that of the root is a slash.
fn key(path: &str) -> Bytes {
    if path.is_empty() { Bytes::from_static(b"/") } else { Bytes::copy_from_slice(path.as_bytes()) }
}

impl DirTable {
    /// With the row of the root, whose id is `root`.
    pub async fn create(tables: &Tables, root: Bytes, has_files: bool) -> Result<Self> {
        let table = Table::create(tables, ("dir", KeyLifecycle::UniqueId), &[SUB], &[ID]).await?;
        table.commit(guarded(vec![table.row(key(""), vec![absent(ID)], vec![Change::put(CF, ID, root)])])).await?;
        Ok(Self { table, has_files })
    }

    pub async fn id(&self, path: &str) -> Result<Option<Bytes>> {
        Ok(self.table.tables.cell(self.table.name, &key(path), CF, ID).await?)
    }

    /// One read of the parent's row; none if it does not exist.
    pub async fn slot(&self, path: &str) -> Result<Option<Slot>> {
        let (parent, name) = split(path);
        let [directory, file] = [DIRECTORY, FILE].map(|kind| Column::new(SUB, child(kind, name)));
        let mut cells = vec![Column::new(CF, ID), directory.clone()];
        cells.extend(self.has_files.then(|| file.clone()));
        let row = self.table.tables.get(self.table.name, &key(parent), &RowQuery::cells(cells)).await?;
        let Some(id) = row.get(CF, ID) else { return Ok(None) };
        let [directory, file] = [directory, file].map(|column| row.get(SUB, &column.qualifier).cloned());
        let (parent, name) = (parent.to_owned(), name.to_owned());
        Ok(Some(Slot { parent, parent_id: id.clone(), name, directory, file }))
    }

    /// Changes of the parent's row, if it is still the same directory and the name has the nodes of the slot.
    pub fn row(&self, slot: &Slot, changes: Vec<Change>) -> ConditionalRow {
        let mut checks = vec![equals(ID, slot.parent_id.clone())];
        for (kind, value) in [(DIRECTORY, &slot.directory), (FILE, &slot.file)] {
            let column = Column::new(SUB, child(kind, &slot.name));
            match value {
                Some(value) => checks.push(Check::Equals(column, value.clone())),
                None if kind == FILE && !self.has_files => {}
                None => checks.push(Check::Absent(column)),
            }
        }
        self.table.row(key(&slot.parent), checks, changes)
    }

    pub fn put(&self, slot: &Slot, kind: &[u8], value: Bytes) -> ConditionalRow {
        self.row(slot, vec![Change::put(SUB, child(kind, &slot.name), value)])
    }

    pub fn take(&self, slot: &Slot, kind: &[u8]) -> ConditionalRow {
        self.row(slot, vec![Change::delete(SUB, child(kind, &slot.name))])
    }

    /// The rows that make a directory in a slot.
    pub fn made(&self, slot: &Slot, id: &Bytes) -> Vec<ConditionalRow> {
        let path = format!("{}/{}", slot.parent, slot.name);
        let own = self.table.row(key(&path), vec![absent(ID)], vec![Change::put(CF, ID, id.clone())]);
        vec![self.put(slot, DIRECTORY, id.clone()), own]
    }

    /// The directory's id and the cells of children in a range, page by page; none if there is no such directory.
    pub async fn children(
        &self,
        path: &str,
        (from, to): (Bound<Bytes>, Bound<Bytes>),
        limit: usize,
    ) -> Result<Option<(Bytes, Vec<Cell>)>> {
        let (table, row, unchanged) = (self.table.name, key(path), vec![Column::new(CF, ID)]);
        let mut query = PageQuery { table, row, family: SUB, from, to, limit: limit.min(LIST), unchanged };
        let mut cells = Vec::new();
        loop {
            let page = self.table.tables.page(&query).await?;
            let Some(id) = page.unchanged.into_iter().next().flatten() else { return Ok(None) };
            cells.extend(page.cells);
            match cells.last() {
                Some(last) if page.more && cells.len() < limit => query.from = Bound::Excluded(last.qualifier.clone()),
                _ => return Ok(Some((id, cells))),
            }
        }
    }

    /// The ids and paths of a directory and of all below it.
    pub async fn subtree(&self, of: &str) -> Result<Vec<(Bytes, String)>> {
        // The root's own key is the first of its range.
        let own = Bytes::from(format!("{of}/"));
        let range = RowRange { from: Bound::Excluded(own.clone()), ..RowRange::prefix(&own) };
        let mut found: Vec<_> = self.id(of).await?.map(|id| (id, of.to_owned())).into_iter().collect();
        found.append(&mut self.with_cell(range, Column::new(CF, ID)).await?);
        Ok(found)
    }

    /// The values of a cell, and the paths of the directories that have it.
    pub async fn with_cell(&self, range: RowRange, column: Column) -> Result<Vec<(Bytes, String)>> {
        let rows = RowCursor::new(self.table.name, range, RowQuery::cells(vec![column.clone()]), LIST);
        let cell = |(key, row): (RowKey, Row)| {
            let value = row.get(column.family, &column.qualifier).context("a scan returns a row without the cell")?;
            let path = if *key == *b"/" { "" } else { std::str::from_utf8(&key)? };
            Ok((value.clone(), path.to_owned()))
        };
        rows.rest(&self.table.tables).await?.into_iter().map(cell).collect()
    }

    /// Renames a directory to a slot that is free: the rows of `also` and its own at one instant, then those below it,
    /// page by page.
    pub async fn rename(&self, source: &Slot, target: &Slot, also: Vec<ConditionalRow>) -> Result<Verdict> {
        let Some(id) = &source.directory else { return Ok(Verdict::Missing) };
        let mut rows = self.made(target, id);
        rows.push(self.take(source, DIRECTORY));
        rows.extend(also);
        let verdict = self.table.commit(guarded(rows)).await?;
        if verdict != Verdict::Done {
            return Ok(verdict);
        }
        let [from, to] = [source, target].map(|slot| format!("{}/{}", slot.parent, slot.name));
        let mut groups = Groups::new(&self.table);
        for (id, old) in self.subtree(&from).await? {
            let new = format!("{to}{}", old.get(from.len()..).unwrap_or_default());
            let own = (old != from).then(|| Change::put(CF, ID, id));
            self.carry(&old, &new, own, &mut groups).await?;
        }
        groups.done().await?;
        Ok(Verdict::Done)
    }

    /// Moves the cells of a row, page by page. `own`: what the new row needs beside its children.
    async fn carry(&self, old: &str, new: &str, own: Option<Change>, groups: &mut Groups) -> Result<()> {
        let (mut puts, mut takes) = (Vec::from_iter(own), vec![Change::delete(CF, ID)]);
        let (table, row, from, to) = (self.table.name, key(old), Bound::Unbounded, Bound::Unbounded);
        let first = PageQuery { table, row, family: SUB, from, to, limit: LIST, unchanged: Vec::new() };
        let mut pages = CellCursor::new(first);
        while let Some(cells) = pages.next(&self.table.tables).await? {
            for Cell { qualifier, value } in cells {
                takes.push(Change::delete(SUB, qualifier.clone()));
                puts.push(Change::put(SUB, qualifier, value));
            }
            let rows = [(old, std::mem::take(&mut takes)), (new, std::mem::take(&mut puts))];
            let rows = rows.map(|(path, changes)| self.table.row(key(path), Vec::new(), changes));
            groups.add(guarded(rows.into())).await?;
        }
        Ok(())
    }
}
