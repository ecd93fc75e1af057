//! Settling hints: from what an index says to what is true.
//!
//! A hint is put before the commit that makes it true and removed after the commit that makes it untrue; it
//! never changes. So it can be early or stale, but a live file's hint is never missing. Each row of an index
//! is settled once, from any of its cells:
//!
//! 1. Walk to the hint's directory, read it and the entry. Not this file's: ask the file row where it stands
//!    and read the entry there; again, until the row is gone or says the same twice.
//! 2. Nothing at the path walked to: walk again from the store; it is not there only if both walks are equal.
//! 3. Show the file if the hint's key, made anew from the entry found, is this one, and it lies in the scope;
//!    with a scope the walk must be proved.
//! 4. A directory outside the scope skips a hint early only by a walk that is proved since before the row was read,
//!    and only if the row has no other hint: an old one may wait for its removal beside the one that counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::ask::Node;
use super::spot::Live;
use super::walk::Walk;
use super::{Drive, DriveError, Result, TRIES};
use crate::schema::dir::{self, Entry};
use crate::schema::file::{self, Standing};
use crate::schema::time::Clock;
use crate::schema::{DirId, DrivePath, FileId, Name, Timestamp};
use crate::table::{Ask, Column, Row};

/// What the key of an index row says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Time(Clock, Timestamp),
    Name(String),
}

impl Key {
    /// Whether the key of a file of this name and these times is this one.
    fn is_of(&self, name: &Name, entry: &Entry) -> bool {
        match self {
            Self::Time(Clock::Modified, time) => entry.attributes.modified == *time,
            Self::Time(Clock::Added, time) => entry.attributes.added == *time,
            Self::Name(folded) => name.folded() == *folded,
        }
    }
}

/// An index row that is to be settled, by one of its hints.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub key: Key,
    pub id: FileId,
    pub dir: DirId,
    pub name: Name,
    /// Whether the row has no other hint: then the file stood there when the row was read, or nowhere.
    pub alone: bool,
}

/// What a look at a place found.
enum Look {
    Found(Box<Entry>, DrivePath, bool),
    Other,
}

/// Cells of a row that are read: of a directory's for a file in it, or of a file's for where it stands.
const CELLS: usize = 3;

/// Cells read to settle hints one by one, and how many of them are enough.
pub(super) struct Reads {
    pub done: usize,
    most: usize,
}

impl Reads {
    pub fn up_to(most: usize) -> Self {
        Self { done: 0, most }
    }

    /// One link for each level. Of a walk that does not reach the root it is not known how far it came.
    fn walked(&mut self, walk: &Walk) {
        self.done += walk.path.as_ref().map_or(1, DrivePath::levels);
    }

    fn row(&mut self) {
        self.done += CELLS;
    }
}

impl Drive {
    /// The files that these index rows stand for, each in the place of its row; none where there is no such
    /// file (any more), or it lies outside the scope.
    ///
    /// `mark` was read before the rows were: a directory that lies outside by now may have been inside when its hint
    /// was the only one, and the file may have left it for another folder of the scope since.
    pub(super) async fn settle(&self, candidates: &[Candidate], scope: DirId, mark: u64) -> Result<Vec<Option<Node>>> {
        self.settle_some(candidates, scope, mark, &mut Reads::up_to(usize::MAX)).await
    }

