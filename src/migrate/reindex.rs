//! Fills index tables from the directory table: the data step of a migration that adds an index, or changes its values.

use bytes::Bytes;

use super::Result;
use crate::schema::dir::{self, FileEntry, RowLock};
use crate::schema::subtree_op;
use crate::schema::{CF, DirId, index};
use crate::table::{Cell, CellCursor, Change, PageQuery, Plan, Row, RowChange, RowCursor, RowQuery, RowRange, Tables};

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
///
/// IMPORTANT: not those of rows that readers see as absent. Such a row may have files that were deleted since at the
/// directory's other path, and nobody would remove their entries again.
pub async fn fill(tables: &Tables, indexes: &[&str]) -> Result<()> {
    let mut filled = Filled::default();
    let query = RowQuery::cells(vec![dir::id_column(), dir::lock_column()]);
    let mut directories = RowCursor::new(dir::TABLE, RowRange::all(), query, DIRECTORIES);
    while let Some(rows) = directories.next(tables).await? {
        for (key, row) in &rows {
            if let Some(id) = row.get(CF, dir::ID)
                && is_live(tables, row).await?
            {
                fill_directory(tables, key, dir::decode_id(id)?, indexes, &mut filled).await?;
            }
        }
    }
    put(tables, &mut filled.pending).await
}

/// Whether readers see a directory row, by the record of the operation that has locked it. Nothing else changes the store
/// during a migration.
async fn is_live(tables: &Tables, row: &Row) -> Result<bool> {
    let Some(lock) = row.get(CF, dir::LOCK) else { return Ok(true) };
    let lock = RowLock::decode(lock)?;
    let query = RowQuery::cells(subtree_op::columns());
    let record = subtree_op::decode_record(&tables.get(subtree_op::TABLE, lock.op().0.as_bytes(), &query).await?)?;
    Ok(lock.is_live(record.map(|(phase, _)| phase)))
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
    // A plan must put a cell only once, also of a damaged store in which two rows have the same file.
    let cell = |row: &RowChange| (row.table, row.row.clone(), row.changes.first().and_then(Change::qualifier).cloned());
    prepare.sort_by_key(cell);
    prepare.dedup_by_key(|row| cell(row));
    if !prepare.is_empty() {
        tables.commit(Plan { prepare, ..Plan::default() }).await?;
    }
    Ok(())
}
