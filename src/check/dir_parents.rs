//! Every link of a directory to its parent: whether the directory is there.

use super::{Checker, Finding, Kind, ROWS, Result, Told, printed};
use crate::schema::{CF, DirId, dirid};
use crate::table::{Ask, RowChange, RowCursor, RowRange};

impl Checker<'_> {
    pub(super) async fn links(&mut self) -> Result<()> {
        let mut all = RowCursor::new(dirid::TABLE, RowRange::all(), Ask::families(&[CF]), ROWS);
        while let Some(rows) = all.next(self.tables).await? {
            for (key, _) in &rows {
                let id = uuid::Uuid::from_slice(key).map(DirId);
                if id.as_ref().is_ok_and(|id| self.paths.contains_key(id) || self.left.going.contains(id)) {
                    continue;
                }
                let repaired = self.may_remove();
                if repaired {
                    let changes = dirid::removal();
                    self.remove(vec![RowChange { table: dirid::TABLE, row: key.clone(), changes }]).await?;
                }
                let row = id.map_or_else(|_| printed(key), |id| id.to_string());
                let detail = "it links a directory that is not there".to_owned();
                let (kind, table) = (Kind::StrayLink, dirid::TABLE);
                self.found(Finding { kind, table, row, path: None, detail, repaired });
            }
            (self.tell)(Told::Rows(rows.len()));
        }
        Ok(())
    }
}
