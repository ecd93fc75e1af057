//! A walk along an index: what its rows say is settled, turn by turn.

use bytes::Bytes;

use super::pass;
use crate::drive::ask::Node;
use crate::drive::settle::Candidate;
use crate::drive::{Drive, Result};
use crate::schema::{CF, DirId};
use crate::table::{Ask, Row, RowRange, ScanAsk};

/// Cells read to settle a row: the entry, its directory's id and its link.
const SETTLED: usize = 3;

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
    work: usize,
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
        Self { drive, table, range, reverse, limit, scope, nodes: Vec::new(), work: 0 }
    }

    /// Cells read so far.
    pub fn work(&self) -> usize {
        self.work
    }

    /// One turn: some rows more. The page, if that was the last one.
    pub async fn step(&mut self, candidate: impl Fn(&Hinted<'_>) -> Result<Option<Candidate>>) -> Result<Option<Page>> {
        let limit = (self.limit - self.nodes.len()).max(self.drive.inner.settings.turn);
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
        for (node, key) in settled.into_iter().zip(keys) {
            self.nodes.extend(node);
            if self.nodes.len() == self.limit {
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
