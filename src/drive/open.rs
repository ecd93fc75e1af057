//! Opening a file for reading.

use super::ask::{Node, Opened};
use super::{Drive, DriveError, Result, TRIES};
use crate::content::{Body, ContentError};
use crate::schema::DrivePath;
use crate::schema::dir::Entry;
use crate::schema::file::{self, Location};

impl Drive {
    /// One version of a file: attributes and content belong together. A version that was replaced between
    /// the two reads is looked up again.
    pub async fn open_file(&self, path: &DrivePath) -> Result<Opened> {
        for _ in 0..TRIES {
            let Node::File { path, entry } = self.stat(path).await? else {
                return Err(DriveError::IsDirectory);
            };
            match self.content(&path, &entry).await {
                Err(DriveError::Content(ContentError::Gone(_))) => {}
                body => return Ok(Opened { body: body?, path, entry }),
            }
        }
        Err(DriveError::Contended)
    }

    /// The content of the version that was found at `path`; [`ContentError::Gone`] if it was replaced since.
    pub async fn content(&self, path: &DrivePath, entry: &Entry) -> Result<Body> {
        match self.body(entry).await {
            Err(DriveError::Content(ContentError::Gone(id))) => match self.stat(path).await {
                Ok(Node::File { entry, .. }) if entry.id == id => {
                    let what = "a name reaches it, but its content is missing".to_owned();
                    Err(ContentError::Damaged { id, what }.into())
                }
                _ => Err(ContentError::Gone(id).into()),
            },
            body => body,
        }
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
