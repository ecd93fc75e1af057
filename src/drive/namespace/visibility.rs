//! Rows that an operation on a subtree has locked, as readers see them. Readers never wait.
//!
//! A row with `cf:state` is read by the phase of its operation, which is looked up *after* the row:
//!
//! | phase | closed | staged |
//! |---|---|---|
//! | prepared, aborted | live | absent |
//! | committed | absent | live, as a second read has it |
//! | no record | live, if a second read finds the mark unchanged | absent, likewise |

use std::future::Future;

use bytes::Bytes;

use super::Namespace;
use crate::drive::error::{DriveError, Result};
use crate::drive::settings::TRIES;
use crate::schema::dir::{self, RowLock};
use crate::schema::subtree_op::{self, OpRecord, Phase};
use crate::schema::{CF, DrivePath, OpId};
use crate::table::{Page, PageQuery, Row, RowKey, RowQuery};

/// How a row with a mark reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowVisibility {
    Live,
    Absent,
    /// As a second read finds it, if that has the same mark; else to be decided anew.
    LiveIfUnchanged,
    AbsentIfUnchanged,
}

/// What was read of a row, with the mark that it had.
struct Marked<T> {
    mark: Option<Bytes>,
    read: T,
}

/// The mark in a directory row that was asked for its state.
pub fn mark(row: &Row) -> Option<&Bytes> {
    row.get(CF, dir::LOCK)
}

/// A directory row as readers see it; without cells if it is absent. `query` includes `cf:id` and `cf:state`.
pub async fn row(ns: &Namespace, path: &DrivePath, query: &RowQuery) -> Result<Row> {
    let row = ns.tables.get(dir::TABLE, path.as_str().as_bytes(), query).await?;
    if mark(&row).is_none() { Ok(row) } else { locked_row(ns, path.as_str().as_bytes(), row, query).await }
}

/// Many rows, as [`row`] each.
pub async fn rows(ns: &Namespace, queries: &[(RowKey, RowQuery)]) -> Result<Vec<Row>> {
    let mut rows = ns.tables.get_many(dir::TABLE, queries).await?;
    for (row, (key, query)) in rows.iter_mut().zip(queries) {
        if mark(row).is_some() {
            *row = locked_row(ns, key, std::mem::take(row), query).await?;
        }
    }
    Ok(rows)
}

async fn locked_row(ns: &Namespace, key: &[u8], first: Row, query: &RowQuery) -> Result<Row> {
    let marked = |row: Row| Marked { mark: mark(&row).cloned(), read: row };
    let again = || async move { Ok(marked(ns.tables.get(dir::TABLE, key, query).await?)) };
    Ok(recheck(ns, marked(first), again).await?.unwrap_or_default())
}

/// A page of a directory's row as readers see it; the query holds `cf:id` and `cf:state` unchanged, in this order.
///
/// Errors: [`DriveError::NotFound`] if there is no such directory.
pub async fn page(ns: &Namespace, query: &PageQuery) -> Result<Page> {
    let marked = |page: Page| Marked {
        mark: match page.unchanged.as_slice() {
            [Some(_), state] => state.clone(),
            _ => None,
        },
        read: page,
    };
    let again = || async move { Ok(marked(ns.tables.page(query).await?)) };
    let page = recheck(ns, again().await?, again).await?;
    page.filter(|page| page.unchanged.first().is_some_and(Option::is_some)).ok_or(DriveError::NotFound)
}

/// The one recheck loop: decides by the record of the operation whether what was read counts. None if the row reads
/// as absent. `again` reads the same once more.
async fn recheck<T, F>(ns: &Namespace, mut seen: Marked<T>, again: impl Fn() -> F) -> Result<Option<T>>
where
    F: Future<Output = Result<Marked<T>>>,
{
    for _ in 0..TRIES {
        let Some(mark) = seen.mark else { return Ok(Some(seen.read)) };
        let visibility = visibility(ns, &mark).await?;
        match visibility {
            RowVisibility::Live => return Ok(Some(seen.read)),
            RowVisibility::Absent => return Ok(None),
            RowVisibility::LiveIfUnchanged | RowVisibility::AbsentIfUnchanged => seen = again().await?,
        }
        if seen.mark.as_ref() == Some(&mark) {
            return Ok(Some(seen.read).filter(|_| visibility == RowVisibility::LiveIfUnchanged));
        }
    }
    Err(DriveError::Contended)
}

/// How a row with this mark reads, by the record at this moment.
async fn visibility(ns: &Namespace, mark: &Bytes) -> Result<RowVisibility> {
    let state = RowLock::decode(mark)?;
    let phase = record(ns, state.op()).await?.map(|(phase, _)| phase);
    // Without a record the operation was aborted: a committed record is removed after all its marks.
    let live = state.is_live(phase.unwrap_or(Phase::Aborted));
    Ok(match (phase, live, state) {
        // The first read may have met a row that was staged in part.
        (Some(_), true, RowLock::Copy(_)) | (None, true, _) => RowVisibility::LiveIfUnchanged,
        (None, false, _) => RowVisibility::AbsentIfUnchanged,
        (Some(_), true, RowLock::Source(_)) => RowVisibility::Live,
        (Some(_), false, _) => RowVisibility::Absent,
    })
}

/// The record of an operation.
pub async fn record(ns: &Namespace, op: OpId) -> Result<Option<(Phase, OpRecord)>> {
    let row = ns.tables.get(subtree_op::TABLE, op.0.as_bytes(), &RowQuery::cells(subtree_op::columns())).await?;
    Ok(subtree_op::decode_record(&row)?)
}
