//! The drive over HTTP/1.1: requests in, calls of [`drive`](crate::drive) out. No logic of files lives here.
//!
//! - [`router`]: every route on one page
//! - [`serve`]: the routes on a socket; [`edge`]: sockets, their limits and time-outs, and how serving ends
//! - around every request: [`access`] (request id, log line, [`metrics`]), [`host`] (who may talk to us, from where)
//! - what is read from a request: [`extract`]; [`range`] and [`cursor`] have formats of their own
//! - one file a resource: [`fs_get`], [`fs_put`], [`fs_delete`], [`listing`], [`stat`], [`files`], [`find`],
//!   [`relocate`], [`health`]
//! - what is written: [`entry`] (the JSON of a file or directory), [`headers`], [`http_date`],
//!   [`respond`]
//! - [`openapi`]: the API's description, made of what stands at each handler; [`docs`]: a page that shows it
//! - [`memory`]: what a request may hold in memory
//! - [`problem`]: the only place where an error becomes a status

mod access;
mod cursor;
mod docs;
mod edge;
mod entry;
mod extract;
mod files;
mod find;
mod fs_delete;
mod fs_get;
mod fs_put;
mod headers;
mod health;
mod host;
mod http_date;
mod linger;
mod listing;
mod memory;
mod metrics;
mod openapi;
mod problem;
mod range;
mod relocate;
mod respond;
mod router;
mod serve;
mod stat;

pub use headers::repr_digest;
pub use router::router;
pub use serve::{serve, serve_beside};

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;

use crate::drive::Drive;
use metrics::Metrics;

/// What the operator chose.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names by which the server is called, besides the loopback ones; without a port.
    pub hosts: Vec<String>,
    /// Bytes of the largest body that is taken; without it, as much as the disk holds.
    pub max_body: Option<u64>,
    pub limits: Limits,
}

/// What a client may take of the server's time and room.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections of one address at a time.
    pub connections_of_address: usize,
    /// How long the head of a request may take, and how long a connection may be idle before it.
    pub head: Duration,
    /// How long a body may bring nothing.
    pub body_idle: Duration,
    /// From when on a body must have brought 1 KiB a second on average, and a client have taken as much of an answer.
    pub body_grace: Duration,
    /// How long a client may take nothing of an answer.
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

/// What every handler is given. One count of references: each request clones it several times.
#[derive(Clone)]
struct App(Arc<Shared>);

struct Shared {
    drive: Drive,
    options: Options,
    metrics: Metrics,
    /// All metrics of the process.
    registry: Registry,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
