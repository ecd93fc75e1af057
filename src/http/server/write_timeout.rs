//! A client's socket: its framing is watched, it says when all of an answer was handed to the system, and a client
//! that does not read what it asked for is let go.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::framing::Framing;
use super::pace::{Patience, RATE, Stall};
use super::slots::Slot;

/// Bytes of a read while no body is wanted.
const LITTLE: usize = 4096;

/// The framing of a connection, shared by its socket and its requests.
#[derive(Clone, Default)]
pub struct Watched(Arc<Mutex<Framing>>);

impl Watched {
    pub fn lock(&self) -> MutexGuard<'_, Framing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Socket {
    pub stream: TcpStream,
    framing: Watched,
    slot: Arc<Slot>,
    /// Something was to be written since the last flush that came to its end.
    unsent: bool,
    patience: Patience,
    /// Runs while the client takes nothing of what is sent.
    stall: Option<Stall>,
    /// Bytes that were sent since the last flush that came to its end, and how long the client took nothing.
    sent: u64,
    stalled: Duration,
    /// However it is closed, its client sees an error.
    resets: bool,
}

impl Socket {
    pub fn new(stream: TcpStream, framing: Watched, slot: Arc<Slot>, patience: Patience) -> Self {
        let (sent, stalled) = (0, Duration::ZERO);
        Self { stream, framing, slot, unsent: false, patience, stall: None, sent, stalled, resets: false }
    }

    /// Whether the HTTP library may have bytes left that the system has not got: whatever is written behind its back
    /// would stand in their place.
    pub fn is_unsent(&self) -> bool {
        self.unsent
    }

    /// Reads a head, or what comes of a body after its answer. The HTTP library's buffer grows with what one read
    /// brings, and stays as it is: it must not grow for bytes that nobody wants.
    fn poll_read_little(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; LITTLE];
        let room = bytes.get_mut(..buf.remaining().min(LITTLE)).unwrap_or_default();
        let mut little = ReadBuf::new(room);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut little);
        buf.put_slice(little.filled());
        read
    }

    /// Before the first byte of an answer that ends where the connection does, as one of HTTP/1.0 may: an orderly close
    /// would say that it was whole. From here on the system resets the connection, whatever ends it, be it the end of
    /// this process.
    fn guard_end(&mut self) -> io::Result<()> {
        if !self.resets && self.slot.is_endless() {
            self.stream.set_zero_linger()?;
            self.resets = true;
        }
        Ok(())
    }

    /// The answer is whole: the system sends what it has of it, then closes in order.
    #[expect(deprecated, reason = "what may block is to linger for a while, and this ends lingering")]
    fn release_end(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.resets) { self.stream.set_linger(None) } else { Ok(()) }
    }

    /// Ends a write of these bytes that goes on too long without one of them, or with too few.
    fn hurry(&mut self, cx: &mut Context<'_>, buf: &[u8], written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.unsent = true;
        if let Poll::Ready(written) = written {
            return Poll::Ready(self.went_on(written));
        }
        let Self { stream, patience, slot, stall, .. } = self;
        let stall = stall.get_or_insert_with(|| {
            slot.set_stalled(true);
            Stall::begin(patience.limits.write_idle)
        });
        while let Poll::Ready(ended) = stall.poll_look(cx, &patience.memory) {
            // The system tells of room only when a third of its buffer is free, which may have megabytes; it takes
            // bytes as soon as the client has taken some.
            match rustix::io::write(&*stream, buf) {
                Ok(taken) if taken > 0 => return Poll::Ready(self.went_on(Ok(taken))),
                Err(error) if error != Errno::AGAIN && error != Errno::INTR => {
                    return Poll::Ready(self.went_on(Err(error.into())));
                }
                _ if ended => return Poll::Ready(Err(stalled())),
                _ => {}
            }
        }
        Poll::Pending
    }

    /// The end of a write, and of a stall if there was one.
    fn went_on(&mut self, written: io::Result<usize>) -> io::Result<usize> {
        self.sent += *written.as_ref().unwrap_or(&0) as u64;
        let Some(stall) = self.stall.take() else { return written };
        self.slot.set_stalled(false);
        self.stalled += stall.lasted();
        if self.is_slow() { Err(stalled()) } else { written }
    }

    /// Whether the client has taken too little for the time that it was waited for.
    fn is_slow(&self) -> bool {
        self.stalled >= self.patience.limits.body_grace && self.sent < self.stalled.as_secs() * RATE
    }
}

fn stalled() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client does not read")
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = if self.slot.is_at_work() {
            Pin::new(&mut self.stream).poll_read(cx, buf)
        } else {
            self.poll_read_little(cx, buf)
        };
        if let Some(bytes) = buf.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            self.framing.lock().take(bytes);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.guard_end()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.hurry(cx, buf, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // The HTTP library flushes the socket only when it has written all it had, and once more after it let go of an
        // answer: the last byte may have gone before that.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            if self.unsent {
                (self.unsent, self.sent, self.stalled) = (false, 0, Duration::ZERO);
            }
            self.slot.flushed();
        }
        flushed
    }

    /// The HTTP library comes here when it has written all it had, and not after an error.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.release_end()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.guard_end()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        let first = bufs.iter().find(|buf| !buf.is_empty());
        self.hurry(cx, first.map_or(&[], |buf| &**buf), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
