//! Every hint of an index: whether it is one of a file that is there.

use super::entries::holds;
use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::schema::index::by_name::{self, NameIndexEntry};
use crate::schema::index::by_owner::{self, OwnerIndexEntry};
use crate::schema::index::by_time::{self, TimeIndexEntry};
use crate::schema::{CF, DirId, FileId, Name, ValueError, index};
use crate::table::{Cell, Change, Row, RowChange, RowCursor, RowKey, RowQuery, RowRange};

/// A hint as it is stored, and where it says that its file stands.
struct StoredIndexCell<'a> {
    key: &'a RowKey,
    cell: &'a Cell,
    /// None if it cannot be read.
    claim: Option<(DirId, Name, FileId)>,
}

impl Checker<'_> {
    pub(super) async fn index_rows(&mut self, table: &'static str) -> Result<()> {
        let mut all = RowCursor::new(table, RowRange::all(), RowQuery::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            let cells: Vec<_> = rows.iter().flat_map(|(key, row)| index_cells(table, key, row)).collect();
            let places: Vec<_> = cells.iter().filter_map(|stored| stored.claim.clone()).collect();
            let mut entries = self.entries_at(&places).await?.into_iter();
            for stored in &cells {
                let entry = stored.claim.as_ref().and_then(|_| entries.next().flatten());
                let Some((dir, name, _)) = &stored.claim else {
                    self.stray_index_entry(table, stored, "it cannot be read").await?;
                    continue;
                };
                let row = Row::new(vec![(CF, stored.cell.clone())]);
                let is_its = |entry: &RowChange| entry.table == table && entry.row == stored.key && holds(&row, entry);
                let right = entry.is_some_and(|entry| index::put_rows(*dir, name, &entry).iter().any(is_its));
                let going = self.pending.deleted_dirs.contains(dir) && !self.paths.contains_key(dir);
                if !right && !going {
                    self.stray_index_entry(table, stored, "no file stands where it says").await?;
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

fn index_cells<'a>(table: &'static str, key: &'a RowKey, row: &'a Row) -> Vec<StoredIndexCell<'a>> {
    row.family(CF).map(|cell| StoredIndexCell { key, cell, claim: claim(table, key, cell).ok() }).collect()
}

fn claim(table: &str, key: &RowKey, cell: &Cell) -> std::result::Result<(DirId, Name, FileId), ValueError> {
    Ok(match table {
        by_time::TABLE => {
            let TimeIndexEntry { dir, name, .. } = TimeIndexEntry::decode(&cell.value)?;
            (dir, name, by_time::decode_key(key)?.1)
        }
        by_owner::TABLE => {
            let OwnerIndexEntry { dir, name, .. } = OwnerIndexEntry::decode(&cell.value)?;
            (dir, name, by_owner::decode_key(key)?.1)
        }
        _ => {
            let NameIndexEntry { dir, name } = NameIndexEntry::decode(&cell.value)?;
            (dir, name, by_name::decode_key(key)?.1)
        }
    })
}
