//! What the heads of an HTTP/2 connection may leave in its table of header fields (HPACK, RFC 7541).
//!
//! The library decodes heads. A field that a client puts into the table keeps the memory in which it was decoded, until
//! others push it out or the client empties the table. So the server announces a table of size 0, which a client
//! confirms at the start of its next head (section 4.2). Heads before that, and those of a client that breaks the rule,
//! are counted.

use super::http2_frames::{FramePiece, HEADERS};

/// Bytes that the library may keep for each byte of a head. It decodes Huffman codes into buffers of at least 4 KiB,
/// and takes a new one when there are less than two bytes for each byte of code: then half of the last one is used, by
/// at least five bits of code for each byte (h2 0.4, `huffman::decode`).
const DECODED_PER_BYTE: usize = 4;
/// Bytes of the copy that the library makes of a field that is cut at the end of a frame.
const COPY: usize = 8 << 10;

/// What is known of the table of a connection.
pub struct HpackTable {
    step: Step,
    /// Strings that follow in this field.
    strings: u8,
    /// Its size is not 0.
    has_room: bool,
    /// Nothing was put into it since it was emptied.
    is_empty: bool,
    /// Bytes of the heads since then.
    bytes: usize,
    /// Their frames CONTINUATION.
    copies: usize,
}

/// What the next byte of a head belongs to.
#[derive(Clone, Copy)]
enum Step {
    /// The start of a field.
    Field,
    /// The rest of an index or a size.
    Number,
    /// The start of a string.
    Length,
    /// The rest of its length, with what is known of it.
    LongLength { known: usize, shift: u32 },
    /// Bytes of the string.
    String { left: usize },
}

impl Default for HpackTable {
    fn default() -> Self {
        Self { step: Step::Field, strings: 0, has_room: true, is_empty: true, bytes: 0, copies: 0 }
    }
}

impl HpackTable {
    /// Looks at a piece of a head.
    pub fn scan(&mut self, piece: &FramePiece<'_>) {
        if piece.header.stream_depends_on_itself() {
            return;
        }
        if piece.offset == 0 {
            if piece.header.kind == HEADERS {
                (self.step, self.strings) = (Step::Field, 0);
                if self.is_empty {
                    (self.bytes, self.copies) = (0, 0);
                }
            } else {
                self.copies += 1;
            }
        }
        let mut bytes = piece.content();
        self.bytes = self.bytes.saturating_add(bytes.len());
        while let Some((first, rest)) = bytes.split_first() {
            if let Step::String { left } = self.step {
                let here = left.min(bytes.len());
                bytes = bytes.get(here..).unwrap_or_default();
                self.step = if here < left { Step::String { left: left - here } } else { self.next() };
            } else {
                bytes = rest;
                self.step = self.step(*first);
            }
        }
    }

    /// Bytes that the library keeps for what is in the table, beside the buffers that were read into.
    pub fn decoded_bytes(&self) -> usize {
        if self.is_empty { 0 } else { self.bytes.saturating_mul(DECODED_PER_BYTE).saturating_add(self.copies * COPY) }
    }

    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn step(&mut self, byte: u8) -> Step {
        match self.step {
            Step::Field => self.begin_field(byte),
            Step::Number if byte & 0x80 != 0 => Step::Number,
            Step::Number => self.next(),
            Step::Length if byte & 0x7f == 0x7f => Step::LongLength { known: 0x7f, shift: 0 },
            Step::Length => self.string(usize::from(byte & 0x7f)),
            Step::LongLength { known, shift } => {
                // The library rejects longer lengths.
                let more = usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(usize::MAX);
                let known = known.saturating_add(more);
                if byte & 0x80 == 0 { self.string(known) } else { Step::LongLength { known, shift: shift + 7 } }
            }
            Step::String { .. } => self.step,
        }
    }

    /// RFC 7541 section 6: the first bits tell the kind of a field, and the others begin an index or a size.
    fn begin_field(&mut self, byte: u8) -> Step {
        let (mask, has_strings) = match byte {
            0x80.. => (0x7f, false),
            0x40.. => {
                self.is_empty &= !self.has_room;
                (0x3f, true)
            }
            0x20.. => {
                self.has_room = byte != 0x20;
                self.is_empty |= !self.has_room;
                (0x1f, false)
            }
            _ => (0x0f, true),
        };
        let number = byte & mask;
        // Index 0: the name is a string too.
        self.strings = if !has_strings { 0 } else { 1 + u8::from(number == 0) };
        if number == mask { Step::Number } else { self.next() }
    }

