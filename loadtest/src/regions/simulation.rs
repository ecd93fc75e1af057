//! Replays a load: once to find the split keys, once to count where the requests fall.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::keys::{Access, Layout};
use super::loads::Load;
use super::mitigations::Mitigation;
use super::region_load::RegionLoad;
use super::splits::{REGIONS, Sample, Splitting};
use crate::data::Tree;
use crate::report::model::Spread;

/// The tables of a layout together: their regions on the same 16 servers.
pub const ALL_TABLES: &str = "all tables";

/// How far apart the first regions of two tables are. HBase assigns the regions of a new table round-robin, from any server
/// on; 5 and 16 have no common divisor, so no two tables of a layout begin on the same server.
const OFFSET: usize = 5;

/// A table, how its keys are changed, and how it is split. For [`ALL_TABLES`] a server's load is of all rows of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub table: &'static str,
    pub mitigation: Mitigation,
    pub splitting: Splitting,
}

/// Takes a row with its second, and its part: its case and table as one number.
type Touched<'a> = dyn FnMut(f64, usize, Access, &[u8]) + 'a;

/// One load on one layout.
pub struct Simulation<'a> {
    pub tree: &'a Tree,
    pub layout: &'static Layout,
    pub load: Load,
    pub seed: u64,
}

impl Simulation<'_> {
    /// The spread of each case, in their order.
    pub fn spreads(&self, cases: &[Case]) -> anyhow::Result<Vec<Spread>> {
        let tables = self.layout.tables.len();
        let mut samples: Vec<Sample> =
            cases.iter().flat_map(|case| (0..tables).map(|_| Sample::new(case.splitting, self.seed))).collect();
        self.replay(self.load.data(), cases, &mut |_, part, access, key| {
            if let (Access::Write, Some(sample)) = (access, samples.get_mut(part)) {
                sample.push(key);
            }
        })?;
        let mut regions: Vec<_> = samples.into_iter().map(Sample::into_regions).collect();
        let mut loads: Vec<RegionLoad> = cases.iter().map(|_| RegionLoad::default()).collect();
        self.replay(self.load, cases, &mut |at, part, access, key| {
            let (case, table) = (part / tables, part % tables);
            if let (Some(load), Some(regions)) = (loads.get_mut(case), regions.get_mut(part)) {
                let first =
                    if cases.get(case).is_some_and(|case| case.table == ALL_TABLES) { table * OFFSET } else { 0 };
                load.count(at, (first + regions.server(access, key)) % REGIONS);
            }
        })?;
        let (requests, rate) = self.load.arrival_rate(self.tree.files.len());
        loads.into_iter().map(|load| load.spread(requests as f64 / rate as f64)).collect()
    }

    /// Each row that the load touches, its key changed as in each case of its table.
    fn replay(&self, load: Load, cases: &[Case], touched: &mut Touched<'_>) -> anyhow::Result<()> {
        let mut salts = StdRng::seed_from_u64(self.seed);
        load.replay(self.tree, self.seed, &mut |at, request| {
            for (access, table, key) in self.layout.rows(request, self.seed) {
                let Some((name, made_of)) = self.layout.tables.get(table) else { continue };
                for (n, case) in cases.iter().enumerate().filter(|(_, case)| [*name, ALL_TABLES].contains(&case.table))
                {
                    for key in case.mitigation.apply(*made_of, access, &key, &mut salts) {
                        touched(at, n * self.layout.tables.len() + table, access, &key);
                    }
                }
            }
        })
    }
}
