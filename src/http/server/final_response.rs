//! What a client is told outside of any answer, before its connection is closed.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::http::problem::{Kind, Problem};

/// How long a last word may take to get to the client.
const PATIENCE: Duration = Duration::from_secs(5);

/// Last words, so many at a time: sockets that linger are no connections any more, and use up handles all the same.
pub struct LastWords(Semaphore);

impl LastWords {
    pub fn new(at_a_time: usize) -> Self {
        Self(Semaphore::new(at_a_time))
    }

    /// There is no room for another connection.
    pub async fn refuse(&self, stream: TcpStream) {
        self.say(stream, Kind::Busy, "The server has as many connections as it can serve: try again.").await;
    }

    /// Says why, closes, and reads for a moment, so that the client's system does not throw the answer away
    /// (RFC 9112 section 9.6).
    pub async fn say(&self, mut stream: TcpStream, kind: Kind, detail: &'static str) {
        let word = Problem::new(kind, detail).raw();
        let Ok(_place) = self.0.try_acquire() else {
            // It fits into the socket's buffer, and reaches clients that have nothing under way.
            let _told = stream.try_write(&word);
            return;
        };
        let say = async {
            stream.write_all(&word).await?;
            stream.shutdown().await?;
            let mut rest = [0; 4096];
            while stream.read(&mut rest).await? > 0 {}
            Ok::<_, io::Error>(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, say).await {
            tracing::debug!(%error, "a client had left before it could be told why");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn no_more_sockets_linger_than_may() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let words = LastWords::new(1);
        let pair = async || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            (client, listener.accept().await.unwrap().0)
        };
        let (mut first, server) = pair().await;
        let mut lingering = Box::pin(words.refuse(server));
        assert!(timeout(Duration::from_millis(50), &mut lingering).await.is_err(), "its client has not left");
        let (mut second, server) = pair().await;
        timeout(Duration::from_millis(500), words.refuse(server)).await.expect("it does not linger");
        drop(lingering);
        for client in [&mut first, &mut second] {
            let mut told = String::new();
            client.read_to_string(&mut told).await.unwrap();
            assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
        }
    }
}
