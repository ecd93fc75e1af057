//! What an earlier process left for the next start: it is not wrong, and what hangs on it is not stray.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;

use bytes::Bytes;

use crate::schema::dir::State;
use crate::schema::op::{self, Phase};
use crate::schema::{CF, DirId, FileId, OpId, ValueError, unlink};
use crate::table::{Ask, Row, RowKey, RowRange, ScanAsk, StoreError, Tables};

pub struct Left {
    operations: HashMap<OpId, Phase>,
    /// Content files that are to be removed.
    pub dropped: HashSet<FileId>,
    /// Content files that are where uploads are staged.
    staged: HashSet<FileId>,
    /// Directories of subtrees that were deleted and are still to be cleared away.
    pub going: HashSet<DirId>,
}

/// How a row of the directory table reads, by its mark.
pub enum Reading {
    Live,
    /// It goes, or never comes.
    Absent,
    /// Its operation has no record: the mark means nothing, and a staged row nothing either.
    Dead(State),
}

impl Left {
    pub async fn read(tables: &Tables, staged: &[FileId]) -> Result<Self, StoreError> {
        let mut operations = HashMap::new();
        for (key, row) in all(tables, op::TABLE, &Ask::cells(op::columns())).await? {
            // A record that cannot be read is none: its marks will be told.
            if let (Ok(id), Ok(Some((phase, _)))) = (op::decode_key(&key), op::record(&row)) {
                operations.insert(id, phase);
            }
        }
        let dropped = all(tables, unlink::TABLE, &Ask::families(&[CF])).await?;
        let dropped = dropped.iter().filter_map(|(key, _)| unlink::decode_key(key).ok()).collect();
        Ok(Self { operations, dropped, staged: staged.iter().copied().collect(), going: HashSet::new() })
    }

    pub fn count(&self) -> u64 {
        (self.operations.len() + self.dropped.len() + self.staged.len()) as u64
    }

    /// As readers of a running drive take it.
    pub fn reading(&self, mark: Option<&Bytes>) -> Result<Reading, ValueError> {
        let Some(mark) = mark else { return Ok(Reading::Live) };
        let state = State::decode(mark)?;
        Ok(match (self.operations.get(&state.op()), state) {
            (None, state) => Reading::Dead(state),
            (Some(Phase::Committed), State::Staged(_)) => Reading::Live,
            (Some(Phase::Prepared | Phase::Aborted), State::Closed(_)) => Reading::Live,
            (Some(_), _) => Reading::Absent,
        })
    }
}

/// All rows of a table that holds only what is still to be done.
async fn all(tables: &Tables, table: &'static str, ask: &Ask) -> Result<Vec<(RowKey, Row)>, StoreError> {
    let mut range = RowRange::all();
    let mut found = Vec::new();
    loop {
        let scan = ScanAsk { table, range: range.clone(), ask: ask.clone(), limit: 10_000, reverse: false };
        let rows = tables.scan(&scan).await?;
        let Some((last, _)) = rows.last() else { return Ok(found) };
        range.from = Bound::Excluded(last.clone());
        found.extend(rows);
    }
}
