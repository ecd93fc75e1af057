//! A table of rows that hold one node each: what the layouts made by hand are built of.

use std::ops::Bound;

use anyhow::Result;
use bytes::Bytes;
use futures_util::future::ready;
use futures_util::{StreamExt, TryStreamExt, stream};
use rowdrive::schema::dir::{DirEntry, FileEntry};
use rowdrive::schema::file::Attributes;
use rowdrive::schema::{CF, DirId, FileId, StayId, Timestamp};
use rowdrive::table::spec::CellSize;
use rowdrive::table::{
    Change, Check, Column, ConditionalRow, FamilySpec, KeyLifecycle, Outcome, Plan, Row, RowCursor, RowKey, RowQuery,
    RowRange, ScanQuery, TableSpec, Tables,
};

use super::{Child, Node, Verdict};

const FILE: &[u8] = b"f";
const DIRECTORY: &[u8] = b"d";
/// Rows of a scan that are read at a time.
const SCAN: usize = if cfg!(test) { 2 } else { 5_000 };
/// Rows of a folder that are read at a time, which the engine reads from memory at once if they are few.
pub const LIST: usize = if cfg!(test) { 2 } else { 1_000 };
/// Rows that one commit of a rename changes, and commits of it at a time.
const BATCH: usize = 100;
const AT_A_TIME: usize = 16;

/// What a row holds: the values that the drive itself keeps of a name, so that all layouts store the same bytes.
#[derive(Clone, Debug)]
pub enum Stored {
    Directory(DirEntry),
    File(FileEntry),
}

impl Stored {
    pub fn directory(id: DirId) -> Self {
        Self::Directory(DirEntry { id, creator: "loadtest".into(), created: Timestamp::from_ms(0) })
    }

    pub fn file(attributes: &Attributes) -> Self {
        Self::File(FileEntry { id: FileId::random(), stay: StayId::CREATED, attributes: attributes.clone() })
    }

    /// None if the row holds none.
    pub fn of(row: &Row) -> Result<Option<Self>> {
        Ok(match (row.get(CF, DIRECTORY), row.get(CF, FILE)) {
            (Some(value), _) => Some(Self::Directory(DirEntry::decode(value)?)),
            (None, Some(value)) => Some(Self::File(FileEntry::decode(value)?)),
            (None, None) => None,
        })
    }

    pub fn node(self) -> Node {
        match self {
            Self::Directory(_) => Node::Directory,
            Self::File(entry) => Node::File(entry.attributes),
        }
    }

    fn cell(&self) -> (Column, Bytes) {
        match self {
            Self::Directory(entry) => (Column::new(CF, DIRECTORY), entry.encode()),
            Self::File(entry) => (Column::new(CF, FILE), entry.encode()),
        }
    }
}

/// Whether a row is a directory's, without a look at its value.
pub fn is_directory(row: &Row) -> bool {
    row.get(CF, DIRECTORY).is_some()
}

/// What a list takes of the row of a child: its name.
pub fn name(name: &str, _: &Row) -> Result<Option<String>> {
    Ok(Some(name.to_owned()))
}

/// What a list with attributes takes.
pub fn child(name: &str, row: &Row) -> Result<Option<Child>> {
    Ok(Stored::of(row)?.map(|stored| Child { name: name.to_owned(), node: stored.node() }))
}

/// What a page of files takes.
pub fn file(name: &str, row: &Row) -> Result<Option<Child>> {
    if is_directory(row) { Ok(None) } else { child(name, row) }
}

/// When the file of a row was modified, in milliseconds; none for a directory.
pub fn modified(row: &Row) -> Result<Option<i64>> {
    let Some(value) = row.get(CF, FILE) else { return Ok(None) };
    Ok(Some(FileEntry::decode(value)?.attributes.modified.ms()))
}

#[derive(Clone)]
pub struct Rows {
    tables: Tables,
    table: &'static str,
}

impl Rows {
    pub async fn create(tables: Tables, table: &'static str) -> Result<Self> {
        let cf = FamilySpec { name: CF.into(), bloom: true, cells: CellSize::Small, compression: Default::default() };
        tables.create(&TableSpec { name: table.into(), lifecycle: KeyLifecycle::Reusable, families: vec![cf] }).await?;
        Ok(Self { tables, table })
    }

    pub async fn get(&self, key: &[u8]) -> Result<Row> {
        Ok(self.tables.get(self.table, key, &RowQuery::families(&[CF])).await?)
    }

    pub async fn stored(&self, key: &[u8]) -> Result<Option<Stored>> {
        Stored::of(&self.get(key).await?)
    }

    /// The first rows of a range.
    pub async fn some(&self, range: &RowRange, limit: usize) -> Result<Vec<(RowKey, Row)>> {
        let (table, range, ask) = (self.table, range.clone(), RowQuery::families(&[CF]));
        Ok(self.tables.scan(&ScanQuery { table, range, row_query: ask, limit, reverse: false }).await?)
    }

    pub async fn last_key(&self) -> Result<Option<RowKey>> {
        let ask = RowQuery::families(&[CF]);
        let last = ScanQuery { table: self.table, range: RowRange::all(), row_query: ask, limit: 1, reverse: true };
        Ok(self.tables.scan(&last).await?.into_iter().next().map(|(key, _)| key))
    }

    /// Shows all rows of a range, in the order of their keys.
    pub async fn scan(&self, range: RowRange, see: impl FnMut(&RowKey, &Row) -> Result<()> + Send) -> Result<()> {
        self.scan_by(SCAN, range, see).await
    }

