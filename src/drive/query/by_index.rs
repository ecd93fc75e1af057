//! The strategy along an index: reads the index rows of the query in order, some at a time, and takes them as they stand,
//! or verifies each of them.

use bytes::Bytes;

use super::exact::{Outside, exact};
use super::reconcile::{IndexCell, IndexPage, IndexRange, PartialPage};
use super::source::{PAGE_BYTES, QuerySource, StrategyProgress, skip_to};
use super::verify::{CellsRead, IndexEntry, verify_some};
use crate::drive::error::Result;
use crate::drive::model::Node;
use crate::schema::CF;
use crate::table::{Row, RowKey, RowQuery, RowRange, ScanQuery};

/// Cells read to verify an index row that is not outdated: the entry, its directory's id and its parent row.
const CELLS_TO_VERIFY: usize = 3;

/// A running scan of an index.
pub struct IndexStrategy<'a> {
    source: &'a QuerySource,
    page: PartialPage<'a>,
    /// The rows that are not read yet.
    range: RowRange,
    /// About how many bytes the files of the page take.
    bytes: usize,
    work: usize,
    /// Rows that the next step reads, at least.
    rows: usize,
    /// The last row that the steps so far have passed.
    passed: Option<Bytes>,
}

impl<'a> IndexStrategy<'a> {
    pub fn new(source: &'a QuerySource, rows: IndexRange) -> Self {
        let range = rows.range.clone();
        Self {
            source,
            page: PartialPage::new(source, rows),
            range,
            bytes: 0,
            work: 0,
            rows: source.rows_per_step,
            passed: None,
        }
    }

    /// Cells read so far.
    pub fn work(&self) -> usize {
        self.work
    }

    /// One step: reads some more rows, and takes or verifies them. Returns the page if that was the last step.
    ///
    /// The move epoch is read first, then the index rows, then the directories that they name. If no directory has
    /// moved since that epoch, a path from the cache is the one that the directory had when its index row was read.
    pub async fn step(
        &mut self,
        parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    ) -> Result<StrategyProgress<IndexPage>> {
        let left = self.source.cells_per_query.saturating_sub(self.work);
        // The query has read as many cells as it may: the page ends early, with a cursor after its last row. This is
        // checked here and not at the end of the step before: the other strategy has had its turn since, and could have
        // finished in it.
        if let Some(last) = self.passed.take_if(|_| left == 0) {
            return self.page.end(Some(last), parse).await;
        }
        let most = self.source.namespace.limits.files_queried;
        let limit = (self.page.rows.limit - self.page.nodes.len()).max(self.rows).min(most);
        let (range, ask) = (self.range.clone(), RowQuery::families(&[CF]));
        let scan =
            ScanQuery { table: self.page.rows.table, range, row_query: ask, limit, reverse: self.page.rows.reverse };
        // IMPORTANT: before the rows are read: verification believes the directory of an index row if no directory has
        // moved since this epoch. An epoch read later would hide a move between the two reads.
        let epoch = self.source.namespace.dir_paths.moves.now();
        let rows = self.source.namespace.tables.scan(&scan).await?;
        let (scope, mut reads) = (self.page.rows.scope, CellsRead::up_to(left));
        let ns = &self.source.namespace;
        let mut outside = Outside::new(ns, scope);
        let (mut entries, mut keys) = parsed(&rows, parse, |cell| outside.has(cell))?;
        let found = exact(ns, &mut entries, scope, epoch, &mut reads).await?;
        let is_exact = found.is_some();
        let verified = match found {
            Some(nodes) => nodes,
            None => {
                if outside.is_any() {
                    // Verification decides on each row itself.
                    (entries, keys) = parsed(&rows, parse, |_| false)?;
                }
                verify_some(ns, &entries, scope, epoch, &mut reads).await?
            }
        };
        let is_page_of_one_instant = is_exact && self.passed.is_none();
        let verified_all = verified.len() == entries.len();
        keys.truncate(verified.len());
        for (node, key) in verified.into_iter().zip(keys.iter().copied()) {
            self.bytes += node.as_ref().map_or(0, |node| size_of::<Node>() + node.path().as_str().len());
            self.page.nodes.extend(node);
            if self.page.nodes.len() == self.page.rows.limit || self.bytes >= PAGE_BYTES {
                let end = rows.len() < limit && rows.last().is_some_and(|(last, _)| last == key);
                return self.end(Some(key.clone()).filter(|_| !end), is_page_of_one_instant, parse).await;
            }
        }
        self.work += rows.len() + reads.done;
        if is_exact {
            // An exact step costs little: so the next one may read twice as many rows, up to `files_queried`.
            self.rows = self.rows.saturating_mul(2);
        } else {
            self.work += CELLS_TO_VERIFY * entries.len();
        }
        match (keys.last(), rows.last()) {
            (Some(last), _) if !verified_all => Ok(self.continue_after(last)),
            (_, Some((last, _))) if rows.len() == limit => Ok(self.continue_after(last)),
            _ => self.end(None, is_page_of_one_instant, parse).await,
        }
    }

    async fn end(
        &mut self,
        last: Option<Bytes>,
        at_once: bool,
        parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    ) -> Result<StrategyProgress<IndexPage>> {
        if at_once { self.page.end_at_once(last) } else { self.page.end(last, parse).await }
    }

    fn continue_after(&mut self, last: &Bytes) -> StrategyProgress<IndexPage> {
        skip_to(&mut self.range, last.clone(), self.page.rows.reverse);
        self.passed = Some(last.clone());
        StrategyProgress::Unfinished
    }
}

/// The rows that the query asks for, with their keys, but for those that are left out.
fn parsed<'a>(
    rows: &'a [(RowKey, Row)],
    parse: &impl Fn(&IndexCell<'_>) -> Result<Option<IndexEntry>>,
    mut is_left_out: impl FnMut(&IndexCell<'_>) -> bool,
) -> Result<(Vec<IndexEntry>, Vec<&'a RowKey>)> {
    let mut entries = Vec::with_capacity(rows.len());
    let mut keys = Vec::with_capacity(rows.len());
    for (key, row) in rows {
        if let Some(cell) = index_cell(key, row)
            && !is_left_out(&cell)
            && let Some(wanted) = parse(&cell)?
        {
            entries.push(wanted);
            keys.push(key);
        }
    }
    Ok((entries, keys))
}

fn index_cell<'a>(key: &'a Bytes, row: &'a Row) -> Option<IndexCell<'a>> {
    let mut cells = row.family(CF);
    let cell = cells.next()?;
    Some(IndexCell { key, cell, alone: cells.next().is_none() })
}
