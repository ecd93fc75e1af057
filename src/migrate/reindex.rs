//! Fills index tables from the directory table: the data step of a migration that adds an index.

use bytes::Bytes;

use super::Result;
use crate::schema::dir::{self, FileEntry};
use crate::schema::{CF, DirId, index};
use crate::table::{Cell, CellCursor, Change, PageQuery, Plan, RowChange, RowCursor, RowQuery, RowRange, Tables};

/// Directories read at a time.
const DIRECTORIES: usize = 1_000;
/// Entries of a directory read at a time.
const ENTRIES: usize = 500;
/// Index entries after which a plan is committed.
const BATCH: usize = 1_000;
/// Files between two lines of the log.
const FILES_A_LINE: usize = 100_000;

/// What is to be committed, and the files by now.
#[derive(Default)]
struct Filled {
    pending: Vec<RowChange>,
    files: usize,
}

/// The index rows of the file of an entry: `cell` is of family `sub` of the directory `dir`.
fn index_rows_of(dir: DirId, cell: &Cell) -> Result<Vec<RowChange>> {
    let (_, name) = dir::child(&cell.qualifier)?;
    Ok(index::put_rows(dir, &name, &FileEntry::decode(&cell.value)?))
}

/// Puts the index entries of all files into these tables, over entries of an older version. Safe to repeat.
pub async fn fill(tables: &Tables, indexes: &[&str]) -> Result<()> {
    let mut filled = Filled::default();
    let query = RowQuery::cells(vec![dir::id_column()]);
    let mut directories = RowCursor::new(dir::TABLE, RowRange::all(), query, DIRECTORIES);
    while let Some(rows) = directories.next(tables).await? {
        for (key, row) in &rows {
            if let Some(id) = row.get(CF, dir::ID) {
                fill_directory(tables, key, dir::decode_id(id)?, indexes, &mut filled).await?;
            }
        }
    }
    put(tables, &mut filled.pending).await
}

/// Collects the index entries of a directory, and commits them once there are enough for a plan.
async fn fill_directory(tables: &Tables, row: &Bytes, dir: DirId, indexes: &[&str], filled: &mut Filled) -> Result<()> {
    let (row, (from, to)) = (row.clone(), dir::range(dir::FILE, ""));
    let first = PageQuery { table: dir::TABLE, row, family: dir::SUB, from, to, limit: ENTRIES, unchanged: vec![] };
    let mut files = CellCursor::new(first);
    while let Some(cells) = files.next(tables).await? {
        for cell in &cells {
            filled.pending.extend(index_rows_of(dir, cell)?.into_iter().filter(|row| indexes.contains(&row.table)));
            if filled.pending.len() >= BATCH {
                put(tables, &mut filled.pending).await?;
            }
            filled.files += 1;
            if filled.files.is_multiple_of(FILES_A_LINE) {
                tracing::info!(files = filled.files, "index entries are written");
            }
        }
    }
    Ok(())
}

async fn put(tables: &Tables, pending: &mut Vec<RowChange>) -> Result<()> {
    let mut prepare = std::mem::take(pending);
    // A directory that is being moved has two rows with entries of its files, and a plan must put a cell only once.
    let cell = |row: &RowChange| (row.table, row.row.clone(), row.changes.first().and_then(Change::qualifier).cloned());
    prepare.sort_by_key(cell);
    prepare.dedup_by_key(|row| cell(row));
    if !prepare.is_empty() {
        tables.commit(Plan { prepare, ..Plan::default() }).await?;
    }
    Ok(())
}
