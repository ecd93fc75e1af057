//! Every row of the file table: whether a name leads to it, and with `--content` what it holds itself.

use super::{Checker, Finding, Kind, ROWS, Result, Told, printed};
use crate::content::Body;
use crate::schema::dir::Entry;
use crate::schema::file::{self, Attributes, Location, Standing};
use crate::schema::{CF, DirId, FileId, Name};
use crate::table::{Ask, Row, RowChange, RowCursor, RowRange};

/// Rows read at a time together with the content in them: up to 8 MiB.
const WITH_CONTENT: usize = 32;

/// A row of the file table.
struct Met<'a> {
    id: FileId,
    row: &'a Row,
    standing: Option<Standing>,
}

impl Checker<'_> {
    pub(super) async fn files(&mut self) -> Result<()> {
        let (families, limit): (&[&'static str], _) =
            if self.options.content { (&[CF, file::C], WITH_CONTENT) } else { (&[CF], ROWS) };
        let mut all = RowCursor::new(file::TABLE, RowRange::all(), Ask::families(families), limit);
        while let Some(rows) = all.next(self.tables).await? {
            let mut met = Vec::with_capacity(rows.len());
            for (key, row) in &rows {
                match uuid::Uuid::from_slice(key) {
                    Ok(id) => met.push(Met { id: FileId(id), row, standing: Standing::of(row).ok().flatten() }),
                    Err(_) => {
                        let what = "its key is no file id".to_owned();
                        self.find(Kind::Unreadable, file::TABLE, printed(key), None, what);
                    }
                }
            }
            self.met(&met).await?;
            (self.tell)(Told::Rows(rows.len()));
        }
        Ok(())
    }

    async fn met(&mut self, met: &[Met<'_>]) -> Result<()> {
        let place = |met: &Met<'_>| met.standing.as_ref().map(|at| (at.dir, at.name.clone(), met.id));
        let places: Vec<(DirId, Name, FileId)> = met.iter().filter_map(place).collect();
        let mut entries = self.entries(&places).await?.into_iter();
        for met in met {
            let entry = if met.standing.is_some() { entries.next().flatten() } else { None };
            match (entry, &met.standing) {
                (Some(entry), Some(at)) => self.inline(met, at, &entry).await?,
                // Told already where its name was met.
                _ if self.known.contains(&met.id) => {}
                (None, Some(at)) if self.left.going.contains(&at.dir) && !self.paths.contains_key(&at.dir) => {}
                _ => self.stray(met).await?,
            }
        }
        Ok(())
    }

    /// Content that lies in the row itself.
    async fn inline(&mut self, met: &Met<'_>, at: &Standing, entry: &Entry) -> Result<()> {
        if !self.options.content || entry.attributes.location != Location::Inline {
            return Ok(());
        }
        let Attributes { size, digest, .. } = &entry.attributes;
        let (kind, what) = match met.row.get(file::C, file::DATA).map(|cell| Body::inline(cell.clone())) {
            None => (Kind::ContentMissing, "its content is missing".to_owned()),
            Some(Err(error)) => (Kind::ContentDamaged, error.to_string()),
            Some(Ok(body)) => match body.verify(met.id, *size, digest).await {
                Ok(()) => return Ok(()),
                Err(error) => (Kind::ContentDamaged, error.to_string()),
            },
        };
        let path = self.paths.get(&at.dir).and_then(|dir| dir.join(&at.name).ok());
        self.find(kind, file::TABLE, met.id.to_string(), path.as_ref(), what);
        Ok(())
    }

    /// A file that no name leads to: what it holds is saved, then it is removed.
    async fn stray(&mut self, met: &Met<'_>) -> Result<()> {
        let detail = match Attributes::of(met.row) {
            Ok(Some(attributes)) => format!("no name leads to this file of {} bytes", attributes.size),
            Ok(None) => "no name leads to this row, which is none of a whole file".to_owned(),
            Err(error) => format!("no name leads to it, and it cannot be read: {error}"),
        };
        let repaired = self.may_remove();
        if repaired {
            let name = met.standing.as_ref().map_or("content", |at| at.name.as_str());
            self.save(met.id, name).await?;
            let changes = file::removal(Location::Inline);
            self.remove(vec![RowChange { table: file::TABLE, row: met.id.key(), changes }]).await?;
            self.content.remove(&[met.id]).await?;
        }
        let (kind, row) = (Kind::StrayFile, met.id.to_string());
        self.found(Finding { kind, table: file::TABLE, row, path: None, detail, repaired });
        Ok(())
    }

    /// Saves the content of a file that no name leads to as `lost/<id>/<name>`, wherever it lies.
    pub(super) async fn save(&mut self, id: FileId, name: &str) -> Result<()> {
        let cell = self.tables.cell(file::TABLE, id.0.as_bytes(), file::C, file::DATA).await?;
        let folder = self.lost.join(id.to_string());
        let saved = match cell {
            // One that cannot be read is saved as it is.
            Some(cell) => {
                let bytes = match Body::inline(cell.clone()) {
                    Ok(Body::Inline(bytes)) => bytes,
                    _ => cell,
                };
                self.content.save_bytes(bytes, &folder, name).await.map(|()| true)
            }
            None => self.content.save(id, &folder, name).await,
        }?;
        self.summary.saved += u64::from(saved);
        Ok(())
    }
}
