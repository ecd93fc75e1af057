//! The state that every handler shares.

use std::ops::Deref;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use super::metrics::HttpMetrics;
use super::options::Options;
use crate::drive::Drive;

/// Members of tars that are stored at the same time, of all requests: half of the queue of the commit thread, so that
/// other writes find room there.
pub const UNPACKING: usize = 512;

/// The state of all handlers, behind one reference count: each request clones it several times.
#[derive(Clone)]
pub struct App(pub Arc<SharedState>);

pub struct SharedState {
    pub drive: Drive,
    pub options: Options,
    pub metrics: HttpMetrics,
    /// With [`UNPACKING`] permits.
    pub unpacking: Arc<Semaphore>,
    /// All metrics of the process.
    pub registry: Registry,
}

impl Deref for App {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.0
    }
}
