//! Checks that a store keeps its promises between tables, while no server runs.
//!
//! First from the names down: [`directories`] reads every directory row and compares it with its name and parent row,
//! and [`entries`] compares each entry with its file row, index rows and content. Then from everything else up:
//! [`file_rows`], [`index_rows`], [`dir_parents`] and [`content_files`] look for strays, which no name leads to.
//! [`accounts`], [`shares`] and [`account_indexes`] do the same with users, [`usage`] compares their counters with what was
//! counted.
//! [`pending`] lists the work that the next start does anyway, which is not wrong.
//!
//! A repair writes what follows from the tree (parent rows, index entries), removes locks of operations without a
//! record, and removes strays; it saves their content first. It removes nothing while a part of the tree cannot be
//! read: a name in that part may lead to what looks like a stray.

mod account_indexes;
mod accounts;
mod content_files;
mod dir_parents;
mod directories;
mod entries;
mod file_rows;
mod finding;
mod index_rows;
mod pending;
mod shares;
mod usage;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use finding::{CheckSummary, Finding, FindingKind};

use crate::content::disk::{Disk, LocalDisk};
use crate::content::{Content, ContentError};
use crate::schema::dir::{self, FileEntry};
use crate::schema::index::IndexTable;
use crate::schema::usage::UsageChange;
use crate::schema::{DirId, DrivePath, FileId, Name};
use crate::table::{Column, ConditionalRow, Outcome, Plan, Row, RowChange, RowKey, RowQuery, StoreError, Tables};
use pending::PendingWork;

/// Rows read at a time.
const ROWS: usize = 500;

/// The options of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Reads every byte of every file.
    pub content: bool,
    /// Repairs what can be repaired.
    pub repair: bool,
}

