//! Reads rows of the file table, and packs those of schema 1 to 4.
//!
//! A row has the cells of [`super::file`]. Before migration 5 it had a cell for each attribute, and three cells for the
//! position. A store that is opened degraded is not migrated, so readers know both kinds.

use super::CF;
use super::file::{self, Attributes, ContentLocation, Digest, FilePosition};
use super::ids::DirId;
use super::path::Name;
use super::value::{ValueError, ValueReader, ValueWriter};
use crate::table::{Cell, Change, Check, Column, ConditionalRow, Row, RowKey};

/// The qualifiers of the attributes in an old row.
pub const OLD_ATTRIBUTES: [&[u8]; 7] = [b"creator", b"size", b"type", b"modified", b"added", b"digest", OLD_CONTENT];
/// The qualifier of the location of the content.
const OLD_CONTENT: &[u8] = b"content";
/// The qualifiers of the position in an old row: the directory's id, the name, and the stay id.
const OLD_POSITION: [&[u8]; 3] = [b"dir", b"name", OLD_STAY];
/// The qualifier of the stay id.
const OLD_STAY: &[u8] = b"place";

/// The columns from which [`position`] reads.
pub fn position_columns() -> Vec<Column> {
    columns(file::POSITION, &OLD_POSITION)
}

/// The columns from which [`location`] reads. Those of the position only show that there is a row.
pub fn location_columns() -> Vec<Column> {
    [columns(file::ATTRIBUTES, &[OLD_CONTENT]), columns(file::POSITION, &[OLD_STAY])].concat()
}

fn columns(qualifier: &'static [u8], old: &[&'static [u8]]) -> Vec<Column> {
    [qualifier].iter().chain(old).map(|q| Column::new(CF, *q)).collect()
}

/// The attributes of a row; `None` if the row has none of their cells.
pub fn attributes(row: &Row) -> Result<Option<Attributes>, ValueError> {
    match row.get(CF, file::ATTRIBUTES) {
        Some(value) => Attributes::decode(value).map(Some),
        None => old_attributes(row),
    }
}

/// The location of the content of a row; `None` if the row does not exist.
pub fn location(row: &Row) -> Result<Option<ContentLocation>, ValueError> {
    if let Some(value) = row.get(CF, file::ATTRIBUTES) {
        return Ok(Some(Attributes::decode(value)?.location));
    }
    match cells(row, [OLD_CONTENT])? {
        Some([mut content]) => ContentLocation::read(&mut content).map(Some),
        None if row.is_empty() => Ok(None),
        None => Err(ValueError::Damaged { what: "file row" }),
    }
}

/// Whether a row may name a content file: also a row whose [`location`] cannot be read. Otherwise the content of a damaged
/// row would be removed, and nobody could ever save it.
pub fn may_name_content(row: &Row) -> bool {
    !matches!(location(row), Ok(None | Some(ContentLocation::Inline)))
}

/// The position of a row; `None` if the row has none of its cells.
pub fn position(row: &Row) -> Result<Option<FilePosition>, ValueError> {
    match row.get(CF, file::POSITION) {
        Some(value) => FilePosition::decode(value).map(Some),
        None => old_position(row),
    }
}

/// The cells of these qualifiers, in their order; none if the row has none of them.
fn cells<'a, const N: usize>(row: &'a Row, qualifiers: [&[u8]; N]) -> Result<Option<[ValueReader<'a>; N]>, ValueError> {
    let found = qualifiers.map(|q| row.get(CF, q));
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut readers = Vec::with_capacity(N);
    for value in found {
        let value = value.ok_or(ValueError::Damaged { what: "file row" })?;
        readers.push(ValueReader::version_1("file's attribute", value)?);
    }
    Ok(readers.try_into().ok())
}

