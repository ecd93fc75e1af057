//! Replays a load: once to find the split keys, once to count where the requests fall.

use std::cell::LazyCell;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::keys::{Access, KeyLayout, hash};
use super::loads::Load;
use super::region_load::RegionLoad;
use super::remedies::Remedy;
use super::splits::{Regions, Splitting};
use crate::data::Tree;
use crate::report::model::{ALL_TABLES, REGIONS, Spread};

/// How far apart the first regions of two tables are. HBase assigns the regions of a new table round-robin, from any
/// server on; 5 and 16 have no common divisor, so no two tables of a layout begin on the same server.
const OFFSET: usize = 5;

/// A table, how its keys are changed, and how it is split. For [`ALL_TABLES`] a server's load is of all rows of a
/// request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub table: &'static str,
    pub remedy: Remedy,
    pub splitting: Splitting,
}

/// Takes a row with its second, and its part: its case and table as one number.
type Touched<'a> = dyn FnMut(f64, usize, &[u8], Access) + 'a;

/// One load on one layout.
pub struct Simulation<'a> {
    pub tree: &'a Tree,
    pub layout: &'static KeyLayout,
    pub load: Load,
    pub seed: u64,
}

impl Simulation<'_> {
    /// The spread of each case, in their order.
    pub fn spreads(&self, cases: &[Case]) -> anyhow::Result<Vec<Spread>> {
        let tables = if cases.is_empty() { return Ok(Vec::new()) } else { self.layout.tables.len() };
        let mut cells: Vec<Vec<Vec<u8>>> = vec![Vec::new(); cases.len() * tables];
        self.replay(cases, true, &mut |_, part, key, _| {
            cells.iter_mut().skip(part).take(1).for_each(|cells| cells.push(key.to_vec()));
        })?;
        let splittings = cases.iter().flat_map(|case| vec![case.splitting; tables]);
        let mut regions: Vec<Regions> = splittings.zip(cells).map(|(by, cells)| Regions::new(by, cells)).collect();
        let mut loads: Vec<RegionLoad> = cases.iter().map(|_| RegionLoad::default()).collect();
        self.replay(cases, false, &mut |at, part, key, access| {
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

    /// Each row that the load touches, its key changed as in each case of its table; or only the data that splits need.
    fn replay(&self, cases: &[Case], data: bool, touched: &mut Touched<'_>) -> anyhow::Result<()> {
        let load = if data { self.load.data() } else { self.load };
        let mut salts = StdRng::seed_from_u64(self.seed);
        load.replay(self.tree, self.seed, &mut |at, request| {
            for (access, table, key) in self.layout.rows(request, self.seed) {
                let hash = LazyCell::new(|| hash(&key));
                let Some((name, made_of)) = self.layout.tables.get(table) else { continue };
                for (n, case) in cases.iter().enumerate() {
                    let is_needed =
                        access == Access::Write && matches!(case.splitting, Splitting::Quantiles | Splitting::Growing);
                    if ![*name, ALL_TABLES].contains(&case.table) || data && !is_needed {
                        continue;
                    }
                    for key in case.remedy.apply(*made_of, access, &key, || *hash, &mut salts) {
                        touched(at, n * self.layout.tables.len() + table, &key, access);
                    }
                }
            }
        })
    }
}
