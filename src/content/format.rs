//! The format of a content file. All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | `size` | the data |
//! | 4 for each block | the **table**: CRC32C of each block of 256 KiB of the data; the last block may be shorter |
//! | 24 | the **trailer** |
//!
//! The trailer:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 7 | the magic `rowfile` |
//! | 7 | 1 | the version of this format: 1 |
//! | 8 | 8 | `size` |
//! | 16 | 4 | CRC32C of the table |
//! | 20 | 4 | CRC32C of bytes 0 to 19 of the trailer |
//!
//! The length of the file is exactly the sum of the three parts. The checksums follow the data for two reasons: they are
//! known only after the data has been received, and data that starts at offset 0 is written in aligned pieces as it
//! arrives. A reader checks the length, the trailer and the table, in this order, and then every block before a byte of
//! it is sent. So it finds a flipped bit anywhere, and a file that is cut off, grown, or half written. A crash cannot
//! leave a whole trailer after data that was never synced, because no row links a file before it is synced.

use super::LARGEST;
use crate::schema::file::Digest;
use crate::sha256::{Sha256, sha256};

/// Bytes of data that one checksum covers.
pub const BLOCK: usize = 256 << 10;
/// Bytes of the trailer.
pub const TRAILER: usize = 24;

const MAGIC: [u8; 7] = *b"rowfile";
const VERSION: u8 = 1;
/// Bytes of a checksum.
const SUM: usize = 4;

/// Bytes of the table of a file with `size` bytes of data.
pub fn table_len(size: u64) -> u64 {
    size.div_ceil(BLOCK as u64) * SUM as u64
}

/// The length of a content file with `size` bytes of data; `None` if that is more than a file may have.
pub fn file_len(size: u64) -> Option<u64> {
    (size <= LARGEST).then(|| size + table_len(size) + TRAILER as u64)
}

/// The size of the data in a content file of this length; `None` if no content file is of this length.
pub fn data_len(file_len: u64) -> Option<u64> {
    let rest = file_len.checked_sub(TRAILER as u64)?;
    let with_sum = (BLOCK + SUM) as u64;
    let size = rest.checked_sub(rest.div_ceil(with_sum) * SUM as u64)?;
    (self::file_len(size) == Some(file_len)).then_some(size)
}

/// The checksums of streamed data.
pub struct BlockChecksums {
    sha: Sha256,
    table: Vec<u8>,
    size: u64,
}

impl BlockChecksums {
    /// The checksums of no data.
    pub fn new() -> Self {
        Self { sha: Sha256::new(), table: Vec::new(), size: 0 }
    }

    /// Takes the next piece of data; every one but the last must be a number of whole blocks.
    pub fn add(&mut self, piece: &[u8]) {
        debug_assert!(self.size.is_multiple_of(BLOCK as u64));
        for block in piece.chunks(BLOCK) {
            self.sha.update(block);
            self.table.extend_from_slice(&crc32c::crc32c(block).to_le_bytes());
        }
        self.size += piece.len() as u64;
    }

    /// The size of the data, its digest, and the bytes that follow it in the file: table and trailer.
    pub fn done(self) -> (u64, Digest, Vec<u8>) {
        let mut end = self.table;
        let trailer = trailer(self.size, crc32c::crc32c(&end));
        end.extend_from_slice(&trailer);
        (self.size, Digest(self.sha.done()), end)
    }
}

/// SHA-256 of data that is wholly in memory.
pub fn digest(data: &[u8]) -> Digest {
    Digest(sha256(data))
}

fn trailer(size: u64, table_sum: u32) -> Vec<u8> {
    let mut trailer = Vec::with_capacity(TRAILER);
    trailer.extend_from_slice(&MAGIC);
    trailer.push(VERSION);
    trailer.extend_from_slice(&size.to_le_bytes());
    trailer.extend_from_slice(&table_sum.to_le_bytes());
    trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
    trailer
}

/// Checks the table and the trailer that follow `size` bytes of data. Returns the checksums of the blocks, or what is
/// wrong.
pub fn check_end(size: u64, end: &[u8]) -> Result<Vec<u32>, &'static str> {
    let Some((table, found)) = end.split_last_chunk::<TRAILER>() else {
        return Err("it is too short for a trailer");
    };
    if table.len() as u64 != table_len(size) {
        return Err("it is not of the length it should be");
    }
    if found.as_slice() != trailer(size, crc32c::crc32c(table)) {
        return Err(if is_newer(found) {
            "it was written by a newer version of this program"
        } else {
            "its table of checksums or its trailer is not as it was written"
        });
    }
    let (sums, _) = table.as_chunks::<SUM>();
    Ok(sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect())
}

