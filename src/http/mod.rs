//! The drive over HTTP/1.1 and HTTP/2: translates requests into calls of [`drive`](crate::drive), and their results into
//! responses. It has no file logic.
//!
//! The modules, from the socket inwards:
//!
//! - [`serve`]: the service on a listener
//! - [`server`]: sockets, limits and time-outs of connections, and the shutdown
//! - [`middleware`]: checks, log lines and metrics of every request
//! - [`access`]: what a request has proved, and whether it may reach its handler; [`callers`]: who may call which route
//! - [`mod@router`]: every route on one page; [`mod@routes`]: one file for each route, and the API's description
//! - [`request`]: the parts of a request, parsed once into types that are valid by construction
//! - [`response`]: the parts of a response; `problem` turns errors into problems
//!
//! They use [`options`] (the operator's choices), [`first_user`] (the secret that makes the first user), [`metrics`], [`media_type`] and, except `serve` and `server`, [`app`]
//! (the state that handlers share). The status of each kind of problem is in [`api::problem`](crate::api::problem).

mod access;
mod app;
mod callers;
mod first_user;
mod media_type;
mod metrics;
mod middleware;
mod options;
mod request;
mod response;
mod router;
mod routes;
mod serve;
mod server;
mod share_visitors;

pub use callers::{Callers, ShareRoute};
pub use first_user::{FirstUserSecret, remove as remove_first_user_secret};
pub use options::{ANY_HOST, Limits, Options, ProxyNet};
pub use router::{router, routes};
pub use serve::Service;
pub use server::Peer;
pub use server::tls::{Tls, TlsError};
