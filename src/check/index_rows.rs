//! Every hint of an index: whether it is one of a file that is there.

use super::names::holds;
use super::{Checker, Finding, Kind, ROWS, Result, Told, printed};
use crate::schema::name::{self, NameHint};
use crate::schema::owner::{self, OwnerHint};
use crate::schema::time::{self, TimeHint};
use crate::schema::{CF, DirId, FileId, Name, ValueError, index};
use crate::table::{Ask, Cell, Change, Row, RowChange, RowCursor, RowKey, RowRange};

/// A hint as it is stored, and where it says that its file stands.
struct Met<'a> {
    key: &'a RowKey,
    cell: &'a Cell,
    /// None if it cannot be read.
    says: Option<(DirId, Name, FileId)>,
}

impl Checker<'_> {
    pub(super) async fn hints(&mut self, table: &'static str) -> Result<()> {
        let mut hints = RowCursor::new(table, RowRange::all(), Ask::families(&[CF]), ROWS);
        while let Some(rows) = hints.next(self.tables).await? {
            let met: Vec<_> = rows.iter().flat_map(|(key, row)| all(table, key, row)).collect();
            let places: Vec<_> = met.iter().filter_map(|met| met.says.clone()).collect();
            let mut entries = self.entries(&places).await?.into_iter();
            for met in &met {
                let entry = met.says.as_ref().and_then(|_| entries.next().flatten());
                let Some((dir, name, _)) = &met.says else {
                    self.stray_hint(table, met, "it cannot be read").await?;
                    continue;
                };
                let stored = Row::new(vec![(CF, met.cell.clone())]);
                let is_its = |hint: &RowChange| hint.table == table && hint.row == met.key && holds(&stored, hint);
                let right = entry.is_some_and(|entry| index::hints(*dir, name, &entry).iter().any(is_its));
                let going = self.left.going.contains(dir) && !self.paths.contains_key(dir);
                if !right && !going {
                    self.stray_hint(table, met, "no file stands where it says").await?;
                }
            }
            (self.tell)(Told::Rows(rows.len()));
        }
        Ok(())
    }

    async fn stray_hint(&mut self, table: &'static str, met: &Met<'_>, what: &str) -> Result<()> {
        let repaired = self.may_remove();
        if repaired {
            let changes = vec![Change::delete(CF, met.cell.qualifier.clone())];
            self.remove(vec![RowChange { table, row: met.key.clone(), changes }]).await?;
        }
        let detail = match &met.says {
            Some((dir, name, id)) => format!("{what}: {id}, {} in {dir}", name.as_str().escape_debug()),
            None => what.to_owned(),
        };
        let row = printed(met.key);
        self.found(Finding { kind: Kind::StrayHint, table, row, path: None, detail, repaired });
        Ok(())
    }
}

fn all<'a>(table: &'static str, key: &'a RowKey, row: &'a Row) -> Vec<Met<'a>> {
    row.family(CF).map(|cell| Met { key, cell, says: says(table, key, cell).ok() }).collect()
}

fn says(table: &str, key: &RowKey, cell: &Cell) -> std::result::Result<(DirId, Name, FileId), ValueError> {
    Ok(match table {
        time::TABLE => {
            let TimeHint { dir, name, .. } = TimeHint::decode(&cell.value)?;
            (dir, name, time::decode_key(key)?.1)
        }
        owner::TABLE => {
            let OwnerHint { dir, name, .. } = OwnerHint::decode(&cell.value)?;
            (dir, name, owner::decode_key(key)?.1)
        }
        _ => {
            let NameHint { dir, name } = NameHint::decode(&cell.value)?;
            (dir, name, name::decode_key(key)?.1)
        }
    })
}
