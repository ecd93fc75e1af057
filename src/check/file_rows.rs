//! Checks every row of the file table: that a name leads to it, and with `--content` its inline content.

use super::{CheckEvent, Checker, Finding, FindingKind, ROWS, Result, printable};
use crate::content::Body;
use crate::schema::dir::FileEntry;
use crate::schema::file::{self, Attributes, ContentLocation, FilePosition};
use crate::schema::{CF, DirId, FileId, Name, file_row};
use crate::table::{Change, Row, RowChange, RowCursor, RowQuery, RowRange};

/// Rows read at a time together with the content in them: up to 8 MiB.
const WITH_CONTENT: usize = 32;

/// A row of the file table.
struct StoredFile<'a> {
    id: FileId,
    row: &'a Row,
    position: Option<FilePosition>,
}

impl Checker<'_> {
    pub(super) async fn file_rows(&mut self) -> Result<()> {
        let (families, limit): (&[&'static str], _) =
            if self.options.content { (&[CF, file::C], WITH_CONTENT) } else { (&[CF], ROWS) };
        let mut all = RowCursor::new(file::TABLE, RowRange::all(), RowQuery::families(families), limit);
        while let Some(rows) = all.next(self.tables).await? {
            let mut files = Vec::with_capacity(rows.len());
            for (key, row) in &rows {
                match uuid::Uuid::from_slice(key) {
                    Ok(id) => {
                        files.push(StoredFile { id: FileId(id), row, position: file_row::position(row).ok().flatten() })
                    }
                    Err(_) => {
                        let what = "its key is not a file id".to_owned();
                        self.report(FindingKind::Unreadable, file::TABLE, printable(key), None, what);
                    }
                }
            }
            self.check_file_rows(&files).await?;
            (self.on_event)(CheckEvent::Rows(rows.len()));
        }
        Ok(())
    }

    async fn check_file_rows(&mut self, files: &[StoredFile<'_>]) -> Result<()> {
        let position = |file: &StoredFile<'_>| file.position.as_ref().map(|at| (at.dir, at.name.clone(), file.id));
        let positions: Vec<(DirId, Name, FileId)> = files.iter().filter_map(position).collect();
        let mut entries = self.entries_at(&positions).await?.into_iter();
        for file in files {
            let entry = if file.position.is_some() { entries.next().flatten() } else { None };
            match (entry, &file.position) {
                (Some(entry), Some(at)) => self.inline_content(file, at, &entry).await?,
                // Reported already with its entry.
                _ if self.reported_files.contains(&file.id) => {}
                (None, Some(at))
                    if self.pending.deleted_dirs.contains(&at.dir) && !self.paths.contains_key(&at.dir) => {}
                _ => self.stray_file(file).await?,
            }
        }
        Ok(())
    }

    /// Checks the content in the row itself.
    async fn inline_content(&mut self, file: &StoredFile<'_>, at: &FilePosition, entry: &FileEntry) -> Result<()> {
        if !self.options.content || entry.attributes.location != ContentLocation::Inline {
            return Ok(());
        }
        let Attributes { size, digest, .. } = &entry.attributes;
        let (kind, what) = match file.row.get(file::C, file::DATA).map(|cell| Body::inline(cell.clone())) {
            None => (FindingKind::ContentMissing, "its content is missing".to_owned()),
            Some(Err(error)) => (FindingKind::ContentDamaged, error.to_string()),
            Some(Ok(body)) => match body.verify(file.id, *size, digest).await {
                Ok(()) => return Ok(()),
                Err(error) => (FindingKind::ContentDamaged, error.to_string()),
            },
        };
        let path = self.paths.get(&at.dir).and_then(|dir| dir.join(&at.name).ok());
        self.report(kind, file::TABLE, file.id.to_string(), path.as_ref(), what);
        Ok(())
    }

    /// Reports a file that no name leads to. A repair saves its content before it removes the row.
    async fn stray_file(&mut self, file: &StoredFile<'_>) -> Result<()> {
        let detail = match file_row::attributes(file.row) {
            Ok(Some(attributes)) => format!("no name leads to this file of {} bytes", attributes.size),
            Ok(None) => "no name leads to this row, and it lacks cells of a file row".to_owned(),
            Err(error) => format!("no name leads to it, and it cannot be read: {error}"),
        };
        let repaired = self.may_remove();
        if repaired {
            let name = file.position.as_ref().map_or("content", |at| at.name.as_str());
            self.save_content(file.id, name).await?;
            // What the row has, whatever that is: it may be damaged, or of an older schema.
            let mut changes: Vec<_> =
                file.row.family(CF).map(|cell| Change::delete(CF, cell.qualifier.clone())).collect();
            changes.push(Change::delete(file::C, file::DATA));
            self.delete(vec![RowChange { table: file::TABLE, row: file.id.key(), changes }]).await?;
            self.content.remove(&[file.id]).await?;
        }
        let (kind, row) = (FindingKind::StrayFile, file.id.to_string());
        self.record(Finding { kind, table: file::TABLE, row, path: None, detail, repaired });
        Ok(())
    }

    /// Saves the content of a file that no name leads to as `lost/<id>/<name>`, wherever it is stored.
    pub(super) async fn save_content(&mut self, id: FileId, name: &str) -> Result<()> {
        let cell = self.tables.cell(file::TABLE, id.0.as_bytes(), file::C, file::DATA).await?;
        let folder = self.lost.join(id.to_string());
        let saved = match cell {
            // A cell that cannot be decoded is saved with its version byte.
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
