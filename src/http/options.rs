//! The options of the operator: host names, sizes, and the limits of clients.

use std::time::Duration;

/// The settings of the HTTP server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Host names of the server besides the loopback names, without a port.
    pub hosts: Vec<String>,
    /// Bytes of the largest accepted body. If none, the disk space is the limit.
    pub max_body: Option<u64>,
    /// Whether answers by TLS tell browsers to come by TLS only, for a year (RFC 6797).
    pub hsts: bool,
    /// The limits of clients.
    pub limits: Limits,
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