    fn string(&mut self, bytes: usize) -> Step {
        if bytes == 0 { self.next() } else { Step::String { left: bytes } }
    }

    /// After a number or a string.
    fn next(&mut self) -> Step {
        let Some(left) = self.strings.checked_sub(1) else { return Step::Field };
        self.strings = left;
        Step::Length
    }
}

#[cfg(test)]
mod tests {
    use super::super::http2_frames::tests::frame;
    use super::super::http2_frames::{CONTINUATION, FrameScanner};
    use super::*;

    /// `x: ` and a value of so many bytes, with a name that is no index; `how`: the first byte.
    fn field(how: u8, value: usize) -> Vec<u8> {
        let length = if value < 127 {
            vec![value as u8]
        } else {
            let rest = value - 127;
            vec![127, 128 | (rest & 127) as u8, (rest >> 7) as u8]
        };
        // The bytes of a value look like fields that are put into the table.
        [&[how, 1, b'x'][..], &length, &vec![0x40; value]].concat()
    }

    fn scan(table: &mut HpackTable, frames: &[Vec<u8>], size: usize) {
        let mut scanner = FrameScanner::default();
        for mut bytes in frames.concat().chunks(size) {
            while let Some(piece) = scanner.next(&mut bytes) {
                table.scan(&piece);
            }
        }
    }

    #[test]
    fn fields_that_are_put_into_the_table_are_found() {
        let (kept, passing, never) = (0x40, 0, 0x10);
        let all = [
            (vec![field(passing, 5), field(never, 700), vec![0x82, 0xff, 0x80, 0x01], field(passing, 0)], false),
            // With an index for its name, of one byte and of two.
            (vec![field(passing, 126), vec![0x44, 1, b'/']], true),
            (vec![vec![0x0f, 0x20, 0], vec![0x7f, 0x20, 0]], true),
            (vec![field(passing, 127), field(kept, 0)], true),
            (vec![field(never, 128), field(kept, 300), field(passing, 9)], true),
        ];
        for (n, (fields, is_kept)) in all.iter().enumerate() {
            let block = fields.concat();
            for (first, piece) in [(block.len(), 1), (block.len(), 7), (block.len(), 9000), (0, 1), (1, 9000), (4, 3)] {
                let mut table = HpackTable::default();
                // What is after the end of a head begins anew.
                let frames = [
                    frame(HEADERS, 4, &field(passing, 3)[..5]),
                    frame(HEADERS, 0, &block[..first]),
                    frame(CONTINUATION, 4, &block[first..]),
                ];
                scan(&mut table, &frames, piece);
                assert_eq!(!table.is_empty(), *is_kept, "{n}, {first} bytes and the rest, in pieces of {piece}");
                let bytes = if *is_kept { block.len() * DECODED_PER_BYTE + COPY } else { 0 };
                assert_eq!(table.decoded_bytes(), bytes, "{n}");
            }
        }
    }

    #[test]
    fn a_table_of_size_0_keeps_nothing() {
        let mut table = HpackTable::default();
        let put = |table: &mut HpackTable, before: &[u8]| {
            scan(table, &[frame(HEADERS, 4, &[before, &field(0x40, 9)].concat())], 1);
            !table.is_empty()
        };
        assert!(put(&mut table, &[]));
        assert!(!put(&mut table, &[0x20]));
        assert!(!put(&mut table, &[]), "it stays so");
        assert!(put(&mut table, &[0x20, 0x3f, 0xe1, 0x1f]), "its size is 4,096 again");
        // The library does not decode the head of a stream that depends on itself.
        let on_itself = [&[0, 0, 0, 1, 0][..], &[0x20]].concat();
        scan(&mut table, &[frame(HEADERS, 0x24, &on_itself)], 1);
        assert!(!table.is_empty());
        assert!(!put(&mut table, &[0x3f, 0xe1, 0x1f, 0x20]));
        assert_eq!(table.decoded_bytes(), 0);
    }
}
