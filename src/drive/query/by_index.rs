//! The strategy along an index: reads the index rows of the query in order, some at a time, and takes them as they stand,
//! or verifies each of them. For a folder whose keys are known it reads their rows alone.

use bytes::Bytes;

use super::exact::{Outside, exact};
use super::reconcile::{IndexCell, IndexPage, IndexRange, PartialPage};
use super::source::{PAGE_BYTES, QuerySource, StrategyProgress, skip_to};
use super::verify::{CellsRead, IndexEntry, verify_some};
use crate::drive::error::Result;
use crate::drive::folder_keys::SetId;
use crate::drive::model::Node;
use crate::schema::{CF, StayId};
use crate::table::{Column, Row, RowKey, RowQuery, RowRange, ScanQuery};

/// Cells read to verify an index row that is not outdated: the entry, its directory's id and its parent row.
const CELLS_TO_VERIFY: usize = 3;
/// How many more cells of a scan a row costs that is read by its key.
const CELLS_OF_A_KEY: usize = 2;

/// A running scan of an index.
pub struct IndexStrategy<'a> {
    source: &'a QuerySource,
    page: PartialPage<'a>,
    /// The rows that are not read yet.
    range: RowRange,
    /// If set: the keys of all rows of the range whose files are within the scope.
    keys: Option<SetId>,
    /// About how many bytes the files of the page take.
    bytes: usize,
    work: usize,
    /// Rows that the next step reads, at least.
    rows: usize,
    /// The last row that the steps so far have passed.
    passed: Option<Bytes>,
    /// The row of the last file that the page has room for, once that is found.
    full: Option<RowKey>,
}

/// Rows that a step has read.
struct RowsRead {
    rows: Vec<(RowKey, Row)>,
    /// The last key that was passed, if rows may follow.
    last: Option<Bytes>,
    /// How many were asked for by their keys.
    keys: usize,
}

impl<'a> IndexStrategy<'a> {
    pub fn new(source: &'a QuerySource, rows: IndexRange) -> Self {
        Self::over(source, rows, None)
    }

    /// Along the keys of a folder, which is the scope. It is void without a set that is whole and valid.
    pub fn of_keys(source: &'a QuerySource, rows: IndexRange, keys: SetId) -> Self {
        // A key seldom leads to no file: so a step reads as many rows as the page still needs.
        Self { rows: 1, ..Self::over(source, rows, Some(keys)) }
    }

    fn over(source: &'a QuerySource, rows: IndexRange, keys: Option<SetId>) -> Self {
        let range = rows.range.clone();
        Self {
            source,
            page: PartialPage::new(source, rows),
            range,
            keys,
            bytes: 0,
            work: 0,
            rows: source.rows_per_step,
            passed: None,
            full: None,
        }
    }

    /// Cells read so far.
    pub fn work(&self) -> usize {
        self.work
    }

