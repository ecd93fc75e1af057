//! The index rows of a file: two by time and two by creator and time (of modification and of addition), one by name. The keys
//! are the drive's own; the value says where the file is, as the layout knows it.
//!
//! An entry is one cell that is never changed: a file that moves gets cells of another qualifier, its `stay`, before its
//! row changes, and loses the old ones afterwards.

use std::ops::Bound;

use anyhow::Result;
use bytes::Bytes;
use rowdrive::schema::file::Attributes;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::index::{by_name, by_owner, by_time};
use rowdrive::schema::{CF, FileId, Name, StayId, Timestamp};
use rowdrive::table::{Change, KeyLifecycle, Row, RowChange, RowKey, RowRange, Tables};

use super::Period;
use super::rows::{LIST, Next, Table};

/// Names one position of one version of a file, in the values of its directory and of its rows.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    pub file: FileId,
    pub stay: StayId,
}

impl Ids {
    pub fn new() -> Self {
        Self { file: FileId::random(), stay: StayId::CREATED }
    }

    /// The same version at another position.
    pub fn moved(self) -> Self {
        Self { stay: StayId::random(), ..self }
    }

    pub fn encode(self) -> Vec<u8> {
        [self.file.0.as_bytes(), self.stay.as_bytes()].concat()
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        let (file, stay) = value.split_at_checked(16)?;
        Some(Self { file: FileId(uuid::Uuid::from_slice(file).ok()?), stay: StayId::from_bytes(stay)? })
    }
}

/// The index tables.
#[derive(Clone)]
pub struct Indexes {
    time: Table,
    owner: Table,
    name: Table,
}

impl Indexes {
    pub async fn create(tables: &Tables) -> Result<Self> {
        let create = async |name| Table::create(tables, (name, KeyLifecycle::Immutable), &[], &[]).await;
        let (time, owner) = (create(by_time::TABLE).await?, create(by_owner::TABLE).await?);
        Ok(Self { time, owner, name: create(by_name::TABLE).await? })
    }

    fn rows(&self, ids: Ids, attributes: &Attributes, name: &str, change: &Change) -> Result<Vec<RowChange>> {
        let Attributes { modified, added, creator, .. } = attributes;
        let row = |table: &Table, row| RowChange { table: table.name, row, changes: vec![change.clone()] };
        let mut rows = vec![row(&self.name, by_name::key(&Name::parse(name)?.folded(), ids.file))];
        for (clock, time) in [(Clock::Modified, *modified), (Clock::Added, *added)] {
            rows.push(row(&self.time, by_time::key(clock, time, ids.file)));
            rows.push(row(&self.owner, by_owner::key(creator, clock, time, ids.file)));
        }
        Ok(rows)
    }

    /// What a plan does before a file is at a position.
    pub fn put(&self, ids: Ids, attributes: &Attributes, name: &str, position: Bytes) -> Result<Vec<RowChange>> {
        self.rows(ids, attributes, name, &Change::put(CF, ids.stay.qualifier(), position))
    }

    /// What a plan does after it has left.
    pub fn delete(&self, ids: Ids, attributes: &Attributes, name: &str) -> Result<Vec<RowChange>> {
        self.rows(ids, attributes, name, &Change::delete(CF, ids.stay.qualifier()))
    }

    /// The positions of all files of this name, upper and lower case alike.
    pub async fn find(&self, name: &str) -> Result<Vec<Bytes>> {
        let mut positions = Vec::new();
        let each = |_: &RowKey, row: &Row| {
            positions.extend(row.family(CF).map(|cell| cell.value.clone()));
            Ok(Next::Row)
        };
        self.name.scan(by_name::exact(&Name::parse(name)?.folded()), LIST, each).await?;
        Ok(positions)
    }

    /// The times and positions of the next files of a period that follow this key, a page of them, and whether there are
    /// no more.
    pub async fn period(&self, period: &Period, after: &mut Option<RowKey>) -> Result<(Vec<(i64, Bytes)>, bool)> {
        let [from, to] = [period.from, period.to].map(|time| Some(Timestamp::from_ms(time)));
        let time = by_time::range(period.clock, from, to);
        let (table, mut range) = match &period.creator {
            Some(creator) => (&self.owner, by_owner::range(creator, time)),
            None => (&self.time, time),
        };
        if let Some(after) = after {
            range = RowRange { from: Bound::Excluded(after.clone()), ..range };
        }
        let mut files = Vec::new();
        let each = |key: &RowKey, row: &Row| {
            let (time, _) =
                if period.creator.is_some() { by_owner::decode_key(key) } else { by_time::decode_key(key) }?;
            files.extend(row.family(CF).map(|cell| (time.ms(), cell.value.clone())));
            *after = Some(key.clone());
            Ok(if files.len() >= period.limit { Next::Nothing } else { Next::Row })
        };
        table.scan(range, period.limit, each).await?;
        let is_last = files.len() < period.limit;
        Ok((files, is_last))
    }
}
