//! Row key = full path, files and directories in one table: reads by path are one row, a folder is a range in which
//! everything below its subfolders lies too, and a rename writes every row below it anew, with its content. Optionally
//! with index rows by time, creator and name, whose values are paths too.

use std::ops::Bound;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bytes::Bytes;
use rowdrive::schema::CF;
use rowdrive::table::{
    Change, ConditionalRow, KeyLifecycle, Plan, Row, RowChange, RowCursor, RowKey, RowQuery, RowRange, Tables,
};

use super::answers::Newest;
use super::indexes::{Ids, Indexes};
use super::rows::{CONTENT, DATA, Groups, LIST, NODE, Next, SCAN, Stored, Table, commit, pack, put_content, unpack};
use super::{Child, Layout, List, NewFile, Node, Period, Verdict, is_within, split};

pub struct FullPath {
    rows: Table,
    indexes: Option<Indexes>,
}

impl FullPath {
    pub async fn bare(tables: &Tables) -> Result<Self> {
        let rows = Table::create(tables, ("full_path", KeyLifecycle::UniqueId), &[CONTENT], NODE).await?;
        Ok(Self { rows, indexes: None })
    }

    pub async fn indexed(tables: &Tables) -> Result<Self> {
        Ok(Self { indexes: Some(Indexes::create(tables).await?), ..Self::bare(tables).await? })
    }

    async fn stored(&self, path: &str) -> Result<Option<Stored>> {
        Ok(Stored::from_row(&self.rows.get(path.as_bytes()).await?))
    }

    async fn file(&self, path: &str) -> Result<Option<Stored>> {
        Ok(self.stored(path).await?.filter(Stored::is_file))
    }

    /// The condition on the parent of a path, which the root's children do not need; none if it is no directory.
    async fn guard(&self, path: &str) -> Result<Option<Vec<ConditionalRow>>> {
        let (parent, _) = split(path);
        if parent.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let Some(stored @ Stored::Directory(_)) = self.stored(parent).await? else { return Ok(None) };
        Ok(Some(vec![self.rows.row(parent.to_owned(), vec![stored.check()], vec![])]))
    }

    /// The value of a new version of a file at a path, and its index rows.
    fn version(&self, file: &NewFile) -> Result<(Stored, Vec<RowChange>)> {
        let Some(indexes) = &self.indexes else { return Ok((Stored::file(&file.attributes), Vec::new())) };
        let (ids, path) = (Ids::new(), file.path.clone());
        let value = [pack(&file.attributes), ids.encode()].concat();
        Ok((Stored::File(value.into()), indexes.put(ids, &file.attributes, split(&file.path).1, path.into())?))
    }

    /// The index rows that go with a file that leaves a path.
    fn unindexed(&self, path: &str, stored: &Stored) -> Result<Vec<RowChange>> {
        let (Some(indexes), Stored::File(value)) = (&self.indexes, stored) else { return Ok(Vec::new()) };
        let (attributes, rest) = unpack(value)?;
        indexes.delete(Ids::decode(rest).context("a file lacks its ids")?, &attributes, split(path).1)
    }

    /// A node goes to another path, with the content that it has.
    fn moved(&self, from: &str, to: &str, stored: &Stored, content: Option<Bytes>) -> Result<Plan> {
        let (mut new, mut prepare) = (stored.clone(), Vec::new());
        if let (Some(indexes), Stored::File(value)) = (&self.indexes, stored) {
            let (attributes, rest) = unpack(value)?;
            let ids = Ids::decode(rest).context("a file lacks its ids")?.moved();
            new = Stored::File([pack(&attributes), ids.encode()].concat().into());
            prepare = indexes.put(ids, &attributes, split(to).1, to.to_owned().into())?;
        }
        let content = content.as_ref().and_then(put_content);
        let removed = self.removed(from, stored, content.is_some());
        let puts = [new.put()].into_iter().chain(content).collect();
        let guarded = vec![self.rows.row(to.to_owned(), Stored::absent(), puts), removed];
        Ok(Plan { prepare, guarded, finish: self.unindexed(from, stored)?, ..Plan::default() })
    }

    fn removed(&self, path: &str, stored: &Stored, has_content: bool) -> ConditionalRow {
        let mut changes = vec![stored.take()];
        if has_content {
            changes.push(Change::delete(CONTENT, DATA));
        }
        self.rows.row(path.to_owned(), vec![stored.check()], changes)
    }

    /// Moves what lies below a renamed directory.
    async fn carry(&self, from: &str, to: &str) -> Result<()> {
        let mut groups = Groups::new(&self.rows.tables);
        let query = RowQuery::families(&[CF, CONTENT]);
        let mut rows = RowCursor::new(self.rows.name, below(from), query, LIST);
        while let Some(some) = rows.next(&self.rows.tables).await? {
            for (key, row) in some {
                let old = std::str::from_utf8(&key)?;
                let Some(stored) = Stored::from_row(&row) else { continue };
                let new = format!("{to}{}", old.get(from.len()..).unwrap_or_default());
                groups.add(self.moved(old, &new, &stored, row.get(CONTENT, DATA).cloned())?).await?;
            }
        }
        groups.done().await
    }
}

/// All rows below a path.
fn below(path: &str) -> RowRange {
    let bound = |end: &str| RowKey::from(format!("{path}{end}"));
    RowRange { from: Bound::Included(bound("/")), to: Bound::Excluded(bound("0")) }
}

