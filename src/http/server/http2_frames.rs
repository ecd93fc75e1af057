//! The frames in the bytes of an HTTP/2 connection (RFC 9113 section 4.1), as they arrive in pieces.

use smallvec::SmallVec;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const CONTINUATION: u8 = 9;

/// Of DATA and HEADERS: nothing of the body follows.
const END_STREAM: u8 = 1;
/// Of DATA and HEADERS: padding follows the content. A byte before the content tells how much.
const PADDED: u8 = 8;
/// Of HEADERS: a stream that this one depends on, and a weight, come before the content.
const WITH_PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;
/// Bytes that a client sends before its first frame.
const PREFACE: usize = 24;
/// Bytes of the header of a frame.
pub const FRAME_HEADER: usize = 9;

/// The header of a frame, with what comes before its content.
#[derive(Clone, Copy, Debug)]
pub struct FrameHeader {
    pub kind: u8,
    flags: u8,
    pub stream: u32,
    /// Bytes of content and padding.
    rest: usize,
    /// Bytes of padding, after the content.
    padding: usize,
    depends_on: Option<u32>,
}

/// A part of a frame, with all of it that has arrived. A frame without content has one empty piece.
#[derive(Clone, Copy, Debug)]
pub struct FramePiece<'a> {
    pub header: FrameHeader,
    /// Bytes of the frame before this piece, from the start of its content.
    pub offset: usize,
    bytes: &'a [u8],
}

/// Finds the frames of one direction of a connection.
#[derive(Default)]
pub struct FrameScanner {
    /// Bytes before the first frame that have not arrived.
    preface: usize,
    /// The start of a header.
    begun: SmallVec<[u8; FRAME_HEADER + 1 + PRIORITY_BYTES]>,
    head: Option<FrameHeader>,
    offset: usize,
}

impl FrameHeader {
    /// None while bytes are missing.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, e, f, g, h, ref before @ ..] = bytes else { return None };
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let has = |flag| flags & flag != 0;
        let is_padded = matches!(kind, DATA | HEADERS) && has(PADDED);
        let has_priority = kind == HEADERS && has(WITH_PRIORITY);
        // A shorter frame is none: the library ends the connection.
        let wanted = (usize::from(is_padded) + PRIORITY_BYTES * usize::from(has_priority)).min(length);
        if before.len() < wanted {
            return None;
        }
        let (padding, priority) = before.split_first().filter(|_| is_padded).unwrap_or((&0, before));
        let depends_on = priority.first_chunk().filter(|_| has_priority).map(|id| stream_id(*id));
        let (stream, padding) = (stream_id([e, f, g, h]), usize::from(*padding));
        Some(Self { kind, flags, stream, rest: length - wanted, padding, depends_on })
    }

    pub fn ends_stream(&self) -> bool {
        self.flags & END_STREAM != 0
    }

    /// Bytes of the content.
    pub fn content(&self) -> usize {
        self.rest.saturating_sub(self.padding)
    }

    /// The library does not decode the content of such a frame (RFC 9113 section 5.3.1).
    pub fn stream_depends_on_itself(&self) -> bool {
        self.depends_on == Some(self.stream)
    }
}

/// Its first bit has no meaning.
fn stream_id(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & (u32::MAX >> 1)
}

impl<'a> FramePiece<'a> {
    /// What it has of the content.
    pub fn content(&self) -> &'a [u8] {
        let bytes = self.header.content().saturating_sub(self.offset).min(self.bytes.len());
        self.bytes.get(..bytes).unwrap_or_default()
    }

    pub fn is_last(&self) -> bool {
        self.offset + self.bytes.len() == self.header.rest
    }

    /// The address at which the content of the frame starts, if it lies in memory as it was sent. Call it on the last
    /// piece only.
    pub fn content_address(&self) -> usize {
        (self.bytes.as_ptr_range().end as usize).saturating_sub(self.header.rest)
    }
}

impl FrameScanner {
    /// For what a client sends.
    pub fn of_client() -> Self {
        Self { preface: PREFACE, ..Self::default() }
    }

