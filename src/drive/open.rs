//! Opens files for reading.

use crate::content::{Body, Content, ContentError};
use crate::drive::error::{DriveError, Result};
use crate::drive::model::{Node, OpenFile};
use crate::drive::namespace::Namespace;
use crate::drive::namespace::lookup::stat;
use crate::drive::settings::TRIES;
use crate::schema::DrivePath;
use crate::schema::dir::FileEntry;
use crate::schema::file::{self, ContentLocation};

/// Opens one version of a file: attributes and content belong together. If the version was replaced between the two
/// reads, the path is looked up again.
pub async fn open_file(ns: &Namespace, content: &Content, path: &DrivePath) -> Result<OpenFile> {
    for _ in 0..TRIES {
        let Node::File { path, entry } = stat(ns, path).await? else {
            return Err(DriveError::IsDirectory);
        };
        match open_content(ns, content, &path, &entry).await {
            Err(DriveError::Content(ContentError::Gone(_))) => {}
            body => return Ok(OpenFile { body: body?, path, entry }),
        }
    }
    Err(DriveError::Contended)
}

/// Opens the content of the version that was found at `path`; [`ContentError::Gone`] if it was replaced since.
///
/// Missing content alone does not prove damage: an overwrite may have removed it after `entry` was read. If a second
/// read finds the same version at the path, the content is missing although a name reaches it.
pub async fn open_content(ns: &Namespace, content: &Content, path: &DrivePath, entry: &FileEntry) -> Result<Body> {
    match body(ns, content, entry).await {
        Err(DriveError::Content(ContentError::Gone(id))) => match stat(ns, path).await {
            Ok(Node::File { entry, .. }) if entry.id == id => {
                let what = "a name reaches it, but its content is missing".to_owned();
                Err(ContentError::Damaged { id, what }.into())
            }
            _ => Err(ContentError::Gone(id).into()),
        },
        body => body,
    }
}

async fn body(ns: &Namespace, content: &Content, entry: &FileEntry) -> Result<Body> {
    let id = entry.id;
    let size = entry.attributes.size;
    if entry.attributes.location == ContentLocation::Large {
        return Ok(Body::Large(content.open_file(id, size).await?));
    }
    let cell = ns.tables.cell(file::TABLE, id.0.as_bytes(), file::C, file::DATA).await?;
    let body = Body::inline(cell.ok_or(ContentError::Gone(id))?)?;
    if body.len() != size {
        let what = format!("its content has {} bytes, not {size}", body.len());
        return Err(ContentError::Damaged { id, what }.into());
    }
    Ok(body)
}
