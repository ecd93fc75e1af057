//! Holds a store to its promises between tables, while no server runs.
//!
//! From the names down: [`tree`] reads every directory and whether its name, row and link agree, [`names`] the
//! entries in it: file row, hints and content. Then from everything else up: [`files`], [`hints`], [`links`] and
//! [`contents`] look for what no name leads to. [`left`] knows what the next start settles, which is not wrong.
//!
//! A repair puts back what follows from the tree (links, hints), takes off marks of operations that have no record,
//! and removes what no name leads to; content that it would remove so is saved first. It removes nothing when the
//! tree itself is damaged: a name may lead to more than can be seen.

mod contents;
mod files;
mod finding;
mod hints;
mod left;
mod links;
mod names;
mod tree;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use finding::{Finding, Kind, Summary};

use crate::content::disk::{Disk, Local};
use crate::content::{Content, ContentError};
use crate::schema::dir::{self, Entry};
use crate::schema::{DirId, DrivePath, FileId, Name};
use crate::table::{Ask, Column, Guarded, Outcome, Plan, Row, RowChange, RowKey, StoreError, Tables};
use left::Left;

/// Rows read at a time.
const ROWS: usize = 500;

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Reads every byte of every file.
    pub content: bool,
    pub repair: bool,
}

/// What a check tells while it runs.
pub enum Told<'a> {
    /// What it looks at next.
    Stage(&'static str),
    /// So many rows or files more were looked at.
    Rows(usize),
    Finding(&'a Finding),
}

/// Why a check could not go on.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Content(#[from] ContentError),
}

type Result<T> = std::result::Result<T, CheckError>;

