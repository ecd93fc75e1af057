//! The bytes of an HTTP/2 connection, after TLS. It notes whether written bytes wait for the socket, and fails a
//! connection whose client sends too many frames that cost work and carry nothing, or frames for which there is
//! [no memory](super::connection_memory).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::time::Instant;

use super::connection_memory::{ConnectionMemory, FrameWait};
use super::http2_frames::{FramePiece, FrameScanner, PING, PRIORITY, RST_STREAM, SETTINGS};
use super::socket_state::SocketState;

/// How many control frames a client may send in this time (RFC 9113 section 6).
const CONTROL_FRAMES: u32 = 1000;
const PERIOD: Duration = Duration::from_secs(10);

pub struct Http2Socket<S> {
    /// Its limit is that of the next read.
    stream: Take<S>,
    state: Arc<SocketState>,
    received: FrameScanner,
    sent: FrameScanner,
    control: ControlFrames,
    waiting: Arc<ConnectionMemory>,
    wait: FrameWait,
}

impl<S: AsyncRead> Http2Socket<S> {
    pub fn new(stream: S, state: Arc<SocketState>, waiting: Arc<ConnectionMemory>) -> Self {
        Self {
            stream: stream.take(0),
            state,
            received: FrameScanner::of_client(),
            sent: FrameScanner::default(),
            control: ControlFrames { since: Instant::now(), many: 0 },
            waiting,
            wait: FrameWait::default(),
        }
    }
}

impl<S> Http2Socket<S> {
    fn flooded(&self, with: &'static str) -> io::Error {
        self.state.set_flooded();
        io::Error::other(with)
    }

    /// Notes what has arrived. `room`: of the buffer that it was read into.
    fn note_received(&mut self, mut bytes: &[u8], room: usize) -> io::Result<()> {
        let Self { received, control, .. } = self;
        control.begin_read();
        let all = bytes;
        let pieces = std::iter::from_fn(|| received.next(&mut bytes)).inspect(|piece| control.count(piece));
        if self.waiting.received(all, room, pieces).is_err() {
            return Err(self.flooded("no memory for the table of header fields"));
        }
        if self.control.many > CONTROL_FRAMES {
            return Err(self.flooded("too many control frames"));
        }
        Ok(())
    }

    /// Notes the streams that are reset by so many bytes that were written of these.
    fn note_sent<'a>(&mut self, bytes: impl IntoIterator<Item = &'a [u8]>, mut written: usize) {
        for bytes in bytes {
            let mut here = bytes.get(..written.min(bytes.len())).unwrap_or_default();
            written -= here.len();
            while let Some(piece) = self.sent.next(&mut here) {
                if piece.header.kind == RST_STREAM && piece.is_last() {
                    self.waiting.reset(piece.header.stream);
                }
            }
        }
    }
}

/// Frames of a client that cost work and carry nothing.
struct ControlFrames {
    since: Instant,
    many: u32,
}

impl ControlFrames {
    fn begin_read(&mut self) {
        if self.since.elapsed() >= PERIOD {
            (self.since, self.many) = (Instant::now(), 0);
        }
    }

