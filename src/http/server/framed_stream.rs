//! The bytes of an HTTP/1.1 connection, after TLS if there is any. It passes received bytes to the
//! [framing](super::framing), and notifies the [limit](super::connection_limit) when a whole response is flushed.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection_limit::ConnectionSlot;
use super::framing::ConnectionFraming;

/// Bytes of a read while no handler waits for a body.
const SMALL_READ: usize = 4096;

/// The framing of a connection, shared by its bytes and its requests.
#[derive(Clone, Default)]
pub struct SharedFraming(Arc<Mutex<ConnectionFraming>>);

impl SharedFraming {
    pub fn lock(&self) -> MutexGuard<'_, ConnectionFraming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct FramedStream<S> {
    pub stream: S,
    framing: SharedFraming,
    slot: Arc<ConnectionSlot>,
    /// There was a write since the last complete flush.
    unsent: bool,
}

impl<S: AsyncRead + Unpin> FramedStream<S> {
    pub fn new(stream: S, framing: SharedFraming, slot: Arc<ConnectionSlot>) -> Self {
        Self { stream, framing, slot, unsent: false }
    }

    /// Whether the HTTP library may have bytes that it has not written. Bytes written to the stream directly would then
    /// be in the middle of a response.
    pub fn is_unsent(&self) -> bool {
        self.unsent
    }

    /// Reads a head, or the rest of a body after its response. The HTTP library's buffer grows with the size of a read
    /// and never shrinks: it must not grow for bytes that no handler reads.
    fn poll_small_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [const { MaybeUninit::uninit() }; SMALL_READ];
        let free = bytes.get_mut(..buf.remaining().min(SMALL_READ)).unwrap_or_default();
        let mut small = ReadBuf::uninit(free);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut small);
        buf.put_slice(small.filled());
        read
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FramedStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for FramedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.unsent = true;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // The HTTP library flushes the stream after it has written all its bytes, and once more after it has dropped
        // the response: the last byte may have been written before that.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.unsent = false;
            self.slot.flushed();
        }
        flushed
    }

    /// The HTTP library calls this after it has written all its bytes, and never after an error.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unsent = true;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
