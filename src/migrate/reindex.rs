//! Makes the index rows of files from the directory table: what fills a new index, and what repairs one.

use bytes::Bytes;

use crate::schema::dir::{self, Entry};
use crate::schema::{CF, DirId, ValueError, index};
use crate::table::{Ask, Cell, CellCursor, Change, PageAsk, Plan, RowChange, RowCursor, RowRange, StoreError, Tables};

/// Directories read at a time.
const DIRECTORIES: usize = 1_000;
/// Entries of a directory read at a time.
const ENTRIES: usize = 500;
/// Hints after which a plan is sent.
const HINTS: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum ReindexError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Value(#[from] ValueError),
}

type Result<T> = std::result::Result<T, ReindexError>;

/// The hints that the file of this entry has: `cell` is of family `sub` of the directory `dir`.
fn hints_of(dir: DirId, cell: &Cell) -> Result<Vec<RowChange>> {
    let (_, name) = dir::child(&cell.qualifier)?;
    Ok(index::hints(dir, &name, &Entry::decode(&cell.value)?))
}

/// Puts the hints of all files into these tables. May be done again, whatever was there.
pub async fn fill(tables: &Tables, indexes: &[&str]) -> Result<()> {
    let mut waiting = Vec::new();
    let ask = Ask::cells(vec![dir::id_column()]);
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

/// Hints wait until they are worth a plan, over many small directories.
async fn fill_directory(
    tables: &Tables,
    row: &Bytes,
    dir: DirId,
    indexes: &[&str],
    waiting: &mut Vec<RowChange>,
) -> Result<()> {
    let (row, (from, to)) = (row.clone(), dir::range(dir::FILE, ""));
    let first = PageAsk { table: dir::TABLE, row, family: dir::SUB, from, to, limit: ENTRIES, fence: vec![] };
    let mut files = CellCursor::new(first);
    while let Some(cells) = files.next(tables).await? {
        for cell in &cells {
            waiting.extend(hints_of(dir, cell)?.into_iter().filter(|hint| indexes.contains(&hint.table)));
            if waiting.len() >= HINTS {
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
