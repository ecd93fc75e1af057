//! What both strategies of a query read, and what they share.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::drive::folder_keys::FolderKeys;
use crate::drive::index_changes::IndexChanges;
use crate::drive::model::{NameQuery, TimeQuery};
use crate::drive::namespace::Namespace;
use crate::drive::namespace::dir_paths::MoveEpoch;
use crate::schema::index::{by_name, by_time};
use crate::schema::path::fold;
use crate::table::RowRange;

/// About how many bytes of files end a page: an HTTP response would not show more of them.
pub const PAGE_BYTES: usize = 8 << 20;

/// What queries read from. Cheap to clone.
#[derive(Clone)]
pub struct QuerySource {
    pub namespace: Namespace,
    pub index_changes: Arc<IndexChanges>,
    pub file_moves: Arc<MoveEpoch>,
    pub folder_keys: Arc<FolderKeys>,
    /// See [`Settings`](crate::drive::Settings).
    pub rows_per_step: usize,
    pub cells_per_query: usize,
}

/// The progress of a strategy.
pub enum StrategyProgress<T> {
    Unfinished,
    /// Other requests have changed what the strategy read, so its page might not be exact: its result is not used. A scan
    /// also ends so if its page takes too much memory.
    Void,
    Finished(T),
}

/// The rows of the time index that the query asks for, from its cursor on.
pub fn time_range(query: &TimeQuery) -> RowRange {
    let mut range = by_time::range(query.clock, query.from, query.to);
    if let Some((at, id)) = query.after {
        skip_to(&mut range, by_time::key(query.clock, at, id), query.ascending);
    }
    range
}

/// The rows of the name index that the query asks for, from its cursor on.
pub fn name_range(query: &NameQuery) -> RowRange {
    let folded = fold(&query.name);
    let mut range = if query.prefix { by_name::prefix(&folded) } else { by_name::exact(&folded) };
    if let Some((at, id)) = &query.after {
        skip_to(&mut range, by_name::key(at, *id), false);
    }
    range
}

/// Shortens the range so that it starts after this key.
pub fn skip_to(range: &mut RowRange, key: Bytes, reverse: bool) {
    if reverse {
        range.to = Bound::Excluded(key);
    } else {
        range.from = Bound::Excluded(key);
    }
}
