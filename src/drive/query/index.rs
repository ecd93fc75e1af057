//! A walk along an index: what its rows say is settled, turn by turn.

use bytes::Bytes;

use super::pass;
use crate::drive::ask::Node;
use crate::drive::settle::Candidate;
use crate::drive::{Drive, Result, TRIES};
use crate::schema::{CF, DirId};
use crate::table::{Ask, Row, RowRange, ScanAsk};

/// Cells read to settle a row: the entry, its directory's id and its link.
const SETTLED: usize = 3;
/// Bytes of files after which a page ends, about: it is not shown in full anyway.
pub(super) const PAGE_BYTES: usize = 8 << 20;

/// A row of an index, by one of its hints.
pub(super) struct Hinted<'a> {
    pub key: &'a Bytes,
    pub value: &'a Bytes,
    /// Whether the row has no other hint.
    pub alone: bool,
}

/// How far a walk is.
pub(super) struct Walk<'a> {
    drive: &'a Drive,
    table: &'static str,
    range: RowRange,
    reverse: bool,
    limit: usize,
    scope: DirId,
    nodes: Vec<Node>,
    /// What the nodes take, about.
    bytes: usize,
    work: usize,
    /// Where the page begins, and how often it may yet be begun anew.
    begin: RowRange,
    tries: usize,
    /// Replacements that had ended when it was begun.
    mark: u64,
}

/// Up to `limit` files, and the key of the last row passed if rows may follow.
type Page = (Vec<Node>, Option<Bytes>);

impl<'a> Walk<'a> {
    pub fn new(
        drive: &'a Drive,
        table: &'static str,
        range: RowRange,
        reverse: bool,
        limit: usize,
        scope: DirId,
    ) -> Self {
        let (begin, mark) = (range.clone(), drive.inner.replacements.mark());
        let (nodes, bytes, work, tries) = (Vec::new(), 0, 0, TRIES);
        Self { drive, table, range, reverse, limit, scope, nodes, bytes, work, begin, tries, mark }
    }

    /// Begins the page anew. The version of a file that the index showed is gone, and that of the one which has
    /// replaced it may have come to a place that was passed.
    fn begin_anew(&mut self) {
        self.tries -= 1;
        self.mark = self.drive.inner.replacements.mark();
        self.range = self.begin.clone();
        self.nodes.clear();
        self.bytes = 0;
    }

    /// Cells read so far.
    pub fn work(&self) -> usize {
        self.work
    }

    /// One turn: some rows more. The page, if that was the last one.
    pub async fn step(&mut self, candidate: impl Fn(&Hinted<'_>) -> Result<Option<Candidate>>) -> Result<Option<Page>> {
        let most = self.drive.limits().files_queried;
        let limit = (self.limit - self.nodes.len()).max(self.drive.inner.settings.turn).min(most);
        let (range, ask) = (self.range.clone(), Ask::families(&[CF]));
        let scan = ScanAsk { table: self.table, range, ask, limit, reverse: self.reverse };
        // Before the rows are read: what they say of a directory is taken for true if nothing has moved since.
        let mark = self.drive.inner.walks.moves.mark();
        let rows = self.drive.inner.tables.scan(&scan).await?;
        let mut candidates = Vec::with_capacity(rows.len());
        let mut keys = Vec::with_capacity(rows.len());
        for (key, row) in &rows {
            if let Some(hinted) = hinted(key, row)
                && let Some(wanted) = candidate(&hinted)?
            {
                candidates.push(wanted);
                keys.push(key);
            }
        }
        let settled = self.drive.settle(&candidates, self.scope, mark).await?;
        if settled.gone && self.tries > 0 && !self.drive.inner.replacements.quiet_since(self.mark) {
            self.begin_anew();
            return Ok(None);
        }
        for (node, key) in settled.nodes.into_iter().zip(keys) {
            self.bytes += node.as_ref().map_or(0, |node| size_of::<Node>() + node.path().as_str().len());
            self.nodes.extend(node);
            if self.nodes.len() == self.limit || self.bytes >= PAGE_BYTES {
                let end = rows.len() < limit && rows.last().is_some_and(|(last, _)| last == key);
                return Ok(Some(self.page(Some(key.clone()).filter(|_| !end))));
            }
        }
        self.work += rows.len() + SETTLED * candidates.len();
        match rows.last() {
            Some((last, _)) if rows.len() == limit => {
                if self.work >= self.drive.inner.settings.work {
                    return Ok(Some(self.page(Some(last.clone()))));
                }
                pass(&mut self.range, last.clone(), self.reverse);
                Ok(None)
            }
            _ => Ok(Some(self.page(None))),
        }
    }

    fn page(&mut self, next: Option<Bytes>) -> Page {
        (std::mem::take(&mut self.nodes), next)
    }
}

fn hinted<'a>(key: &'a Bytes, row: &'a Row) -> Option<Hinted<'a>> {
    let mut hints = row.family(CF);
    let value = &hints.next()?.value;
    Some(Hinted { key, value, alone: hints.next().is_none() })
}
