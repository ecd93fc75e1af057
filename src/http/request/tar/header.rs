//! One header of a tar: a block of 512 bytes (POSIX.1-2017, pax, "ustar Interchange Format"), also as GNU tar and older
//! programs write it.

use tar::Header;

use crate::http::response::problem::{Problem, Result};

/// Bytes of a block.
pub const BLOCK: usize = 512;

/// A block of a tar.
pub type Block = [u8; BLOCK];

/// What a header says.
#[derive(Debug)]
pub struct TarHeader {
    pub type_flag: u8,
    pub name: Vec<u8>,
    /// Bytes of the data that follow.
    pub size: u64,
    /// Unix seconds.
    pub modified: i64,
    /// Blocks with the map of a sparse file follow before its data.
    pub has_sparse_map: bool,
}

impl TarHeader {
    /// Parses a block; none if it is the end of the tar, which is all zeros.
    pub fn parse(block: &Block) -> Result<Option<Self>> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut header = Header::new_old();
        header.as_mut_bytes().copy_from_slice(block);
        let sum = header.cksum().map_err(|_| malformed())?;
        if sum != checksum(block) {
            return Err(malformed());
        }
        let old = header.as_old();
        let ([type_flag], [a, b, c, d, ..]) = (old.linkflag, old.size);
        // In base 256 the reader of the crate takes the last 8 bytes alone.
        if a & 0x80 != 0 && [a, b, c, d] != [0x80, 0, 0, 0] {
            return Err(malformed());
        }
        let size = header.entry_size().map_err(|_| malformed())?;
        // A time before 1970 is a negative number in base 256.
        let modified = header.mtime().map_err(|_| malformed())?.cast_signed();
        let has_sparse_map = header.as_gnu().is_some_and(|gnu| gnu.isextended != [0]);
        Ok(Some(Self { type_flag, name: header.path_bytes().into_owned(), size, modified, has_sparse_map }))
    }
}

/// The sum of all bytes, with spaces in the place of the sum.
fn checksum(block: &Block) -> u32 {
    let bytes = block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { b' ' } else { *byte });
    bytes.map(u32::from).sum()
}

pub fn malformed() -> Problem {
    Problem::malformed(
        "The body is not a tar, or is damaged from here on: send what `tar c` writes, without a compression.",
    )
}
