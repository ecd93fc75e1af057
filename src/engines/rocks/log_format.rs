//! The fragments of the log format, which the WAL and the `MANIFEST` share: see [`wal_check`](super::wal_check).

pub(super) const BLOCK: usize = 32 << 10;
pub(super) const HEADER: usize = 7;
pub(super) const FULL: u8 = 1;
pub(super) const FIRST: u8 = 2;
pub(super) const MIDDLE: u8 = 3;
pub(super) const LAST: u8 = 4;

/// The result of parsing a fragment.
pub(super) enum Fragment<'a> {
    Sound(u8, &'a [u8]),
    /// Too few bytes for a header.
    None,
    /// The fragment would extend past the end of the bytes.
    Cut,
    Broken,
}

/// The length field of a header.
pub(super) fn length(rest: &[u8]) -> usize {
    let Some([_, _, _, _, low, high, _]) = rest.first_chunk::<HEADER>() else { return 0 };
    usize::from(u16::from_le_bytes([*low, *high]))
}

pub(super) fn fragment(rest: &[u8]) -> Fragment<'_> {
    let Some(([a, b, c, d, low, high, kind], bytes)) = rest.split_first_chunk::<HEADER>() else {
        return Fragment::None;
    };
    let Some(bytes) = bytes.get(..usize::from(u16::from_le_bytes([*low, *high]))) else { return Fragment::Cut };
    let sum = unmask(u32::from_le_bytes([*a, *b, *c, *d]));
    let sound = *kind != 0 && crc32c::crc32c_append(crc32c::crc32c(&[*kind]), bytes) == sum;
    if sound { Fragment::Sound(*kind, bytes) } else { Fragment::Broken }
}

/// Stored checksums are masked (rotated, plus a constant), since a checksum of bytes that include their own checksum
/// would be weak.
fn unmask(sum: u32) -> u32 {
    sum.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// Whether the checksum fits the bytes with another length than that of the header.
pub(super) fn length_is_wrong(rest: &[u8]) -> bool {
    let Some(([a, b, c, d, _, _, kind], bytes)) = rest.split_first_chunk::<HEADER>() else { return false };
    let sum = unmask(u32::from_le_bytes([*a, *b, *c, *d]));
    let mut sums = bytes.iter().scan(crc32c::crc32c(&[*kind]), |sum, byte| {
        *sum = crc32c::crc32c_append(*sum, &[*byte]);
        Some(*sum)
    });
    sums.any(|found| found == sum)
}

/// Sequence number and number of changes of a write batch.
pub(super) fn batch(bytes: &[u8]) -> Option<(u64, u64)> {
    let (sequence, rest) = bytes.split_first_chunk::<8>()?;
    let (count, _) = rest.split_first_chunk::<4>()?;
    Some((u64::from_le_bytes(*sequence), u64::from(u32::from_le_bytes(*count))))
}
