//! A client's socket, below TLS. It ends the connection of a client that reads nothing of its response for too long,
//! and resets the connection if a response that ends with it is cut.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::connection_limit::ConnectionSlot;
use super::slow_client::{Pace, StallTimer, Timeouts};

pub struct ClientSocket {
    pub stream: TcpStream,
    slot: Arc<ConnectionSlot>,
    timeouts: Timeouts,
    /// Runs while the client reads nothing of the response.
    stall: Option<StallTimer>,
    /// The system has taken bytes although it does not report the socket as writable, and may take more.
    has_space: bool,
    /// Since the last complete flush; the server waits while the client reads nothing.
    pace: Pace,
    /// The client sees a connection reset, however the socket is closed.
    reset_on_close: bool,
}

impl ClientSocket {
    pub fn new(stream: TcpStream, slot: Arc<ConnectionSlot>, timeouts: Timeouts) -> Self {
        let pace = Pace::default();
        Self { stream, slot, timeouts, stall: None, has_space: false, pace, reset_on_close: false }
    }

    /// Call it before the first byte of a response that ends with the connection, as an HTTP/1.0 response may: an
    /// orderly close would make a part look like the whole. From here on the system resets the connection whenever it
    /// ends, also when this process ends.
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
        if let Poll::Ready(written) = written {
            return Poll::Ready(self.write_done(written));
        }
        // TLS writes in small pieces: all space is used now, or each piece would look as if the client had read some.
        if self.has_space {
            match rustix::io::write(&self.stream, buf) {
                Ok(taken) if taken > 0 => return Poll::Ready(self.write_done(Ok(taken))),
                _ => self.has_space = false,
            }
        }
        let Self { stream, timeouts, slot, stall, .. } = self;
        let stall = stall.get_or_insert_with(|| {
            slot.set_write_stalled(true);
            StallTimer::start(timeouts.limits.write_idle, Duration::ZERO)
        });
        let do_others_wait = || timeouts.others_wait(slot.has_link_request()).is_some();
        while let Poll::Ready(ended) = stall.poll_check(cx, do_others_wait) {
            // The system reports a socket as writable only when a third of its buffer is free, and the buffer may have
            // megabytes. But it accepts bytes as soon as the client has read some: so try to write.
            match rustix::io::write(&*stream, buf) {
                Ok(taken) if taken > 0 => {
                    self.has_space = true;
                    return Poll::Ready(self.write_done(Ok(taken)));
                }
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
        let stall = self.stall.take();
        let waited = stall.as_ref().map_or(Duration::ZERO, StallTimer::elapsed);
        self.pace.add(*written.as_ref().unwrap_or(&0) as u64, waited);
        if stall.is_none() {
            return written;
        }
        self.slot.set_write_stalled(false);
        let others_wait = self.timeouts.others_wait(self.slot.has_link_request());
        if self.pace.is_too_slow(&self.timeouts.limits, others_wait) { Err(stalled()) } else { written }
    }
}

fn stalled() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client does not read")
}

impl AsyncRead for ClientSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
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
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.pace = Pace::default();
        }
        flushed
    }

    /// The HTTP library and TLS call this after they have written all their bytes, and never after an error.
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