    /// Removes the next piece of a frame from these bytes; none if they are used up.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<FramePiece<'a>> {
        let head = loop {
            if let Some(head) = self.head {
                break head;
            }
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            if self.preface > 0 {
                self.preface -= 1;
                continue;
            }
            self.begun.push(*first);
            self.head = FrameHeader::parse(&self.begun);
        };
        let missing = head.rest - self.offset;
        if missing > 0 && bytes.is_empty() {
            return None;
        }
        let (here, rest) = bytes.split_at_checked(missing.min(bytes.len()))?;
        *bytes = rest;
        let piece = FramePiece { header: head, offset: self.offset, bytes: here };
        self.offset += here.len();
        if piece.is_last() {
            *self = Self::default();
        }
        Some(piece)
    }

    /// Bytes in which at most so many frames end, with the one that has begun. At least one.
    pub fn bytes_of(&self, frames: usize) -> usize {
        let missing = self.head.map_or(FRAME_HEADER, |head| head.rest - self.offset);
        self.preface + missing + frames.saturating_sub(1) * FRAME_HEADER
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A frame of stream 1.
    pub fn frame(kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], content].concat()
    }

    fn padded(kind: u8, flags: u8, content: &[u8], padding: u8) -> Vec<u8> {
        frame(kind, flags | PADDED, &[&[padding][..], content, &vec![0; padding.into()]].concat())
    }

    #[test]
    fn content_is_found_in_pieces_of_any_size() {
        let on_itself = [&[0x80, 0, 0, 1, 9][..], b"head"].concat();
        let all = [
            (frame(DATA, 0, b""), &b""[..], DATA),
            (frame(DATA, END_STREAM, b"x"), b"x", DATA),
            (frame(DATA, 0, &[b'x'; 3000]), &[b'x'; 3000], DATA),
            (padded(DATA, 0, b"", 9), b"", DATA),
            (padded(DATA, END_STREAM, b"x", 255), b"x", DATA),
            (padded(DATA, 0, &[b'x'; 3000], 0), &[b'x'; 3000], DATA),
            (frame(PING, 0xff, b"8 bytes."), b"8 bytes.", PING),
            (padded(HEADERS, 0, b"head", 7), b"head", HEADERS),
            (padded(HEADERS, WITH_PRIORITY, &on_itself, 7), b"head", HEADERS),
            (frame(CONTINUATION, 0xff, b"head"), b"head", CONTINUATION),
            // No frames at all: the library ends the connection.
            (frame(DATA, PADDED, b""), b"", DATA),
            (frame(DATA, PADDED, &[200, 1]), b"", DATA),
            (frame(HEADERS, PADDED | WITH_PRIORITY, &[0, 0, 0]), b"", HEADERS),
        ];
        let sent = all.iter().fold(vec![6; PREFACE], |sent, (bytes, ..)| [&sent[..], bytes].concat());
        for size in [1, 9, 10, 5000] {
            let (mut scanner, mut found) = (FrameScanner::of_client(), Vec::new());
            let mut content = Vec::new();
            for mut bytes in sent.chunks(size) {
                while let Some(piece) = scanner.next(&mut bytes) {
                    content.extend_from_slice(piece.content());
                    if piece.is_last() {
                        found.push((std::mem::take(&mut content), piece.header));
                    }
                }
            }
            assert_eq!(found.len(), all.len());
            for (n, ((_, content, kind), (found, head))) in all.iter().zip(&found).enumerate() {
                assert_eq!((&found[..], head.kind, head.stream), (*content, *kind, 1), "{n} in pieces of {size}");
                assert_eq!(head.ends_stream(), matches!(n, 1 | 4 | 6 | 9), "{n}");
                assert_eq!(head.stream_depends_on_itself(), n == 8, "{n}");
            }
        }
    }

    #[test]
    fn the_address_of_content_is_where_it_lies() {
        let sent = [padded(DATA, 0, b"0123456789", 3), frame(DATA, END_STREAM, b"")].concat();
        for (whole, at) in [(9, 10), (30, 10)] {
            // All before the end may have moved meanwhile.
            let (mut begun, mut scanner) = (&sent[..whole.min(15)], FrameScanner::default());
            while scanner.next(&mut begun).is_some() {}
            let mut rest = &sent[whole.min(15)..];
            let piece = scanner.next(&mut rest).unwrap();
            assert!(piece.is_last());
            assert_eq!(piece.content_address(), sent.as_ptr() as usize + at);
            let empty = scanner.next(&mut rest).unwrap();
            assert_eq!(empty.content_address(), sent.as_ptr() as usize + sent.len());
        }
    }

    #[test]
    fn no_more_frames_end_in_so_many_bytes() {
        let mut scanner = FrameScanner::of_client();
        assert_eq!(scanner.bytes_of(3), PREFACE + 3 * FRAME_HEADER);
        let sent = [vec![6; PREFACE], frame(DATA, 0, &[b'x'; 100])].concat();
        let mut begun = &sent[..PREFACE + FRAME_HEADER + 40];
        while scanner.next(&mut begun).is_some() {}
        assert_eq!(scanner.bytes_of(2), 60 + FRAME_HEADER);
        let rest = [vec![b'x'; 60], frame(DATA, 0, b"").repeat(9)].concat();
        let (mut bytes, mut ended) = (&rest[..scanner.bytes_of(5)], 0);
        while let Some(piece) = scanner.next(&mut bytes) {
            ended += usize::from(piece.is_last());
        }
        assert_eq!(ended, 5);
    }
}