    /// As [`scan`](Self::scan), for the rows of one folder.
    pub async fn list(&self, range: RowRange, see: impl FnMut(&RowKey, &Row) -> Result<()> + Send) -> Result<()> {
        self.scan_by(LIST, range, see).await
    }

    async fn scan_by(
        &self,
        at_a_time: usize,
        range: RowRange,
        mut see: impl FnMut(&RowKey, &Row) -> Result<()> + Send,
    ) -> Result<()> {
        let mut cursor = RowCursor::new(self.table, range, RowQuery::families(&[CF]), at_a_time);
        while let Some(rows) = cursor.next(&self.tables).await? {
            rows.iter().try_for_each(|(key, row)| see(key, row))?;
        }
        Ok(())
    }

    /// Files of the rows that start so, whose names follow: `limit` of them at most, in the order of their names.
    pub async fn files_after(&self, start: &[u8], after: &str, limit: usize) -> Result<Vec<Child>> {
        let mut range =
            RowRange { from: Bound::Excluded([start, after.as_bytes()].concat().into()), ..RowRange::prefix(start) };
        let mut files = Vec::new();
        while files.len() < limit {
            let rows = self.some(&range, limit - files.len()).await?;
            let Some((last, _)) = rows.last() else { break };
            range.from = Bound::Excluded(last.clone());
            for (key, row) in &rows {
                files.extend(file(std::str::from_utf8(key.get(start.len()..).unwrap_or_default())?, row)?);
            }
        }
        Ok(files)
    }

    /// A row that must not be there.
    pub fn absent(&self, key: impl Into<Bytes>) -> ConditionalRow {
        let checks = [FILE, DIRECTORY].map(|q| Check::Absent(Column::new(CF, q))).to_vec();
        ConditionalRow { table: self.table, row: key.into(), checks, changes: vec![] }
    }

    /// A new row.
    pub fn added(&self, key: impl Into<Bytes>, stored: &Stored, cells: Vec<Change>) -> ConditionalRow {
        let (Column { family, qualifier }, value) = stored.cell();
        let mut absent = self.absent(key);
        absent.changes = cells;
        absent.changes.push(Change::Put { family, qualifier, value });
        absent
    }

    /// A row that must be there as it was read.
    pub fn kept(&self, key: impl Into<Bytes>, stored: &Stored) -> ConditionalRow {
        let (column, value) = stored.cell();
        ConditionalRow {
            table: self.table,
            row: key.into(),
            checks: vec![Check::Equals(column, value)],
            changes: vec![],
        }
    }

    /// A row that goes, with these cells beside its node's.
    pub fn removed(&self, key: impl Into<Bytes>, stored: &Stored, cells: &[&'static [u8]]) -> ConditionalRow {
        let mut kept = self.kept(key, stored);
        kept.changes.push(Change::delete(CF, stored.cell().0.qualifier));
        kept.changes.extend(cells.iter().map(|qualifier| Change::delete(CF, *qualifier)));
        kept
    }

    /// A row whose node changes, or cells beside it.
    pub fn changed(&self, key: impl Into<Bytes>, old: &Stored, new: &Stored, cells: Vec<Change>) -> ConditionalRow {
        let (Column { family, qualifier }, value) = new.cell();
        let mut kept = self.kept(key, old);
        kept.changes.extend(cells);
        kept.changes.push(Change::Put { family, qualifier, value });
        kept
    }

    /// As [`commit`].
    pub async fn commit(&self, guarded: Vec<ConditionalRow>) -> Result<Verdict> {
        commit(&self.tables, Plan { guarded, ..Plan::default() }).await
    }

    /// As [`commit_groups`].
    pub async fn commit_groups(&self, groups: Vec<Vec<ConditionalRow>>) -> Result<Verdict> {
        commit_groups(&self.tables, groups).await
    }
}

/// At one instant, or not at all.
pub async fn commit(tables: &Tables, plan: Plan) -> Result<Verdict> {
    match tables.commit(plan).await? {
        Outcome::Committed => Ok(Verdict::Done),
        Outcome::Refused(refusal) if matches!(refusal.check, Check::Absent(_)) => Ok(Verdict::Exists),
        Outcome::Refused(_) => Ok(Verdict::Missing),
    }
}

/// Each group at one instant, several groups at a time: what is too much for one commit. There is an instant at which
/// some have happened and others have not.
pub async fn commit_groups(tables: &Tables, groups: Vec<Vec<ConditionalRow>>) -> Result<Verdict> {
    let mut batches: Vec<Vec<ConditionalRow>> = Vec::new();
    // A plan names a row once.
    let apart = |batch: &[ConditionalRow], group: &[ConditionalRow]| {
        !batch.iter().any(|old| group.iter().any(|new| old.row == new.row))
    };
    for group in groups {
        match batches.last_mut() {
            Some(batch) if batch.len() + group.len() <= BATCH && apart(batch, &group) => batch.extend(group),
            _ => batches.push(group),
        }
    }
    let plans = batches.into_iter().map(|guarded| Plan { guarded, ..Plan::default() });
    let commits = stream::iter(plans).map(|plan| commit(tables, plan)).buffer_unordered(AT_A_TIME);
    let refused = commits.try_filter(|verdict| ready(*verdict != Verdict::Done)).try_collect::<Vec<_>>().await?;
    Ok(refused.first().copied().unwrap_or(Verdict::Done))
}
