//! The drive over HTTP/1.1: requests in, calls of [`drive`](crate::drive) out. No logic of files lives here.
//!
//! Rooms, from the socket inwards:
//!
//! - [`server`]: sockets, limits and time-outs of connections, and how serving ends
//! - [`middleware`]: what is around every request
//! - [`mod@router`]: every route on one page; [`routes`]: one file a route, and the API's description
//! - [`request`]: what is read from a request, parsed once into types that carry their invariants
//! - [`response`]: what is written; there an error becomes a status, and nowhere else
//!
//! For all of them: [`options`] (what the operator chooses), [`app`] (what handlers share), [`metrics`], [`media_type`].

mod app;
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

pub use options::{Limits, Options};
pub use router::router;
pub use serve::{serve, serve_beside};
