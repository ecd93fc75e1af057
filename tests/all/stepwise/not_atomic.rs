//! A store that does not tell that it is atomic: queries on it verify every index row.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rowdrive::table::store::Result;
use rowdrive::table::{Outcome, Page, PageQuery, Plan, Row, RowKey, RowQuery, ScanQuery, Store, TableSpec};

pub struct NotAtomic(pub Arc<dyn Store>);

impl Store for NotAtomic {
    fn create<'a>(&'a self, spec: &'a TableSpec) -> BoxFuture<'a, Result<()>> {
        self.0.create(spec)
    }

    fn get<'a>(&'a self, table: &'static str, row: &'a [u8], query: &'a RowQuery) -> BoxFuture<'a, Result<Row>> {
        self.0.get(table, row, query)
    }

    fn page<'a>(&'a self, query: &'a PageQuery) -> BoxFuture<'a, Result<Page>> {
        self.0.page(query)
    }

    fn get_many<'a>(
        &'a self,
        table: &'static str,
        queries: &'a [(RowKey, RowQuery)],
    ) -> BoxFuture<'a, Result<Vec<Row>>> {
        self.0.get_many(table, queries)
    }

    fn scan<'a>(&'a self, query: &'a ScanQuery) -> BoxFuture<'a, Result<Vec<(RowKey, Row)>>> {
        self.0.scan(query)
    }

    fn writable(&self) -> Result<()> {
        self.0.writable()
    }

    fn ready(&self) -> Result<()> {
        self.0.ready()
    }

    fn commit(&self, plan: Plan) -> BoxFuture<'_, Result<Outcome>> {
        self.0.commit(plan)
    }
}
