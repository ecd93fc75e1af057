//! What both plans of a query read, and what they share.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::drive::index_changes::IndexChanges;
use crate::drive::model::TimeQuery;
use crate::drive::namespace::Namespace;
use crate::drive::namespace::dir_paths::MoveEpoch;
use crate::schema::index::by_time;
use crate::table::RowRange;

/// Bytes of files after which a page ends, about: it is not shown in full anyway.
pub const PAGE_BYTES: usize = 8 << 20;

/// What queries take. Cheap to clone.
#[derive(Clone)]
pub struct QuerySource {
    pub namespace: Namespace,
    pub index_changes: Arc<IndexChanges>,
    pub file_moves: Arc<MoveEpoch>,
    /// See [`Settings`](crate::drive::Settings).
    pub rows_per_step: usize,
    pub cells_per_query: usize,
}

/// How far a plan is with its answer.
pub enum PlanProgress<T> {
    GoesOn,
    /// Others have changed what it read: its page may not be exact.
    Void,
    Ended(T),
}

/// The rows of the time index that are left to be shown.
pub fn time_range(query: &TimeQuery) -> RowRange {
    let mut range = by_time::range(query.clock, query.from, query.to);
    if let Some((at, id)) = query.after {
        skip_to(&mut range, by_time::key(query.clock, at, id), query.ascending);
    }
    range
}

/// Leaves out everything up to and with this key.
pub fn skip_to(range: &mut RowRange, key: Bytes, reverse: bool) {
    if reverse {
        range.to = Bound::Excluded(key);
    } else {
        range.from = Bound::Excluded(key);
    }
}
