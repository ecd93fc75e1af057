//! Extended headers (POSIX.1-2017, pax, "pax Extended Header"): records that replace fields of the next header.
//!
//! By hand and not by the reader of the crate `tar`, which ends a record at a newline of its value, and so would take a
//! part of a name for further records.

use super::header::malformed;
use crate::api::unpack::DIGEST_RECORD;
use crate::http::request::digest;
use crate::http::response::problem::{Problem, Result};
use crate::schema::Timestamp;
use crate::schema::file::Digest;
use crate::schema::path::PATH_BYTES;

/// Bytes of a name that are kept: a longer one is no path, however it is composed.
pub const KEPT_NAME: usize = 4 * PATH_BYTES + 1;

/// The records that mean something here. Others, such as those of owners and access lists, are ignored.
#[derive(Clone, Debug, Default)]
pub struct Records {
    pub name: Option<Vec<u8>>,
    pub size: Option<u64>,
    /// An error if it is not a time that the drive can store.
    pub modified: Option<std::result::Result<Timestamp, ()>>,
    /// An error if it is not written as a digest.
    pub digest: Option<std::result::Result<Digest, ()>>,
    /// The content is only the parts of a sparse file that are not zero.
    pub sparse: bool,
}

impl Records {
    /// Applies the records of an extended header.
    pub fn apply(&mut self, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let (record, rest) = split_record(data).ok_or_else(malformed)?;
            data = rest;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
            let (key, value) = record.split_at_checked(equals).ok_or_else(malformed)?;
            self.set(key, value.get(1..).unwrap_or_default())?;
        }
        Ok(())
    }

    /// An empty value removes what an earlier record has set.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(value).ok();
        let is_set = !value.is_empty();
        match key {
            b"path" => self.name = is_set.then(|| kept(value)),
            b"size" => {
                let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let size = digits.and_then(|text| text.parse().ok());
                if is_set && size.is_none() {
                    return Err(malformed());
                }
                self.size = size;
            }
            b"mtime" => {
                let parse = || text.and_then(|text| Timestamp::parse_unix(text).ok()).ok_or(());
                self.modified = is_set.then(parse);
            }
            _ if key == DIGEST_RECORD.as_bytes() => {
                self.digest = is_set.then(|| text.and_then(digest::sha_256).ok_or(()));
            }
            // The three formats in which GNU tar writes sparse files. The name of the member is another one there.
            b"GNU.sparse.name" => (self.name, self.sparse) = (Some(kept(value)), true),
            _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
            _ => {}
        }
        Ok(())
    }
}

/// A name, or as much of it as shows that it is too long.
pub fn kept(name: &[u8]) -> Vec<u8> {
    name.get(..KEPT_NAME).unwrap_or(name).to_vec()
}

/// The first record, `<length> <key>=<value>\n`, without its length and its newline, and what follows it.
fn split_record(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = data.iter().take(20).position(|byte| *byte == b' ')?;
    let digits = std::str::from_utf8(data.get(..space)?).ok()?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (record, rest) = data.split_at_checked(digits.parse().ok()?)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    Some((record, rest))
}

/// The problem of a member whose records cannot be stored.
pub fn unusable(what: &str) -> Problem {
    Problem::malformed(format!("The member's pax header has no usable {what}: write it as docs/api.md says."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(data: &[u8]) -> Option<Records> {
        let mut records = Records::default();
        records.apply(data).ok().map(|()| records)
    }

    #[test]
    fn records_are_split_by_their_lengths() {
        let records = apply(b"16 path=a\n9 x=y\n19 mtime=1.2345678\n").unwrap();
        assert_eq!(records.name.as_deref(), Some(&b"a\n9 x=y"[..]));
        assert_eq!(records.modified, Some(Ok(Timestamp::from_ms(1_234))));
        assert!(apply(b"").is_some());
        for bad in [
            &b"10 path=a"[..],
            b"8 path=a\n",
            b"11 path=a\n",
            b"99999999999999999999 path=a\n",
            b"+10 path=a\n",
            b"10path=a\n",
            b"4 a\n",
            b"0 \n",
            b"1 \n",
            b"11 size=-1\n",
            b"11 size=1x\n",
            b"\0\0\0",
        ] {
            assert!(apply(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn later_records_replace_earlier_ones_and_an_empty_one_removes() {
        let mut records = apply(b"10 path=a\n10 size=7\n").unwrap();
        records.apply(b"10 path=b\n8 size=\n").unwrap();
        assert_eq!((records.name.as_deref(), records.size), (Some(&b"b"[..]), None));
        let sparse = apply(b"22 GNU.sparse.major=1\n22 GNU.sparse.name=ab\n").unwrap();
        assert_eq!((sparse.name.as_deref(), sparse.sparse), (Some(&b"ab"[..]), true));
        assert_eq!(apply(b"14 mtime=soon\n").unwrap().modified, Some(Err(())));
    }
}
