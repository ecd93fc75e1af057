//! Bytes that the disk never got: they read as zeros.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A disk writes at least so many bytes or none.
pub(super) const SECTOR: u64 = 512;

/// From where on the bytes before `end` are zeros; `from` if all are.
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

/// Bytes that a file system writes together.
const PAGE: u64 = 4_096;

/// Whether a whole page of the file between these two places is zeros.
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
