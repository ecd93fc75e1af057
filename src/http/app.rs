//! The state that every handler shares.

use std::ops::Deref;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::metrics::Metrics;
use super::options::Options;
use crate::drive::Drive;

/// The state of all handlers. One reference count, as each request clones it several times.
#[derive(Clone)]
pub struct App(pub Arc<Shared>);

pub struct Shared {
    pub drive: Drive,
    pub options: Options,
    pub metrics: Metrics,
    /// All metrics of the process.
    pub registry: Registry,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
