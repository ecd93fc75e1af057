//! The body of a response over HTTP/2. Its pieces report when they are in the socket, and its end waits for that.
//!
//! The library takes a piece as soon as the client's window has room for one byte of it. After the end it has the whole
//! response, and nothing can reset its stream any more: it would stay for as long as its client wants. So the body ends
//! when the socket has all of its pieces. Until then the task of the stream sees a client that does not read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use bytes::Buf;
use http_body::{Body as _, Frame, SizeHint};

use super::stream_task::StreamState;

/// Bytes of a piece of a response: with each one taken it is seen that the client reads.
pub const PIECE: usize = 16 << 10;

/// The body of a response, in small pieces. It notes whether the library waits for the body or for the client.
pub struct SentBody {
    body: Body,
    /// What the library has not taken of the body's last piece.
    left: Bytes,
    /// The body has no further frame.
    ended: bool,
    stream: Option<Arc<StreamState>>,
}

/// A piece of a response. The library drops it when all of it is in the socket, or when its stream is reset.
pub struct Piece {
    bytes: Bytes,
    stream: Option<Arc<StreamState>>,
}

impl Piece {
    fn new(bytes: Bytes, stream: Option<Arc<StreamState>>) -> Self {
        if let Some(stream) = &stream {
            stream.take_piece(bytes.len() as u64);
        }
        Self { bytes, stream }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.piece_sent();
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, bytes: usize) {
        self.bytes.advance(bytes);
        if let Some(stream) = &self.stream {
            stream.bytes_sent(bytes as u64);
        }
    }
}

impl SentBody {
    /// `stream`: what it reports to.
    pub fn new(body: Body, stream: Option<Arc<StreamState>>) -> Self {
        Self { body, left: Bytes::new(), ended: false, stream }
    }

    /// The next frame; of a large piece its beginning.
    fn poll_small(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.left.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?.map(Frame::into_data) {
                Some(Ok(piece)) => self.left = piece,
                Some(Err(other)) => return Poll::Ready(Some(Ok(other))),
                None => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
            }
        }
        let first = self.left.split_to(self.left.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(first))))
    }
}

impl http_body::Body for SentBody {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let mut polled = self.poll_small(cx);
        if let Some(stream) = &self.stream {
            let ends_later = matches!(polled, Poll::Ready(None)) && stream.is_unsent(cx);
            if ends_later {
                polled = Poll::Pending;
            }
            let has_piece = matches!(&polled, Poll::Ready(Some(Ok(frame))) if frame.is_data());
            stream.set_waits_for_client(has_piece || ends_later);
        }
        polled.map_ok(|frame| frame.map_data(|bytes| Piece::new(bytes, self.stream.clone())))
    }

    fn is_end_stream(&self) -> bool {
        let is_whole = self.left.is_empty() && (self.ended || self.body.is_end_stream());
        is_whole && !self.stream.as_ref().is_some_and(|stream| stream.has_unsent())
    }

    fn size_hint(&self) -> SizeHint {
        let (left, body) = (self.left.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + left);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + left);
        }
        hint
    }
}
