//! What rows hold of a node: one packing of attributes, which all layouts share, and the conditions on it.

use anyhow::{Context, Result};
use bytes::{Buf, Bytes};
use rowdrive::schema::file::{Attributes, ContentLocation, Digest};
use rowdrive::schema::{CF, Timestamp};
use rowdrive::table::{Change, Check, Column, Row};

use super::{Child, List, Node, Period};

/// The family of content, apart from what lists read.
pub const CONTENT: &str = "c";
pub const DATA: &[u8] = b"data";
pub const FILE: &[u8] = b"f";
pub const DIRECTORY: &[u8] = b"d";
/// The cells of a row that holds one node.
pub const NODE: &[&[u8]] = &[FILE, DIRECTORY];

/// One packing of a file's attributes for all layouts, in one value. More may follow it.
pub fn pack(attributes: &Attributes) -> Vec<u8> {
    let Attributes { size, mime, creator, modified, added, digest, .. } = attributes;
    let mut value = Vec::with_capacity(96);
    for number in [*size, modified.ms() as u64, added.ms() as u64] {
        value.extend(number.to_be_bytes());
    }
    value.extend(digest.0);
    for text in [mime, creator] {
        value.push(text.len() as u8);
        value.extend(text.as_bytes());
    }
    value
}

/// The attributes of a packed value, and what follows them.
pub fn unpack(mut value: &[u8]) -> Result<(Attributes, &[u8])> {
    let size = value.try_get_u64()?;
    let [modified, added] = [value.try_get_i64()?, value.try_get_i64()?].map(Timestamp::from_ms);
    let mut digest = [0; 32];
    value.try_copy_to_slice(&mut digest)?;
    let mut text = || {
        let length = usize::from(value.try_get_u8()?);
        let text = value.split_off(..length).context("packed attributes are cut off")?;
        anyhow::Ok(std::str::from_utf8(text)?.to_owned())
    };
    let (mime, creator) = (text()?, text()?);
    let (digest, location) = (Digest(digest), ContentLocation::Inline);
    Ok((Attributes { size, mime, creator, modified, added, digest, location }, value))
}

/// The node of a row that holds one.
#[derive(Clone, Debug)]
pub struct Stored {
    /// [`FILE`] or [`DIRECTORY`].
    cell: &'static [u8],
    /// Packed attributes of a file, and what the layout adds; the id of a directory, where directories have one.
    pub value: Bytes,
}

impl Stored {
    pub fn file(value: impl Into<Bytes>) -> Self {
        Self { cell: FILE, value: value.into() }
    }

    pub fn directory(id: impl Into<Bytes>) -> Self {
        Self { cell: DIRECTORY, value: id.into() }
    }

    pub fn from_row(row: &Row) -> Option<Self> {
        let node = |cell| Some(Self { cell, value: row.get(CF, cell)?.clone() });
        node(DIRECTORY).or_else(|| node(FILE))
    }

    pub fn is_file(&self) -> bool {
        self.cell == FILE
    }

    /// Whether a row of this node has the cell.
    pub fn has(&self, cell: &[u8]) -> bool {
        cell == self.cell || !NODE.contains(&cell)
    }

    pub fn node(&self) -> Result<Node> {
        Ok(if self.is_file() { Node::File(unpack(&self.value)?.0) } else { Node::Directory })
    }

    /// Of a file that a period asks for.
    pub fn time(&self, period: &Period) -> Result<Option<i64>> {
        Ok(if self.is_file() { period.time(&unpack(&self.value)?.0) } else { None })
    }

    pub fn put(&self) -> Change {
        Change::put(CF, self.cell, self.value.clone())
    }

    /// Holds if a row has this very node.
    pub fn check(&self) -> Check {
        equals(self.cell, self.value.clone())
    }

    /// What a list answers of the row of a child; none if it is not asked for.
    pub fn child(row: &Row, name: &str, ask: &List) -> Result<Option<Child>> {
        let Some(stored) = Self::from_row(row) else { return Ok(None) };
        let node = match ask {
            List::Names => None,
            List::Page { after, .. } if !stored.is_file() || name <= after.as_str() => return Ok(None),
            List::Attributes | List::Page { .. } => Some(stored.node()?),
        };
        Ok(Some(Child { name: name.to_owned(), node }))
    }
}

pub fn absent(qualifier: impl Into<Bytes>) -> Check {
    Check::Absent(Column::new(CF, qualifier))
}

pub fn equals(qualifier: impl Into<Bytes>, value: impl Into<Bytes>) -> Check {
    Check::Equals(Column::new(CF, qualifier), value.into())
}

/// The content of a new file, if it has any.
pub fn put_content(content: &Bytes) -> Option<Change> {
    (!content.is_empty()).then(|| Change::put(CONTENT, DATA, content.clone()))
}
