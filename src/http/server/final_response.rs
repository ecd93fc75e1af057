//! A response outside of any request, such as 503 at the connection limit, before the connection is closed.

use std::io;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::api::problem::ProblemKind;
use crate::http::response::problem::Problem;

/// How long a client may take to read the response and close.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends final responses, so many at a time: a socket that waits for its client no longer counts as a connection, but
/// still uses a file descriptor.
pub struct FinalResponses(Semaphore);

impl FinalResponses {
    pub fn new(at_a_time: usize) -> Self {
        Self(Semaphore::new(at_a_time))
    }

    /// 503: the connection limit is reached.
    pub async fn refuse(&self, stream: TcpStream) {
        self.send(stream, ProblemKind::Busy, "The server has as many connections as it can serve: try again.").await;
    }

    /// A place for a connection that ends in order; none if there are too many.
    pub fn try_place(&self) -> Option<SemaphorePermit<'_>> {
        self.0.try_acquire().ok()
    }

    /// Sends a problem, closes its side, and reads until the client closes: otherwise the client's system may discard
    /// the response before the client reads it (RFC 9112 section 9.6).
    pub async fn send(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin, kind: ProblemKind, detail: &'static str) {
        let response = Problem::new(kind, detail).raw();
        let Some(_place) = self.try_place() else {
            // The response fits into the socket's buffer. It reaches clients that are not sending.
            let _sent = stream.write_all(&response).now_or_never();
            let _flushed = stream.flush().now_or_never();
            return;
        };
        let exchange = async {
            stream.write_all(&response).await?;
            stream.shutdown().await?;
            let mut rest = [0; 4096];
            while stream.read(&mut rest).await? > 0 {}
            Ok::<_, io::Error>(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(TIMEOUT, exchange).await {
            tracing::debug!(%error, "a client left before its final response");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_number_of_lingering_sockets_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let responses = FinalResponses::new(1);
        let pair = async || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            (client, listener.accept().await.unwrap().0)
        };
        let (mut first, server) = pair().await;
        let mut lingering = Box::pin(responses.refuse(server));
        assert!(timeout(Duration::from_millis(50), &mut lingering).await.is_err(), "its client has not left");
        let (mut second, server) = pair().await;
        timeout(Duration::from_millis(500), responses.refuse(server)).await.expect("it does not linger");
        drop(lingering);
        for client in [&mut first, &mut second] {
            let mut response = String::new();
            client.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
        }
    }
}