    /// As [`settle`](Self::settle), of the first rows, one or more, until enough is read: an old hint costs several
    /// walks to the root.
    pub(super) async fn settle_some(
        &self,
        candidates: &[Candidate],
        scope: DirId,
        mark: u64,
        reads: &mut Reads,
    ) -> Result<Vec<Option<Node>>> {
        let dirs: BTreeSet<DirId> = candidates.iter().map(|c| c.dir).collect();
        let dirs: Vec<DirId> = dirs.into_iter().collect();
        let walks = self.inner.walks.many(&dirs).await?;
        let quiet = self.inner.walks.moves.quiet_since(mark);
        let outside = |c: &Candidate| {
            c.alone && quiet && walks.get(&c.dir).is_some_and(|walk| walk.path.is_some() && !walk.is_within(scope))
        };
        let inside: Vec<&Candidate> = candidates.iter().filter(|c| !outside(c)).collect();
        let rows = self.rows(&inside, &walks).await?;
        let proved = scope == DirId::ROOT || self.inner.walks.moves.quiet_since(mark);
        let mut settled = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            if outside(candidate) {
                settled.push(None);
                continue;
            }
            let walk = walks.get(&candidate.dir);
            let seen = walk.and_then(|walk| Some((walk, rows.get(&candidate.dir)?)));
            let entry = match seen {
                Some((_, row)) if proved => entry(row, candidate.dir, &candidate.name, candidate.id)?,
                _ => None,
            };
            settled.push(match (entry, walk.and_then(|walk| walk.path.clone())) {
                (Some(entry), Some(path)) => {
                    let inside = walk.is_some_and(|walk| walk.is_within(scope));
                    show(candidate, &candidate.name, entry, &path, inside)?
                }
                _ => self.settle_one(candidate, scope, reads).await?,
            });
            if reads.done >= reads.most {
                break;
            }
        }
        Ok(settled)
    }

    /// The rows of the candidates' directories, with the entries that the hints name: one `get_many`.
    async fn rows(&self, inside: &[&Candidate], walks: &HashMap<DirId, Arc<Walk>>) -> Result<HashMap<DirId, Row>> {
        let mut asks: BTreeMap<DirId, BTreeSet<&Name>> = BTreeMap::new();
        for candidate in inside {
            asks.entry(candidate.dir).or_default().insert(&candidate.name);
        }
        let paths = asks.iter().filter_map(|(dir, names)| {
            let path = walks.get(dir)?.path.as_ref()?;
            Some((*dir, (path.key(), entries_of(names.iter().copied()))))
        });
        let (dirs, asks): (Vec<DirId>, Vec<_>) = paths.unzip();
        let rows = self.rows_of(&asks).await?;
        Ok(dirs.into_iter().zip(rows).collect())
    }

    /// The whole rule for one hint, read by read.
    async fn settle_one(&self, candidate: &Candidate, scope: DirId, reads: &mut Reads) -> Result<Option<Node>> {
        let mut at = (candidate.dir, candidate.name.clone());
        let mut said: Option<Standing> = None;
        for _ in 0..TRIES {
            if let Look::Found(entry, path, inside) = self.look(&at, candidate.id, scope, reads).await? {
                return show(candidate, &at.1, *entry, &path, inside);
            }
            reads.row();
            let ask = Ask::cells(Standing::columns());
            let row = self.inner.tables.get(file::TABLE, candidate.id.0.as_bytes(), &ask).await?;
            // Twice the same, and not there in between: early, never committed, or about to be removed.
            let standing = Standing::of(&row)?.filter(|standing| said.as_ref() != Some(standing));
            let Some(standing) = standing else { return Ok(None) };
            at = (standing.dir, standing.name.clone());
            said = Some(standing);
        }
        Err(DriveError::Contended)
    }

    /// Whether this file stands at this name of this directory, wherever that is now.
    async fn look(&self, at: &(DirId, Name), id: FileId, scope: DirId, reads: &mut Reads) -> Result<Look> {
        let mut before: Option<Walk> = None;
        for _ in 0..TRIES {
            let mark = self.inner.walks.moves.mark();
            let walk = self.fresh(at.0, reads).await?;
            if before.as_ref() == Some(&walk) {
                return Ok(Look::Other); // not there, between two equal walks
            }
            let row = match &walk.path {
                None => Row::default(),
                Some(path) => {
                    reads.row();
                    let ask = entries_of([&at.1].into_iter());
                    self.row(path, &ask).await?
                }
            };
            let here = Live::of(&row)?.is_some_and(|live| live.id == at.0);
            match (entry(&row, at.0, &at.1, id)?, walk.path.clone()) {
                (Some(found), Some(path)) => {
                    let proved = scope == DirId::ROOT
                        || self.inner.walks.moves.quiet_since(mark)
                        || self.fresh(at.0, reads).await? == walk;
                    if proved {
                        return Ok(Look::Found(Box::new(found), path, walk.is_within(scope)));
                    }
                    before = None;
                }
                _ if here => return Ok(Look::Other),
                _ => before = Some(walk),
            }
        }
        Err(DriveError::Contended)
    }

    async fn fresh(&self, dir: DirId, reads: &mut Reads) -> Result<Walk> {
        let walk = self.inner.walks.fresh(dir).await?;
        reads.walked(&walk);
        Ok(walk)
    }
}

/// What to read of a directory's row: whether it is this directory, and these entries.
fn entries_of<'a>(names: impl Iterator<Item = &'a Name>) -> Ask {
    let entries = names.map(|name| Column::new(dir::SUB, dir::file_qualifier(name)));
    Ask::cells(entries.chain([dir::id_column(), dir::state_column()]).collect())
}

/// The entry of this very file, if the row is that of this very directory.
fn entry(row: &Row, dir: DirId, name: &Name, id: FileId) -> Result<Option<Entry>> {
    if Live::of(row)?.is_none_or(|live| live.id != dir) {
        return Ok(None);
    }
    let Some(value) = row.get(dir::SUB, &dir::file_qualifier(name)) else {
        return Ok(None);
    };
    let entry = Entry::decode(value)?;
    Ok(Some(entry).filter(|entry| entry.id == id))
}

fn show(candidate: &Candidate, name: &Name, entry: Entry, dir: &DrivePath, inside: bool) -> Result<Option<Node>> {
    if !inside || !candidate.key.is_of(name, &entry) {
        return Ok(None);
    }
    Ok(Some(Node::File { path: dir.join(name)?, entry }))
}
