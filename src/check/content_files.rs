//! Checks every content file: that a file has it.

use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result};
use crate::schema::{FileId, file, file_row};
use crate::table::RowQuery;

impl Checker<'_> {
    pub(super) async fn content_files(&mut self) -> Result<()> {
        for first in self.content.shards().await? {
            let (ids, foreign) = self.content.list_shard(first).await?;
            for path in foreign {
                let what = "Rowdrive did not create this: it is left as it is".to_owned();
                self.report(FindingKind::ForeignFile, "content", path.display().to_string(), None, what);
            }
            for ids in ids.chunks(ROWS) {
                self.check_content_files(ids).await?;
                (self.on_event)(CheckEvent::Rows(ids.len()));
            }
        }
        Ok(())
    }

    async fn check_content_files(&mut self, ids: &[FileId]) -> Result<()> {
        let location = || RowQuery::cells(file_row::location_columns());
        // A file whose row is missing or damaged was reported already, and its content file is all that is left of it.
        let is_known = |id: &FileId| self.pending.unlinks.contains(id) || self.reported_files.contains(id);
        let ids: Vec<FileId> = ids.iter().filter(|id| !is_known(id)).copied().collect();
        let queries: Vec<_> = ids.iter().map(|id| (id.key(), location())).collect();
        let rows = self.read_rows(file::TABLE, &queries, &|_| None).await?;
        for (id, row) in ids.iter().zip(rows) {
            let Some(row) = row else { continue };
            if file_row::may_name_content(&row) {
                continue;
            }
            let repaired = self.may_remove();
            if repaired {
                self.save_content(*id, "content").await?;
                self.content.remove(&[*id]).await?;
            }
            let (kind, row, detail) =
                (FindingKind::StrayContent, id.to_string(), "no file has this content".to_owned());
            self.record(Finding { kind, table: "content", row, path: None, detail, repaired });
        }
        Ok(())
    }
}