#[async_trait]
impl Layout for FullPath {
    async fn mkdir(&self, path: &str) -> Result<Verdict> {
        let Some(mut guarded) = self.guard(path).await? else { return Ok(Verdict::Missing) };
        let directory = Stored::Directory(Bytes::from_static(b"d"));
        guarded.push(self.rows.row(path.to_owned(), Stored::absent(), vec![directory.put()]));
        self.rows.commit(guarded).await
    }

    async fn put(&self, file: &NewFile, is_new: bool) -> Result<Verdict> {
        let (new, prepare) = self.version(file)?;
        let mut plan = Plan { prepare, ..Plan::default() };
        let mut checks = Stored::absent();
        if is_new {
            let Some(guarded) = self.guard(&file.path).await? else { return Ok(Verdict::Missing) };
            plan.guarded = guarded;
        } else {
            let Some(old) = self.file(&file.path).await? else { return Ok(Verdict::Missing) };
            (checks, plan.finish) = (vec![old.check()], self.unindexed(&file.path, &old)?);
        }
        let changes = [new.put()].into_iter().chain(put_content(&file.content)).collect();
        plan.guarded.push(self.rows.row(file.path.clone(), checks, changes));
        commit(&self.rows.tables, plan).await
    }

    async fn stat(&self, path: &str) -> Result<Option<Node>> {
        self.stored(path).await?.map(|stored| stored.node()).transpose()
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        match self.file(path).await? {
            Some(_) => self.rows.content(path.as_bytes()).await.map(Some),
            None => Ok(None),
        }
    }

    async fn list(&self, path: &str, ask: &List) -> Result<Option<Vec<Child>>> {
        if !path.is_empty() && !matches!(self.stored(path).await?, Some(Stored::Directory(_))) {
            return Ok(None);
        }
        let prefix = format!("{path}/");
        let mut range = below(path);
        if !ask.after().is_empty() {
            range.from = Bound::Excluded(format!("{prefix}{}", ask.after()).into());
        }
        let mut children = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            let name = std::str::from_utf8(key.get(prefix.len()..).unwrap_or_default())?;
            // All rows below a folder follow it somewhere: the scan leaps over them, since `0` follows `/`.
            if let Some((folder, _)) = name.split_once('/') {
                return Ok(Next::Leap(format!("{prefix}{folder}0").into()));
            }
            children.extend(Stored::child(row, name, ask)?);
            Ok(if children.len() >= ask.limit() { Next::Nothing } else { Next::Row })
        };
        self.rows.scan(range, LIST.min(ask.limit()), each).await?;
        Ok(Some(children))
    }

    async fn rename(&self, from: &str, to: &str) -> Result<Verdict> {
        let Some(stored) = self.stored(from).await? else { return Ok(Verdict::Missing) };
        let Some(mut guarded) = self.guard(to).await? else { return Ok(Verdict::Missing) };
        let content = if stored.is_file() { Some(self.rows.content(from.as_bytes()).await?) } else { None };
        let mut plan = self.moved(from, to, &stored, content)?;
        plan.guarded.append(&mut guarded);
        match commit(&self.rows.tables, plan).await? {
            Verdict::Done if !stored.is_file() => self.carry(from, to).await.map(|()| Verdict::Done),
            verdict => Ok(verdict),
        }
    }

    async fn delete(&self, path: &str) -> Result<Verdict> {
        let Some(stored) = self.file(path).await? else { return Ok(Verdict::Missing) };
        let finish = self.unindexed(path, &stored)?;
        let guarded = vec![self.removed(path, &stored, true)];
        commit(&self.rows.tables, Plan { guarded, finish, ..Plan::default() }).await
    }

    /// Without an index every row is read.
    async fn find(&self, wanted: &str) -> Result<Vec<String>> {
        if let Some(indexes) = &self.indexes {
            let found = indexes.find(wanted).await?.into_iter().map(|path| Ok(std::str::from_utf8(&path)?.to_owned()));
            let found: Result<Vec<String>> = found.collect();
            return Ok(found?.into_iter().filter(|path| split(path).1 == wanted).collect());
        }
        let mut found = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            let path = std::str::from_utf8(key)?;
            if split(path).1 == wanted && Stored::from_row(row).is_some_and(|stored| stored.is_file()) {
                found.push(path.to_owned());
            }
            Ok(Next::Row)
        };
        self.rows.scan(RowRange::all(), SCAN, each).await?;
        Ok(found)
    }

    /// Without an index every row below the directory is read.
    async fn period(&self, period: &Period) -> Result<Vec<(i64, String)>> {
        if let Some(indexes) = &self.indexes {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let (page, is_last) = indexes.period(period, &mut after).await?;
                for (time, path) in page {
                    let path = std::str::from_utf8(&path)?;
                    if is_within(path, &period.under) {
                        found.push((time, path.to_owned()));
                    }
                }
                if is_last || found.len() >= period.limit {
                    found.truncate(period.limit);
                    return Ok(found);
                }
            }
        }
        let mut newest = Newest::new(period);
        let each = |key: &RowKey, row: &Row| {
            if let Some(Stored::File(value)) = Stored::from_row(row) {
                newest.offer(&unpack(&value)?.0, || key.clone());
            }
            Ok(Next::Row)
        };
        self.rows.scan(below(&period.under), SCAN, each).await?;
        let named = newest.done().into_iter().map(|(time, key)| Ok((time, std::str::from_utf8(&key)?.to_owned())));
        named.collect()
    }
}
