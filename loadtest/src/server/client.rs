//! One connection to the server: sends a request, takes the whole answer, and connects again if the server closed it.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::base::Base;

/// A request; the connection adds the host. A `target` that is none becomes `/`, which the server refuses.
pub fn request(method: Method, target: String, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = Uri::try_from(target).unwrap_or_default();
    request
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("no connection: {0}")]
    Connect(#[from] std::io::Error),
    /// The connection ended before the answer did, or what came was no HTTP.
    #[error("the connection broke: {0}")]
    Broken(#[from] hyper::Error),
}

/// A connection on which requests follow one another.
#[derive(Debug)]
pub struct Connection {
    base: Base,
    sender: SendRequest<Full<Bytes>>,
    /// How often the server had closed it between two requests.
    pub reopened: u64,
}

impl Connection {
    /// On a stream that is open.
    pub async fn new(base: &Base, stream: TcpStream) -> Result<Self, Failure> {
        Ok(Self { base: base.clone(), sender: sender(stream).await?, reopened: 0 })
    }

    /// Sends a request and reads the whole answer: its status, and the bytes of both bodies.
    pub async fn exchange(&mut self, mut request: Request<Full<Bytes>>) -> Result<(StatusCode, u64), Failure> {
        let mut bytes = request.body().size_hint().exact().unwrap_or_default();
        request.headers_mut().insert(HOST, self.base.host.clone());
        // An answer's end reaches the caller before the connection is ready for the next request.
        if self.sender.ready().await.is_err() {
            self.sender = sender(TcpStream::connect(self.base.address).await?).await?;
            self.reopened += 1;
        }
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok((status, bytes))
    }
}

async fn sender(stream: TcpStream) -> Result<SendRequest<Full<Bytes>>, Failure> {
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends when the sender is dropped, and its error is the request's, too.
    tokio::spawn(connection);
    Ok(sender)
}
