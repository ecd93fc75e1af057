//! Metrics of requests and connections, and of damage that requests found.

use std::fmt::{self, Write as _};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The metrics of the HTTP server. Clones share their values.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    answered: Family<ResponseLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, SecondsHistogram>,
    in_flight: Gauge,
    pub received: Counter,
    pub sent: Counter,
    /// Handlers that panicked: each is a fault of the program.
    pub panics: Counter,
    /// Times that a request has read damaged rows or content.
    pub damage: Counter,
    logins: Family<LoginLabels, Counter>,
    pub connections: ConnectionMetrics,
}

type SecondsHistogram = fn() -> Histogram;

/// The metrics of connections.
#[derive(Clone, Debug, Default)]
pub struct ConnectionMetrics {
    pub open: Gauge,
    pub accepted: Counter,
    closed: Family<CloseLabels, Counter>,
    no_place: Family<PlaceLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoginLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlaceLabels {
    of: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloseLabels {
    why: CloseReason,
}

/// Why the server has closed a connection for its own sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Every place was taken, and no other connection could be closed.
    NoRoom,
    /// For a new one.
    MadeRoom,
    Idle,
    SlowHandshake,
    /// The client has sent no TLS to a server that speaks TLS alone.
    NoTls,
    SlowHead,
    SlowReader,
    /// Too many control frames of HTTP/2, or more frames than there was memory for.
    Flood,
    /// There was no memory for the header fields that a client of HTTP/2 has put into its table.
    FullTable,
}

impl CloseReason {
    fn label(self) -> &'static str {
        match self {
            Self::NoRoom => "no-room",
            Self::MadeRoom => "made-room",
            Self::Idle => "idle",
            Self::SlowHandshake => "slow-handshake",
            Self::NoTls => "no-tls",
            Self::SlowHead => "slow-head",
            Self::SlowReader => "slow-reader",
            Self::Flood => "flood",
            Self::FullTable => "full-table",
        }
    }
}

impl EncodeLabelValue for CloseReason {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(self.label())
    }
}

/// Counts a request as in flight until it is dropped.
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl HttpMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        // From 100 microseconds to 52 seconds.
        let seconds: SecondsHistogram = || Histogram::new(exponential_buckets(100e-6, 2.0, 20));
        let metrics = Self {
            answered: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            in_flight: Gauge::default(),
            received: Counter::default(),
            sent: Counter::default(),
            panics: Counter::default(),
            damage: Counter::default(),
            logins: Family::default(),
            connections: ConnectionMetrics::default(),
        };
        let http = registry.sub_registry_with_prefix("rowdrive_http");
        http.register("requests", "Requests answered", metrics.answered.clone());
        let help = "Time from a request's head to its answer's head, its body included";
        http.register_with_unit("request", help, Unit::Seconds, metrics.seconds.clone());
        http.register("in_flight", "Requests whose answers are not yet sent", metrics.in_flight.clone());
        http.register("received_bytes", "Bytes of bodies that came", metrics.received.clone());
        http.register("sent_bytes", "Bytes of bodies that were sent", metrics.sent.clone());
        http.register("panics", "Handlers that panicked: a fault of the program", metrics.panics.clone());
        for result in ["right", "wrong", "slowed"] {
            let _from_the_start = metrics.logins.get_or_create(&LoginLabels { result });
        }
        http.register("logins", "Logins, and credentials that were refused", metrics.logins.clone());
        http.register("connections", "Connections open", metrics.connections.open.clone());
        http.register("connections_accepted", "Connections taken", metrics.connections.accepted.clone());
        let help = "Connections that the server closed for its own sake";
        http.register("connections_closed", help, metrics.connections.closed.clone());
        let help = "Requests of HTTP/2 that were refused for want of a place";
        http.register("no_place", help, metrics.connections.no_place.clone());
        let help = "Times that a request met damaged rows or content: look into the log, then run a check";
        registry.register("rowdrive_damage_found", help, metrics.damage.clone());
        metrics
    }

    pub fn start_request(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// `result`: `right`, `wrong` or `slowed`.
    pub fn login(&self, result: &'static str) {
        self.logins.get_or_create(&LoginLabels { result }).inc();
    }

    pub fn answered(&self, route: &'static str, method: &Method, status: StatusCode, took: Duration) {
        let method = name(method);
        self.seconds.get_or_create(&RouteLabels { route, method }).observe(took.as_secs_f64());
        self.answered.get_or_create(&ResponseLabels { route, method, status: status.as_u16() }).inc();
    }
}

impl ConnectionMetrics {
    pub fn closed(&self, why: CloseReason) {
        self.closed.get_or_create(&CloseLabels { why }).inc();
    }

    /// Requests that found no place. `of`: of which half, `users` or `others`.
    pub fn no_place(&self, of: &'static str) -> Counter {
        self.no_place.get_or_create(&PlaceLabels { of }).clone()
    }
}

/// Clients may send any word as a method; only known ones become a label.
fn name(method: &Method) -> &'static str {
    let known = [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::PATCH, Method::DELETE, Method::OPTIONS];
    let names = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"];
    known.iter().zip(names).find(|(known, _)| *known == method).map_or("other", |(_, name)| name)
}
