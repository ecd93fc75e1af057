//! The body of a request over HTTP/2. It tells the [memory of its connection](super::connection_memory) which frames
//! its handler has taken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::connection_memory::ConnectionMemory;

/// The body of a request. It tells which frames its handler has taken.
pub struct ReceivedBody<B: Body<Data = Bytes> + Unpin = Incoming> {
    body: B,
    /// Known once a frame of it was taken.
    stream: Option<u32>,
    is_accepted: bool,
    frames: Arc<ConnectionMemory>,
}

impl<B: Body<Data = Bytes> + Unpin> ReceivedBody<B> {
    pub fn new(body: B, frames: Arc<ConnectionMemory>) -> Self {
        frames.begin_body();
        Self { body, stream: None, is_accepted: false, frames }
    }

    /// The request of the body has a place, or needs none. A body that has ended keeps nothing.
    pub fn accept(&mut self) {
        if !self.is_accepted && !self.body.is_end_stream() {
            self.is_accepted = true;
            self.frames.accept_body();
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReceivedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(content) = frame.data_ref()
        {
            let stream = self.frames.take(content);
            self.stream = self.stream.or(stream);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Drop for ReceivedBody<B> {
    /// Takes what has arrived: it does not wait any more. The library keeps nothing of what arrives later.
    fn drop(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        // As many frames as the windows of a connection have room for, of 256 bytes; of shorter ones the library ends
        // the connection before so many wait.
        for _ in 0..1 << 14 {
            if !matches!(Pin::new(&mut *self).poll_frame(&mut cx), Poll::Ready(Some(Ok(_)))) {
                break;
            }
        }
        self.frames.end_body(self.stream, self.is_accepted);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use http_body_util::Empty;

    use super::super::http2_frames::tests::frame;
    use super::super::http2_frames::{DATA, FrameScanner};
    use super::*;
    use crate::budget::Budget;

    /// Frames that have arrived.
    struct Arrived(VecDeque<Bytes>);

    impl Body for Arrived {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.pop_front().map_or(Poll::Pending, |content| Poll::Ready(Some(Ok(Frame::data(content)))))
        }
    }

    /// So many frames of a byte arrive for a stream, and an empty one that ends it.
    fn arrive(stream: u8, many: usize, frames: &ConnectionMemory) -> Bytes {
        let mut sent = [frame(DATA, 0, b"x").repeat(many), frame(DATA, 1, b"")].concat();
        (0..=many).for_each(|n| sent[n * 10 + 8] = stream);
        let sent = Bytes::from(sent);
        let (mut scanner, mut bytes) = (FrameScanner::default(), &sent[..]);
        frames.received(&sent, sent.len(), std::iter::from_fn(|| scanner.next(&mut bytes))).unwrap();
        sent
    }

    /// A body with these frames.
    fn body(stream: u8, many: usize, frames: &Arc<ConnectionMemory>) -> ReceivedBody<Arrived> {
        let sent = arrive(stream, many, frames);
        let content = (0..many).map(|n| sent.slice(n * 10 + 9..n * 10 + 10));
        ReceivedBody::new(Arrived(content.chain([sent.slice(sent.len()..)]).collect()), frames.clone())
    }

    #[test]
    fn frames_wait_until_they_are_taken_or_their_body_is_dropped() {
        let frames = Arc::new(ConnectionMemory::new(Budget::unlimited()));
        let (mut read, dropped) = (body(1, 5, &frames), body(3, 7, &frames));
        let mut cx = Context::from_waker(Waker::noop());
        for left in (8..14).rev() {
            assert!(Pin::new(&mut read).poll_frame(&mut cx).is_ready());
            assert_eq!(frames.waiting(), left);
        }
        assert!(Pin::new(&mut read).poll_frame(&mut cx).is_pending());
        drop(dropped);
        assert_eq!(frames.waiting(), 0);
        // The library drops what arrives for a body that was dropped.
        let _late = arrive(3, 4, &frames);
        assert_eq!(frames.waiting(), 0);
        // It takes no frame, and its stream has another number than is known: it counts until the last body.
        let unknown = ReceivedBody::new(Arrived(VecDeque::new()), frames.clone());
        let _frames = arrive(5, 2, &frames);
        drop(unknown);
        assert_eq!(frames.waiting(), 3);
        drop(read);
        assert_eq!(frames.waiting(), 0);
    }

    #[test]
    fn a_body_that_has_ended_keeps_nothing() {
        let frames = Arc::new(ConnectionMemory::new(Budget::unlimited()));
        let (mut empty, mut some) = (ReceivedBody::new(Empty::new(), frames.clone()), body(1, 1, &frames));
        empty.accept();
        some.accept();
        assert_eq!((empty.is_accepted, some.is_accepted), (false, true));
    }
}