    /// One step: reads some more rows, and takes or verifies them. Returns the page if that was the last step.
    ///
    /// A page that is full ends when one file more is found: it has a cursor only if a file follows. Otherwise an empty
    /// page at the end would tell that there are rows of files that the requester may not read.
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
            return self.page.end(Some(self.full.take().unwrap_or(last)), parse).await;
        }
        let most = self.source.namespace.limits.files_queried;
        let needed = if self.full.is_some() { 1 } else { self.page.rows.limit - self.page.nodes.len() + 1 };
        let limit = needed.max(self.rows).min(most);
        // IMPORTANT: before the rows are read: verification believes the directory of an index row if no directory has
        // moved since this epoch. An epoch read later would hide a move between the two reads.
        let epoch = self.source.namespace.dir_paths.moves.now();
        let Some(RowsRead { rows, last: passed, keys: asked }) = self.read(limit).await? else {
            return Ok(StrategyProgress::Void);
        };
        let (scope, mut reads) = (self.page.rows.scope.clone(), CellsRead::up_to(left));
        let ns = &self.source.namespace;
        let mut outside = Outside::new(ns, &scope);
        let (mut entries, mut keys) = parsed(&rows, parse, |cell| outside.has(cell))?;
        let found = exact(ns, &mut entries, &scope, epoch, &mut reads).await?;
        let is_exact = found.is_some();
        if let Some(set) = self.keys {
            if !is_exact || !self.source.folder_keys.is_valid(set) {
                return Ok(StrategyProgress::Void);
            }
            let inside = found.iter().flatten().flatten().count();
            self.source.folder_keys.has_missed(set, asked.saturating_sub(inside));
        }
        let verified = match found {
            Some(nodes) => nodes,
            None => {
                if outside.is_any() {
                    // Verification decides on each row itself.
                    (entries, keys) = parsed(&rows, parse, |_| false)?;
                }
                verify_some(ns, &entries, &scope, epoch, &mut reads).await?
            }
        };
        // Rows that are read by their keys have no common instant.
        let is_page_of_one_instant = is_exact && self.passed.is_none() && self.keys.is_none();
        let verified_all = verified.len() == entries.len();
        keys.truncate(verified.len());
        for (node, key) in verified.into_iter().zip(keys.iter().copied()) {
            let Some(node) = node else { continue };
            if let Some(full) = self.full.take() {
                return self.end(Some(full), is_page_of_one_instant, parse).await;
            }
            self.bytes += size_of::<Node>() + node.path().as_str().len();
            self.page.nodes.push(node);
            if self.page.nodes.len() == self.page.rows.limit || self.bytes >= PAGE_BYTES {
                self.full = Some(key.clone());
            }
        }
        self.work += rows.len() + CELLS_OF_A_KEY * asked + reads.done;
        if is_exact {
            // An exact step costs little: so the next one may read twice as many rows, up to `files_queried`.
            self.rows = self.rows.saturating_mul(2);
        } else {
            self.work += CELLS_TO_VERIFY * entries.len();
        }
        match (keys.last(), &passed) {
            (Some(last), _) if !verified_all => Ok(self.continue_after(last)),
            (_, Some(last)) => Ok(self.continue_after(last)),
            _ => self.end(None, is_page_of_one_instant, parse).await,
        }
    }

    /// The next rows; of a folder by its keys, if they are known. None if they are no longer known.
    async fn read(&self, limit: usize) -> Result<Option<RowsRead>> {
        let (tables, reverse) = (&self.source.namespace.tables, self.page.rows.reverse);
        let Some(set) = self.keys else {
            let (table, range, row_query) = (self.page.rows.table, self.range.clone(), RowQuery::families(&[CF]));
            let rows = tables.scan(&ScanQuery { table, range, row_query, limit, reverse }).await?;
            let last = rows.last().filter(|_| rows.len() == limit).map(|(last, _)| last.clone());
            return Ok(Some(RowsRead { rows, last, keys: 0 }));
        };
        let Some((keys, more)) = self.source.folder_keys.keys(set, &self.range, limit, reverse) else {
            return Ok(None);
        };
        let keys: Vec<RowKey> = keys.iter().map(|key| RowKey::copy_from_slice(key)).collect();
        let rows = self.rows_of(&keys).await?;
        let last = keys.last().filter(|_| more).cloned();
        Ok(Some(RowsRead { rows, last, keys: keys.len() }))
    }

    /// The rows of these keys that exist. Most files were never moved: so the cell of the stay in which a file was made is
    /// read first, and the whole row only if that is not there.
    async fn rows_of(&self, keys: &[RowKey]) -> Result<Vec<(RowKey, Row)>> {
        let (tables, table) = (&self.source.namespace.tables, self.page.rows.table);
        let query = |key: &RowKey, ask: &RowQuery| (key.clone(), ask.clone());
        let ask = RowQuery::cells(vec![Column::new(CF, StayId::CREATED.qualifier())]);
        let queries: Vec<_> = keys.iter().map(|key| query(key, &ask)).collect();
        let mut rows = tables.get_many(table, &queries).await?;
        let ask = RowQuery::families(&[CF]);
        let absent = keys.iter().zip(&mut rows).filter(|(_, row)| row.is_empty());
        let (queries, mut absent): (Vec<_>, Vec<_>) = absent.map(|(key, row)| (query(key, &ask), row)).unzip();
        for (row, found) in absent.iter_mut().zip(tables.get_many(table, &queries).await?) {
            **row = found;
        }
        Ok(keys.iter().cloned().zip(rows).filter(|(_, row)| !row.is_empty()).collect())
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
