//! What the layouts in a store share: tables, scans, and commits.

use std::ops::Bound;

use anyhow::{Result, ensure};
use bytes::Bytes;
use rowdrive::schema::CF;
use rowdrive::table::spec::{CellSize, Compression};
use rowdrive::table::{
    Change, Check, Column, ConditionalRow, FamilySpec, KeyLifecycle, Outcome, Plan, Row, RowChange, RowKey, RowQuery,
    RowRange, ScanQuery, TableSpec, Tables,
};
use tokio::task::JoinSet;

use super::Verdict;
use super::stored::{CONTENT, DATA, NODE, Stored, absent};

/// Rows of a scan that are read at a time; of a folder fewer, which the engine reads from memory at once.
pub const SCAN: usize = if cfg!(test) { 2 } else { 5_000 };
pub const LIST: usize = if cfg!(test) { 2 } else { 1_000 };
/// Cells that one commit of a rename changes, unless one group has more; its bytes; and commits at a time.
const CELLS: usize = if cfg!(test) { 1 } else { 2_000 };
const BYTES: usize = 1 << 20;
const AT_A_TIME: usize = if cfg!(test) { 2 } else { 16 };
/// Rows that a scan reads first, and first where it has leapt to: it may soon end, or leap again.
const FIRST: usize = 128;
const LEAPT: usize = 2;

/// A table, by its name.
#[derive(Clone)]
pub struct Table {
    pub tables: Tables,
    pub name: &'static str,
    /// All cells of `cf` that a row may have: asked for one by one, a Bloom filter knows those that are missing.
    pub cells: &'static [&'static [u8]],
}

impl Table {
    /// Makes a table of these families beside `cf`, in which rows have these cells.
    ///
    /// Tables of which a rename changes many rows are [`KeyLifecycle::UniqueId`], although their keys come back: a
    /// store changes rows without conditions only there, and [`Groups`] needs none.
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

    pub async fn content(&self, key: &[u8]) -> Result<Bytes> {
        Ok(self.tables.cell(self.name, key, CONTENT, DATA).await?.unwrap_or_default())
    }

    pub async fn last_key(&self) -> Result<Option<RowKey>> {
        let row_query = RowQuery::families(&[CF]);
        let last = ScanQuery { table: self.name, range: RowRange::all(), row_query, limit: 1, reverse: true };
        Ok(self.tables.scan(&last).await?.pop().map(|(key, _)| key))
    }

    /// Shows rows of a range in the order of their keys, so many at a time, until `see` returns [`Next::Nothing`]. After a
    /// [`Next::Leap`] it goes on at a later key.
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

    /// Hold if a row has no node.
    pub fn no_node(&self) -> Vec<Check> {
        NODE.iter().filter(|cell| self.cells.contains(cell)).map(|cell| absent(*cell)).collect()
    }

    /// The row of a node that leaves its key.
    pub fn removed(&self, key: RowKey, stored: &Stored, has_content: bool) -> ConditionalRow {
        let cells = self.cells.iter().filter(|cell| stored.has(cell)).map(|cell| Change::delete(CF, *cell));
        let content = has_content.then(|| Change::delete(CONTENT, DATA));
        self.row(key, vec![stored.check()], cells.chain(content).collect())
    }

    /// Commits at one instant, or not at all.
    pub async fn commit(&self, mut plan: Plan) -> Result<Verdict> {
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
        match self.tables.commit(plan).await? {
            Outcome::Committed => Ok(Verdict::Done),
            Outcome::Refused(refusal) if matches!(refusal.check, Check::Absent(_)) => Ok(Verdict::Exists),
            Outcome::Refused(_) => Ok(Verdict::Missing),
        }
    }
}

pub fn guarded(guarded: Vec<ConditionalRow>) -> Plan {
    Plan { guarded, ..Plan::default() }
}

/// Where a scan goes on.
pub enum Next {
    Row,
    /// At this key.
    Leap(RowKey),
    Nothing,
}

/// Commits groups of rows as they come, each group at one instant and several groups at a time: what is too much for
/// one commit, or for the memory. There is an instant at which some have happened and others have not. Nobody else
/// changes these rows, so no condition is checked.
pub struct Groups {
    table: Table,
    /// What the next commit takes, with its cells and its bytes.
    batch: (Plan, usize, usize),
    under_way: JoinSet<Result<()>>,
}

impl Groups {
    pub fn new(table: &Table) -> Self {
        Self { table: table.clone(), batch: Default::default(), under_way: JoinSet::new() }
    }

    /// Waits while as many commits are under way as may be. The conditions of the group are dropped.
    pub async fn add(&mut self, group: Plan) -> Result<()> {
        let (cells, bytes) = (group.changes(), group.bytes());
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

    async fn begin(&mut self) -> Result<()> {
        while self.under_way.len() >= AT_A_TIME {
            self.under_way.join_next().await.transpose()?.transpose()?;
        }
        let (table, (plan, ..)) = (self.table.clone(), std::mem::take(&mut self.batch));
        self.under_way.spawn(async move {
            let verdict = if plan == Plan::default() { Verdict::Done } else { table.commit(plan).await? };
            ensure!(verdict == Verdict::Done, "a commit that nothing can refuse was refused: {verdict:?}");
            Ok(())
        });
        Ok(())
    }

    pub async fn done(mut self) -> Result<()> {
        self.begin().await?;
        self.under_way.join_all().await.into_iter().collect()
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
