//! The trait that engines implement, and the handle that callers use.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::plan::{Outcome, Plan};
use super::row::{Page, PageQuery, Row, RowKey, RowQuery, ScanQuery};
use super::spec::TableSpec;
use super::validate::{Catalog, RuleViolation};

/// Why a call of a store failed. The variants differ in what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The query or plan is not valid ([`super::validate`]): an error of the caller, the engine did not see it.
    #[error("not allowed: {0}")]
    RuleViolation(#[from] RuleViolation),
    /// The table (first) exists with other properties (second).
    #[error("table {0} exists with other properties than requested: {1}")]
    OtherSpec(String, String),
    /// A family read whole holds more cells than a page.
    #[error("{table} row {row:?}: family {family} holds more than a page")]
    TooWide {
        /// The table.
        table: String,
        /// The row.
        row: RowKey,
        /// The family.
        family: String,
    },
    /// The queue is full; nothing was written. Try again later.
    #[error("too many writes are waiting")]
    Busy,
    /// Not enough disk space; nothing was written.
    #[error("the disk is full: {0}")]
    Full(String),
    /// The plan may have been committed, or may be committed later.
    #[error("the outcome of a write is not known: {cause}")]
    Unknown {
        /// The error message of the engine.
        cause: String,
        /// Whether the disk was full. Once the store is [ready](Store::ready) again, a read shows whether the plan
        /// was committed: it will not be committed later.
        full: bool,
    },
    /// The store was opened read-only, and this would have changed it; nothing was written.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// An earlier write failed in a way that this process cannot recover from: it accepts no write until a restart.
    /// Nothing was written.
    #[error("a write failed earlier; restart: {0}")]
    Stopped(String),
    /// The plan adds to a cell, or checks one, that is no [counter](super::counter); or a sum would be out of range.
    /// Nothing was written: an engine that has written rows of `prepare` by then says [`Unknown`](Self::Unknown).
    #[error("a counter is wrong, count anew and put the number: {0}")]
    BadCounter(String),
    /// Stored data cannot be read back.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// Any other error of the engine; its message.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// The result of a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The promises of an engine. One contract suite (`tests/all/contract`) runs against every engine.
///
/// Engines are called through [`Tables`], which has validated limits, table and family names, and key lifecycles; an
/// engine need not check them again.
pub trait Store: Send + Sync + 'static {
    /// Creates the table, or checks that it exists with these properties ([`StoreError::OtherSpec`]).
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>>;

    /// One row at **one instant, over all its families**. A family read whole is capped at
    /// [`PAGE_CELLS`](super::limits::PAGE_CELLS) cells; more is [`StoreError::TooWide`].
    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, Result<Row>>;

    /// Cells of one family in qualifier order, and the values of the [unchanged](PageQuery::unchanged) cells, which
    /// did not change during the whole read.
    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Result<Page>>;

    /// A [`get`](Self::get) for each row, in this order. Different rows may be read at different instants.
    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, Result<Vec<Row>>>;

    /// Rows that hold any cell of the query, in key order (or reversed). Each row is read at one instant; different
    /// rows may be read at different instants. A caller resumes by key.
    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>>;

    /// Whether the store is *atomic*: a plan changes all its rows at one instant, those that it prepares and finishes
    /// too; a refused plan changes none; and a scan reads all its rows at one instant. A store need not be atomic:
    /// HBase is not. Code that relies on it needs a second way for those stores, and a store that wraps another one has
    /// to pass its answer on.
    fn is_atomic(&self) -> bool {
        false
    }

    /// Whether the store accepts plans at all: [`StoreError::ReadOnly`] or [`StoreError::Stopped`] are permanent.
    fn writable(&self) -> Result<()> {
        Ok(())
    }

    /// As [`writable`](Self::writable), as far as the store knows without a call of the system: a commit looks closer.
    fn known_writable(&self) -> Result<()> {
        self.writable()
    }

    /// Whether the store would write a plan now, as far as it knows: as [`writable`](Self::writable), and
    /// [`StoreError::Full`] or [`StoreError::Failed`] during a transient error. For health checks; the caller of a plan
    /// gets the error from [`commit`](Self::commit).
    fn ready(&self) -> Result<()> {
        self.writable()
    }

    /// Whether there is disk space for a plan that [needs it](Plan::needs_space), and for this many bytes besides;
    /// frees space as [`commit`](Self::commit) does.
    ///
    /// Errors: [`StoreError::Full`] if there is not, and those of [`writable`](Self::writable).
    fn has_space_for(&self, _bytes: u64) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Begins to free the space of deleted cells, unless it has just done so: the space comes back within seconds. Call it
    /// if a write besides the store, of content, has found too little space on the disk. [`commit`](Self::commit) does so
    /// by itself.
    fn free_deleted_space(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Bytes of its disk that the store needs for work in the background and for plans that are being committed. Others
    /// that write to the disk leave them free, besides a reserve. `free`: the free bytes beyond the reserve; the store
    /// looks closer if they seem too few.
    fn background_space(&self, _free: u64) -> u64 {
        0
    }

    /// The one write. After [`Outcome::Committed`] the plan's conditional rows have changed atomically, and the changes
    /// survive any crash.
    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>>;
}

/// The handle of a store: validates every query and plan against the limits and the key lifecycles of the tables before
/// an engine sees it. Cheap to clone.
#[derive(Clone)]
pub struct Tables {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
}

impl Tables {
    /// A handle without tables: [`create`](Self::create) adds them.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, catalog: Arc::new(Catalog::default()) }
    }

    /// Creates or checks a table. Only such tables can be read or written through this handle.
    pub async fn create(&self, spec: &TableSpec) -> Result<()> {
        self.catalog.validate_spec(spec)?;
        self.store.create(spec).await?;
        self.catalog.add(spec);
        Ok(())
    }

    /// See [`Store::get`].
    pub async fn get(&self, table: &'static str, row: &[u8], query: &RowQuery) -> Result<Row> {
        self.catalog.validate_row_query(table, row, query)?;
        self.store.get(table, row, query).await
    }

    /// See [`Store::page`].
    pub async fn page(&self, query: &PageQuery) -> Result<Page> {
        self.catalog.validate_page_query(query)?;
        self.store.page(query).await
    }

    /// See [`Store::get_many`].
    pub async fn get_many(&self, table: &'static str, queries: &[(RowKey, RowQuery)]) -> Result<Vec<Row>> {
        for (row, query) in queries {
            self.catalog.validate_row_query(table, row, query)?;
        }
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        self.store.get_many(table, queries).await
    }

    /// See [`Store::scan`].
    pub async fn scan(&self, query: &ScanQuery) -> Result<Vec<(RowKey, Row)>> {
        self.catalog.validate_scan_query(query)?;
        self.store.scan(query).await
    }

    /// See [`Store::is_atomic`].
    pub fn is_atomic(&self) -> bool {
        self.store.is_atomic()
    }

    /// See [`Store::writable`].
    pub fn writable(&self) -> Result<()> {
        self.store.writable()
    }

    /// See [`Store::known_writable`].
    pub fn known_writable(&self) -> Result<()> {
        self.store.known_writable()
    }

    /// See [`Store::ready`].
    pub fn ready(&self) -> Result<()> {
        self.store.ready()
    }

    /// Whether there is disk space for a plan that needs it.
    pub async fn has_space(&self) -> Result<()> {
        self.has_space_for(0).await
    }

    /// See [`Store::has_space_for`].
    pub async fn has_space_for(&self, bytes: u64) -> Result<()> {
        self.store.has_space_for(bytes).await
    }

    /// See [`Store::free_deleted_space`].
    pub async fn free_deleted_space(&self) {
        self.store.free_deleted_space().await;
    }

    /// See [`Store::background_space`].
    pub fn background_space(&self, free: u64) -> u64 {
        self.store.background_space(free)
    }

    /// See [`Store::commit`].
    pub async fn commit(&self, plan: Plan) -> Result<Outcome> {
        self.catalog.validate_plan(&plan)?;
        self.store.commit(plan).await
    }

    /// A single cell of a row.
    pub async fn cell(
        &self,
        table: &'static str,
        row: &[u8],
        family: &'static str,
        qualifier: &'static [u8],
    ) -> Result<Option<Bytes>> {
        let query = RowQuery::cells(vec![super::Column::new(family, qualifier)]);
        Ok(self.get(table, row, &query).await?.get(family, qualifier).cloned())
    }
}