/// Progress of a running check.
pub enum CheckEvent<'a> {
    /// The stage that starts.
    Stage(&'static str),
    /// The number of rows or files checked since the event before.
    Rows(usize),
    /// A finding, after its repair if there was one.
    Finding(&'a Finding),
}

/// Why a check ended early.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The tables could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The content folder could not be read or written.
    #[error(transparent)]
    Content(#[from] ContentError),
}

type Result<T> = std::result::Result<T, CheckError>;

/// The path of the file or directory of the n-th queried row.
type PathOf<'a> = &'a (dyn Fn(usize) -> Option<&'a DrivePath> + Sync);

/// Checks the store in `tables` and the content files in `data/content`.
///
/// Memory: about 150 bytes for each directory, and as many for each creator.
pub async fn check(
    tables: &Tables,
    data: &Path,
    options: &CheckOptions,
    on_event: &mut (dyn FnMut(CheckEvent<'_>) + Send),
) -> Result<CheckSummary> {
    check_on(Arc::new(LocalDisk), tables, data, options, on_event).await
}

/// As [`check`], with the content files on another disk.
pub async fn check_on(
    disk: Arc<dyn Disk>,
    tables: &Tables,
    data: &Path,
    options: &CheckOptions,
    on_event: &mut (dyn FnMut(CheckEvent<'_>) + Send),
) -> Result<CheckSummary> {
    let (content, staged) = Content::open_on(disk, &data.join("content")).await?;
    let pending = PendingWork::read(tables, &staged).await?;
    let summary = CheckSummary { pending: pending.count(), looked_for_strays: true, ..CheckSummary::default() };
    let mut checker = Checker {
        tables,
        content: &content,
        lost: data.join("lost"),
        options,
        on_event,
        pending,
        paths: HashMap::new(),
        reported_files: HashSet::new(),
        usage: UsageChange::default(),
        usage_known: true,
        tree_complete: true,
        summary,
    };
    checker.all().await?;
    Ok(checker.summary)
}

struct Checker<'a> {
    tables: &'a Tables,
    content: &'a Content,
    /// The folder where a repair saves the content of strays.
    lost: PathBuf,
    options: &'a CheckOptions,
    on_event: &'a mut (dyn FnMut(CheckEvent<'_>) + Send),
    pending: PendingWork,
    /// The paths of all directories that names lead to.
    paths: HashMap<DirId, DrivePath>,
    /// Files with a name whose rows were reported as missing, damaged or different: they are no strays.
    reported_files: HashSet<FileId>,
    /// What each creator has, as far as it is counted.
    usage: UsageChange,
    /// Whether all deleted directories are counted.
    usage_known: bool,
    /// Whether every directory row and name could be read. If not, nothing counts as a stray for certain.
    tree_complete: bool,
    summary: CheckSummary,
}

impl Checker<'_> {
    async fn all(&mut self) -> Result<()> {
        for (table, key, error) in std::mem::take(&mut self.pending.unreadable) {
            self.report_unreadable(table, printable(&key), None, error.to_string());
        }
        (self.on_event)(CheckEvent::Stage("directories"));
        let whole = match self.directories().await {
            Ok(strays) => self.stray_directories(strays).await.map(|()| true),
            Err(error) => self.skip_damaged(dir::TABLE, error).map(|()| false),
        }?;
        if !whole {
            self.summary.looked_for_strays = false;
            return Ok(());
        }
        (self.on_event)(CheckEvent::Stage("files"));
        let done = self.file_rows().await;
        self.skip_if_damaged(crate::schema::file::TABLE, done)?;
        (self.on_event)(CheckEvent::Stage("indexes"));
        for index in IndexTable::ALL {
            let done = self.index_rows(index).await;
            self.skip_if_damaged(index.table(), done)?;
        }
        (self.on_event)(CheckEvent::Stage("links"));
        let done = self.dir_parents().await;
        self.skip_if_damaged(crate::schema::dir_parent::TABLE, done)?;
        (self.on_event)(CheckEvent::Stage("users"));
        let done = self.usages().await;
        self.skip_if_damaged(crate::schema::account::TABLE, done)?;
        let done = self.accounts().await;
        self.skip_if_damaged(crate::schema::account::TABLE, done)?;
        let done = self.account_indexes().await;
        self.skip_if_damaged(crate::schema::secret::TABLE, done)?;
        let done = self.user_names().await;
        self.skip_if_damaged(crate::schema::user_name::TABLE, done)?;
        (self.on_event)(CheckEvent::Stage("content files"));
        self.content_files().await
    }

    /// Reports a table with an unreadable part instead of failing, so that the check continues with the next table.
    fn skip_if_damaged(&mut self, table: &'static str, done: Result<()>) -> Result<()> {
        done.or_else(|error| self.skip_damaged(table, error))
    }

    fn skip_damaged(&mut self, table: &'static str, error: CheckError) -> Result<()> {
        let CheckError::Store(StoreError::Damaged(detail)) = error else { return Err(error) };
        self.report_unreadable(table, "some row".to_owned(), None, format!("the table cannot be read: {detail}"));
        Ok(())
    }

    /// Reads these rows, in this order. A row in a damaged block is reported and `None`; `at` gives its path.
    async fn read_rows(
        &mut self,
        table: &'static str,
        queries: &[(RowKey, RowQuery)],
        at: PathOf<'_>,
    ) -> Result<Vec<Option<Row>>> {
        match self.tables.get_many(table, queries).await {
            Ok(rows) => return Ok(rows.into_iter().map(Some).collect()),
            Err(StoreError::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let mut rows = Vec::with_capacity(queries.len());
        for (nth, query) in queries.iter().enumerate() {
            rows.push(match self.tables.get_many(table, std::slice::from_ref(query)).await {
                Ok(row) => row.into_iter().next(),
                Err(StoreError::Damaged(detail)) => {
                    let detail = format!("it cannot be read: {detail}");
                    self.report_unreadable(table, printable(&query.0), at(nth), detail);
                    None
                }
                Err(error) => return Err(error.into()),
            });
        }
        Ok(rows)
    }

    /// Reports an unreadable row or table. From then on nothing is removed: a name in it may lead to what looks like a
    /// stray.
    fn report_unreadable(&mut self, table: &'static str, row: String, path: Option<&DrivePath>, detail: String) {
        self.tree_complete = false;
        self.report(FindingKind::Unreadable, table, row, path, detail);
    }

    /// Reports a finding that is not repaired.
    fn report(
        &mut self,
        kind: FindingKind,
        table: &'static str,
        row: String,
        path: Option<&DrivePath>,
        detail: String,
    ) {
        self.record(Finding { kind, table, row, path: path.map(ToString::to_string), detail, repaired: false });
    }

    /// Counts a finding and passes it on.
    fn record(&mut self, finding: Finding) {
        let Self { summary, .. } = self;
        let (count, is_repaired) = match finding.kind {
            kind if kind.is_note() => (&mut summary.notes, false),
            kind if kind.is_stray() => (&mut summary.strays, finding.repaired),
            _ => (&mut summary.wrong, finding.repaired),
        };
        *count += 1;
        summary.repaired += u64::from(is_repaired);
        (self.on_event)(CheckEvent::Finding(&finding));
    }

    /// Whether a repair may remove strays.
    fn may_remove(&self) -> bool {
        self.options.repair && self.tree_complete
    }

    /// Removes rows of strays.
    async fn delete(&self, finish: Vec<RowChange>) -> Result<()> {
        self.tables.commit(Plan { finish, ..Plan::default() }).await?;
        Ok(())
    }

    /// Commits one conditional row. False if it was refused.
    async fn apply(&self, row: ConditionalRow) -> Result<bool> {
        let plan = Plan { guarded: vec![row], reserve: true, ..Plan::default() };
        Ok(self.tables.commit(plan).await? == Outcome::Committed)
    }

    /// The entry of each file at the position that its row or index entry gives; none if there is no entry of this
    /// file.
    async fn entries_at(&mut self, positions: &[(DirId, Name, FileId)]) -> Result<Vec<Option<FileEntry>>> {
        let mut queries = Vec::with_capacity(positions.len());
        for (dir, name, _) in positions {
            let Some(path) = self.paths.get(dir) else { continue };
            let cell = Column::new(dir::SUB, dir::file_qualifier(name));
            queries.push((path.key(), RowQuery::cells(vec![cell])));
        }
        let mut rows =
            self.read_rows(dir::TABLE, &queries, &|_| None).await?.into_iter().map(Option::unwrap_or_default);
        let mut found = Vec::with_capacity(positions.len());
        for (dir, name, id) in positions {
            let row = if self.paths.contains_key(dir) { rows.next() } else { None };
            let value = row.as_ref().and_then(|row| row.get(dir::SUB, &dir::file_qualifier(name)));
            // An entry that cannot be decoded was reported with its directory.
            let entry = value.and_then(|value| FileEntry::decode(value).ok());
            found.push(entry.filter(|entry| entry.id == *id));
        }
        Ok(found)
    }
}

/// A row key in printable ASCII, for keys that need not be text.
fn printable(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}
