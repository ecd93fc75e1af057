//! The regions of a table: where it is split, and which of 16 servers has which region.

use super::requests::Access;
use crate::report::model::REGIONS;

type Key = Vec<u8>;
/// How a table is split: a name, and the first key of a region, by its number and the table's own cells; none if there
/// is no such region at first.
#[derive(Clone, Copy)]
pub struct Splitting(pub &'static str, fn(usize, &[Key]) -> Option<Key>);

/// Before there is data, for binary keys: HBase's `UniformSplit`.
pub const EVEN: Splitting = Splitting("even", |n, _| Some(vec![(n * 256 / REGIONS) as u8]));
/// At the quantiles of the table's own cells: the splits of a cluster that has the data already.
pub const QUANTILES: Splitting = Splitting("at quantiles", |n, cells| cells.get(n * cells.len() / REGIONS).cloned());
/// Not before there is data. A region with a sixteenth of the cells of the whole load is full and splits at its middle;
/// each half goes to the server with the fewest regions and, of these, the fewest requests until then. HBase is slower
/// and less simple: its first splits come earlier (`SteppingSplitPolicy`), both halves stay on the server of the whole
/// until the balancer moves them, and neither answers for a moment.
pub const GROWING: Splitting = Splitting("growing", |n, _| (n == 0).then(Vec::new));

pub struct Regions {
    full: usize,
    /// By their first keys.
    regions: Vec<Region>,
    /// By server.
    requests: [usize; REGIONS],
}

struct Region {
    start: Key,
    server: usize,
    /// Of its cells, if it can split.
    keys: Vec<Key>,
    /// Cells at which it splits; 0 if never.
    full: usize,
}

impl Regions {
    /// For the row keys of its cells: a row counts as often as it was written, since a row of many cells is larger.
    /// One of more than a sixteenth of all cells has a region for itself, and leaves others without a row.
    pub fn new(splitting: Splitting, mut cells: Vec<Key>) -> Self {
        cells.sort_unstable();
        let full = if splitting.0 == GROWING.0 { (cells.len() / REGIONS).max(2) } else { 0 };
        let region = |server| Some(Region { start: (splitting.1)(server, &cells)?, server, keys: Vec::new(), full });
        Self { full, regions: (0..REGIONS).filter_map(region).collect(), requests: [0; REGIONS] }
    }

    /// The server of the region that a key is in: a key before all is in the first.
    pub fn server(&mut self, access: Access, key: &[u8]) -> usize {
        let at = self.regions.partition_point(|region| region.start.as_slice() <= key).saturating_sub(1);
        let Some(region) = self.regions.get_mut(at) else { return 0 };
        let server = region.server;
        self.requests.get_mut(server).into_iter().for_each(|requests| *requests += 1);
        if access == Access::Write && region.full > 0 {
            region.keys.push(key.to_vec());
            if region.keys.len() >= region.full {
                self.split(at);
            }
        }
        server
    }

    fn split(&mut self, at: usize) {
        let mut lower = self.regions.remove(at);
        lower.keys.sort_unstable();
        let start = lower.keys.get(lower.keys.len() / 2).cloned().unwrap_or_default();
        let cut = lower.keys.partition_point(|key| *key < start);
        if cut == 0 {
            // Its first row has half of the cells.
            lower.full *= 2;
            return self.regions.insert(at, lower);
        }
        let regions = |server| self.regions.iter().filter(|region| region.server == server).count();
        let mut servers: Vec<_> = (0..REGIONS).zip(self.requests).map(|(n, asked)| (regions(n), asked, n)).collect();
        servers.sort_unstable();
        let upper = lower.keys.split_off(cut);
        for ((start, keys), (_, _, server)) in [(start, upper), (lower.start, lower.keys)].into_iter().zip(servers) {
            self.regions.insert(at, Region { start, server, keys, full: self.full });
        }
    }
}
