//! The plan that reads an index row by row and verifies what it says, step by step.

use bytes::Bytes;

use super::reconcile::{IndexCell, IndexPage, IndexRange, PageSoFar};
use super::source::{PAGE_BYTES, PlanProgress, QuerySource, skip_to};
use super::verify::{CellsRead, IndexEntry, verify_some};
use crate::drive::error::Result;
use crate::drive::model::Node;
use crate::schema::CF;
use crate::table::{Row, RowQuery, RowRange, ScanQuery};

/// Cells read to verify a row, if its entry is not an old one: the entry, its directory's id and its link.
const VERIFIED: usize = 3;

/// How far the plan is.
pub struct IndexPlan<'a> {
    source: &'a QuerySource,
    page: PageSoFar<'a>,
    /// The rows that are left to be read.
    range: RowRange,
    /// What the files of the page take, about.
    bytes: usize,
    work: usize,
    /// The last row of the steps so far.
    passed: Option<Bytes>,
}

impl<'a> IndexPlan<'a> {
    pub fn new(source: &'a QuerySource, rows: IndexRange) -> Self {
        let range = rows.range.clone();
        Self { source, page: PageSoFar::new(source, rows), range, bytes: 0, work: 0, passed: None }
    }

    /// Cells read so far.
    pub fn work(&self) -> usize {
        self.work
    }

    /// One step: reads some more rows. The page, if that was the last one.
    pub async fn step(
        &mut self,
        parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    ) -> Result<PlanProgress<IndexPage>> {
        let left = self.source.cells_per_query.saturating_sub(self.work);
        // Not at the end of the step before: the other plan has done as much work since, and might have ended with it.
        if let Some(last) = self.passed.take_if(|_| left == 0) {
            return self.page.end(Some(last), parse).await;
        }
        let most = self.source.namespace.limits.files_queried;
        let limit = (self.page.rows.limit - self.page.nodes.len()).max(self.source.rows_per_step).min(most);
        let (range, ask) = (self.range.clone(), RowQuery::families(&[CF]));
        let scan =
            ScanQuery { table: self.page.rows.table, range, row_query: ask, limit, reverse: self.page.rows.reverse };
        // Before the rows are read: what they say of a directory is taken for true if nothing has moved since.
        let epoch = self.source.namespace.dir_paths.moves.now();
        let rows = self.source.namespace.tables.scan(&scan).await?;
        let mut entries = Vec::with_capacity(rows.len());
        let mut keys = Vec::with_capacity(rows.len());
        for (key, row) in &rows {
            if let Some(cell) = index_cell(key, row)
                && let Some(wanted) = parse(&cell)?
            {
                entries.push(wanted);
                keys.push(key);
            }
        }
        let mut reads = CellsRead::up_to(left);
        let verified = verify_some(&self.source.namespace, &entries, self.page.rows.scope, epoch, &mut reads).await?;
        let all = verified.len() == entries.len();
        keys.truncate(verified.len());
        for (node, key) in verified.into_iter().zip(keys.iter().copied()) {
            self.bytes += node.as_ref().map_or(0, |node| size_of::<Node>() + node.path().as_str().len());
            self.page.nodes.extend(node);
            if self.page.nodes.len() == self.page.rows.limit || self.bytes >= PAGE_BYTES {
                let end = rows.len() < limit && rows.last().is_some_and(|(last, _)| last == key);
                return self.page.end(Some(key.clone()).filter(|_| !end), parse).await;
            }
        }
        self.work += rows.len() + VERIFIED * entries.len() + reads.done;
        match (keys.last(), rows.last()) {
            (Some(last), _) if !all => Ok(self.go_on_behind(last)),
            (_, Some((last, _))) if rows.len() == limit => Ok(self.go_on_behind(last)),
            _ => self.page.end(None, parse).await,
        }
    }

    fn go_on_behind(&mut self, last: &Bytes) -> PlanProgress<IndexPage> {
        skip_to(&mut self.range, last.clone(), self.page.rows.reverse);
        self.passed = Some(last.clone());
        PlanProgress::GoesOn
    }
}

fn index_cell<'a>(key: &'a Bytes, row: &'a Row) -> Option<IndexCell<'a>> {
    let mut cells = row.family(CF);
    let value = &cells.next()?.value;
    Some(IndexCell { key, value, alone: cells.next().is_none() })
}
