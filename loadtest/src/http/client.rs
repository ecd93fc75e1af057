//! One connection to the server: sends a request, takes the whole answer, and connects again if it was closed.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Bytes of an answer that are kept where it is read as text.
const KEPT: usize = 64 << 10;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    /// The connection ended before the answer did, or what came was no HTTP.
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub status: StatusCode,
    /// Of the bodies, both ways.
    pub bytes: u64,
}

/// A connection that requests follow one another on. Opened at the first request, or by [`open`](Self::open).
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// How often the server had closed it when it was to be used again.
    pub reopened: u64,
}

impl Connection {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, sender: None, reopened: 0 }
    }

    /// Connects, if that is not done yet.
    pub async fn open(&mut self) -> Result<(), Failure> {
        self.ready().await.map(drop)
    }

    /// Sends a request and reads the whole answer without keeping it, whatever its status.
    pub async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, Failure> {
        let mut bytes = request.body().size_hint().exact().unwrap_or_default();
        let response = self.send(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(Answer { status, bytes })
    }

    /// Sends a request and gives the answer's text: nothing of one that is no text, or longer than 64 KiB.
    pub async fn ask(&mut self, request: Request<Full<Bytes>>) -> Result<(StatusCode, String), Failure> {
        let response = self.send(request).await?;
        let status = response.status();
        let text = match Limited::new(response.into_body(), KEPT).collect().await {
            Ok(body) => String::from_utf8(body.to_bytes().to_vec()).unwrap_or_default(),
            Err(_) => {
                // The rest of the answer was not read, so nothing can follow it.
                self.sender = None;
                String::new()
            }
        };
        Ok((status, text))
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        Ok(self.ready().await?.send_request(request).await?)
    }

    /// The sender of a connection that is open as far as can be known.
    async fn ready(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, Failure> {
        if let Some(mut sender) = self.sender.take() {
            // An answer's end reaches the caller before the connection is ready for the next request.
            if sender.ready().await.is_ok() {
                return Ok(self.sender.insert(sender));
            }
            self.reopened += 1;
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends by itself when the sender is dropped, and its error is the request's, too.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(self.sender.insert(sender))
    }
}
