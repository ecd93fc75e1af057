//! Rows that a subtree operation has locked, as readers see them. Readers never wait.
//!
//! A row without the cell `cf:state` is live. A locked row is live or absent by the phase of its operation:
//!
//! | phase | locked as the source | locked as a copy |
//! |---|---|---|
//! | prepared, aborted | live | absent |
//! | committed | absent | live, as a second read finds it |
//! | no record | live, if a second read finds the same lock | absent, likewise |
//!
//! The order is row, then record. The commit of the record is the instant of the operation, for all its rows at once.
//! An older read of the record could still say *prepared* after the commit: the reader would find the directory at its
//! old path although the move is answered.
//!
//! Two cases need the row again, since the row and its lock may have changed between the two reads:
//!
//! - A copy of a committed operation: the first read may have found it half copied, before the commit.
//! - No record: the operation was aborted, or its finish is complete. A changed lock means that the row is decided
//!   again.

use std::future::Future;

use bytes::Bytes;

use super::Namespace;
use crate::drive::error::{DriveError, Result};
use crate::drive::settings::TRIES;
use crate::schema::dir::{self, RowLock};
use crate::schema::subtree_op::{self, OpRecord, Phase};
use crate::schema::{CF, DrivePath, OpId};
use crate::table::{Page, PageQuery, Row, RowKey, RowQuery};

/// How readers see a locked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowVisibility {
    Live,
    Absent,
    /// As a second read finds it, if that finds the same lock; else it is decided again.
    LiveIfUnchanged,
    AbsentIfUnchanged,
}

/// What was read of a row, with the lock that it had at that instant.
struct ReadWithLock<T> {
    lock: Option<Bytes>,
    read: T,
}

/// The lock of a directory row; the query must have asked for `cf:state`.
pub fn lock_of(row: &Row) -> Option<&Bytes> {
    row.get(CF, dir::LOCK)
}

/// A directory row as readers see it; without cells if it is absent. `query` includes `cf:id` and `cf:state`.
pub async fn row(ns: &Namespace, path: &DrivePath, query: &RowQuery) -> Result<Row> {
    let row = ns.tables.get(dir::TABLE, path.as_str().as_bytes(), query).await?;
    if lock_of(&row).is_none() { Ok(row) } else { locked_row(ns, path.as_str().as_bytes(), row, query).await }
}

/// Many rows, each as [`row`].
pub async fn rows(ns: &Namespace, queries: &[(RowKey, RowQuery)]) -> Result<Vec<Row>> {
    let mut rows = ns.tables.get_many(dir::TABLE, queries).await?;
    for (row, (key, query)) in rows.iter_mut().zip(queries) {
        if lock_of(row).is_some() {
            *row = locked_row(ns, key, std::mem::take(row), query).await?;
        }
    }
    Ok(rows)
}

async fn locked_row(ns: &Namespace, key: &[u8], first: Row, query: &RowQuery) -> Result<Row> {
    let with_lock = |row: Row| ReadWithLock { lock: lock_of(&row).cloned(), read: row };
    let again = || async move { Ok(with_lock(ns.tables.get(dir::TABLE, key, query).await?)) };
    Ok(recheck(ns, with_lock(first), again).await?.unwrap_or_default())
}

/// A page of a directory's row as readers see it. The query requires `cf:id` and `cf:state` unchanged, in this order.
///
/// Errors: [`DriveError::NotFound`] if there is no such directory.
pub async fn page(ns: &Namespace, query: &PageQuery) -> Result<Page> {
    let with_lock = |page: Page| ReadWithLock {
        lock: match page.unchanged.as_slice() {
            [Some(_), state] => state.clone(),
            _ => None,
        },
        read: page,
    };
    let again = || async move { Ok(with_lock(ns.tables.page(query).await?)) };
    let page = recheck(ns, again().await?, again).await?;
    page.filter(|page| page.unchanged.first().is_some_and(Option::is_some)).ok_or(DriveError::NotFound)
}

/// The one recheck loop: decides by the record of the operation whether a read counts. None if the row reads as absent.
/// `again` repeats the read.
async fn recheck<T, F>(ns: &Namespace, mut seen: ReadWithLock<T>, again: impl Fn() -> F) -> Result<Option<T>>
where
    F: Future<Output = Result<ReadWithLock<T>>>,
{
    for _ in 0..TRIES {
        let Some(lock) = seen.lock else { return Ok(Some(seen.read)) };
        let visibility = visibility(ns, &lock).await?;
        match visibility {
            RowVisibility::Live => return Ok(Some(seen.read)),
            RowVisibility::Absent => return Ok(None),
            RowVisibility::LiveIfUnchanged | RowVisibility::AbsentIfUnchanged => seen = again().await?,
        }
        if seen.lock.as_ref() == Some(&lock) {
            return Ok(Some(seen.read).filter(|_| visibility == RowVisibility::LiveIfUnchanged));
        }
    }
    Err(DriveError::Contended)
}

/// How a row with this lock reads, by the record at this moment.
async fn visibility(ns: &Namespace, lock: &Bytes) -> Result<RowVisibility> {
    let state = RowLock::decode(lock)?;
    let phase = record(ns, state.op()).await?.map(|(phase, _)| phase);
    Ok(match (phase, state.is_live(phase), state) {
        // The first read may have found a copy that was not complete yet.
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
