//! The client that a request comes from: the other end of the connection, or who stands before a proxy that the operator
//! has named.
//!
//! `X-Forwarded-*` of anyone else is a claim that every client can make. `Forwarded` (RFC 7239) is never read: proxies send
//! on one that they did not write.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::Request;
use axum::http::header::{FORWARDED, VIA};
use axum::http::{Extensions, HeaderMap};

use crate::http::options::ProxyNet;
use crate::http::response::problem::{Problem, Result};
use crate::http::server::{Peer, Secure};

const FORWARDED_BY: &str = "x-forwarded-";
const FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED_PROTO: &str = "x-forwarded-proto";
const FORWARDED_HOST: &str = "x-forwarded-host";

/// The client of a request. The middleware adds it to each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: IpAddr,
    /// Whether it speaks TLS, with this server or with a named proxy.
    pub is_tls: bool,
    /// What has sent the request on.
    pub relay: Relay,
    /// The host that it has called, if a named proxy tells.
    pub host: Option<String>,
    /// Whether it is a program of this machine.
    is_near: bool,
}

/// What has sent a request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relay {
    /// Nothing, as far as its headers tell.
    None,
    /// A proxy that the operator has named.
    Named,
    /// Another one, or a client that says so.
    Unnamed,
}

/// Which schemes the page may have that a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageScheme {
    Http,
    Https,
    /// Either: an unnamed proxy may have added TLS.
    Any,
}

impl Client {
    /// The client of a request with the proxies that the operator has named.
    ///
    /// Errors: a named proxy sends an address that is none.
    pub fn of(request: &Request, proxies: &[ProxyNet]) -> Result<Self> {
        let (headers, extensions) = (request.headers(), request.extensions());
        // A caller of the routes that tells no address is one client.
        let peer = extensions.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(address)| *address);
        let is_tls = extensions.get::<Secure>().is_some();
        let is_named = |address: IpAddr| proxies.iter().any(|proxy| proxy.contains(address));
        let direct = Self { address: peer, is_tls, relay: Relay::None, host: None, is_near: peer.is_loopback() };
        if !is_named(peer) {
            return Ok(if is_forwarded(headers) { Self { relay: Relay::Unnamed, ..direct } } else { direct });
        }
        if !is_forwarded(headers) {
            return Ok(direct);
        }
        let (address, proxies_before) = first_unnamed(headers, peer, is_named)?;
        // Each proxy has added a value, or the first one has set the only value.
        let of_client = |name| {
            let mut values = values(headers, name);
            let kept = values.len().saturating_sub(proxies_before).max(1);
            values.truncate(kept);
            values.pop()
        };
        let is_tls = of_client(FORWARDED_PROTO).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        Ok(Self { address, is_tls, relay: Relay::Named, host: of_client(FORWARDED_HOST), is_near: false })
    }

    /// Whether nobody between the client and this server can read or change the request.
    pub fn is_secure(&self) -> bool {
        self.is_tls || self.is_local()
    }

    /// Whether it is a program of this machine, with no proxy in between.
    pub fn is_local(&self) -> bool {
        self.is_near && self.relay == Relay::None
    }

    /// Whether a named proxy has sent it on from another machine.
    pub fn is_from_afar(&self) -> bool {
        self.relay == Relay::Named && !self.address.is_loopback()
    }

    /// Which schemes a page of this server has for this client.
    pub fn page_scheme(&self) -> PageScheme {
        match (self.is_tls, self.relay) {
            (true, _) => PageScheme::Https,
            (false, Relay::Named) => PageScheme::Http,
            (false, _) => PageScheme::Any,
        }
    }
}

/// Keeps the client of a request for its handler, and removes the peer, which nobody reads after that. With it most requests
/// would have four extensions, and their map, which has room for three at first, would be allocated again.
pub fn set(request: &mut Request, client: Client) {
    request.extensions_mut().remove::<Peer>();
    request.extensions_mut().insert(client);
}

/// The address that a request comes from.
pub fn address(extensions: &Extensions) -> IpAddr {
    extensions.get::<Client>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |client| client.address)
}

/// Whether the client of a request speaks TLS.
pub fn is_tls(extensions: &Extensions) -> bool {
    extensions.get::<Client>().is_some_and(|client| client.is_tls)
}

/// Whether headers say that a proxy has sent a request on.
fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name == FORWARDED || name == VIA || name.as_str().starts_with(FORWARDED_BY))
}

/// The rightmost address of `X-Forwarded-For` that is no named proxy's, and how many named ones stand after it. A named
/// proxy that no other address is before has sent the request itself.
fn first_unnamed(headers: &HeaderMap, peer: IpAddr, is_named: impl Fn(IpAddr) -> bool) -> Result<(IpAddr, usize)> {
    let mut last = peer;
    let values = values(headers, FORWARDED_FOR);
    for (proxies, value) in values.iter().rev().enumerate() {
        last = parse_address(value).ok_or_else(|| {
            Problem::malformed("The proxy sends an X-Forwarded-For that has no address where it adds its client's.")
        })?;
        if !is_named(last) {
            return Ok((last, proxies));
        }
    }
    Ok((last, values.len().saturating_sub(1)))
}

/// The values of a list in a header that may be there several times, in their order.
fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let texts = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let values: Vec<String> =
        texts.flat_map(|text| text.split(',').map(|v| v.trim().to_owned()).collect::<Vec<_>>()).collect();
    values.into_iter().filter(|value| !value.is_empty()).collect()
}

