//! The host that a request names, and whether the request comes from this machine itself.

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::FromRequestParts;
use axum::http::header::HOST;
use axum::http::request::Parts;

use super::client::Client;

/// The names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// A host and perhaps a port.
#[derive(Debug, PartialEq, Eq)]
pub struct HostPort {
    /// In lower case.
    pub name: String,
    pub port: Option<u16>,
}

impl HostPort {
    pub fn parse(text: &str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(rest) => rest.find(']')? + 2,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (name, rest) = text.split_at_checked(end)?;
        let port = match rest {
            "" | ":" => None,
            _ => {
                let digits = rest.strip_prefix(':').filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
                Some(digits.parse().ok()?)
            }
        };
        Some(Self { name: name.to_ascii_lowercase(), port })
    }

    /// Whether it is an address of IPv4, or one of IPv6 in brackets.
    pub fn is_address(&self) -> bool {
        let v6 = self.name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        v6.map_or_else(|| self.name.parse::<Ipv4Addr>().is_ok(), |v6| v6.parse::<Ipv6Addr>().is_ok())
    }

    pub fn is_loopback(&self) -> bool {
        LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(&self.name))
    }
}

/// Whether a request [is local](is_local).
pub struct Local(pub bool);

impl<S: Sync> FromRequestParts<S> for Local {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(is_local(parts)))
    }
}

/// Whether a request comes from this machine itself: from a loopback address, by a loopback name, and through no proxy.
fn is_local(request: &Parts) -> bool {
    let is_near = request.extensions.get::<Client>().is_some_and(Client::is_local);
    let hosts = request.headers.get_all(HOST).iter().filter_map(|host| host.to_str().ok());
    let hosts: Vec<&str> = hosts.chain(request.uri.authority().map(|authority| authority.as_str())).collect();
    let is_loopback = |host: &&str| HostPort::parse(host).is_some_and(|host| host.is_loopback());
    is_near && !hosts.is_empty() && hosts.iter().all(is_loopback)
}
