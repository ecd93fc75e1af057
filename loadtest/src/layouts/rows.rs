//! What the layouts in a store share: tables, one packing of attributes, conditions, and commits.

use std::ops::Bound;

use anyhow::{Context, Result};
use bytes::Bytes;
use rowdrive::schema::file::{Attributes, ContentLocation, Digest};
use rowdrive::schema::{CF, Timestamp};
use rowdrive::table::spec::{CellSize, Compression};
use rowdrive::table::{
    Change, Check, Column, ConditionalRow, FamilySpec, KeyLifecycle, Outcome, Plan, Row, RowChange, RowKey, RowQuery,
    RowRange, ScanQuery, TableSpec, Tables,
};
use tokio::task::JoinSet;

use super::{Child, List, Node, Verdict};

/// The family of content, apart from what lists read.
pub const CONTENT: &str = "c";
/// Its cell.
pub const DATA: &[u8] = b"data";
/// Rows of a scan that are read at a time; of a folder fewer, which the engine reads from memory at once.
pub const SCAN: usize = if cfg!(test) { 2 } else { 5_000 };
pub const LIST: usize = if cfg!(test) { 2 } else { 1_000 };
/// Cells that one commit of a rename changes, unless one group has more; bytes of their values; and commits at a time.
const CELLS: usize = if cfg!(test) { 1 } else { 2_000 };
const BYTES: usize = 1 << 20;
const AT_A_TIME: usize = if cfg!(test) { 2 } else { 16 };
/// Rows that a scan reads first, and first where it has leapt to: it may soon end, or leap again.
const FIRST: usize = 128;
const LEAPT: usize = 2;

/// One packing of a file's attributes for all layouts, in one value. More may follow it.
pub fn pack(attributes: &Attributes) -> Vec<u8> {
    let Attributes { size, mime, creator, modified, added, digest, .. } = attributes;
    let mut value = Vec::with_capacity(96);
    for number in [*size, modified.ms() as u64, added.ms() as u64] {
        value.extend(number.to_be_bytes());
    }
    value.extend(digest.0);
    for text in [mime, creator] {
        value.push(text.len() as u8);
        value.extend(text.as_bytes());
    }
    value
}

/// The attributes of a packed value, and what follows them.
pub fn unpack(value: &[u8]) -> Result<(Attributes, &[u8])> {
    fn split(value: &[u8], at: usize) -> Result<(&[u8], &[u8])> {
        value.split_at_checked(at).context("packed attributes are cut off")
    }
    fn number(value: &[u8]) -> Result<(u64, &[u8])> {
        let (number, rest) = split(value, 8)?;
        Ok((u64::from_be_bytes(number.try_into()?), rest))
    }
    fn text(value: &[u8]) -> Result<(String, &[u8])> {
        let (length, rest) = split(value, 1)?;
        let (text, rest) = split(rest, length.first().copied().unwrap_or_default().into())?;
        Ok((std::str::from_utf8(text)?.to_owned(), rest))
    }
    let (size, rest) = number(value)?;
    let (modified, rest) = number(rest)?;
    let (added, rest) = number(rest)?;
    let (digest, rest) = split(rest, 32)?;
    let (mime, rest) = text(rest)?;
    let (creator, rest) = text(rest)?;
    let [modified, added] = [modified, added].map(|time| Timestamp::from_ms(time as i64));
    let digest = Digest(digest.try_into()?);
    Ok((Attributes { size, mime, creator, modified, added, digest, location: ContentLocation::Inline }, rest))
}

/// The node of a row that holds one: the value of its cell.
#[derive(Clone, Debug)]
pub enum Stored {
    /// An id, where directories have one.
    Directory(Bytes),
    /// Packed attributes, and what the layout adds.
    File(Bytes),
}

pub const FILE: &[u8] = b"f";
pub const DIRECTORY: &[u8] = b"d";

