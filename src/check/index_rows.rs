//! Checks every index entry: that there is such a file at the position that it gives.

use super::entries::has_cells;
use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::schema::index::by_name::{self, NameIndexEntry};
use crate::schema::index::by_owner::{self, OwnerIndexEntry};
use crate::schema::index::by_time::{self, TimeIndexEntry};
use crate::schema::index::{self, IndexTable};
use crate::schema::{CF, DirId, FileId, Name, ValueError};
use crate::table::{Cell, Change, Row, RowChange, RowCursor, RowKey, RowQuery, RowRange};

/// A stored index entry.
struct StoredIndexCell<'a> {
    key: &'a RowKey,
    cell: &'a Cell,
    /// The position and the id of its file; none if the entry cannot be decoded.
    claim: Option<(DirId, Name, FileId)>,
}

impl Checker<'_> {
    pub(super) async fn index_rows(&mut self, index: IndexTable) -> Result<()> {
        let table = index.table();
        let mut all = RowCursor::new(table, RowRange::all(), RowQuery::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            let cells: Vec<_> = rows.iter().flat_map(|(key, row)| index_cells(index, key, row)).collect();
            let claims: Vec<_> = cells.iter().filter_map(|stored| stored.claim.clone()).collect();
            let mut entries = self.entries_at(&claims).await?.into_iter();
            for stored in &cells {
                let entry = stored.claim.as_ref().and_then(|_| entries.next().flatten());
                let Some((dir, name, _)) = &stored.claim else {
                    self.stray_index_entry(table, stored, "it cannot be read").await?;
                    continue;
                };
                let row = Row::new(vec![(CF, stored.cell.clone())]);
                let is_stored =
                    |entry: &RowChange| entry.table == table && entry.row == stored.key && has_cells(&row, entry);
                let right = entry.is_some_and(|entry| index::put_rows(*dir, name, &entry).iter().any(is_stored));
                let is_pending = self.pending.deleted_dirs.contains(dir) && !self.paths.contains_key(dir);
                if !right && !is_pending {
                    self.stray_index_entry(table, stored, "there is no such file at its position").await?;
                }
            }
            (self.on_event)(CheckEvent::Rows(rows.len()));
        }
        Ok(())
    }

    async fn stray_index_entry(&mut self, table: &'static str, stored: &StoredIndexCell<'_>, what: &str) -> Result<()> {
        let repaired = self.may_remove();
        if repaired {
            let changes = vec![Change::delete(CF, stored.cell.qualifier.clone())];
            self.delete(vec![RowChange { table, row: stored.key.clone(), changes }]).await?;
        }
        let detail = match &stored.claim {
            Some((dir, name, id)) => format!("{what}: {id}, {} in {dir}", name.as_str().escape_debug()),
            None => what.to_owned(),
        };
        let row = printable(stored.key);
        self.record(Finding { kind: FindingKind::StrayIndexEntry, table, row, path: None, detail, repaired });
        Ok(())
    }
}

fn index_cells<'a>(index: IndexTable, key: &'a RowKey, row: &'a Row) -> Vec<StoredIndexCell<'a>> {
    row.family(CF).map(|cell| StoredIndexCell { key, cell, claim: decode_claim(index, key, cell).ok() }).collect()
}

fn decode_claim(
    index: IndexTable,
    key: &RowKey,
    cell: &Cell,
) -> std::result::Result<(DirId, Name, FileId), ValueError> {
    Ok(match index {
        IndexTable::Time => {
            let TimeIndexEntry { dir, name, .. } = TimeIndexEntry::decode(&cell.value)?;
            (dir, name, by_time::decode_key(key)?.1)
        }
        IndexTable::Owner => {
            let OwnerIndexEntry { dir, name, .. } = OwnerIndexEntry::decode(&cell.value)?;
            (dir, name, by_owner::decode_key(key)?.1)
        }
        IndexTable::Name => {
            let NameIndexEntry { dir, name } = NameIndexEntry::decode(&cell.value)?;
            (dir, name, by_name::decode_key(key)?.1)
        }
    })
}
