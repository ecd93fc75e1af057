//! A record of the `MANIFEST` (RocksDB: version edit), up to its first field: the number of the next file.
//!
//! RocksDB deletes a WAL file only after it has synced a record that makes the file obsolete, and writes that record
//! only after it has created the next WAL file. So for each record there is a WAL file that is older than it, or a
//! later record is lost.

/// Bytes of a record that are enough for that field.
pub(super) const HEAD: usize = 128;

const COMPARATOR: u64 = 1;
const LOG: u64 = 2;
const NEXT_FILE: u64 = 3;
const PREVIOUS_LOG: u64 = 9;
const DATABASE: u64 = (1 << 13) + 1;

/// The number of the next file when the record was written, if the record holds it.
pub(super) fn next_file(record: &[u8]) -> Option<u64> {
    let mut rest = record;
    loop {
        match number(&mut rest)? {
            NEXT_FILE => return number(&mut rest),
            LOG | PREVIOUS_LOG => {
                number(&mut rest)?;
            }
            COMPARATOR | DATABASE => {
                let length = usize::try_from(number(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            // The field precedes all others.
            _ => return None,
        }
    }
}

/// A varint: seven bits a byte, the low ones first; the highest bit of a byte means that more follow.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_file_number_is_found_after_optional_fields() {
        assert_eq!(next_file(&[3, 12, 4, 0]), Some(12));
        assert_eq!(next_file(&[2, 0x85, 0x01, 9, 0, 3, 0x96, 0x01]), Some(150));
        assert_eq!(next_file(&[0x81, 0x40, 2, b'i', b'd', 1, 1, b'c', 3, 7]), Some(7));
        for none in [&[][..], &[3], &[3, 0x80], &[4, 3, 3, 7], &[1, 9, b'c'], &[200, 1, 3, 7]] {
            assert_eq!(next_file(none), None, "{none:?}");
        }
    }
}
