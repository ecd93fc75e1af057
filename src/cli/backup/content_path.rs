//! The paths of content files: each is named after its id.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rowdrive::schema::FileId;
use uuid::Uuid;

pub use crate::data_folder::names::CONTENT;

/// The path of a content file in a data folder or a backup.
pub fn path_of(id: FileId) -> PathBuf {
    Path::new(CONTENT).join(folder_of(id)).join(id.to_string())
}

/// The folder in `content/`: the first byte of the id in hexadecimal digits.
pub fn folder_of(id: FileId) -> String {
    let [first, ..] = *id.0.as_bytes();
    format!("{first:02x}")
}

/// The id of the content file of this name; none if it is no name of a content file.
pub fn id_in_name(name: &OsStr) -> Option<FileId> {
    let id = Uuid::parse_str(name.to_str()?).ok().map(FileId)?;
    // Other spellings of an id are not the names of content files.
    (name == OsStr::new(&id.to_string())).then_some(id)
}
