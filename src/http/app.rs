//! The state that every handler shares.

use std::ops::Deref;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::metrics::HttpMetrics;
use super::options::Options;
use crate::drive::Drive;

/// The state of all handlers, behind one reference count: each request clones it several times.
#[derive(Clone)]
pub struct App(pub Arc<SharedState>);

pub struct SharedState {
    pub drive: Drive,
    pub options: Options,
    pub metrics: HttpMetrics,
    /// All metrics of the process.
    pub registry: Registry,
}

impl Deref for App {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.0
    }
}