impl Stored {
    pub fn file(attributes: &Attributes) -> Self {
        Self::File(pack(attributes).into())
    }

    pub fn from_row(row: &Row) -> Option<Self> {
        let directory = row.get(CF, DIRECTORY).map(|value| Self::Directory(value.clone()));
        directory.or_else(|| row.get(CF, FILE).map(|value| Self::File(value.clone())))
    }

    pub fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    pub fn node(&self) -> Result<Node> {
        Ok(match self {
            Self::Directory(_) => Node::Directory,
            Self::File(value) => Node::File(unpack(value)?.0),
        })
    }

    fn cell(&self) -> (&'static [u8], &Bytes) {
        match self {
            Self::Directory(id) => (DIRECTORY, id),
            Self::File(value) => (FILE, value),
        }
    }

    pub fn put(&self) -> Change {
        let (qualifier, value) = self.cell();
        Change::put(CF, qualifier, value.clone())
    }

    pub fn take(&self) -> Change {
        Change::delete(CF, self.cell().0)
    }

    /// Whether a change is of the cell of a node.
    pub fn is_cell(change: &Change) -> bool {
        change.qualifier().is_some_and(|cell| NODE.contains(&&cell[..]))
    }

    /// Holds if a row has this very node.
    pub fn check(&self) -> Check {
        let (qualifier, value) = self.cell();
        equals(qualifier, value.clone())
    }

    /// Hold if a row has no node.
    pub fn absent() -> Vec<Check> {
        [FILE, DIRECTORY].map(absent).to_vec()
    }

    /// Holds if a row that can have no directory has no node.
    pub fn no_file() -> Vec<Check> {
        vec![absent(FILE)]
    }

    /// What a list answers of the row of a child; none if it is not asked for.
    pub fn child(row: &Row, name: &str, ask: &List) -> Result<Option<Child>> {
        let Some(stored) = Self::from_row(row) else { return Ok(None) };
        let node = match ask {
            List::Names => None,
            List::Attributes => Some(stored.node()?),
            List::Page { .. } if !stored.is_file() => return Ok(None),
            List::Page { after, .. } if name <= after.as_str() => return Ok(None),
            List::Page { .. } => Some(stored.node()?),
        };
        Ok(Some(Child { name: name.to_owned(), node }))
    }
}

pub fn absent(qualifier: impl Into<Bytes>) -> Check {
    Check::Absent(Column::new(CF, qualifier))
}

pub fn equals(qualifier: impl Into<Bytes>, value: impl Into<Bytes>) -> Check {
    Check::Equals(Column::new(CF, qualifier), value.into())
}

/// The content of a new file, if it has any.
pub fn put_content(content: &Bytes) -> Option<Change> {
    (!content.is_empty()).then(|| Change::put(CONTENT, DATA, content.clone()))
}

/// The cells of a row that holds one node.
pub const NODE: &[&[u8]] = &[FILE, DIRECTORY];

/// A table, by its name.
#[derive(Clone)]
pub struct Table {
    pub tables: Tables,
    pub name: &'static str,
    /// All cells of `cf` that a row may have: asked for one by one, a Bloom filter knows those that are missing.
    cells: &'static [&'static [u8]],
}

impl Table {
    /// Makes a table of these families beside `cf`, in which rows have these cells.
    ///
    /// Tables of which a rename changes many rows are [`KeyLifecycle::UniqueId`], although their keys come back: a store
    /// changes rows without conditions only there, and [`Groups`] needs none.
    pub async fn create(
        tables: &Tables,
        (name, lifecycle): (&'static str, KeyLifecycle),
        more: &[&str],
        cells: &'static [&'static [u8]],
    ) -> Result<Self> {
        let family = |name: &str| FamilySpec {
            name: name.into(),
            bloom: name != CONTENT,
            cells: if name == CONTENT { CellSize::Large } else { CellSize::Small },
            compression: if name == CONTENT { Compression::None } else { Compression::default() },
        };
        let families = [CF].iter().chain(more).map(|name| family(name)).collect();
        tables.create(&TableSpec { name: name.into(), lifecycle, families }).await?;
        Ok(Self { tables: tables.clone(), name, cells })
    }

