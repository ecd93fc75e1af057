//! Checks every row that links a directory to its parent: that the directory exists.

use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::schema::{CF, DirId, dir_parent};
use crate::table::{RowChange, RowCursor, RowQuery, RowRange};

impl Checker<'_> {
    pub(super) async fn dir_parents(&mut self) -> Result<()> {
        let mut all = RowCursor::new(dir_parent::TABLE, RowRange::all(), RowQuery::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            for (key, _) in &rows {
                let id = uuid::Uuid::from_slice(key).map(DirId);
                if id.as_ref().is_ok_and(|id| self.paths.contains_key(id) || self.pending.deleted_dirs.contains(id)) {
                    continue;
                }
                let repaired = self.may_remove();
                if repaired {
                    let changes = dir_parent::delete_cells();
                    self.delete(vec![RowChange { table: dir_parent::TABLE, row: key.clone(), changes }]).await?;
                }
                let row = id.map_or_else(|_| printable(key), |id| id.to_string());
                let detail = "it links a directory that does not exist".to_owned();
                let (kind, table) = (FindingKind::StrayDirParent, dir_parent::TABLE);
                self.record(Finding { kind, table, row, path: None, detail, repaired });
            }
            (self.on_event)(CheckEvent::Rows(rows.len()));
        }
        Ok(())
    }
}
