//! The address that a request comes from.

use std::convert::Infallible;
use std::net::IpAddr;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use tower_service::Service;

use super::connection::App;

/// The address of the other end of the connection. Every request has it as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Adds the address to each request of a connection.
#[derive(Clone)]
pub struct WithPeer<A> {
    app: A,
    peer: Peer,
}

impl<A: App> WithPeer<A> {
    pub fn new(app: A, address: IpAddr) -> Self {
        // An IPv4 client of a socket for both has an address of IPv6.
        Self { app, peer: Peer(address.to_canonical()) }
    }
}

impl<A: App> Service<Request<Body>> for WithPeer<A> {
    type Response = Response;
    type Error = Infallible;
    type Future = A::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.app.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.app.call(request)
    }
}