/// Whether this is a whole trailer of a newer version, as its own checksum proves.
fn is_newer(trailer: &[u8; TRAILER]) -> bool {
    let Some((fields, sum)) = trailer.split_last_chunk::<SUM>() else {
        return false;
    };
    let version = fields.strip_prefix(&MAGIC).and_then(<[u8]>::first);
    crc32c::crc32c(fields).to_le_bytes() == *sum && version.is_some_and(|&version| version > VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table and trailer of these five bytes, computed by other means.
    const HELLO: &[u8] = b"\x4c\xbb\x71\x9arowfile\x01\x05\0\0\0\0\0\0\0\x81\xd1\xa8\xf3\xbc\xb5\x33\x90";
    const EMPTY: &[u8] = b"rowfile\x01\0\0\0\0\0\0\0\0\0\0\0\0\x67\x0c\xa3\x8b";

    fn end_of(data: &[u8]) -> (u64, Digest, Vec<u8>) {
        let mut sums = BlockChecksums::new();
        sums.add(data);
        sums.done()
    }

    #[test]
    fn golden_bytes() {
        let (size, sha, end) = end_of(b"hello");
        assert_eq!((size, end.as_slice()), (5, HELLO));
        assert_eq!(sha, digest(b"hello"));
        assert_eq!(sha.0[..8], [0x2c, 0xf2, 0x4d, 0xba, 0x5f, 0xb0, 0xa3, 0x0e]);
        assert_eq!(end_of(b"").2, EMPTY);
        assert_eq!(check_end(5, HELLO), Ok(vec![0x9a71_bb4c]));
        assert_eq!(check_end(0, EMPTY), Ok(vec![]));
    }

    #[test]
    fn each_block_has_a_checksum_of_its_own() {
        let data: Vec<_> = (0..2 * BLOCK + 1).map(|i| (i / BLOCK) as u8).collect();
        let (size, _, end) = end_of(&data);
        assert_eq!(end.len() as u64, table_len(size) + TRAILER as u64);
        let sums: Vec<_> = data.chunks(BLOCK).map(crc32c::crc32c).collect();
        assert_eq!(check_end(size, &end), Ok(sums));

        let mut pieces = BlockChecksums::new();
        data.chunks(BLOCK).for_each(|piece| pieces.add(piece));
        assert_eq!(pieces.done(), (size, digest(&data), end));
    }

    #[test]
    fn lengths() {
        let block = BLOCK as u64;
        let lengths = [0, 1, block, block + 1, LARGEST].map(file_len);
        assert_eq!(lengths, [24, 29, block + 28, block + 33, LARGEST + (16 << 20) + 24].map(Some));
        assert_eq!(file_len(LARGEST + 1), None);
        assert_eq!(file_len(u64::MAX), None);
    }

    #[test]
    fn any_flipped_bit_and_any_other_size_is_found() {
        for bit in 0..HELLO.len() * 8 {
            let mut end = HELLO.to_vec();
            end[bit / 8] ^= 1 << (bit % 8);
            let damage = check_end(5, &end).unwrap_err();
            assert!(damage.contains("not as it was written"), "bit {bit}: {damage}");
        }
        assert!(check_end(6, HELLO).is_err());
        let two_blocks = [0; 2 * SUM];
        let end = [&two_blocks[..], &trailer(5, crc32c::crc32c(&two_blocks))].concat();
        assert!(check_end(5, &end).unwrap_err().contains("length"));
        for len in 0..HELLO.len() {
            assert!(check_end(5, &HELLO[..len]).is_err());
            assert!(check_end(5, &HELLO[HELLO.len() - len..]).is_err());
        }
    }

    #[test]
    fn a_newer_version_says_so() {
        let mut end = HELLO.to_vec();
        end[11] = 2;
        end[24..].copy_from_slice(&[0x13, 0xfd, 0x45, 0xc1]);
        assert!(check_end(5, &end).unwrap_err().contains("newer"));
    }
}
