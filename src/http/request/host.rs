//! The host that a request names, and whether the request comes from this machine itself.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::{FORWARDED, HOST, VIA};
use axum::http::request::Parts;

use crate::http::response::problem::{Problem, Result as Answer};
use crate::http::server::Peer;

/// The names of this machine for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
const FORWARDED_BY: &str = "x-forwarded-";

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

/// Whether a proxy says that it has sent a request on.
fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name == FORWARDED || name == VIA || name.as_str().starts_with(FORWARDED_BY))
}

/// Refuses what a proxy has sent on, on a drive with users: all its clients have one address, so wrong passwords of
/// strangers would slow its users.
pub fn refuse_forwarded(headers: &HeaderMap) -> Answer<()> {
    if is_forwarded(headers) {
        return Err(Problem::forbidden().with_detail(
            "With users, no proxy may stand before the server: connect to it directly, by TLS if it is not this machine.",
        ));
    }
    Ok(())
}

/// Whether a request comes from this machine itself: from a loopback address, by a loopback name, and through no proxy.
fn is_local(request: &Parts) -> bool {
    let is_near = request.extensions.get::<Peer>().is_some_and(|Peer(address)| address.is_loopback());
    let hosts = request.headers.get_all(HOST).iter().filter_map(|host| host.to_str().ok());
    let hosts: Vec<&str> = hosts.chain(request.uri.authority().map(|authority| authority.as_str())).collect();
    let is_loopback = |host: &&str| HostPort::parse(host).is_some_and(|host| host.is_loopback());
    is_near && !is_forwarded(&request.headers) && !hosts.is_empty() && hosts.iter().all(is_loopback)
}
