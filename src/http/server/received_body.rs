//! The body of a request over HTTP/2, as the library has it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::waiting_frames::WaitingFrames;

/// The body of a request. It tells which frames its handler has taken.
pub struct ReceivedBody<B: Body<Data = Bytes> + Unpin = Incoming> {
    body: B,
    frames: Arc<WaitingFrames>,
}

impl<B: Body<Data = Bytes> + Unpin> ReceivedBody<B> {
    pub fn new(body: B, frames: Arc<WaitingFrames>) -> Self {
        frames.begin_body();
        Self { body, frames }
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
            self.frames.take(content);
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
    /// Takes what has arrived: it does not wait any more. What arrives later is known by the reset of its stream.
    fn drop(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        // The library keeps no more of a connection.
        for _ in 0..1 << 14 {
            if !matches!(Pin::new(&mut *self).poll_frame(&mut cx), Poll::Ready(Some(Ok(_)))) {
                break;
            }
        }
        self.frames.end_body();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

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

    /// So many frames of a byte arrive for a body, and an empty one that ends it.
    fn body(many: usize, frames: &Arc<WaitingFrames>) -> ReceivedBody<Arrived> {
        let sent = Bytes::from([frame(DATA, 0, b"x").repeat(many), frame(DATA, 1, b"")].concat());
        let (mut scanner, mut bytes) = (FrameScanner::default(), &sent[..]);
        frames.received(&sent, sent.len(), std::iter::from_fn(|| scanner.next(&mut bytes))).unwrap();
        let content = (0..many).map(|n| sent.slice(n * 10 + 9..n * 10 + 10));
        ReceivedBody::new(Arrived(content.chain([sent.slice(sent.len()..)]).collect()), frames.clone())
    }

    #[test]
    fn frames_wait_until_they_are_taken_or_their_body_is_dropped() {
        let frames = Arc::new(WaitingFrames::new(Budget::unlimited()));
        let (mut read, dropped) = (body(5, &frames), body(7, &frames));
        let mut cx = Context::from_waker(Waker::noop());
        for left in (8..14).rev() {
            assert!(Pin::new(&mut read).poll_frame(&mut cx).is_ready());
            assert_eq!(frames.waiting(), left);
        }
        assert!(Pin::new(&mut read).poll_frame(&mut cx).is_pending());
        drop(dropped);
        assert_eq!(frames.waiting(), 0);
        // Of a request whose body is not known yet.
        let late = body(3, &frames);
        drop(read);
        assert_eq!(frames.waiting(), 4);
        drop(late);
        assert_eq!(frames.waiting(), 0);
    }
}
