//! The options of the operator: host names, proxies, sizes, and the limits of clients.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;

use super::first_user::FirstUserSecret;

/// Any name of a host, in [`Options::hosts`].
pub const ANY_HOST: &str = "*";

/// The settings of the HTTP server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Host names of the server besides the loopback names, without a port; [`ANY_HOST`] for any on a drive with users.
    pub hosts: Vec<String>,
    /// The proxies whose `X-Forwarded-*` count.
    pub proxies: Vec<ProxyNet>,
    /// Whether users may send passwords and tokens without TLS from other machines.
    pub insecure_http: bool,
    /// Bytes of the largest accepted body. If none, the disk space is the limit.
    pub max_body: Option<u64>,
    /// Whether answers by TLS tell browsers to come by TLS only, for a year (RFC 6797).
    pub hsts: bool,
    /// What the first user is made with; none: whoever is on this machine makes him.
    pub first_user: Option<FirstUserSecret>,
    /// The limits of clients.
    pub limits: Limits,
}

/// The addresses of proxies, as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyNet(IpNet);

impl ProxyNet {
    /// Whether the address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for ProxyNet {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| "write an address and its bits, as in 127.0.0.1/32 or 10.0.0.0/8")
    }
}

/// Limits and time-outs of clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Open connections of one address.
    pub connections_of_address: usize,
    /// How long the head of a request may take, as well as a TLS handshake, and how long a connection may be idle before it.
    pub head: Duration,
    /// How long a body may stall.
    pub body_idle: Duration,
    /// After this time a client must have sent 1 KiB of a body each second on average, or read as much of a response.
    pub body_grace: Duration,
    /// How long a client may read nothing of a response.
    pub write_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connections: 4096,
            connections_of_address: 4096,
            head: seconds(30),
            body_idle: seconds(30),
            body_grace: seconds(60),
            write_idle: seconds(60),
        }
    }
}
