//! Checks before every request: its framing, its host and its origin.
//!
//! While the drive has no users, only two checks guard it. A client must call the server by one of its own names, and a
//! browser's write must come from the server's own pages. So a foreign page can reach the drive neither by rebinding a
//! name nor by posting to it.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, Version};

use crate::api::problem::ProblemKind;
use crate::http::request::host::HostPort;
use crate::http::response::problem::{Problem, Result};
use crate::http::server::{AmbiguousFraming, Secure};

/// Bytes of a request's target.
const TARGET_BYTES: usize = 16 * 1024;

/// `hosts`: the host names of the server besides the loopback names.
pub fn check(request: &Request, hosts: &[String]) -> Result<()> {
    check_framing(request)?;
    check_coding(request.headers())?;
    check_target_length(request.uri())?;
    let host = check_host(request, hosts)?;
    let is_secure = request.extensions().get::<Secure>().is_some();
    check_origin(request.method(), request.headers(), (&host, is_secure))
}

/// Refuses a request with both `Content-Length` and `Transfer-Encoding`: a proxy may have used the other header.
fn check_framing(request: &Request) -> Result<()> {
    match request.extensions().get::<AmbiguousFraming>() {
        None => Ok(()),
        Some(_) => Err(Problem::malformed("Send either Content-Length or Transfer-Encoding, not both.")),
    }
}

/// Refuses codings other than `chunked` (RFC 9112 section 6.1): the server could not decode the content.
fn check_coding(headers: &HeaderMap) -> Result<()> {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    let known = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    match (values.next(), values.next()) {
        (None, _) => Ok(()),
        (Some(value), None) if known(value) => Ok(()),
        _ => Err(Problem::new(
            ProblemKind::TransferCoding,
            "Send the body as it is, with Content-Length or with Transfer-Encoding: chunked and no other coding.",
        )),
    }
}

fn check_target_length(uri: &Uri) -> Result<()> {
    let before = uri.authority().map_or(0, |a| a.as_str().len());
    let bytes = before + uri.path_and_query().map_or(0, |p| p.as_str().len());
    if bytes <= TARGET_BYTES {
        return Ok(());
    }
    Err(Problem::new(ProblemKind::TargetTooLong, format!("A request's target has at most {TARGET_BYTES} bytes.")))
}

/// The name by which the client called the server: from an absolute target (RFC 9112 section 3.2.2), else from the one
/// `Host` header. Both must be names of this server. In HTTP/2 every target is absolute, and a `Host` must be the same
/// (RFC 9113 section 8.3.1).
fn check_host(request: &Request, hosts: &[String]) -> Result<HostPort> {
    let is_http2 = request.version() == Version::HTTP_2;
    let target = request.uri().authority().map(|authority| check_name(authority.as_str(), hosts));
    let mut values = request.headers().get_all(HOST).iter();
    match (values.next(), values.next(), target) {
        (None, _, Some(named)) if is_http2 => named,
        (Some(host), None, target) => {
            let host = check_name(host.to_str().unwrap_or_default(), hosts)?;
            match target.transpose()? {
                Some(named) if is_http2 && named != host => {
                    Err(Problem::malformed("Send no Host header, or the same host as :authority."))
                }
                named => Ok(named.unwrap_or(host)),
            }
        }
        _ => Err(Problem::malformed("Send exactly one Host header.")),
    }
}

fn check_name(text: &str, hosts: &[String]) -> Result<HostPort> {
    let authority = HostPort::parse(text).ok_or_else(|| Problem::malformed("The Host header is not a host name."))?;
    let named = |name: &String| name.eq_ignore_ascii_case(&authority.name);
    if authority.is_loopback() || hosts.iter().any(named) {
        return Ok(authority);
    }
    Err(Problem::new(
        ProblemKind::UnknownHost,
        "Use localhost, 127.0.0.1 or [::1], or name this host when the server is started (--host).",
    ))
}

/// A browser sends the origin of a write (RFC 6454); other clients send none. Its scheme is that of the connection: without
/// TLS it may be either, because a proxy may have added TLS.
fn check_origin(method: &Method, headers: &HeaderMap, (host, is_secure): (&HostPort, bool)) -> Result<()> {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let own = |value: &HeaderValue| value.to_str().is_ok_and(|text| is_same_origin(text, host, is_secure));
    if reads || headers.get_all(ORIGIN).iter().all(own) {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::ForeignOrigin,
        "Only pages of this very server may change files: open it by the same address.",
    ))
}

fn is_same_origin(origin: &str, host: &HostPort, is_secure: bool) -> bool {
    let (default, rest) = match origin.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") && !is_secure => (80, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (443, rest),
        _ => return false, // "null" among others
    };
    HostPort::parse(rest)
        .is_some_and(|o| o.name == host.name && o.port.unwrap_or(default) == host.port.unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_hosts_are_accepted_with_any_port_and_case() {
        let own = ["Drive.example".to_owned()];
        for good in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:9", "[::1]", "localhost:", "drive.example:80"]
        {
            assert!(check_name(good, &own).is_ok(), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil",
            "127.0.0.2",
            "::1",
            "localhost@evil",
            "evil@localhost",
            "",
            "drive.example.",
            "[::2]",
        ] {
            assert!(check_name(bad, &own).is_err(), "{bad}");
        }
        for odd in ["localhost:99999", "localhost:8o", "[::1", "[::1]x", "localhost:1:2"] {
            assert_eq!(check_name(odd, &own).unwrap_err().kind(), ProblemKind::Malformed, "{odd}");
        }
    }

    #[test]
    fn an_origin_is_own_if_host_and_port_are() {
        let host = |text| HostPort::parse(text).unwrap();
        for is_secure in [false, true] {
            assert!(is_same_origin("https://drive.example", &host("Drive.example"), is_secure));
            assert!(is_same_origin("https://localhost:8080", &host("localhost:8080"), is_secure));
            assert_eq!(is_same_origin("http://localhost:8080", &host("localhost:8080"), is_secure), !is_secure);
        }
        assert!(is_same_origin("http://localhost", &host("localhost:80"), false));
        assert!(is_same_origin("https://localhost", &host("localhost:443"), true));
        assert!(!is_same_origin("https://localhost", &host("localhost:80"), true));
        for (origin, at) in [
            ("null", "localhost:8080"),
            ("http://localhost:8081", "localhost:8080"),
            ("http://127.0.0.1:8080", "localhost:8080"),
            ("http://evil.example", "localhost:8080"),
            ("http://localhost:8080.evil.example", "localhost:8080"),
            ("file://localhost:8080", "localhost:8080"),
            ("http://localhost:8080/x", "localhost:8080"),
        ] {
            assert!(!is_same_origin(origin, &host(at), false), "{origin}");
        }
    }
}