/// As [`attributes`], of an old row.
pub fn old_attributes(row: &Row) -> Result<Option<Attributes>, ValueError> {
    let Some([mut creator, mut size, mut mime, mut modified, mut added, mut digest, mut content]) =
        cells(row, OLD_ATTRIBUTES)?
    else {
        return Ok(None);
    };
    Ok(Some(Attributes {
        size: size.number()?,
        mime: mime.text()?.to_owned(),
        creator: creator.text()?.to_owned(),
        modified: modified.time()?,
        added: added.time()?,
        digest: Digest(digest.raw(32)?.try_into().map_err(|_| digest.damaged())?),
        location: ContentLocation::read(&mut content)?,
    }))
}

fn old_position(row: &Row) -> Result<Option<FilePosition>, ValueError> {
    let Some([mut dir, mut name, mut stay]) = cells(row, OLD_POSITION)? else { return Ok(None) };
    let text = name.text()?;
    let parsed = Name::parse(text).map_err(|_| name.damaged())?;
    Ok(Some(FilePosition { dir: DirId(dir.uuid()?), name: parsed, stay: stay.stay_id()? }))
}

/// Puts the attributes as in an old row: for tests of the migration, and to measure what packing saves.
pub fn put_old_attributes(attributes: &Attributes) -> Vec<Change> {
    let value = || ValueWriter::new(1);
    let values = [
        value().bytes(attributes.creator.as_bytes()),
        value().number(attributes.size),
        value().bytes(attributes.mime.as_bytes()),
        value().time(attributes.modified),
        value().time(attributes.added),
        value().raw(&attributes.digest.0),
        attributes.location.write(value()),
    ];
    OLD_ATTRIBUTES.into_iter().zip(values).map(|(q, value)| Change::put(CF, q, value.done())).collect()
}

/// Puts the position as in an old row: for tests of the migration.
pub fn put_old_position(position: &FilePosition) -> Vec<Change> {
    let value = || ValueWriter::new(1);
    let values = [
        value().uuid(position.dir.0),
        value().bytes(position.name.as_str().as_bytes()),
        value().stay_id(&position.stay),
    ];
    OLD_POSITION.into_iter().zip(values).map(|(q, value)| Change::put(CF, q, value.done())).collect()
}

/// Packs an old row: puts the new cells, and deletes the old ones. None if there is no old cell.
///
/// The check makes a second run harmless: it finds no stay id.
pub fn pack(row_key: &RowKey, row: &Row) -> Result<Option<ConditionalRow>, ValueError> {
    let (Some(attributes), Some(position)) = (old_attributes(row)?, old_position(row)?) else {
        let is_old =
            |(_, cell): &(&str, Cell)| [&OLD_ATTRIBUTES[..], &OLD_POSITION[..]].concat().contains(&&cell.qualifier[..]);
        return if row.cells().iter().any(is_old) { Err(ValueError::Damaged { what: "file row" }) } else { Ok(None) };
    };
    let old = OLD_ATTRIBUTES.into_iter().chain(OLD_POSITION);
    Ok(packed(row_key, row, file::put_cells(&attributes, &position), old))
}

/// Packs the position alone: for a row whose attributes are damaged, since a move of the file needs its position. None if
/// it is packed already.
pub fn pack_position(row_key: &RowKey, row: &Row) -> Result<Option<ConditionalRow>, ValueError> {
    let Some(position) = old_position(row)? else { return Ok(None) };
    Ok(packed(row_key, row, vec![position.put_cell()], OLD_POSITION.into_iter()))
}