    fn row_query(&self) -> RowQuery {
        RowQuery::cells(self.cells.iter().map(|cell| Column::new(CF, *cell)).collect())
    }

    /// The cells of a row but for content.
    pub async fn get(&self, key: &[u8]) -> Result<Row> {
        Ok(self.tables.get(self.name, key, &self.row_query()).await?)
    }

    pub async fn get_many(&self, keys: impl Iterator<Item = Bytes>) -> Result<Vec<Row>> {
        let queries: Vec<_> = keys.map(|key| (key, self.row_query())).collect();
        Ok(self.tables.get_many(self.name, &queries).await?)
    }

    /// Deletes all cells of a row but for content.
    pub fn delete_cells(&self) -> impl Iterator<Item = Change> {
        self.cells.iter().map(|cell| Change::delete(CF, *cell))
    }

    pub async fn content(&self, key: &[u8]) -> Result<Bytes> {
        Ok(self.tables.cell(self.name, key, CONTENT, DATA).await?.unwrap_or_default())
    }

    pub async fn last_key(&self) -> Result<Option<RowKey>> {
        let row_query = RowQuery::families(&[CF]);
        let last = ScanQuery { table: self.name, range: RowRange::all(), row_query, limit: 1, reverse: true };
        Ok(self.tables.scan(&last).await?.into_iter().next().map(|(key, _)| key))
    }

