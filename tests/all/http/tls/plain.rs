//! Without a certificate: HTTP/1.1 alone, as if there were no TLS and no HTTP/2.

use rowdrive::http::Limits;
use tokio::io::AsyncWriteExt;

use super::super::socket::{live_with, read_until};
use super::http2_frames::{first_request, opening};

#[tokio::test]
async fn without_a_certificate_a_server_speaks_http_1_1_alone() {
    let live = live_with(Limits::default()).await;
    let upgrade = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
                   HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 506]].concat();
    for (sent, end, answered) in [
        // HTTP/2 without asking for it: the connection is closed, without a byte.
        ([opening(), first_request()].concat(), "", ""),
        // The offer of HTTP/2 is ignored.
        (upgrade.as_bytes().to_vec(), "\r\n\r\nok\n", "HTTP/1.1 200 "),
        // The begin of a TLS handshake.
        (hello, "", "HTTP/1.1 400 "),
    ] {
        let mut socket = live.connect().await;
        socket.write_all(&sent).await.unwrap();
        // Without an end it reads until the server closes the connection.
        let end = if end.is_empty() { "\0" } else { end };
        let answer = read_until(&mut socket, end).await;
        assert!(answer.starts_with(answered) && answer.is_empty() == answered.is_empty(), "{answered}: {answer}");
    }
}
