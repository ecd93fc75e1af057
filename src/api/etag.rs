//! Entity tags: the id of a file's version in quotes, so that each version has a strong tag of its own.

use uuid::Uuid;

use crate::schema::FileId;

/// The tag of a version, with its quotes.
pub fn format(id: FileId) -> String {
    let mut buffer = Uuid::encode_buffer();
    let id: &str = id.0.as_hyphenated().encode_lower(&mut buffer);
    ["\"", id, "\""].concat()
}

/// The version that a tag names, given the text between its quotes; none if [`format()`] writes no such tag. Tags are
/// compared byte by byte, so an id in upper case names no version.
pub fn parse_opaque(opaque: &[u8]) -> Option<FileId> {
    let text = std::str::from_utf8(opaque).ok()?;
    let id = FileId(Uuid::try_parse(text).ok()?);
    (id.to_string() == text).then_some(id)
}
