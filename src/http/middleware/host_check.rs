//! Checks before every request: its framing, its host and its origin.
//!
//! While the drive has no users, only two checks guard it. A client must call the server by one of its own names, and a
//! browser's write must come from the server's own pages. So a foreign page can reach the drive neither by rebinding a
//! name nor by posting to it.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, Version};

use crate::api::problem::ProblemKind;
use crate::http::options::ANY_HOST;
use crate::http::request::client::{Client, PageScheme};
use crate::http::request::host::HostPort;
use crate::http::response::problem::{Problem, Result};
use crate::http::server::AmbiguousFraming;

/// Bytes of a request's target.
const TARGET_BYTES: usize = 16 * 1024;

/// The host that a client has called.
pub struct CalledHost {
    host: HostPort,
    /// Whether it is a name of this server only on a drive with users.
    pub needs_users: bool,
}

/// Checks the framing and the host of a request. `hosts`: the host names of the server besides the loopback names.
pub fn check(request: &Request, hosts: &[String], client: &Client) -> Result<CalledHost> {
    check_framing(request)?;
    check_coding(request.headers())?;
    check_target_length(request.uri())?;
    let called = check_host(request, hosts, client.host.is_some())?;
    // A named proxy has its own name for this server, which is no browser's.
    client.host.as_ref().map_or(Ok(called), |host| check_name(host, hosts))
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
///
/// `is_of_proxy`: whether they are names that a named proxy has for this server.
fn check_host(request: &Request, hosts: &[String], is_of_proxy: bool) -> Result<CalledHost> {
    let is_http2 = request.version() == Version::HTTP_2;
    let check_name = |text: &str| if is_of_proxy { parse_name(text) } else { check_name(text, hosts) };
    let target = request.uri().authority().map(|authority| check_name(authority.as_str()));
    let mut values = request.headers().get_all(HOST).iter();
    match (values.next(), values.next(), target) {
        (None, _, Some(named)) if is_http2 => named,
        (Some(host), None, target) => {
            let host = check_name(host.to_str().unwrap_or_default())?;
            match target.transpose()? {
                Some(named) if is_http2 && named.host != host.host => {
                    Err(Problem::malformed("Send no Host header, or the same host as :authority."))
                }
                named => Ok(named.unwrap_or(host)),
            }
        }
        _ => Err(Problem::malformed("Send exactly one Host header.")),
    }
}

fn parse_name(text: &str) -> Result<CalledHost> {
    let host = HostPort::parse(text).ok_or_else(|| Problem::malformed("The Host header is not a host name."))?;
    Ok(CalledHost { host, needs_users: false })
}

/// A page can rebind its own name to this server, but its own name is never an address. So an address needs not be among
/// [`hosts`](crate::http::Options::hosts) where every request proves who sends it.
fn check_name(text: &str, hosts: &[String]) -> Result<CalledHost> {
    let CalledHost { host, .. } = parse_name(text)?;
    let is_named = |named: &String| named.eq_ignore_ascii_case(&host.name);
    if host.is_loopback() || (host.name != ANY_HOST && hosts.iter().any(is_named)) {
        return Ok(CalledHost { host, needs_users: false });
    }
    let is_any = !host.name.is_empty() && hosts.iter().any(|named| named == ANY_HOST);
    if host.is_address() || is_any {
        return Ok(CalledHost { host, needs_users: true });
    }
    Err(unknown_host())
}

/// 421 for a name that is none of this server.
pub fn unknown_host() -> Problem {
    Problem::new(
        ProblemKind::UnknownHost,
        "The server has no such name. Use one that its operator has given it (--host); on its own machine use localhost, \
         127.0.0.1 or [::1]. An address, and any name by --host *, are for a drive with users.",
    )
}

/// A browser sends the origin of a write (RFC 6454); other clients send none.
pub fn check_origin(method: &Method, headers: &HeaderMap, called: &CalledHost, scheme: PageScheme) -> Result<()> {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let own = |value: &HeaderValue| value.to_str().is_ok_and(|text| is_same_origin(text, &called.host, scheme));
    if reads || headers.get_all(ORIGIN).iter().all(own) {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::ForeignOrigin,
        "Only pages of this very server may change files: open it by the same address.",
    ))
}

fn is_same_origin(origin: &str, host: &HostPort, scheme: PageScheme) -> bool {
    let is = |text: &str, sent: &str, other| sent.eq_ignore_ascii_case(text) && scheme != other;
    let (default, rest) = match origin.split_once("://") {
        Some((sent, rest)) if is("http", sent, PageScheme::Https) => (80, rest),
        Some((sent, rest)) if is("https", sent, PageScheme::Http) => (443, rest),
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
            assert!(check_name(good, &own).is_ok_and(|called| !called.needs_users), "{good}");
        }
        for address in ["127.0.0.2", "192.0.2.1:8080", "[::2]", "[2001:db8::1]:443"] {
            assert!(check_name(address, &own).unwrap().needs_users, "{address}");
        }
        for bad in [
            "evil.example",
            "localhost.evil",
            "127.0.0.2.",
            "192.0.2.1.example",
            "0x7f000001",
            "127.1",
            "*",
            "::1",
            "localhost@evil",
            "evil@localhost",
            "",
            "drive.example.",
            "[::2%eth0]",
            "[drive.example]",
        ] {
            assert!(check_name(bad, &own).is_err(), "{bad}");
        }
        for any in ["evil.example", "drive.example.", "*"] {
            assert!(check_name(any, &["*".to_owned()]).unwrap().needs_users, "{any}");
        }
        for odd in ["localhost:99999", "localhost:8o", "[::1", "[::1]x", "localhost:1:2"] {
            assert_eq!(check_name(odd, &own).map(|_| ()).unwrap_err().kind(), ProblemKind::Malformed, "{odd}");
        }
    }

    #[test]
    fn an_origin_is_own_if_host_and_port_are() {
        let host = |text| HostPort::parse(text).unwrap();
        let (http, https, any) = (PageScheme::Http, PageScheme::Https, PageScheme::Any);
        for (scheme, by_http, by_https) in [(http, true, false), (https, false, true), (any, true, true)] {
            assert_eq!(is_same_origin("https://drive.example", &host("Drive.example"), scheme), by_https);
            assert_eq!(is_same_origin("https://localhost:8080", &host("localhost:8080"), scheme), by_https);
            assert_eq!(is_same_origin("http://localhost:8080", &host("localhost:8080"), scheme), by_http);
        }
        assert!(is_same_origin("http://localhost", &host("localhost:80"), any));
        assert!(is_same_origin("https://localhost", &host("localhost:443"), https));
        assert!(!is_same_origin("https://localhost", &host("localhost:80"), https));
        for (origin, at) in [
            ("null", "localhost:8080"),
            ("http://localhost:8081", "localhost:8080"),
            ("http://127.0.0.1:8080", "localhost:8080"),
            ("http://evil.example", "localhost:8080"),
            ("http://localhost:8080.evil.example", "localhost:8080"),
            ("file://localhost:8080", "localhost:8080"),
            ("http://localhost:8080/x", "localhost:8080"),
        ] {
            assert!(!is_same_origin(origin, &host(at), any), "{origin}");
        }
    }
}
