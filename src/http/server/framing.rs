//! Request smuggling: finds requests with both `Content-Length` and `Transfer-Encoding` (RFC 9112 section 6.3).
//!
//! Two programs may disagree where such a request ends: a proxy in front may use the other header. hyper 1 itself
//! rejects differing lengths, and codings that do not end with `chunked`. But of this pair it removes `Content-Length`
//! before a handler sees the request (`proto/h1/role.rs`), and it has no option to keep or reject it. So this module
//! scans the bytes of each head for the names of the two headers, and skips bodies by their length. It stops at the
//! first request with `Transfer-Encoding`: the response to it closes the connection. So chunks need not be parsed
//! twice, and bytes after them are never a request.

use std::collections::VecDeque;

use memchr::{memchr, memchr_iter};

/// Bytes of a request's head.
pub const HEAD_BYTES: usize = 64 * 1024;

/// How a request declares where its body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFraming {
    /// By its length, or it has no body.
    Plain,
    /// In chunks: it is the last request of the connection.
    Chunked,
    /// By two headers.
    Ambiguous,
}

#[derive(Debug)]
enum FramingState {
    /// In a head; its bytes so far.
    Head(Vec<u8>),
    /// In a body; how many bytes of it are missing.
    Body(u64),
    /// All further bytes are ignored.
    Ignored,
}

/// The framing of all requests of one connection.
#[derive(Debug)]
pub struct ConnectionFraming {
    state: FramingState,
    /// The requests that no handler has yet, oldest first.
    heads: VecDeque<RequestFraming>,
}

impl Default for ConnectionFraming {
    fn default() -> Self {
        Self { state: FramingState::Head(Vec::new()), heads: VecDeque::new() }
    }
}

impl ConnectionFraming {
    /// Scans the next bytes of the connection.
    pub fn observe(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.state {
                FramingState::Ignored => return,
                FramingState::Body(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= here as u64;
                    bytes = bytes.get(here..).unwrap_or_default();
                    if *left == 0 {
                        self.state = FramingState::Head(Vec::new());
                    }
                }
                FramingState::Head(head) => {
                    if head.is_empty() {
                        bytes = after_empty_lines(bytes);
                    }
                    let before = head.len();
                    // Most heads come in one piece, and are read where they are.
                    let whole = if before == 0 { end_of_head(bytes, 0) } else { None };
                    let end = whole.or_else(|| {
                        head.extend_from_slice(bytes);
                        end_of_head(head, before.saturating_sub(2))
                    });
                    let Some(end) = end else {
                        if head.len() > HEAD_BYTES {
                            self.state = FramingState::Ignored;
                        }
                        return;
                    };
                    let all = if whole.is_some() { bytes } else { head.as_slice() };
                    let (framed, next) = parse_head(all.get(..end).unwrap_or_default());
                    bytes = bytes.get(end - before..).unwrap_or_default();
                    self.heads.push_back(framed);
                    self.state = next;
                }
            }
        }
    }

    /// The framing of the next request that is handled.
    pub fn next_request(&mut self) -> RequestFraming {
        self.heads.pop_front().unwrap_or(RequestFraming::Plain)
    }

    /// Whether a head has begun and is not complete.
    pub fn is_in_head(&self) -> bool {
        matches!(&self.state, FramingState::Head(head) if !head.is_empty())
    }
}

/// Empty lines before a request are skipped (RFC 9112 section 2.2).
fn after_empty_lines(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}

/// Where a head ends: after the first empty line, of which the line end before it is not before `from`.
fn end_of_head(head: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr(b'\n', head.get(at..)?)? + 1;
        match head.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

fn parse_head(head: &[u8]) -> (RequestFraming, FramingState) {
    let (mut length, mut lengths, mut chunked) = (0, 0, false);
    // After the request line. Only names with the first letter of `Content-Length` or `Transfer-Encoding` matter.
    let ends = memchr_iter(b'\n', head).chain([head.len()]);
    let lines = memchr_iter(b'\n', head).zip(ends.skip(1)).filter_map(|(before, end)| head.get(before + 1..end));
    for line in lines.filter(|line| matches!(line.first(), Some(b'c' | b'C' | b't' | b'T'))) {
        let Some(colon) = memchr(b':', line) else { continue };
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"content-length") {
            lengths += 1;
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        }
        chunked |= name.eq_ignore_ascii_case(b"transfer-encoding");
    }
    match (chunked, lengths) {
        (true, 0) => (RequestFraming::Chunked, FramingState::Ignored),
        (true, _) => (RequestFraming::Ambiguous, FramingState::Ignored),
        (false, _) if length == 0 => (RequestFraming::Plain, FramingState::Head(Vec::new())),
        (false, _) => (RequestFraming::Plain, FramingState::Body(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The framing of the requests in these bytes, the same for pieces of any size.
    fn framings(bytes: &str) -> Vec<RequestFraming> {
        let whole = |piece: usize| {
            let mut framing = ConnectionFraming::default();
            bytes.as_bytes().chunks(piece).for_each(|piece| framing.observe(piece));
            Vec::from(framing.heads)
        };
        let all = whole(bytes.len());
        for piece in 1..20 {
            assert_eq!(whole(piece), all, "{bytes:?} in pieces of {piece}");
        }
        all
    }

    #[test]
    fn requests_are_separated() {
        use RequestFraming::{Ambiguous, Chunked, Plain};
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let put = "PUT /a HTTP/1.1\r\nContent-Length: 28\r\n\r\nPOST / HTTP/1.1\r\nA: b\r\n\r\n1234";
        let chunked = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(framings(get), [Plain]);
        assert_eq!(framings(&format!("{get}\r\n{put}{get}")), [Plain, Plain, Plain]);
        assert_eq!(framings(&format!("{put}{chunked}{get}")), [Plain, Chunked]);
        for both in [
            "PUT / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "PUT / HTTP/1.1\r\ntransfer-encoding:x\r\nA: b\r\nCONTENT-LENGTH:\t5 \r\n\r\n",
            "PUT / HTTP/1.1\nTransfer-Encoding: chunked\nContent-Length: 0\n\n",
        ] {
            assert_eq!(framings(both), [Ambiguous], "{both:?}");
        }
        assert_eq!(framings("PUT / HTTP/1.1\r\nX-Content-Length: 5\r\n\r\nGET / HTTP/1.1\r\n\r\n"), [Plain, Plain]);
    }

    #[test]
    fn an_incomplete_head_is_detected_and_bounded() {
        let mut framing = ConnectionFraming::default();
        assert!(!framing.is_in_head());
        framing.observe(b"\r\n");
        assert!(!framing.is_in_head());
        framing.observe(b"GET / HTTP/1.1\r\nA: ");
        assert!(framing.is_in_head());
        for _ in 0..100 {
            framing.observe(&[b'x'; 4096]);
        }
        assert!(!framing.is_in_head() && matches!(framing.state, FramingState::Ignored));
    }
}
