//! A client's socket. It passes received bytes to the [framing](super::framing), notifies the
//! [limit](super::connection_limit) when a whole response is flushed, and ends the connection of a client that reads
//! nothing of its response for too long.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::body_timeout::{MIN_RATE, StallTimer, Timeouts};
use super::connection_limit::ConnectionSlot;
use super::framing::ConnectionFraming;

/// Bytes of a read while no handler waits for a body.
const SMALL_READ: usize = 4096;

/// The framing of a connection, shared by its socket and its requests.
#[derive(Clone, Default)]
pub struct SharedFraming(Arc<Mutex<ConnectionFraming>>);

impl SharedFraming {
    pub fn lock(&self) -> MutexGuard<'_, ConnectionFraming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct ClientSocket {
    pub stream: TcpStream,
    framing: SharedFraming,
    slot: Arc<ConnectionSlot>,
    /// There was a write since the last complete flush.
    unsent: bool,
    timeouts: Timeouts,
    /// Runs while the client reads nothing of the response.
    stall: Option<StallTimer>,
    /// Since the last complete flush: bytes sent, and how long the client read nothing.
    sent: u64,
    stalled: Duration,
    /// The client sees a connection reset, however the socket is closed.
    reset_on_close: bool,
}

impl ClientSocket {
    pub fn new(stream: TcpStream, framing: SharedFraming, slot: Arc<ConnectionSlot>, timeouts: Timeouts) -> Self {
        let (sent, stalled) = (0, Duration::ZERO);
        Self { stream, framing, slot, unsent: false, timeouts, stall: None, sent, stalled, reset_on_close: false }
    }

    /// Whether the HTTP library may have bytes that it has not written. Bytes written to the stream directly would then
    /// be in the middle of a response.
    pub fn is_unsent(&self) -> bool {
        self.unsent
    }

    /// Reads a head, or the rest of a body after its response. The HTTP library's buffer grows with the size of a read and
    /// never shrinks: it must not grow for bytes that no handler reads.
    fn poll_small_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; SMALL_READ];
        let free = bytes.get_mut(..buf.remaining().min(SMALL_READ)).unwrap_or_default();
        let mut small = ReadBuf::new(free);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut small);
        buf.put_slice(small.filled());
        read
    }

    /// Call it before the first byte of a response that ends with the connection, as an HTTP/1.0 response may: an orderly
    /// close would make a part look like the whole. From here on the system resets the connection whenever it ends, also
    /// when this process ends.
    fn arm_reset(&mut self) -> io::Result<()> {
        if !self.reset_on_close && self.slot.is_close_delimited() {
            self.stream.set_zero_linger()?;
            self.reset_on_close = true;
        }
        Ok(())
    }

    /// Call it when the response is complete: the system sends the rest of it, then closes the connection in order.
    #[expect(deprecated, reason = "what may block is to linger for a while, and this ends lingering")]
    fn disarm_reset(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.reset_on_close) { self.stream.set_linger(None) } else { Ok(()) }
    }

    /// Fails the write of these bytes if it makes no progress, or too little progress, for too long.
    fn limit_stall(
        &mut self,
        cx: &mut Context<'_>,
        buf: &[u8],
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.unsent = true;
        if let Poll::Ready(written) = written {
            return Poll::Ready(self.write_done(written));
        }
        let Self { stream, timeouts, slot, stall, .. } = self;
        let stall = stall.get_or_insert_with(|| {
            slot.set_write_stalled(true);
            StallTimer::start(timeouts.limits.write_idle)
        });
        while let Poll::Ready(ended) = stall.poll_check(cx, &timeouts.memory) {
            // The system reports a socket as writable only when a third of its buffer is free, and the buffer may have
            // megabytes. But it accepts bytes as soon as the client has read some: so try to write.
            match rustix::io::write(&*stream, buf) {
                Ok(taken) if taken > 0 => return Poll::Ready(self.write_done(Ok(taken))),
                Err(error) if error != Errno::AGAIN && error != Errno::INTR => {
                    return Poll::Ready(self.write_done(Err(error.into())));
                }
                _ if ended => return Poll::Ready(Err(stalled())),
                _ => {}
            }
        }
        Poll::Pending
    }

    /// A write has ended, and a stall if there was one.
    fn write_done(&mut self, written: io::Result<usize>) -> io::Result<usize> {
        self.sent += *written.as_ref().unwrap_or(&0) as u64;
        let Some(stall) = self.stall.take() else { return written };
        self.slot.set_write_stalled(false);
        self.stalled += stall.elapsed();
        if self.is_slow() { Err(stalled()) } else { written }
    }

    /// Whether the client has read too little in the time that it stalled.
    fn is_slow(&self) -> bool {
        self.stalled >= self.timeouts.limits.body_grace && self.sent < self.stalled.as_secs() * MIN_RATE
    }
}

fn stalled() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client does not read")
}

impl AsyncRead for ClientSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = if self.slot.is_handling() {
            Pin::new(&mut self.stream).poll_read(cx, buf)
        } else {
            self.poll_small_read(cx, buf)
        };
        if let Some(bytes) = buf.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            self.framing.lock().observe(bytes);
        }
        read
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.arm_reset()?;
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.limit_stall(cx, buf, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // The HTTP library flushes the socket after it has written all its bytes, and once more after it has dropped the
        // response: the last byte may have been written before that.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            if self.unsent {
                (self.unsent, self.sent, self.stalled) = (false, 0, Duration::ZERO);
            }
            self.slot.flushed();
        }
        flushed
    }

    /// The HTTP library calls this after it has written all its bytes, and never after an error.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.disarm_reset()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.arm_reset()?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        let first = bufs.iter().find(|buf| !buf.is_empty());
        self.limit_stall(cx, first.map_or(&[], |buf| &**buf), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
