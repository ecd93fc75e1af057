//! The two tables of the worked example: directories keyed by full path with a cell for each child, files keyed by random
//! UUID; and the drive's additions to them, one [step](step) at a time. Keys, cells and values are the drive's own; they
//! are written as those of the other layouts are, each change at one instant but for renames.

mod carry;
mod indexes;
mod spot;
pub mod step;
mod walk;

use std::marker::PhantomData;
use std::ops::Bound;

use anyhow::Result;
use bytes::Bytes;
use rowdrive::migrate;
use rowdrive::schema::dir::{self, DirEntry, FileEntry};
use rowdrive::schema::dir_parent;
use rowdrive::schema::file::Attributes;
use rowdrive::schema::{DirId, FileId, Name, StayId, Timestamp};
use rowdrive::table::{Check, ConditionalRow, PageQuery, Plan, RowChange, RowQuery, Tables};

use self::spot::{FileCell, Spot, index_rows};
use self::step::Step;
use super::rows::commit;
use super::{Child, Layout, Node, Period, Verdict, at};

/// Cells or rows that are read at a time.
const PAGE: usize = if cfg!(test) { 2 } else { 1_000 };
const CREATOR: &str = "loadtest";

#[derive(Clone)]
pub struct Uuid<S> {
    tables: Tables,
    step: PhantomData<S>,
}

impl<S: Step> Uuid<S> {
    pub async fn create(tables: Tables) -> Result<Self> {
        migrate::up(&tables).await?;
        Ok(Self { tables, step: PhantomData })
    }

    /// What the parent's row says of a path; none if there is no such row.
    async fn spot(&self, path: &str) -> Result<Option<Spot<S>>> {
        let Some((parent, name)) = at(path)?.split() else { return Ok(None) };
        let row = self.tables.get(dir::TABLE, &parent.key(), &RowQuery::cells(Spot::<S>::columns(&name))).await?;
        Spot::of(parent, name, &row)
    }

    /// Stores a file where there is none, or over the one that is there.
    async fn put(&self, spot: &Spot<S>, attributes: &Attributes) -> Result<Verdict> {
        let entry = FileEntry { id: FileId::random(), stay: StayId::CREATED, attributes: attributes.clone() };
        let file = FileCell::new::<S>(entry);
        let prepare = spot.file_rows(file.id, attributes);
        let finish = spot.file.as_ref().map(|old| spot.dropped(old)).unwrap_or_default();
        commit(&self.tables, Plan { prepare, guarded: vec![spot.put_file(&file)], finish, ..Plan::default() }).await
    }

    /// What `child` takes of cells of a directory's row; none if there is no such directory.
    async fn children<T>(
        &self,
        path: &str,
        (from, to): (Bound<Bytes>, Bound<Bytes>),
        limit: usize,
        child: impl Fn(&[u8], Name, &Bytes) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let (table, family, unchanged) = (dir::TABLE, dir::SUB, vec![dir::id_column()]);
        let mut ask = PageQuery { table, row: at(path)?.key(), family, from, to, limit: limit.min(PAGE), unchanged };
        let mut children = Vec::new();
        loop {
            let page = self.tables.page(&ask).await?;
            if page.unchanged.iter().any(Option::is_none) {
                return Ok(None);
            }
            for cell in &page.cells {
                let (kind, name) = dir::child(&cell.qualifier)?;
                children.push(child(kind, name, &cell.value)?);
            }
            match page.cells.last() {
                Some(last) if page.more && children.len() < limit => {
                    ask.from = Bound::Excluded(last.qualifier.clone());
                }
                _ => return Ok(Some(children)),
            }
        }
    }

    /// As [`children`](Self::children), with what a list with attributes says.
    async fn children_with_attributes(
        &self,
        path: &str,
        range: (Bound<Bytes>, Bound<Bytes>),
        limit: usize,
    ) -> Result<Option<Vec<Child>>> {
        let child = |kind: &[u8], name, value: &Bytes| {
            Ok((name, (kind == dir::FILE).then(|| FileCell::decode::<S>(value)).transpose()?))
        };
        let Some(found) = self.children(path, range, limit, child).await? else { return Ok(None) };
        let (mut nodes, mut files) = (Vec::with_capacity(found.len()), Vec::new());
        for (name, file) in found {
            nodes.push((name, file.is_some()));
            files.extend(file);
        }
        let mut attributes = self.attributes(files).await?.into_iter();
        let child = |(name, is_file): (Name, bool)| {
            let file = if is_file { attributes.next() } else { None };
            Child { name: name.as_str().to_owned(), node: file.map_or(Node::Directory, Node::File) }
        };
        Ok(Some(nodes.into_iter().map(child).collect()))
    }
}

/// A plan names a row once.
fn both(one: ConditionalRow, other: ConditionalRow) -> Vec<ConditionalRow> {
    if one.row != other.row {
        return vec![one, other];
    }
    let (checks, changes) = ([one.checks, other.checks].concat(), [one.changes, other.changes].concat());
    vec![ConditionalRow { table: one.table, row: one.row, checks, changes }]
}

