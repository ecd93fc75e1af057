//! Packs file rows that have a cell for each attribute: the data step of migration 5.

use futures_util::future::try_join_all;

use super::{MigrateError, Result};
use crate::schema::{CF, ValueError, file, file_row};
use crate::table::limits::GUARDED_ROWS;
use crate::table::{ConditionalRow, Outcome, Plan, RowCursor, RowQuery, RowRange, StoreError, Tables};

/// Plans under way at a time: they share a sync.
const PLANS: usize = 8;
/// Rows between two lines of the log.
const ROWS_A_LINE: usize = 100_000;
/// Disk space that packing takes for a row, at most: until a compaction, the old cells and their deletes are there too.
const BYTES_A_ROW: u64 = 1 << 10;

/// Reads all file rows, asks for disk space to pack them, and changes nothing. A row that [`pack`] could not read is an
/// error here too.
///
/// `found`: the schema version before this start; `version`: the present one.
pub async fn check(tables: &Tables, found: u32, version: u32) -> Result<()> {
    let rows = unpacked(tables).await?;
    match tables.has_space_for(rows * BYTES_A_ROW).await {
        Err(StoreError::Full(cause)) => {
            Err(MigrateError::NoSpace { rows, mebibytes: mebibytes(rows), cause, found, version })
        }
        has_space => Ok(has_space?),
    }
}

/// Packs all file rows. Safe to repeat: each row changes at one instant, and a packed row is passed.
///
/// Of a row that is damaged at most the position is packed, with a line in the log: the file of it may be read all the
/// same, and `rowdrive check` reports the row.
pub async fn pack(tables: &Tables) -> Result<()> {
    let mut all = rows();
    let (mut done, mut logged) = (0, 0);
    while let Some(rows) = all.next(tables).await? {
        let mut packed = Vec::with_capacity(rows.len());
        for (key, row) in &rows {
            packed.extend(match file_row::pack(key, row) {
                Err(ValueError::Damaged { what }) => {
                    tracing::warn!(row = ?key, what, "a damaged row: what is left of its attributes stays as it is");
                    file_row::pack_position(key, row).ok().flatten()
                }
                packed => packed?,
            });
        }
        let plans = packed.chunks(GUARDED_ROWS).map(|rows| commit(tables, rows.to_vec()));
        match try_join_all(plans).await {
            Err(MigrateError::Store(StoreError::Full(cause) | StoreError::Unknown { full: true, cause })) => {
                let rows = unpacked(tables).await?;
                return Err(MigrateError::Full { rows, mebibytes: mebibytes(rows), cause });
            }
            committed => drop(committed?),
        }
        done += rows.len();
        if done - logged >= ROWS_A_LINE {
            logged = done;
            tracing::info!(rows = done, "file rows are packed");
        }
    }
    Ok(())
}

fn rows() -> RowCursor {
    RowCursor::new(file::TABLE, RowRange::all(), RowQuery::families(&[CF]), PLANS * GUARDED_ROWS)
}

/// The number of rows that are not packed, without those that are damaged.
async fn unpacked(tables: &Tables) -> Result<u64> {
    let (mut all, mut found) = (rows(), 0);
    while let Some(rows) = all.next(tables).await? {
        for (key, row) in &rows {
            match file_row::pack(key, row) {
                Ok(Some(_)) => found += 1,
                Ok(None) | Err(ValueError::Damaged { .. }) => {}
                Err(newer @ ValueError::Newer { .. }) => return Err(newer.into()),
            }
        }
    }
    Ok(found)
}

fn mebibytes(rows: u64) -> u64 {
    (rows * BYTES_A_ROW).div_ceil(1 << 20)
}

async fn commit(tables: &Tables, guarded: Vec<ConditionalRow>) -> Result<()> {
    // On a disk that fills meanwhile it may use the reserve: until all rows are packed, no program opens the store.
    match tables.commit(Plan { guarded, reserve: true, ..Plan::default() }).await? {
        Outcome::Committed => Ok(()),
        Outcome::Refused(_) => Err(MigrateError::Raced),
    }
}
