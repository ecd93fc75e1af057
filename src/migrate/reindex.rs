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

/// The index rows of the file of this entry: `cell` is of family `sub` of the directory `dir`.
fn index_rows_of(dir: DirId, cell: &Cell) -> Result<Vec<RowChange>> {
    let (_, name) = dir::child(&cell.qualifier)?;
    Ok(index::put_rows(dir, &name, &FileEntry::decode(&cell.value)?))
}

/// Puts the index entries of all files into these tables. Safe to repeat.
pub async fn fill(tables: &Tables, indexes: &[&str]) -> Result<()> {
    let mut waiting = Vec::new();
    let ask = RowQuery::cells(vec![dir::id_column()]);
    let mut directories = RowCursor::new(dir::TABLE, RowRange::all(), ask, DIRECTORIES);
    while let Some(rows) = directories.next(tables).await? {
        for (key, row) in &rows {
            if let Some(id) = row.get(CF, dir::ID) {
                fill_directory(tables, key, dir::decode_id(id)?, indexes, &mut waiting).await?;
            }
        }
    }
    put(tables, &mut waiting).await
}

/// Collects index entries over many small directories until they are worth a plan.
async fn fill_directory(
    tables: &Tables,
    row: &Bytes,
    dir: DirId,
    indexes: &[&str],
    waiting: &mut Vec<RowChange>,
) -> Result<()> {
    let (row, (from, to)) = (row.clone(), dir::range(dir::FILE, ""));
    let first = PageQuery { table: dir::TABLE, row, family: dir::SUB, from, to, limit: ENTRIES, unchanged: vec![] };
    let mut files = CellCursor::new(first);
    while let Some(cells) = files.next(tables).await? {
        for cell in &cells {
            waiting.extend(index_rows_of(dir, cell)?.into_iter().filter(|hint| indexes.contains(&hint.table)));
            if waiting.len() >= BATCH {
                put(tables, waiting).await?;
            }
        }
    }
    Ok(())
}

async fn put(tables: &Tables, waiting: &mut Vec<RowChange>) -> Result<()> {
    let mut prepare = std::mem::take(waiting);
    // A directory that an operation moves has two rows, and both name its files. A plan puts a cell once.
    let cell =
        |hint: &RowChange| (hint.table, hint.row.clone(), hint.changes.first().and_then(Change::qualifier).cloned());
    prepare.sort_by_key(cell);
    prepare.dedup_by_key(|hint| cell(hint));
    if !prepare.is_empty() {
        tables.commit(Plan { prepare, ..Plan::default() }).await?;
    }
    Ok(())
}
