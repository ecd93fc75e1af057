//! A walk along an index: what its rows say is settled, turn by turn.

use bytes::Bytes;

use super::{Progress, pass};
use crate::drive::arrivals::Mark;
use crate::drive::ask::Node;
use crate::drive::settle::{Candidate, Reads};
use crate::drive::{Drive, Result};
use crate::schema::{CF, DirId};
use crate::table::{Ask, Row, RowRange, ScanAsk};

/// Cells read to settle a row, if its hint is not an old one: the entry, its directory's id and its link.
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
    pub(super) drive: &'a Drive,
    pub(super) table: &'static str,
    /// The rows of the page and all that follow, and those that are left of them.
    pub(super) begin: RowRange,
    range: RowRange,
    pub(super) reverse: bool,
    pub(super) limit: usize,
    pub(super) scope: DirId,
    pub(super) nodes: Vec<Node>,
    /// Whether the nodes are in no order any more.
    pub(super) mixed: bool,
    /// What the nodes take, about.
    bytes: usize,
    work: usize,
    /// The last row of the turns so far.
    passed: Option<Bytes>,
    /// From when on it is not known what came to the rows that it has passed.
    pub(super) mark: Mark,
}

/// Up to `limit` files, and the key of the last row passed if rows may follow.
pub(super) type Page = (Vec<Node>, Option<Bytes>);

impl<'a> Walk<'a> {
    pub fn new(
        drive: &'a Drive,
        table: &'static str,
        range: RowRange,
        reverse: bool,
        limit: usize,
        scope: DirId,
    ) -> Self {
        let (begin, mark) = (range.clone(), drive.inner.arrivals.mark());
        let (nodes, mixed, bytes, work, passed) = (Vec::new(), false, 0, 0, None);
        Self { drive, table, begin, range, reverse, limit, scope, nodes, mixed, bytes, work, passed, mark }
    }

    /// Cells read so far.
    pub fn work(&self) -> usize {
        self.work
    }

    /// One turn: some rows more. The page, if that was the last one.
    pub async fn step(
        &mut self,
        candidate: &impl Fn(&Hinted<'_>) -> Result<Option<Candidate>>,
    ) -> Result<Progress<Page>> {
        let left = self.drive.inner.settings.work.saturating_sub(self.work);
        // Not at the end of the turn before: the other plan has had as much work since, and might have ended with it.
        if let Some(last) = self.passed.take_if(|_| left == 0) {
            return self.end(Some(last), candidate).await;
        }
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
        let mut reads = Reads::up_to(left);
        let settled = self.drive.settle_some(&candidates, self.scope, mark, &mut reads).await?;
        let all = settled.len() == candidates.len();
        keys.truncate(settled.len());
        for (node, key) in settled.into_iter().zip(keys.iter().copied()) {
            self.bytes += node.as_ref().map_or(0, |node| size_of::<Node>() + node.path().as_str().len());
            self.nodes.extend(node);
            if self.nodes.len() == self.limit || self.bytes >= PAGE_BYTES {
                let end = rows.len() < limit && rows.last().is_some_and(|(last, _)| last == key);
                return self.end(Some(key.clone()).filter(|_| !end), candidate).await;
            }
        }
        self.work += rows.len() + SETTLED * candidates.len() + reads.done;
        match (keys.last(), rows.last()) {
            (Some(last), _) if !all => Ok(self.go_on_behind(last)),
            (_, Some((last, _))) if rows.len() == limit => Ok(self.go_on_behind(last)),
            _ => self.end(None, candidate).await,
        }
    }

    fn go_on_behind(&mut self, last: &Bytes) -> Progress<Page> {
        pass(&mut self.range, last.clone(), self.reverse);
        self.passed = Some(last.clone());
        Progress::GoesOn
    }
}

fn hinted<'a>(key: &'a Bytes, row: &'a Row) -> Option<Hinted<'a>> {
    let mut hints = row.family(CF);
    let value = &hints.next()?.value;
    Some(Hinted { key, value, alone: hints.next().is_none() })
}
