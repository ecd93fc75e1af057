//! Tails of zeros: bytes that were allocated but never written before a power loss read as zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The least unit that a disk writes atomically.
pub(super) const SECTOR: u64 = 512;

/// The start of the zeros that end at `end`; `from` if all bytes in between are zeros.
pub(super) fn start(file: &File, from: u64, end: u64) -> io::Result<u64> {
    let mut bytes = [0; SECTOR as usize];
    let mut at = end;
    while at > from {
        let start = at.saturating_sub(SECTOR).max(from);
        let Some(part) = bytes.get_mut(..usize::try_from(at - start).unwrap_or_default()) else { break };
        file.read_exact_at(part, start)?;
        if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        at = start;
    }
    Ok(from)
}

/// The least unit that a file system writes.
const PAGE: u64 = 4_096;

/// Whether any whole page of the file between these two offsets is zeros.
pub(super) fn has_page(file: &File, from: u64, to: u64) -> io::Result<bool> {
    let mut page = from.div_ceil(PAGE) * PAGE;
    while page + PAGE <= to {
        if start(file, page, page + PAGE)? == page {
            return Ok(true);
        }
        page += PAGE;
    }
    Ok(false)
}
