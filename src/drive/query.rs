//! Files by time and by name: an index is walked, what it says is settled.

use std::ops::Bound;

use bytes::Bytes;

use super::ask::{FilesAsk, FindAsk, Found, Node};
use super::settle::{Candidate, Key};
use super::{Drive, DriveError, Result};
use crate::schema::name::{self, NameHint};
use crate::schema::path::fold;
use crate::schema::time::{self, TimeHint};
use crate::schema::{CF, DirId, DrivePath, FileId, Timestamp};
use crate::table::{Ask, Cell, Row, RowRange, ScanAsk};

/// Index rows that one request reads at most; past it the page is short, and has a next one.
const WORK: usize = 50_000;
/// Index rows read at a time, at least: some are skipped.
const BATCH: usize = 64;

/// One walk along an index.
struct Walked {
    table: &'static str,
    range: RowRange,
    reverse: bool,
    limit: usize,
    scope: DirId,
}

impl Drive {
    /// Files of a time period, newest first, ties by ascending id; `ascending` is the exact reverse.
    pub async fn files(&self, ask: &FilesAsk) -> Result<Found<(Timestamp, FileId)>> {
        let scope = self.scope(ask.under.as_ref()).await?;
        let mut range = time::range(ask.clock, ask.from, ask.to);
        if let Some((at, id)) = ask.after {
            let key = time::key(ask.clock, at, id);
            pass(&mut range, key, ask.ascending);
        }
        let walked = Walked { table: time::TABLE, range, reverse: ask.ascending, limit: ask.limit, scope };
        let candidate = |key: &Bytes, row: &Row| -> Result<Option<Candidate>> {
            let (at, id) = time::decode_key(key)?;
            // Creator and type are the file's for life: any of its hints tells them.
            let Some((cell, alone)) = first_hint(row) else {
                return Ok(None);
            };
            let TimeHint { dir, name, creator, mime } = TimeHint::decode(&cell.value)?;
            let wanted = ask.creator.as_ref().is_none_or(|c| *c == creator)
                && ask.mime.as_ref().is_none_or(|filter| filter.matches(&mime));
            Ok(wanted.then_some(Candidate { key: Key::Time(ask.clock, at), id, dir, name, alone }))
        };
        let (nodes, last) = self.walk_index(walked, candidate).await?;
        Ok(Found { nodes, next: last.map(|key| time::decode_key(&key)).transpose()? })
    }

    /// Files by name anywhere, ordered by folded name, then by id.
    pub async fn find(&self, ask: &FindAsk) -> Result<Found<(String, FileId)>> {
        let scope = self.scope(ask.under.as_ref()).await?;
        let folded = fold(&ask.name);
        let mut range = if ask.prefix { name::prefix(&folded) } else { name::exact(&folded) };
        if let Some((at, id)) = &ask.after {
            pass(&mut range, name::key(at, *id), false);
        }
        let walked = Walked { table: name::TABLE, range, reverse: false, limit: ask.limit, scope };
        let candidate = |key: &Bytes, row: &Row| -> Result<Option<Candidate>> {
            let (folded, id) = name::decode_key(key)?;
            let Some((cell, alone)) = first_hint(row) else {
                return Ok(None);
            };
            let NameHint { dir, name } = NameHint::decode(&cell.value)?;
            Ok(Some(Candidate { key: Key::Name(folded.to_owned()), id, dir, name, alone }))
        };
        let (nodes, last) = self.walk_index(walked, candidate).await?;
        let next = last.map(|key| name::decode_key(&key).map(|(folded, id)| (folded.to_owned(), id)));
        Ok(Found { nodes, next: next.transpose()? })
    }

    /// The directory that a query is bounded to; the root bounds nothing.
    async fn scope(&self, under: Option<&DrivePath>) -> Result<DirId> {
        match under {
            None => Ok(DirId::ROOT),
            Some(path) => match self.stat(path).await? {
                Node::Directory { entry, .. } => Ok(entry.id),
                Node::File { .. } => Err(DriveError::IsFile),
            },
        }
    }

    /// Up to `limit` files along an index, and the key of the last row passed if rows may follow.
    async fn walk_index(
        &self,
        mut walked: Walked,
        candidate: impl Fn(&Bytes, &Row) -> Result<Option<Candidate>>,
    ) -> Result<(Vec<Node>, Option<Bytes>)> {
        let mut nodes = Vec::new();
        let mut work = 0;
        loop {
            let limit = (walked.limit - nodes.len()).max(BATCH);
            let Walked { table, ref range, reverse, .. } = walked;
            let scan = ScanAsk { table, range: range.clone(), ask: Ask::families(&[CF]), limit, reverse };
            let rows = self.inner.tables.scan(&scan).await?;
            let mut candidates = Vec::with_capacity(rows.len());
            let mut keys = Vec::with_capacity(rows.len());
            for (key, row) in &rows {
                if let Some(wanted) = candidate(key, row)? {
                    candidates.push(wanted);
                    keys.push(key);
                }
            }
            let settled = self.settle(&candidates, walked.scope).await?;
            for (node, key) in settled.into_iter().zip(keys) {
                nodes.extend(node);
                if nodes.len() == walked.limit {
                    let end = rows.len() < limit && rows.last().is_some_and(|(last, _)| last == key);
                    return Ok((nodes, Some(key.clone()).filter(|_| !end)));
                }
            }
            work += rows.len();
            match rows.last() {
                Some((last, _)) if rows.len() == limit => {
                    if work >= WORK {
                        return Ok((nodes, Some(last.clone())));
                    }
                    pass(&mut walked.range, last.clone(), reverse);
                }
                _ => return Ok((nodes, None)),
            }
        }
    }
}

/// A hint of an index row, and whether it is the only one.
fn first_hint(row: &Row) -> Option<(&Cell, bool)> {
    let mut hints = row.family(CF);
    Some((hints.next()?, hints.next().is_none()))
}

/// Leaves out everything up to a key that was passed.
fn pass(range: &mut RowRange, key: Bytes, reverse: bool) {
    if reverse {
        range.to = Bound::Excluded(key);
    } else {
        range.from = Bound::Excluded(key);
    }
}
