//! Packs file rows that have a cell for each attribute: the data step of migration 5.

use futures_util::future::try_join_all;

use super::{MigrateError, Result};
use crate::schema::{CF, ValueError, file, file_row};
use crate::table::limits::GUARDED_ROWS;
use crate::table::{ConditionalRow, Outcome, Plan, Row, RowCursor, RowKey, RowQuery, RowRange, Tables};

/// Plans under way at a time: they share a sync.
const PLANS: usize = 8;
/// Rows between two lines of the log.
const ROWS_A_LINE: usize = 100_000;

/// Asks for disk space and reads all file rows, and changes nothing. A row that [`pack`] could not read is an error here
/// too.
pub async fn check(tables: &Tables) -> Result<()> {
    tables.has_space().await?;
    let mut all = rows();
    while let Some(rows) = all.next(tables).await? {
        for (key, row) in &rows {
            match file_row::pack(key, row) {
                Err(error @ ValueError::Newer { .. }) => return Err(error.into()),
                Err(ValueError::Damaged { .. }) | Ok(_) => {}
            }
        }
    }
    Ok(())
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
            packed.extend(packed_row(key, row)?);
        }
        let plans = packed.chunks(GUARDED_ROWS).map(|rows| commit(tables, rows.to_vec()));
        try_join_all(plans).await?;
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

fn packed_row(key: &RowKey, row: &Row) -> Result<Option<ConditionalRow>> {
    match file_row::pack(key, row) {
        Err(ValueError::Damaged { what }) => {
            tracing::warn!(row = ?key, what, "a damaged row: what is left of its attributes stays as it is");
            Ok(file_row::pack_position(key, row).ok().flatten())
        }
        packed => Ok(packed?),
    }
}

async fn commit(tables: &Tables, guarded: Vec<ConditionalRow>) -> Result<()> {
    // On a disk that fills meanwhile it may use the reserve: until all rows are packed, no program opens the store.
    match tables.commit(Plan { guarded, reserve: true, ..Plan::default() }).await? {
        Outcome::Committed => Ok(()),
        Outcome::Refused(_) => Err(MigrateError::Raced),
    }
}
