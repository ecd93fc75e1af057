//! The trait that engines implement, and the handle that callers hold.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::plan::{Outcome, Plan};
use super::row::{Ask, Page, PageAsk, Row, RowKey, ScanAsk};
use super::rules::{Broken, Catalog};
use super::spec::TableSpec;

/// Why a store did not answer. Named by what the caller can do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The question or plan breaks a rule of [`super::rules`]: a fault of the caller, nothing was sent.
    #[error("not allowed: {0}")]
    Broken(#[from] Broken),
    /// The table is there with other properties.
    #[error("table {0} is there with other properties than asked for: {1}")]
    OtherSpec(String, String),
    /// A family read whole holds more cells than a page.
    #[error("{table} row {row:?}: family {family} holds more than a page")]
    TooWide { table: String, row: RowKey, family: String },
    /// The queue is full; nothing was written. Try again later.
    #[error("too many writes are waiting")]
    Busy,
    /// No room on the disk; nothing was written.
    #[error("the disk is full: {0}")]
    Full(String),
    /// The plan may have happened, or may yet. `full`: the disk had no room, and once the store
    /// [works](Store::works) again, reads tell whether it has happened: it will not happen any more.
    #[error("the outcome of a write is not known: {cause}")]
    Unknown { cause: String, full: bool },
    /// The store was opened for reads alone, and this would have changed it; nothing was written.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// An earlier write failed in a way that this process cannot put right: no further one is tried until a restart;
    /// nothing was written.
    #[error("a write failed earlier; restart: {0}")]
    Stopped(String),
    /// What is stored cannot be read back.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The engine cannot work; what it said.
    #[error("the store failed: {0}")]
    Failed(String),
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// What an engine promises. One contract suite (`tests/contract`) runs against every engine.
///
/// Engines are called through [`Tables`], which has checked limits, table and family names, and the class
/// rules; an engine need not check them again.
pub trait Store: Send + Sync + 'static {
    /// Makes the table, or checks that it is there with these properties ([`StoreError::OtherSpec`]).
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>>;

    /// One row at **one instant, over all its families**. A family asked for whole is capped at
    /// [`PAGE_CELLS`](super::rules::PAGE_CELLS) cells; more is [`StoreError::TooWide`].
    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], ask: &'a Ask) -> BoxFuture<'a, Result<Row>>;

    /// Cells of one family in qualifier order, and the values of the fence cells that held during the
    /// whole read.
    fn page<'a>(&'a self, ask: &'a PageAsk) -> BoxFuture<'a, Result<Page>>;

    /// A `get` for each row, in this order; no common instant.
    fn get_many<'a>(&'a self, table: &'static str, asks: &'a [(RowKey, Ask)]) -> BoxFuture<'a, Result<Vec<Row>>>;

    /// Rows that hold any of what was asked, in key order (or reversed), each at one instant; no common
    /// instant. Resumed by key.
    fn scan<'a>(&'a self, ask: &'a ScanAsk) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>>;

    /// Whether it takes plans at all: [`StoreError::ReadOnly`] or [`StoreError::Stopped`] for good.
    fn writable(&self) -> Result<()> {
        Ok(())
    }

    /// Whether it would write a plan at this moment, as far as it can tell: as [`writable`](Self::writable), and
    /// [`StoreError::Full`] or [`StoreError::Failed`] while something that passes keeps it from writing. For those who
    /// watch; a plan is told so by [`commit`](Self::commit).
    fn works(&self) -> Result<()> {
        self.writable()
    }

    /// Whether there is room for a plan that needs some; looks for it as [`commit`](Self::commit) does.
    ///
    /// Errors: [`StoreError::Full`] if such a plan would be refused now, and those of [`writable`](Self::writable).
    fn room(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// The one write. When it answers [`Outcome::Committed`], the whole plan's guarded part has happened
    /// at one instant and survives any crash.
    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>>;
}

/// The handle through which a store is used: it checks every question and plan against the limits and the
/// classes of the tables before an engine sees it. Cheap to clone.
#[derive(Clone)]
pub struct Tables {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
}

impl Tables {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, catalog: Arc::new(Catalog::default()) }
    }

    /// Makes or checks a table; only created tables can be read or written through this handle.
    pub async fn create(&self, spec: &TableSpec) -> Result<()> {
        self.catalog.check_spec(spec)?;
        self.store.create(spec).await?;
        self.catalog.add(spec);
        Ok(())
    }

    pub async fn get(&self, table: &'static str, row: &[u8], ask: &Ask) -> Result<Row> {
        self.catalog.check_ask(table, row, ask)?;
        self.store.get(table, row, ask).await
    }

    pub async fn page(&self, ask: &PageAsk) -> Result<Page> {
        self.catalog.check_page(ask)?;
        self.store.page(ask).await
    }

    pub async fn get_many(&self, table: &'static str, asks: &[(RowKey, Ask)]) -> Result<Vec<Row>> {
        for (row, ask) in asks {
            self.catalog.check_ask(table, row, ask)?;
        }
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        self.store.get_many(table, asks).await
    }

    pub async fn scan(&self, ask: &ScanAsk) -> Result<Vec<(RowKey, Row)>> {
        self.catalog.check_scan(ask)?;
        self.store.scan(ask).await
    }

    /// Whether the store takes plans at all, as far as it knows.
    pub fn writable(&self) -> Result<()> {
        self.store.writable()
    }

    /// Whether the store would write a plan at this moment, as far as it knows.
    pub fn works(&self) -> Result<()> {
        self.store.works()
    }

    /// Whether the store has room for a plan that needs some.
    pub async fn room(&self) -> Result<()> {
        self.store.room().await
    }

    pub async fn commit(&self, plan: Plan) -> Result<Outcome> {
        self.catalog.check_plan(&plan)?;
        self.store.commit(plan).await
    }

    /// A single cell of a row, for callers that need just one.
    pub async fn cell(
        &self,
        table: &'static str,
        row: &[u8],
        family: &'static str,
        qualifier: &'static [u8],
    ) -> Result<Option<Bytes>> {
        let ask = Ask::cells(vec![super::Column::new(family, qualifier)]);
        Ok(self.get(table, row, &ask).await?.get(family, qualifier).cloned())
    }
}
