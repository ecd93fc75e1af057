//! A client's socket: its framing is watched, it says when all of an answer was handed to the system, and a client
//! that does not read what it asked for is let go.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::framing::Framing;
use super::slots::Slot;

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
    /// How long a client may take nothing of what is sent.
    patience: Duration,
    /// Runs while it takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub fn new(stream: TcpStream, framing: Watched, slot: Arc<Slot>, patience: Duration) -> Self {
        Self { stream, framing, slot, unsent: false, patience, stalled: None }
    }

    /// Whether the HTTP library may have bytes left that the system has not got: whatever is written behind its back
    /// would stand in their place.
    pub fn is_unsent(&self) -> bool {
        self.unsent
    }

    /// Ends a write that goes on too long without a byte.
    fn hurry<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.unsent = true;
        if written.is_ready() {
            if self.stalled.take().is_some() {
                self.slot.set_stalled(false);
            }
            return written;
        }
        let Self { patience, slot, .. } = self;
        let stalled = self.stalled.get_or_insert_with(|| {
            slot.set_stalled(true);
            Box::pin(tokio::time::sleep(*patience))
        });
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(bytes) = buf.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            self.framing.lock().take(bytes);
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.hurry(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // The HTTP library flushes the socket only when it has written all it had.
        if matches!(flushed, Poll::Ready(Ok(()))) && self.unsent {
            self.unsent = false;
            self.slot.flushed();
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
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.hurry(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