    fn count(&mut self, piece: &FramePiece<'_>) {
        let is_control = matches!(piece.header.kind, PRIORITY | RST_STREAM | SETTINGS | PING);
        self.many += u32::from(is_control && piece.is_last());
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Http2Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { waiting, wait, state, .. } = &mut *self;
        let room = waiting.poll_room(cx, wait);
        state.set_paused(room.is_pending());
        let Ok(free) = ready!(room) else {
            return Poll::Ready(Err(self.flooded("no memory for frames that wait")));
        };
        let most = self.received.bytes_of(free);
        self.stream.set_limit(most as u64);
        let (before, room) = (buf.filled().len(), buf.remaining());
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(bytes) = buf.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            self.note_received(bytes, room)?;
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Http2Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.state.set_unsent(true);
        let written = ready!(Pin::new(self.stream.get_mut()).poll_write(cx, buf))?;
        self.note_sent([buf], written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(self.stream.get_mut()).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.state.set_unsent(false);
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
        self.state.set_unsent(true);
        let written = ready!(Pin::new(self.stream.get_mut()).poll_write_vectored(cx, bufs))?;
        self.note_sent(bufs.iter().map(|buf| &**buf), written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::time::{sleep, timeout};

    use super::super::http2_frames::tests::frame;
    use super::super::http2_frames::{DATA, HEADERS};
    use super::*;
    use crate::budget::Budget;

    const PREFACE: [u8; 24] = [6; 24];

    /// Sends these bytes, read in pieces of such a size. Whether the connection is flooded.
    async fn is_flooded(sent: &[u8], piece: usize) -> bool {
        let (mut client, server) = duplex(sent.len());
        client.write_all(sent).await.unwrap();
        drop(client);
        let state = Arc::new(SocketState::default());
        let waiting = Arc::new(ConnectionMemory::new(Budget::unlimited()));
        let (mut socket, mut buffer) = (Http2Socket::new(server, state.clone(), waiting), vec![0; piece]);
        while socket.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
        state.is_flooded()
    }

    #[tokio::test(start_paused = true)]
    async fn control_frames_are_counted_in_pieces_of_any_size() {
        let (ping, data) = (frame(PING, 0, &[6; 8]), frame(DATA, 0, &[PING; 9]));
        for piece in [1, 5, 1000] {
            let honest = [&PREFACE[..], &data.repeat(50), &ping.repeat(1000)].concat();
            assert!(!is_flooded(&honest, piece).await, "{piece}");
            assert!(is_flooded(&[&honest[..], &ping].concat(), piece).await, "{piece}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_waits_for_memory_is_paused() {
        const SECOND: Duration = Duration::from_secs(1);
        let (memory, all) = Budget::full();
        let sent = [&PREFACE[..], &frame(DATA, 0, b"x").repeat(400)].concat();
        let (mut client, server) = duplex(sent.len());
        client.write_all(&sent).await.unwrap();
        let state = Arc::new(SocketState::default());
        let mut socket = Http2Socket::new(server, state.clone(), Arc::new(ConnectionMemory::new(memory)));
        let (mut buffer, mut read) = (vec![0; sent.len()], 0);
        sleep(SECOND).await;
        while let Ok(more) = timeout(SECOND, socket.read(&mut buffer[read..])).await {
            read += more.unwrap();
        }
        assert!(read < sent.len());
        assert_eq!(state.paused_for(), SECOND);
        drop(all);
        while read < sent.len() {
            read += socket.read(&mut buffer[read..]).await.unwrap();
        }
        let paused = state.paused_for();
        assert!((SECOND..SECOND * 2).contains(&paused), "{paused:?}");
        sleep(SECOND).await;
        assert_eq!(state.paused_for(), paused, "it is over");
    }

    #[tokio::test]
    async fn resets_are_found_in_what_is_written() {
        let sent = [frame(HEADERS, 0, b"head"), frame(RST_STREAM, 0, &[0; 4]), frame(DATA, 1, &[3; 40])].concat();
        for (first, written) in [(5, 13), (13, 13), (20, 25), (20, 26), (26, 26)] {
            let waiting = Arc::new(ConnectionMemory::new(Budget::unlimited()));
            let received = frame(DATA, 0, b"body");
            let pieces = |mut bytes| FrameScanner::default().next(&mut bytes).into_iter();
            waiting.received(&received, received.len(), pieces(&received[..])).unwrap();
            let mut socket = Http2Socket::new(duplex(1).0, Arc::default(), waiting.clone());
            socket.note_sent([&sent[..first], &sent[first..]], written);
            assert_eq!(waiting.waiting(), usize::from(written < 26), "{first} and the rest, {written} written");
        }
    }
}
