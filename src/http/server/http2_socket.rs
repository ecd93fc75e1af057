//! The bytes of an HTTP/2 connection, after TLS. It notes whether written bytes wait for the socket, and fails a
//! connection whose client sends too many frames that cost work and carry nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// PRIORITY, RST_STREAM, SETTINGS and PING (RFC 9113 section 6).
const CONTROL: [u8; 4] = [2, 3, 4, 6];
/// How many of them a client may send in this time.
const CONTROL_FRAMES: u32 = 1000;
const PERIOD: Duration = Duration::from_secs(10);
/// Bytes before the first frame.
const PREFACE: usize = 24;

/// What is known of the bytes of a connection.
#[derive(Default)]
pub struct SocketState {
    unsent: AtomicBool,
    flooded: AtomicBool,
}

impl SocketState {
    /// Whether there was a write since the last complete flush.
    pub fn is_unsent(&self) -> bool {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Whether the client has sent too many control frames.
    pub fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }
}

pub struct Http2Socket<S> {
    stream: S,
    state: Arc<SocketState>,
    frames: FrameCounter,
}

impl<S> Http2Socket<S> {
    pub fn new(stream: S, state: Arc<SocketState>) -> Self {
        Self { stream, state, frames: FrameCounter::new() }
    }
}

/// Counts the control frames of a client.
struct FrameCounter {
    /// Bytes before the next head of a frame.
    skip: usize,
    /// The begin of a head.
    head: SmallVec<[u8; 9]>,
    since: Instant,
    many: u32,
}

impl FrameCounter {
    fn new() -> Self {
        Self { skip: PREFACE, head: SmallVec::new(), since: Instant::now(), many: 0 }
    }

    /// Counts the frames that begin in these bytes. False if there are too many.
    fn count(&mut self, mut bytes: &[u8]) -> bool {
        if self.since.elapsed() >= PERIOD {
            (self.since, self.many) = (Instant::now(), 0);
        }
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            let Some((first, rest)) = bytes.get(skipped..).and_then(<[u8]>::split_first) else {
                return self.many <= CONTROL_FRAMES;
            };
            bytes = rest;
            self.head.push(*first);
            if let &[a, b, c, kind, _, _, _, _, _] = self.head.as_slice() {
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                self.many += u32::from(CONTROL.contains(&kind));
                self.head.clear();
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Http2Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let bytes = buf.filled().get(before..).unwrap_or_default();
        if !self.frames.count(bytes) {
            self.state.flooded.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::other("too many control frames")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Http2Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.state.unsent.store(true, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.state.unsent.store(false, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.state.unsent.store(true, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_frames_are_counted_in_pieces_of_any_size() {
        let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[6; 8]].concat();
        let data = [&[0, 0, 9, 0, 0, 0, 0, 0, 1][..], &[6; 9]].concat();
        for piece in [1, 5, 1000] {
            let mut frames = FrameCounter::new();
            let honest = [vec![6; PREFACE], data.repeat(5000), ping.repeat(1000)].concat();
            assert!(honest.chunks(piece).all(|bytes| frames.count(bytes)), "{piece}");
            assert!(!ping.chunks(piece).all(|bytes| frames.count(bytes)), "{piece}");
        }
    }
}