    /// Shows rows of a range in the order of their keys, so many at a time, until `see` returns none or a later start.
    pub async fn scan(
        &self,
        mut range: RowRange,
        at_a_time: usize,
        mut see: impl FnMut(&RowKey, &Row) -> Result<Next> + Send,
    ) -> Result<()> {
        let (mut row_query, mut limit) = (RowQuery::families(&[CF]), at_a_time.min(FIRST));
        loop {
            let query = ScanQuery { table: self.name, range, row_query, limit, reverse: false };
            let rows = self.tables.scan(&query).await?;
            ScanQuery { range, row_query, .. } = query;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            range.from = Bound::Excluded(last.clone());
            let mut is_last = rows.len() < limit;
            limit = at_a_time.min(limit * 8);
            for (key, row) in &rows {
                match see(key, row)? {
                    Next::Row => {}
                    Next::Leap(to) => {
                        range.from = Bound::Included(to);
                        (is_last, limit) = (false, at_a_time.min(LEAPT));
                        break;
                    }
                    Next::Nothing => return Ok(()),
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    pub fn row(&self, key: impl Into<Bytes>, checks: Vec<Check>, changes: Vec<Change>) -> ConditionalRow {
        ConditionalRow { table: self.name, row: key.into(), checks, changes }
    }

    /// Commits at one instant, or not at all.
    pub async fn commit(&self, guarded: Vec<ConditionalRow>) -> Result<Verdict> {
        commit(&self.tables, Plan { guarded, ..Plan::default() }).await
    }
}

/// Where a scan goes on.
pub enum Next {
    Row,
    /// At this key.
    Leap(RowKey),
    Nothing,
}

/// At one instant, or not at all.
pub async fn commit(tables: &Tables, mut plan: Plan) -> Result<Verdict> {
    // A plan names a row once.
    let mut merged: Vec<ConditionalRow> = Vec::with_capacity(plan.guarded.len());
    for row in plan.guarded {
        match merged.iter_mut().find(|same| same.table == row.table && same.row == row.row) {
            Some(same) => {
                same.checks.extend(row.checks);
                same.changes.extend(row.changes);
            }
            None => merged.push(row),
        }
    }
    plan.guarded = merged;
    match tables.commit(plan).await? {
        Outcome::Committed => Ok(Verdict::Done),
        Outcome::Refused(refusal) if matches!(refusal.check, Check::Absent(_)) => Ok(Verdict::Exists),
        Outcome::Refused(_) => Ok(Verdict::Missing),
    }
}

/// Commits groups of rows as they come, each group at one instant and several groups at a time: what is too much for one
/// commit, or for the memory. There is an instant at which some have happened and others have not. Nobody else changes
/// these rows, so no condition is checked.
pub struct Groups {
    tables: Tables,
    /// What the next commit takes, with its cells and the bytes of their values.
    batch: (Plan, usize, usize),
    under_way: JoinSet<Result<Verdict>>,
}

impl Groups {
    pub fn new(tables: &Tables) -> Self {
        Self { tables: tables.clone(), batch: Default::default(), under_way: JoinSet::new() }
    }

    /// Waits while as many commits are under way as may be. The conditions of the group are dropped.
    pub async fn add(&mut self, group: Plan) -> Result<()> {
        let (cells, bytes) = (group.changes(), bytes(&group));
        let (_, all_cells, all_bytes) = &self.batch;
        if all_cells + cells > CELLS || all_bytes + bytes > BYTES {
            self.begin().await?;
        }
        let (batch, all_cells, all_bytes) = &mut self.batch;
        for ConditionalRow { table, row, changes, .. } in group.guarded {
            let (puts, deletes): (Vec<_>, Vec<_>) = changes.into_iter().partition(Change::is_put);
            add_changes(&mut batch.prepare, RowChange { table, row: row.clone(), changes: puts });
            add_changes(&mut batch.finish, RowChange { table, row, changes: deletes });
        }
        batch.prepare.extend(group.prepare);
        batch.finish.extend(group.finish);
        (*all_cells, *all_bytes) = (*all_cells + cells, *all_bytes + bytes);
        Ok(())
    }

    /// Begins to commit what has come.
    async fn begin(&mut self) -> Result<()> {
        if self.under_way.len() >= AT_A_TIME {
            self.one_done().await?;
        }
        let (tables, (plan, ..)) = (self.tables.clone(), std::mem::take(&mut self.batch));
        if !plan.prepare.is_empty() || !plan.finish.is_empty() {
            self.under_way.spawn(async move { commit(&tables, plan).await });
        }
        Ok(())
    }

    async fn one_done(&mut self) -> Result<()> {
        match self.under_way.join_next().await.transpose()?.transpose()? {
            None | Some(Verdict::Done) => Ok(()),
            Some(verdict) => anyhow::bail!("a commit that nothing can refuse was refused: {verdict:?}"),
        }
    }

    /// When all that came is committed.
    pub async fn done(mut self) -> Result<()> {
        self.begin().await?;
        while !self.under_way.is_empty() {
            self.one_done().await?;
        }
        Ok(())
    }
}

/// Adds the changes of a row, which a plan names once: the pages of one row come after one another.
fn add_changes(rows: &mut Vec<RowChange>, more: RowChange) {
    match rows.last_mut().filter(|last| last.table == more.table && last.row == more.row) {
        Some(same) => same.changes.extend(more.changes),
        None if more.changes.is_empty() => {}
        None => rows.push(more),
    }
}

/// Bytes that a plan puts.
fn bytes(plan: &Plan) -> usize {
    let value = |change: &Change| if let Change::Put { value, .. } = change { value.len() } else { 0 };
    plan.guarded.iter().flat_map(|row| &row.changes).map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_their_packing_and_what_follows_is_returned() {
        let attributes = crate::data::attributes(1_700_000_000_123);
        let value = [&pack(&attributes)[..], b"more"].concat();
        assert_eq!(unpack(&value).unwrap(), (attributes, &b"more"[..]));
        assert!(unpack(&value[..20]).is_err() && unpack(&value[..60]).is_err());
    }
}
