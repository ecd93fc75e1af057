//! Where one request ends and the next begins, seen from the bytes of a connection (RFC 9112 section 6.3).
//!
//! A request with both `Content-Length` and `Transfer-Encoding` is one that two programs may cut in two ways, which
//! is how requests are smuggled past a proxy. The HTTP library takes the second header and hides the first, so it
//! is looked for here. After a request with `Transfer-Encoding` nothing is looked at: it is the last one of its
//! connection, so that chunks need not be understood twice.

use std::collections::VecDeque;

/// Bytes of a request's head.
pub const HEAD_BYTES: usize = 64 * 1024;

/// What is known of a request whose head has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed {
    /// Its length is known, or it has no body.
    Plain,
    /// Its body comes in chunks: it is the last request of the connection.
    Chunked,
    /// Two headers say where it ends.
    Ambiguous,
}

#[derive(Debug)]
enum State {
    /// In a head; what came of it so far.
    Head(Vec<u8>),
    /// So many bytes of a body are still to come.
    Body(u64),
    /// Nothing is looked at any more.
    Blind,
}

/// The framing of the requests of one connection.
#[derive(Debug)]
pub struct Framing {
    state: State,
    /// Of heads that came, oldest first.
    heads: VecDeque<Framed>,
}

impl Default for Framing {
    fn default() -> Self {
        Self { state: State::Head(Vec::new()), heads: VecDeque::new() }
    }
}

impl Framing {
    /// Takes the next bytes of the connection.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Blind => return,
                State::Body(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= here as u64;
                    bytes = bytes.get(here..).unwrap_or_default();
                    if *left == 0 {
                        self.state = State::Head(Vec::new());
                    }
                }
                State::Head(head) => {
                    let Some(taken) = to_the_end(head, bytes) else {
                        if head.len() > HEAD_BYTES {
                            self.state = State::Blind;
                        }
                        return;
                    };
                    bytes = bytes.get(taken..).unwrap_or_default();
                    let (framed, next) = framed(head);
                    self.heads.push_back(framed);
                    self.state = next;
                }
            }
        }
    }

    /// The request that is the next to be answered.
    pub fn next(&mut self) -> Framed {
        self.heads.pop_front().unwrap_or(Framed::Plain)
    }

    /// Whether a head has begun and is not whole.
    pub fn is_in_head(&self) -> bool {
        matches!(&self.state, State::Head(head) if !head.is_empty())
    }
}

/// Adds bytes to a head up to the empty line that ends it. How many those are; none if it did not come.
fn to_the_end(head: &mut Vec<u8>, bytes: &[u8]) -> Option<usize> {
    for (at, &byte) in bytes.iter().enumerate() {
        // Empty lines before a request are passed by (RFC 9112 section 2.2).
        if head.is_empty() && matches!(byte, b'\r' | b'\n') {
            continue;
        }
        head.push(byte);
        if byte == b'\n' && (head.ends_with(b"\n\n") || head.ends_with(b"\n\r\n")) {
            return Some(at + 1);
        }
    }
    None
}

fn framed(head: &[u8]) -> (Framed, State) {
    let (mut length, mut lengths, mut chunked) = (0, 0, false);
    for line in head.split(|&byte| byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = line.split_at_checked(colon).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"content-length") {
            lengths += 1;
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
        }
        chunked |= name.eq_ignore_ascii_case(b"transfer-encoding");
    }
    match (chunked, lengths) {
        (true, 0) => (Framed::Chunked, State::Blind),
        (true, _) => (Framed::Ambiguous, State::Blind),
        (false, _) if length == 0 => (Framed::Plain, State::Head(Vec::new())),
        (false, _) => (Framed::Plain, State::Body(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen of these bytes, in pieces of any size.
    fn seen(bytes: &str) -> Vec<Framed> {
        let whole = |piece: usize| {
            let mut framing = Framing::default();
            bytes.as_bytes().chunks(piece).for_each(|piece| framing.take(piece));
            Vec::from(framing.heads)
        };
        let all = whole(bytes.len());
        for piece in 1..20 {
            assert_eq!(whole(piece), all, "{bytes:?} in pieces of {piece}");
        }
        all
    }

    #[test]
    fn requests_are_told_apart() {
        use Framed::{Ambiguous, Chunked, Plain};
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let put = "PUT /a HTTP/1.1\r\nContent-Length: 28\r\n\r\nPOST / HTTP/1.1\r\nA: b\r\n\r\n1234";
        let chunked = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(seen(get), [Plain]);
        assert_eq!(seen(&format!("{get}\r\n{put}{get}")), [Plain, Plain, Plain]);
        assert_eq!(seen(&format!("{put}{chunked}{get}")), [Plain, Chunked]);
        for both in [
            "PUT / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "PUT / HTTP/1.1\r\ntransfer-encoding:x\r\nA: b\r\nCONTENT-LENGTH:\t5 \r\n\r\n",
            "PUT / HTTP/1.1\nTransfer-Encoding: chunked\nContent-Length: 0\n\n",
        ] {
            assert_eq!(seen(both), [Ambiguous], "{both:?}");
        }
        assert_eq!(seen("PUT / HTTP/1.1\r\nX-Content-Length: 5\r\n\r\nGET / HTTP/1.1\r\n\r\n"), [Plain, Plain]);
    }

    #[test]
    fn a_head_that_is_not_whole_is_known_and_bounded() {
        let mut framing = Framing::default();
        assert!(!framing.is_in_head());
        framing.take(b"\r\n");
        assert!(!framing.is_in_head());
        framing.take(b"GET / HTTP/1.1\r\nA: ");
        assert!(framing.is_in_head());
        for _ in 0..100 {
            framing.take(&[b'x'; 4096]);
        }
        assert!(!framing.is_in_head() && matches!(framing.state, State::Blind));
    }
}
