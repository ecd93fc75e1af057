//! The `meta` table: settings of the whole store, by name.

use bytes::Bytes;

use super::CF;
use super::value::{ValueError, ValueReader, ValueWriter};
use crate::table::Column;

/// The name of the table.
pub const TABLE: &str = "meta";
/// The row that says which migrations have been applied.
pub const SCHEMA: &[u8] = b"schema";
/// The row that exists once there was a user.
pub const USERS: &[u8] = b"users";
/// The qualifier of the number of admins who can log in.
pub const ADMINS: &[u8] = b"admins";
/// The qualifier of the key that seals the cursors of users, in the row [`USERS`].
pub const CURSOR_KEY: &[u8] = b"cursors";
/// Bytes of that key.
pub const CURSOR_KEY_BYTES: usize = 32;
/// The qualifier of the value.
pub const VALUE: &[u8] = b"v";

/// The qualifier of the mark that the last migration has begun and has not ended.
pub const UNFINISHED: &[u8] = b"unfinished";

/// The cell of the value.
pub fn column() -> Column {
    Column::new(CF, VALUE)
}

/// The cell of the mark.
pub fn unfinished_column() -> Column {
    Column::new(CF, UNFINISHED)
}

/// The value of the mark.
pub fn encode_unfinished() -> Bytes {
    ValueWriter::new(1).done()
}

/// The value of the row [`SCHEMA`]: the number of the last migration that was applied, or that has begun.
pub fn encode_version(version: u32) -> Bytes {
    ValueWriter::new(1).number(version.into()).done()
}

/// Decodes that number.
pub fn decode_version(value: &[u8]) -> Result<u32, ValueError> {
    let mut r = ValueReader::version_1("schema version", value)?;
    let version = u32::try_from(r.number()?).map_err(|_| r.damaged())?;
    r.end()?;
    Ok(version)
}

/// The cell of the number of admins.
pub fn admins_column() -> Column {
    Column::new(CF, ADMINS)
}

/// The value of `cf:admins`. It is no counter: a plan that changes it checks the number that was read.
pub fn encode_admins(admins: u64) -> Bytes {
    ValueWriter::new(1).number(admins).done()
}

/// Decodes that number.
pub fn decode_admins(value: &[u8]) -> Result<u64, ValueError> {
    let mut r = ValueReader::version_1("number of admins", value)?;
    let admins = r.number()?;
    r.end()?;
    Ok(admins)
}

/// The value of `cf:cursors`.
pub fn encode_cursor_key(key: &[u8; CURSOR_KEY_BYTES]) -> Bytes {
    ValueWriter::new(1).raw(key).done()
}

/// Decodes that key.
pub fn decode_cursor_key(value: &[u8]) -> Result<[u8; CURSOR_KEY_BYTES], ValueError> {
    let mut r = ValueReader::version_1("key of cursors", value)?;
    let key = r.raw(CURSOR_KEY_BYTES)?.try_into().map_err(|_| r.damaged())?;
    r.end()?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(encode_admins(2).as_ref(), [1, 2]);
        let key = [7; CURSOR_KEY_BYTES];
        assert_eq!(encode_cursor_key(&key), [&[1][..], &key].concat());
        assert_eq!(decode_cursor_key(&encode_cursor_key(&key)), Ok(key));
        assert!(decode_cursor_key(&[1, 7]).is_err());
        assert_eq!(decode_admins(&[1, 2]), Ok(2));
        assert!(decode_admins(&[1]).is_err());
        assert_eq!(encode_version(2).as_ref(), [1, 2]);
        assert_eq!(decode_version(&[1, 2]), Ok(2));
        assert_eq!(encode_unfinished().as_ref(), [1]);
    }
}
