//! Every content file: whether a file has it.

use super::{Checker, Finding, Kind, ROWS, Result, Told};
use crate::schema::file::{self, Location};
use crate::schema::{CF, FileId};
use crate::table::{Ask, Column};

impl Checker<'_> {
    pub(super) async fn contents(&mut self) -> Result<()> {
        for first in self.content.folders().await? {
            let (ids, foreign) = self.content.settled(first).await?;
            for path in foreign {
                let what = "Rowdrive has not made this: it is left as it is".to_owned();
                self.find(Kind::Foreign, "content", path.display().to_string(), None, what);
            }
            for ids in ids.chunks(ROWS) {
                self.owned(ids).await?;
                (self.tell)(Told::Rows(ids.len()));
            }
        }
        Ok(())
    }

    async fn owned(&mut self, ids: &[FileId]) -> Result<()> {
        let column = || Ask::cells(vec![Column::new(CF, file::CONTENT)]);
        // A file whose row is missing or damaged has been told, and its content is all that is left of it.
        let is_told = |id: &FileId| self.left.dropped.contains(id) || self.known.contains(id);
        let ids: Vec<FileId> = ids.iter().filter(|id| !is_told(id)).copied().collect();
        let asks: Vec<_> = ids.iter().map(|id| (id.key(), column())).collect();
        let rows = self.rows(file::TABLE, &asks, &|_| None).await?;
        for (id, row) in ids.iter().zip(rows) {
            let Some(row) = row else { continue };
            if row.get(CF, file::CONTENT).is_some_and(|v| Location::decode(v) == Ok(Location::Large)) {
                continue;
            }
            let repaired = self.may_remove();
            if repaired {
                self.save(*id, "content").await?;
                self.content.remove(&[*id]).await?;
            }
            let (kind, row, detail) = (Kind::StrayContent, id.to_string(), "no file has this content".to_owned());
            self.found(Finding { kind, table: "content", row, path: None, detail, repaired });
        }
        Ok(())
    }
}
