//! The TLS handshake of a connection. It has as much time as the head of a request, and the connection counts towards
//! the [limit](super::connection_limit) meanwhile, as an idle one.

use std::io;
use std::time::Duration;

use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::tls::Tls;
use super::write_timeout::ClientSocket;

/// The first byte of a record of a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

/// Why there is no TLS connection.
pub enum HandshakeError {
    /// It took too long.
    Slow,
    /// The client has sent something else, such as a request in plain text.
    NoTls(Box<ClientSocket>),
    /// The client has left, or does not trust the certificate.
    Failed(io::Error),
}

/// Shakes hands with a client, for at most `limit`.
pub async fn shake_hands(
    tls: &Tls,
    socket: ClientSocket,
    limit: Duration,
) -> Result<TlsStream<ClientSocket>, HandshakeError> {
    let handshake = async {
        let mut first = [0];
        match socket.stream.peek(&mut first).await {
            Ok(1) if first != [HANDSHAKE] => return Err(HandshakeError::NoTls(Box::new(socket))),
            Ok(_) => {}
            Err(error) => return Err(HandshakeError::Failed(error)),
        }
        tls.acceptor().accept(socket).await.map_err(HandshakeError::Failed)
    };
    timeout(limit, handshake).await.unwrap_or(Err(HandshakeError::Slow))
}

/// Whether client and server have agreed on HTTP/2 (ALPN, RFC 7301).
pub fn is_http2(stream: &TlsStream<ClientSocket>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(super::tls::HTTP2)
}