/// An address, which some proxies send with a port or in brackets.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    /// The client of a request from a peer; the proxies are 10.0.0.0/8 and ::1.
    fn client(peer: &str, headers: &[(&str, &str)]) -> Result<Client> {
        let proxies: Vec<ProxyNet> = ["10.0.0.0/8", "::1/128"].map(|net| net.parse().unwrap()).into();
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Client::of(&request.extension(Peer(peer.parse().unwrap())).body(Body::empty()).unwrap(), &proxies)
    }

    #[test]
    fn the_rightmost_address_that_is_no_named_proxy_counts() {
        for (peer, forwarded, address) in [
            ("10.0.0.1", &["192.0.2.1"][..], "192.0.2.1"),
            ("10.0.0.1", &["127.0.0.1, 192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["127.0.0.1", "192.0.2.1,10.9.9.9"], "192.0.2.1"),
            ("10.0.0.1", &["unknown, 192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["192.0.2.1:4711"], "192.0.2.1"),
            ("10.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("10.0.0.1", &["::ffff:192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["10.0.0.7, 10.0.0.2"], "10.0.0.7"),
            ("::1", &["192.0.2.1"], "192.0.2.1"),
            ("192.0.2.9", &["127.0.0.1"], "192.0.2.9"),
            ("127.0.0.1", &["192.0.2.1"], "127.0.0.1"),
        ] {
            let headers: Vec<_> = forwarded.iter().map(|value| ("x-forwarded-for", *value)).collect();
            assert_eq!(client(peer, &headers).unwrap().address.to_string(), address, "{peer} {forwarded:?}");
        }
        for bad in ["unknown", "192.0.2.1, _hidden", "192.0.2.1, 192.0.2", "localhost"] {
            assert!(client("10.0.0.1", &[("x-forwarded-for", bad)]).is_err(), "{bad}");
        }
    }

    /// What the second proxy, nearer to this server, adds stands to the right.
    #[test]
    fn scheme_and_host_are_those_of_the_first_proxy() {
        for (peer, far, proto, host, expected) in [
            ("10.0.0.1", "192.0.2.1", "https", "drive.example", (true, Some("drive.example"))),
            ("10.0.0.1", "192.0.2.1", "HTTPS", "drive.example", (true, Some("drive.example"))),
            ("10.0.0.1", "192.0.2.1", "https, http", "evil.example, drive.example", (false, Some("drive.example"))),
            ("10.0.0.1", "192.0.2.1, 10.0.0.2", "https, http", "a.example, b.example", (true, Some("a.example"))),
            ("10.0.0.1", "192.0.2.1, 10.0.0.2", "http, https", "a.example", (false, Some("a.example"))),
            ("10.0.0.1", "192.0.2.1, 10.0.0.2", "https, http, http", "a.example", (false, Some("a.example"))),
            ("10.0.0.1", "192.0.2.1", "", "", (false, None)),
            ("192.0.2.9", "192.0.2.1", "https", "drive.example", (false, None)),
        ] {
            let headers = [("x-forwarded-for", far), ("x-forwarded-proto", proto), ("x-forwarded-host", host)];
            let found = client(peer, &headers).unwrap();
            assert_eq!((found.is_tls, found.host.as_deref()), expected, "{peer} {headers:?}");
        }
    }

    #[test]
    fn only_this_machine_and_named_proxies_are_secure_without_tls() {
        let https = ("x-forwarded-proto", "https");
        for (peer, headers, relay, is_secure) in [
            ("127.0.0.1", &[][..], Relay::None, true),
            ("::1", &[], Relay::None, true),
            ("192.0.2.9", &[], Relay::None, false),
            ("10.0.0.1", &[], Relay::None, false),
            ("10.0.0.1", &[("forwarded", "for=192.0.2.1;proto=https")], Relay::Named, false),
            ("::1", &[("forwarded", "for=192.0.2.1;proto=https")], Relay::Named, false),
            ("127.0.0.1", &[https], Relay::Unnamed, false),
            ("127.0.0.1", &[("via", "1.1 proxy")], Relay::Unnamed, false),
            ("127.0.0.1", &[("forwarded", "proto=https")], Relay::Unnamed, false),
            ("127.0.0.1", &[("x-forwarded-server", "a")], Relay::Unnamed, false),
            ("192.0.2.9", &[https], Relay::Unnamed, false),
            ("10.0.0.1", &[https], Relay::Named, true),
            ("::1", &[https], Relay::Named, true),
            ("::1", &[("x-forwarded-for", "192.0.2.1")], Relay::Named, false),
            ("10.0.0.1", &[("x-forwarded-proto", "http")], Relay::Named, false),
        ] {
            let found = client(peer, headers).unwrap();
            assert_eq!((found.relay, found.is_secure()), (relay, is_secure), "{peer} {headers:?}");
        }
    }

    #[test]
    fn a_net_is_an_address_and_its_bits() {
        for (net, address, is_in) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.7/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.1/32", "10.0.0.2", false),
            ("2001:db8::/64", "2001:db8::1", true),
            ("2001:db8::/64", "2001:db8:0:1::1", false),
            ("0.0.0.0/0", "::1", false),
        ] {
            let net: ProxyNet = net.parse().unwrap();
            assert_eq!(net.contains(address.parse().unwrap()), is_in, "{net:?} {address}");
        }
        for bad in ["10.0.0.1", "10.0.0.0/33", "localhost/8", "10.0.0.0/", "/8", "10.0.0.0/8 "] {
            assert!(bad.parse::<ProxyNet>().is_err(), "{bad}");
        }
    }
}
