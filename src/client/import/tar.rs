//! Writes the tar of a batch. Each member has a pax header with its name, its time and its digest, so that no field of
//! its header is too short for them.

use rowdrive::api::unpack::DIGEST_RECORD;
use rowdrive::schema::Timestamp;
use tar::{EntryType, Header};

/// Bytes of a block.
const BLOCK: usize = 512;

/// Adds a directory.
pub fn add_directory(tar: &mut Vec<u8>, name: &str) {
    add_member(tar, EntryType::Directory, &[record("path", name)], &[]);
}

/// Adds a file.
pub fn add_file(tar: &mut Vec<u8>, name: &str, modified: Timestamp, digest: &str, content: &[u8]) {
    let records = [record("path", name), record("mtime", &unix_seconds(modified)), record(DIGEST_RECORD, digest)];
    add_member(tar, EntryType::Regular, &records, content);
}

/// Ends the tar.
pub fn end(tar: &mut Vec<u8>) {
    tar.resize(tar.len() + 2 * BLOCK, 0);
}

fn add_member(tar: &mut Vec<u8>, kind: EntryType, records: &[String], content: &[u8]) {
    add(tar, EntryType::XHeader, records.concat().as_bytes());
    add(tar, kind, content);
}

fn add(tar: &mut Vec<u8>, kind: EntryType, data: &[u8]) {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    // The name is in the pax header.
    if let Some(first) = header.as_old_mut().name.first_mut() {
        *first = b'-';
    }
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(data);
    tar.resize(tar.len().next_multiple_of(BLOCK), 0);
}

/// A record of a pax header: its length, which counts its own digits, a key and a value.
fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    format!("{len} {key}={value}\n")
}

/// Unix seconds, with milliseconds as a decimal fraction.
fn unix_seconds(time: Timestamp) -> String {
    let (sign, ms) = (if time.ms() < 0 { "-" } else { "" }, time.ms().unsigned_abs());
    format!("{sign}{}.{:03}", ms / 1_000, ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_record_counts_itself() {
        for len in (0..1_100).chain([9_980, 9_990, 9_991, 9_992, 10_000]) {
            let record = record("k", &"v".repeat(len));
            let (number, _) = record.split_once(' ').unwrap();
            assert_eq!(number.parse::<usize>().unwrap(), record.len(), "{len}");
        }
    }

    #[test]
    fn times_have_milliseconds_before_1970_too() {
        for ms in [0, 1, 999, 1_000, 1_767_323_045_678, -1, -999, -1_000, -1_001, -2_177_452_800_000] {
            let text = unix_seconds(Timestamp::from_ms(ms));
            assert_eq!(Timestamp::parse_unix(&text), Ok(Timestamp::from_ms(ms)), "{text}");
        }
    }
}