/// The path that the n-th of some rows is about.
type Paths<'a> = &'a (dyn Fn(usize) -> Option<&'a DrivePath> + Sync);

/// Checks the store in `tables` and the content files in `data/content`.
///
/// Memory: about 150 bytes for each directory.
pub async fn check(
    tables: &Tables,
    data: &Path,
    options: &Options,
    tell: &mut (dyn FnMut(Told<'_>) + Send),
) -> Result<Summary> {
    check_on(Arc::new(Local), tables, data, options, tell).await
}

/// As [`check`], with the content files on another disk.
pub async fn check_on(
    disk: Arc<dyn Disk>,
    tables: &Tables,
    data: &Path,
    options: &Options,
    tell: &mut (dyn FnMut(Told<'_>) + Send),
) -> Result<Summary> {
    let (content, staged) = Content::open_on(disk, &data.join("content")).await?;
    let left = Left::read(tables, &staged).await?;
    let summary = Summary { unsettled: left.count(), looked_for_strays: true, ..Summary::default() };
    let mut checker = Checker {
        tables,
        content: &content,
        lost: data.join("lost"),
        options,
        tell,
        left,
        paths: HashMap::new(),
        known: HashSet::new(),
        sound: true,
        summary,
    };
    checker.all().await?;
    Ok(checker.summary)
}

struct Checker<'a> {
    tables: &'a Tables,
    content: &'a Content,
    /// Where content is saved that no name leads to.
    lost: PathBuf,
    options: &'a Options,
    tell: &'a mut (dyn FnMut(Told<'_>) + Send),
    left: Left,
    /// Of all directories that names lead to.
    paths: HashMap<DirId, DrivePath>,
    /// Files that a name leads to although their rows do not say so.
    known: HashSet<FileId>,
    /// Whether everything that names lead to can be seen.
    sound: bool,
    summary: Summary,
}

impl Checker<'_> {
    async fn all(&mut self) -> Result<()> {
        for (table, key, error) in std::mem::take(&mut self.left.unreadable) {
            self.sound = false;
            self.find(Kind::Unreadable, table, printed(&key), None, error.to_string());
        }
        (self.tell)(Told::Stage("directories"));
        let whole = match self.tree().await {
            Ok(strays) => self.stray_directories(strays).await.map(|()| true),
            Err(error) => self.unreadable(dir::TABLE, error).map(|()| false),
        }?;
        if !whole {
            self.summary.looked_for_strays = false;
            return Ok(());
        }
        (self.tell)(Told::Stage("files"));
        let done = self.files().await;
        self.readable(crate::schema::file::TABLE, done)?;
        (self.tell)(Told::Stage("indexes"));
        for table in crate::schema::index::TABLES {
            let done = self.hints(table).await;
            self.readable(table, done)?;
        }
        (self.tell)(Told::Stage("links"));
        let done = self.links().await;
        self.readable(crate::schema::dirid::TABLE, done)?;
        (self.tell)(Told::Stage("content files"));
        self.contents().await
    }

    /// A table of which some part cannot be read: that is told, and the check goes on with the next.
    fn readable(&mut self, table: &'static str, done: Result<()>) -> Result<()> {
        done.or_else(|error| self.unreadable(table, error))
    }

    fn unreadable(&mut self, table: &'static str, error: CheckError) -> Result<()> {
        let CheckError::Store(StoreError::Damaged(detail)) = error else { return Err(error) };
        self.sound = false;
        self.find(Kind::Unreadable, table, "some row".to_owned(), None, format!("the table cannot be read: {detail}"));
        Ok(())
    }

    /// These rows, each in its place; none in the place of one that lies in a damaged block, which is named.
    async fn rows(&mut self, table: &'static str, asks: &[(RowKey, Ask)], at: Paths<'_>) -> Result<Vec<Option<Row>>> {
        match self.tables.get_many(table, asks).await {
            Ok(rows) => return Ok(rows.into_iter().map(Some).collect()),
            Err(StoreError::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let mut rows = Vec::with_capacity(asks.len());
        for (nth, ask) in asks.iter().enumerate() {
            rows.push(match self.tables.get_many(table, std::slice::from_ref(ask)).await {
                Ok(row) => row.into_iter().next(),
                Err(StoreError::Damaged(detail)) => {
                    self.sound = false;
                    self.find(
                        Kind::Unreadable,
                        table,
                        printed(&ask.0),
                        at(nth),
                        format!("it cannot be read: {detail}"),
                    );
                    None
                }
                Err(error) => return Err(error.into()),
            });
        }
        Ok(rows)
    }

    fn find(&mut self, kind: Kind, table: &'static str, row: String, path: Option<&DrivePath>, detail: String) {
        self.found(Finding { kind, table, row, path: path.map(ToString::to_string), detail, repaired: false });
    }

    fn found(&mut self, finding: Finding) {
        *(if finding.kind.is_stray() { &mut self.summary.strays } else { &mut self.summary.wrong }) += 1;
        self.summary.repaired += u64::from(finding.repaired);
        (self.tell)(Told::Finding(&finding));
    }

    /// Whether what nothing leads to may be removed.
    fn may_remove(&self) -> bool {
        self.options.repair && self.sound
    }

    /// Removes rows that nothing leads to.
    async fn remove(&self, finish: Vec<RowChange>) -> Result<()> {
        self.tables.commit(Plan { finish, ..Plan::default() }).await?;
        Ok(())
    }

    /// Changes one row under its check. False if it was refused.
    async fn change(&self, row: Guarded) -> Result<bool> {
        let plan = Plan { guarded: vec![row], reserve: true, ..Plan::default() };
        Ok(self.tables.commit(plan).await? == Outcome::Committed)
    }

    /// Whether each of these files stands where its row or hint says; with the entry, if it does.
    async fn entries(&mut self, places: &[(DirId, Name, FileId)]) -> Result<Vec<Option<Entry>>> {
        let mut asks = Vec::with_capacity(places.len());
        for (dir, name, _) in places {
            let Some(path) = self.paths.get(dir) else { continue };
            let cell = Column::new(dir::SUB, dir::file_qualifier(name));
            asks.push((path.key(), Ask::cells(vec![cell])));
        }
        let mut rows = self.rows(dir::TABLE, &asks, &|_| None).await?.into_iter().map(Option::unwrap_or_default);
        let mut found = Vec::with_capacity(places.len());
        for (dir, name, id) in places {
            let row = if self.paths.contains_key(dir) { rows.next() } else { None };
            let value = row.as_ref().and_then(|row| row.get(dir::SUB, &dir::file_qualifier(name)));
            // One that cannot be decoded was told when its directory was read.
            let entry = value.and_then(|value| Entry::decode(value).ok());
            found.push(entry.filter(|entry| entry.id == *id));
        }
        Ok(found)
    }
}

/// A row key that is not text or an id, in printable bytes.
fn printed(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}
