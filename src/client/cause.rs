//! Why a request has no answer, in a sentence for people.

use std::error::Error;
use std::io;
use std::iter;

/// An error and all that caused it, one after the other.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |&error| {
        // The source of an IO error is not the error in it, but that one's source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| error.source())
    })
}

/// The text of the deepest cause, or a sentence in place of a library's. `is_connect`: there was no connection yet.
pub fn in_words(error: &(dyn Error + 'static), is_connect: bool) -> String {
    let is_end = |error: &(dyn Error + 'static)| {
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
    };
    match (chain(error).any(is_end), is_connect) {
        (false, _) => chain(error).last().unwrap_or(error).to_string(),
        (true, true) => {
            "it closed the connection before TLS was set up; check that its address and port are of an https server"
                .to_owned()
        }
        (true, false) => "it was closed in the middle, by the server or by something on the way to it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> io::Error {
        io::Error::other(io::Error::new(io::ErrorKind::UnexpectedEof, text))
    }

    #[test]
    fn a_connection_that_ends_too_early_is_told_in_plain_words() {
        let connecting = in_words(&end("tls handshake eof"), true);
        assert!(connecting.contains("before TLS was set up") && !connecting.contains("eof"), "{connecting}");
        let connected = in_words(&end("peer closed connection: https://docs.rs/rustls/#unexpected-eof"), false);
        assert!(connected.contains("closed in the middle") && !connected.contains("docs.rs"), "{connected}");
        // Others are as the system says it.
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(in_words(&refused, true), refused.to_string());
        assert_eq!(in_words(&io::Error::other(io::Error::other("the deepest")), false), "the deepest");
    }
}
