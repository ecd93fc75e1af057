//! The state that every handler shares.

use std::ops::Deref;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use super::callers::CallersOfRoutes;
use super::metrics::HttpMetrics;
use super::options::Options;
use super::share_visitors::ShareVisitors;
use crate::auth::{Auth, Requester};
use crate::budget::Budget;
use crate::drive::Drive;

/// Memory of the budget for each tar that is unpacked at the same time. Tars hold memory while they wait for more: for
/// lines, and for members. So few of them must not be able to take all of it.
const MEMORY_OF_TAR: usize = 8 << 20;
/// Tars that are unpacked at the same time, at most.
const TARS: usize = 32;

/// Tars that are unpacked at the same time with this budget of memory.
pub fn tars(memory: &Budget) -> usize {
    (memory.bytes() / MEMORY_OF_TAR).clamp(1, TARS)
}

/// Members of all tars that are stored at the same time, and members of one tar that are under way. With 512, an import of
/// small files needs 30 MiB more, and is hardly faster. They take an eighth of the queue of the commit thread, so that
/// other writes find room there.
pub const MEMBERS: usize = 128;

/// User names of slowed requests that are looked up for the audit log at the same time: a slowed request costs its sender
/// nothing. While there are so many, the lines of further ones have no user.
pub const NAME_LOOKUPS: usize = 64;

/// The state of all handlers, behind one reference count: each request clones it several times.
#[derive(Clone)]
pub struct App(pub Arc<SharedState>);

pub struct SharedState {
    pub drive: Drive,
    pub auth: Auth,
    /// Who sends a request that has proved nothing.
    pub nobody: Requester,
    pub callers: CallersOfRoutes,
    pub options: Options,
    pub metrics: HttpMetrics,
    /// With [`MEMBERS`] permits.
    pub members: Arc<Semaphore>,
    /// With a permit for each of the [`tars`].
    pub tars: Arc<Semaphore>,
    /// With [`NAME_LOOKUPS`] permits.
    pub name_lookups: Arc<Semaphore>,
    /// Who has used which share.
    pub share_visitors: ShareVisitors,
    /// All metrics of the process.
    pub registry: Registry,
}

impl Deref for App {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.0
    }
}