impl<S: Step> Layout for Uuid<S> {
    const NAME: &'static str = S::NAME;

    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let Some(spot) = self.spot(path).await? else { return Ok(Verdict::Missing) };
        let entry = DirEntry { id: DirId::random(), creator: CREATOR.into(), created: Timestamp::from_ms(0) };
        let link = RowChange { table: dir_parent::TABLE, row: entry.id.key(), changes: spot.link().put_cells() };
        let prepare = if S::INDEXES { vec![link] } else { Vec::new() };
        let checks = vec![Check::Absent(dir::id_column())];
        let row = ConditionalRow { table: dir::TABLE, row: at(path)?.key(), checks, changes: entry.put_cells() };
        commit(&self.tables, Plan { prepare, guarded: vec![spot.put_directory(&entry), row], ..Plan::default() }).await
    }

    async fn create(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.spot(path).await? {
            None => Ok(Verdict::Missing),
            Some(spot) if spot.is_taken() => Ok(Verdict::Exists),
            Some(spot) => self.put(&spot, attributes).await,
        }
    }

    async fn overwrite(&self, path: &str, attributes: &Attributes) -> Result<Verdict> {
        match self.spot(path).await? {
            Some(spot) if spot.file.is_some() => self.put(&spot, attributes).await,
            _ => Ok(Verdict::Missing),
        }
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        let Some(spot) = self.spot(path).await? else { return Ok(None) };
        if let Some(file) = spot.file {
            return Ok(self.attributes(vec![file]).await?.pop().map(Node::File));
        }
        Ok(spot.directory.map(|_| Node::Directory))
    }

    async fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.children(path, all, usize::MAX, |_, name, _| Ok(name.as_str().to_owned())).await
    }

    async fn list_attributes(&self, path: &str) -> Result<Option<Vec<Child>>> {
        self.children_with_attributes(path, (Bound::Unbounded, Bound::Unbounded), usize::MAX).await
    }

    async fn page(&self, path: &str, after: &str, limit: usize) -> Result<Option<Vec<Child>>> {
        let (first, end) = dir::range(dir::FILE, "");
        let from = if after.is_empty() { first } else { Bound::Excluded(dir::file_qualifier(&Name::parse(after)?)) };
        self.children_with_attributes(path, (from, end), limit).await
    }

    async fn rename_folder(&self, from: &str, to: &str) -> Result<Verdict> {
        let (Some(source), Some(target)) = (self.spot(from).await?, self.spot(to).await?) else {
            return Ok(Verdict::Missing);
        };
        let Some(entry) = &source.directory else { return Ok(Verdict::Missing) };
        let (from, to) = (at(from)?, at(to)?);
        let mut guarded = both(source.take_directory(entry), target.put_directory(entry));
        let checks = vec![Check::Absent(dir::id_column())];
        guarded.push(ConditionalRow { table: dir::TABLE, row: to.key(), checks, changes: entry.put_cells() });
        if S::INDEXES {
            let (table, row, changes) = (dir_parent::TABLE, entry.id.key(), target.link().put_cells());
            let checks = vec![Check::Equals(dir_parent::column(), source.link().encode())];
            guarded.push(ConditionalRow { table, row, checks, changes });
        }
        match commit(&self.tables, Plan { guarded, ..Plan::default() }).await? {
            Verdict::Done => self.carry(&from, &to).await,
            refused => Ok(refused),
        }
    }

    async fn move_file(&self, from: &str, to: &str) -> Result<Verdict> {
        let (Some(source), Some(target)) = (self.spot(from).await?, self.spot(to).await?) else {
            return Ok(Verdict::Missing);
        };
        let Some(file) = &source.file else { return Ok(Verdict::Missing) };
        if target.is_taken() {
            return Ok(Verdict::Exists);
        }
        let mut plan = Plan::default();
        let (mut moved, mut stays) = (file.clone(), [StayId::CREATED; 2]);
        if S::INDEXES
            && let Some(old) = &file.entry
        {
            let new = FileEntry { stay: StayId::random(), ..old.clone() };
            let positions = (source.position(old.stay), target.position(new.stay));
            plan.prepare = index_rows(file.id, &old.attributes, &positions.1).put();
            plan.finish = index_rows(file.id, &old.attributes, &positions.0).delete();
            stays = [old.stay, new.stay];
            moved = FileCell::new::<S>(new);
        }
        plan.guarded = both(source.take_file(file), target.put_file(&moved));
        plan.guarded.push(source.file_moves(file.id, stays[0], target.place(stays[1])));
        commit(&self.tables, plan).await
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        let Some(spot) = self.spot(path).await? else { return Ok(Verdict::Missing) };
        let Some(file) = &spot.file else { return Ok(Verdict::Missing) };
        let (guarded, finish) = (vec![spot.take_file(file)], spot.dropped(file));
        commit(&self.tables, Plan { guarded, finish, ..Plan::default() }).await
    }

    async fn find(&self, name: &str) -> Result<Vec<String>> {
        if S::INDEXES { self.find_in_index(name).await } else { self.find_in_directories(name).await }
    }

    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        if S::INDEXES { self.period_in_index(period).await } else { self.period_in_directories(period).await }
    }
}