/// Puts cells in the place of old ones.
///
/// IMPORTANT: it checks the stay id as it is stored. Other bytes may decode to the same id, and the check would refuse them
/// at each start.
fn packed(
    row_key: &RowKey,
    row: &Row,
    mut changes: Vec<Change>,
    old: impl Iterator<Item = &'static [u8]>,
) -> Option<ConditionalRow> {
    changes.extend(old.map(|q| Change::delete(CF, q)));
    let checks = vec![Check::Equals(Column::new(CF, OLD_STAY), row.get(CF, OLD_STAY)?.clone())];
    Some(ConditionalRow { table: file::TABLE, row: row_key.clone(), checks, changes })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::schema::Timestamp;
    use crate::schema::ids::StayId;

    /// A row as schema 4 wrote it.
    fn row() -> Vec<(&'static str, Cell)> {
        let digest = [vec![1], vec![3; 32]].concat();
        let dir = [vec![1], vec![4; 16]].concat();
        let values: [(&[u8], &[u8]); 10] = [
            (b"creator", b"\x01\x02\xc3\xa9"),
            (b"size", b"\x01\xac\x02"),
            (b"type", b"\x01\x0atext/plain"),
            (b"modified", b"\x01\x01"),
            (b"added", b"\x01\x80\x01"),
            (b"digest", &digest),
            (b"content", b"\x01\x01"),
            (b"dir", &dir),
            (b"name", b"\x01\x05b.jpg"),
            (b"place", b"\x01\x01\x00"),
        ];
        let cell =
            |(q, v): (&[u8], &[u8])| Cell { qualifier: Bytes::copy_from_slice(q), value: Bytes::copy_from_slice(v) };
        values.into_iter().map(|value| (CF, cell(value))).collect()
    }

    #[test]
    fn golden_bytes() {
        let row = Row::new(row());
        let attributes = Attributes {
            size: 300,
            mime: "text/plain".into(),
            creator: "é".into(),
            modified: Timestamp::from_ms(-1),
            added: Timestamp::from_ms(64),
            digest: Digest([3; 32]),
            location: ContentLocation::Large,
        };
        let dir = DirId(uuid::Uuid::from_bytes([4; 16]));
        let position = FilePosition { dir, name: Name::parse("b.jpg").unwrap(), stay: StayId::CREATED };
        assert_eq!(super::attributes(&row), Ok(Some(attributes.clone())));
        assert_eq!(super::position(&row), Ok(Some(position.clone())));
        assert_eq!(location(&row), Ok(Some(ContentLocation::Large)));
        let written: Vec<_> = [put_old_attributes(&attributes), put_old_position(&position)].concat();
        let expected = row.cells().iter().map(|(_, cell)| Change::put(CF, cell.qualifier.clone(), cell.value.clone()));
        let by_qualifier = |changes: Vec<Change>| {
            let mut changes = changes;
            changes.sort_by_key(|change| change.qualifier().cloned());
            changes
        };
        assert_eq!(by_qualifier(written), by_qualifier(expected.collect()));
        let packed = pack(&Bytes::from_static(b"k"), &row).unwrap().unwrap();
        let (puts, deletes): (Vec<_>, Vec<_>) = packed.changes.into_iter().partition(Change::is_put);
        assert_eq!(puts, file::put_cells(&attributes, &position));
        let deleted: Vec<_> = deletes.iter().filter_map(Change::qualifier).cloned().collect();
        let mut old: Vec<_> = row.cells().iter().map(|(_, cell)| cell.qualifier.clone()).collect();
        old.sort();
        let mut sorted = deleted;
        sorted.sort();
        assert_eq!(sorted, old);
    }

    #[test]
    fn a_row_that_lacks_a_cell_is_damaged_and_not_packed() {
        let cells = row();
        for at in 0..cells.len() {
            let mut cells = cells.clone();
            cells.remove(at);
            let row = Row::new(cells);
            let read = (super::attributes(&row), super::position(&row));
            assert!(
                matches!(read, (Err(ValueError::Damaged { .. }), _) | (_, Err(ValueError::Damaged { .. }))),
                "{at}"
            );
            assert!(pack(&Bytes::from_static(b"k"), &row).is_err(), "{at}");
            assert!(may_name_content(&row), "{at}");
        }
        assert!(!may_name_content(&Row::default()));
        assert_eq!(pack(&Bytes::from_static(b"k"), &Row::default()), Ok(None));
    }
}
