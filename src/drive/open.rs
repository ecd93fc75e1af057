//! Opening a file for reading.

use super::ask::{Node, Opened};
use super::{Drive, DriveError, Result, TRIES};
use crate::content::{Body, ContentError};
use crate::schema::dir::Entry;
use crate::schema::file::{self, Location};
use crate::schema::{DrivePath, FileId};

impl Drive {
    /// One version of a file: attributes and content belong together. A version that was replaced between
    /// the two reads is looked up again.
    pub async fn open_file(&self, path: &DrivePath) -> Result<Opened> {
        let mut gone: Option<FileId> = None;
        for _ in 0..TRIES {
            let entry = match self.stat(path).await? {
                Node::Directory { .. } => return Err(DriveError::IsDirectory),
                Node::File { entry, .. } => entry,
            };
            if gone == Some(entry.id) {
                let what = "a name reaches it, but its content is missing".to_owned();
                return Err(ContentError::Damaged { id: entry.id, what }.into());
            }
            match self.body(&entry).await {
                Ok(body) => {
                    return Ok(Opened { path: path.clone(), entry, body });
                }
                Err(DriveError::Content(ContentError::Gone(id))) => gone = Some(id),
                Err(error) => return Err(error),
            }
        }
        Err(DriveError::Contended)
    }

    async fn body(&self, entry: &Entry) -> Result<Body> {
        let id = entry.id;
        let size = entry.attributes.size;
        if entry.attributes.location == Location::Large {
            return Ok(Body::Large(self.inner.content.open_large(id, size).await?));
        }
        let cell = self.inner.tables.cell(file::TABLE, id.0.as_bytes(), file::C, file::DATA).await?;
        let body = Body::inline(cell.ok_or(ContentError::Gone(id))?)?;
        if body.len() != size {
            let what = format!("its content has {} bytes, not {size}", body.len());
            return Err(ContentError::Damaged { id, what }.into());
        }
        Ok(body)
    }
}
