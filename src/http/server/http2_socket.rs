//! The bytes of an HTTP/2 connection, after TLS. It notes whether written bytes wait for the socket, and fails a
//! connection whose client sends too many frames that cost work and carry nothing, or frames for which there is
//! [no memory](super::waiting_frames).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::time::Instant;

use super::waiting_frames::{SlotWait, WaitingFrames};

const DATA: u8 = 0;
/// A frame DATA may have padding after its content: its first byte tells how much (RFC 9113 section 6.1).
const PADDED: u8 = 8;
/// PRIORITY, RST_STREAM, SETTINGS and PING (RFC 9113 section 6).
const CONTROL: [u8; 4] = [2, 3, 4, 6];
/// How many of them a client may send in this time.
const CONTROL_FRAMES: u32 = 1000;
const PERIOD: Duration = Duration::from_secs(10);
/// Bytes before the first frame.
const PREFACE: usize = 24;
/// Bytes of the head of a frame.
const HEAD: usize = 9;

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

    /// Whether the client has sent too many control frames, or more for bodies than there was memory for.
    pub fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }
}

pub struct Http2Socket<S> {
    /// Its limit is that of the next read.
    stream: Take<S>,
    state: Arc<SocketState>,
    counter: FrameCounter,
    waiting: Arc<WaitingFrames>,
    wait: SlotWait,
}

impl<S: AsyncRead> Http2Socket<S> {
    pub fn new(stream: S, state: Arc<SocketState>, waiting: Arc<WaitingFrames>) -> Self {
        Self { stream: stream.take(0), state, counter: FrameCounter::new(), waiting, wait: SlotWait::default() }
    }
}

impl<S> Http2Socket<S> {
    fn flooded(&self, with: &'static str) -> io::Error {
        self.state.flooded.store(true, Ordering::Relaxed);
        io::Error::other(with)
    }
}

/// Counts the frames of a client.
struct FrameCounter {
    /// Bytes before the next head of a frame.
    skip: usize,
    /// The begin of a head, with the byte after it if that tells of padding.
    head: SmallVec<[u8; HEAD + 1]>,
    since: Instant,
    /// Control frames since then.
    control: u32,
}

impl FrameCounter {
    fn new() -> Self {
        Self { skip: PREFACE, head: SmallVec::new(), since: Instant::now(), control: 0 }
    }

    /// Counts the frames that begin in these bytes. Returns how many of them have content of bodies.
    fn count(&mut self, mut bytes: &[u8]) -> usize {
        if self.since.elapsed() >= PERIOD {
            (self.since, self.control) = (Instant::now(), 0);
        }
        let mut of_bodies = 0;
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            let Some((first, rest)) = bytes.get(skipped..).and_then(<[u8]>::split_first) else {
                return of_bodies;
            };
            bytes = rest;
            self.head.push(*first);
            let &[a, b, c, kind, flags, _, _, _, _, ref padding @ ..] = self.head.as_slice() else { continue };
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let is_padded = kind == DATA && flags & PADDED != 0 && length > 0;
            let has_content = match padding {
                [] if is_padded => continue,
                [] => length > 0,
                [padding, ..] => length > 1 + *padding as usize,
            };
            self.skip = length - usize::from(is_padded);
            self.control += u32::from(CONTROL.contains(&kind));
            // The library counts the empty ones.
            of_bodies += usize::from(kind == DATA && has_content);
            self.head.clear();
        }
    }

    fn is_flooded(&self) -> bool {
        self.control > CONTROL_FRAMES
    }

    /// Bytes in which at most so many frames with content begin, at least one.
    fn bytes_of(&self, frames: usize) -> u64 {
        (self.skip + frames * (HEAD + 1)) as u64
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Http2Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { waiting, wait, .. } = &mut *self;
        let Ok(free) = ready!(waiting.poll_slots(cx, wait)) else {
            return Poll::Ready(Err(self.flooded("no memory for frames that wait")));
        };
        let most = self.counter.bytes_of(free);
        self.stream.set_limit(most);
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let bytes = buf.filled().get(before..).unwrap_or_default();
        let arrived = self.counter.count(bytes);
        if arrived > 0 {
            self.waiting.arrived(arrived);
        }
        if self.counter.is_flooded() {
            return Poll::Ready(Err(self.flooded("too many control frames")));
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Http2Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.state.unsent.store(true, Ordering::Relaxed);
        Pin::new(self.stream.get_mut()).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(self.stream.get_mut()).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.state.unsent.store(false, Ordering::Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.state.unsent.store(true, Ordering::Relaxed);
        Pin::new(self.stream.get_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
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
            let mut counter = FrameCounter::new();
            let honest = [vec![6; PREFACE], data.repeat(5000), ping.repeat(1000)].concat();
            let of_bodies: usize = honest.chunks(piece).map(|bytes| counter.count(bytes)).sum();
            assert_eq!((of_bodies, counter.is_flooded()), (5000, false), "{piece}");
            ping.chunks(piece).for_each(|bytes| assert_eq!(counter.count(bytes), 0));
            assert!(counter.is_flooded(), "{piece}");
        }
    }

    /// Padding is no content. Frames after it are found.
    #[test]
    fn frames_with_content_are_counted() {
        let frame = |kind: u8, flags: u8, content: &[u8]| {
            let length = (content.len() as u32).to_be_bytes();
            [&length[1..], &[kind, flags, 0, 0, 0, 1], content].concat()
        };
        let padded = |bytes: usize, padding: u8| {
            frame(DATA, PADDED, &[&[padding][..], &vec![b'x'; bytes], &vec![0; padding.into()]].concat())
        };
        let all = [
            (frame(DATA, 0, b""), 0),
            (frame(DATA, 1, b"x"), 1),
            (frame(DATA, 0, &[b'x'; 3000]), 1),
            (padded(0, 9), 0),
            (padded(1, 255), 1),
            (padded(3000, 255), 1),
            (padded(1, 0), 1),
            // No frame at all: the library ends the connection.
            (frame(DATA, PADDED, b""), 0),
            (frame(DATA, PADDED, &[200, 1]), 0),
            (frame(1, PADDED, b"head"), 0),
        ];
        for piece in [1, 9, 10, 5000] {
            let mut counter = FrameCounter::new();
            assert_eq!(counter.count(&[0; PREFACE]), 0);
            for (n, (bytes, of_bodies)) in all.iter().enumerate() {
                let counted: usize = bytes.chunks(piece).map(|bytes| counter.count(bytes)).sum();
                assert_eq!((counted, counter.skip, counter.head.len()), (*of_bodies, 0, 0), "{n} in pieces of {piece}");
            }
        }
        assert_eq!(FrameCounter::new().bytes_of(3), PREFACE as u64 + 30);
    }
}
