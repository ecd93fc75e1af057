//! What operators see of the HTTP side: requests, connections, and damage that readers ran into.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::App;
use super::problem::{Problem, Result};

/// What `/metrics` answers with (OpenMetrics 1.0, which Prometheus reads as it reads its own text format).
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Metrics {
    answered: Family<Answered, Counter>,
    seconds: Family<Asked, Histogram, Seconds>,
    in_flight: Gauge,
    pub received: Counter,
    pub sent: Counter,
    /// Handlers that panicked: each is a fault of the program.
    pub panics: Counter,
    /// Rows or content found damaged while a request was served.
    pub damage: Counter,
    pub connections: Connections,
}

type Seconds = fn() -> Histogram;

/// What the edge sees.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    pub open: Gauge,
    pub accepted: Counter,
    closed: Family<Why, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    route: &'static str,
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Why {
    why: &'static str,
}

/// A request is in flight, until this is dropped.
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub fn register(registry: &mut Registry) -> Self {
        // From 100 microseconds to 52 seconds.
        let seconds: Seconds = || Histogram::new(exponential_buckets(100e-6, 2.0, 20));
        let metrics = Self {
            answered: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            in_flight: Gauge::default(),
            received: Counter::default(),
            sent: Counter::default(),
            panics: Counter::default(),
            damage: Counter::default(),
            connections: Connections::default(),
        };
        let http = registry.sub_registry_with_prefix("rowdrive_http");
        http.register("requests", "Requests answered", metrics.answered.clone());
        let help = "Time from a request's head to its answer's head, its body included";
        http.register_with_unit("request", help, Unit::Seconds, metrics.seconds.clone());
        http.register("in_flight", "Requests whose answers are not yet sent", metrics.in_flight.clone());
        http.register("received_bytes", "Bytes of bodies that came", metrics.received.clone());
        http.register("sent_bytes", "Bytes of bodies that were sent", metrics.sent.clone());
        http.register("panics", "Handlers that panicked: a fault of the program", metrics.panics.clone());
        http.register("connections", "Connections open", metrics.connections.open.clone());
        http.register("connections_accepted", "Connections taken", metrics.connections.accepted.clone());
        let help = "Connections that the server closed for its own sake";
        http.register("connections_closed", help, metrics.connections.closed.clone());
        let help = "Times that a request met damaged rows or content: look into the log, then run a check";
        registry.register("rowdrive_damage_found", help, metrics.damage.clone());
        metrics
    }

    pub fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub fn answered(&self, route: &'static str, method: &Method, status: StatusCode, took: Duration) {
        let method = name(method);
        self.seconds.get_or_create(&Asked { route, method }).observe(took.as_secs_f64());
        self.answered.get_or_create(&Answered { route, method, status: status.as_u16() }).inc();
    }
}

impl Connections {
    pub fn closed(&self, why: &'static str) {
        self.closed.get_or_create(&Why { why }).inc();
    }
}

/// Clients may send any word as a method; only known ones become a label.
fn name(method: &Method) -> &'static str {
    let known = [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE, Method::OPTIONS];
    let names = ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"];
    known.iter().zip(names).find(|(known, _)| *known == method).map_or("other", |(_, name)| name)
}

/// What the server counts, for Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "operating",
    responses((status = 200, description = "In the OpenMetrics format", content_type = MEDIA_TYPE, body = String)))]
pub async fn get(State(app): State<App>) -> Result<Response> {
    // Some of it is asked of the database and of the file system, which may take their time.
    let told = tokio::task::spawn_blocking(move || {
        // Whether it can write is told as of now.
        let _known = app.drive.works();
        let mut out = String::new();
        text::encode(&mut out, &app.registry).map(|()| out)
    });
    let told = told.await.map_err(|e| Problem::internal(&e))?;
    let out = told.map_err(|e| Problem::internal(&e))?;
    let headers =
        [(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE)), (CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((headers, out).into_response())
}
