//! Hot spots: how evenly the requests of a load fall on the regions of a table, for each layout of row keys, and what
//! remedies change. Nothing is stored: the keys of a tree are made, dealt to 16 regions by split keys, and counted
//! by simulated seconds.
//!
//! To be read in this order, each file knows those above it alone:
//!
//! - [`requests`]: which requests arrive, and which rows they touch, by layout; [`splits`]: the regions of a table
//! - [`remedies`]: changes of row keys, and which are simulated; [`spread`]: figures of the load of regions
//!
//! `independent.py` computes two of the figures from their description alone, and a test compares them.

mod remedies;
mod requests;
mod splits;
mod spread;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::data::Tree;
use crate::report::model::{ALL_TABLES, HotSpot, REGIONS, Spread};
use remedies::{Case, NONE};
use requests::{Access, Arrivals, LAYOUTS, LOADS, Load, Table};
use splits::{GROWING, QUANTILES, Regions};

/// How far apart the first regions of two tables are. HBase assigns the regions of a new table round-robin, from any
/// server on; 5 and 16 have no common divisor, so no two tables of a layout begin on the same server.
const OFFSET: usize = 5;

/// By layout, then by table.
pub type Imports = BTreeMap<String, BTreeMap<String, Spread>>;

/// Of the layouts that are asked for: the spread of each one's tables while one tree is imported, split at the quantiles of
/// their own keys; and the spread under other loads, with remedies and with other splits. A tree has 50,000 files at most:
/// so long takes no run. Errors only if a distribution cannot be sampled, which no load asks for.
pub fn simulate(files: u32, seed: u64, is_asked: impl Fn(&str) -> bool) -> anyhow::Result<(Imports, Vec<HotSpot>)> {
    let tree = Tree::new(files.min(50_000), seed);
    let (mut imports, mut hot_spots) = (Imports::new(), Vec::new());
    for (name, load) in LOADS {
        let arrivals = load.arrivals(&tree, seed)?;
        for (layout, tables) in LAYOUTS.into_iter().filter(|(layout, _)| is_asked(layout)) {
            let cases = remedies::cases(load, layout, tables);
            let spreads = spreads(tables, &cases, &arrivals, seed)?;
            for ((table, remedy, splitting), spread) in cases.into_iter().zip(spreads) {
                let of = tables.iter().filter(|of| [of.0, ALL_TABLES].contains(&table)).map(|of| of.2);
                let cost = (remedy.0 != NONE.0).then(|| remedy.cost(of.clone()));
                let answers = of.clone().next().filter(|_| table != ALL_TABLES).unwrap_or_default();
                let [get, list, scan] = remedy.reads(answers).map(|reads| reads.filter(|reads| *reads > 0));
                if (load, remedy.0, splitting.0) == (Load::Import, NONE.0, QUANTILES.0) && table != ALL_TABLES {
                    imports.entry(layout.to_owned()).or_default().insert(table.to_owned(), spread.clone());
                }
                let (rate, texts) = (arrivals.rate as f64, [name, layout, table, remedy.0, splitting.0]);
                let [load, layout, table, remedy, splits] = texts.map(str::to_owned);
                hot_spots.push(HotSpot { load, layout, table, remedy, splits, spread, cost, rate, get, list, scan });
            }
        }
    }
    Ok((imports, hot_spots))
}

/// The spread of each case, in their order. Rows are dealt twice: to find the split keys, and to count where requests
/// fall. Salts are drawn for all cases of a table in turn.
fn spreads(tables: &[Table], cases: &[Case], arrivals: &Arrivals, seed: u64) -> anyhow::Result<Vec<Spread>> {
    let mut windows = vec![vec![[0; REGIONS]; arrivals.count.div_ceil(arrivals.rate).max(1)]; cases.len()];
    for (number, table) in tables.iter().enumerate() {
        let mut dealt = Vec::new();
        for ((name, remedy, splitting), windows) in cases.iter().zip(&mut windows) {
            if [table.0, ALL_TABLES].contains(name) {
                let first = if *name == ALL_TABLES { number * OFFSET } else { 0 };
                dealt.push((remedy, splitting, Vec::new(), first, windows));
            }
        }
        let requests = arrivals.requests.iter();
        let rows = requests.flat_map(|(second, by, node)| table.rows(*by, node).into_iter().map(|row| (*second, row)));
        let rows: Vec<_> = rows.collect();
        let mut salts = StdRng::seed_from_u64(seed);
        for (_, (access, key)) in rows.iter().filter(|(_, (access, _))| *access == Access::Write) {
            for (remedy, splitting, cells, ..) in &mut dealt {
                if [QUANTILES.0, GROWING.0].contains(&splitting.0) {
                    cells.extend(remedy.apply(*access, key, &mut salts));
                }
            }
        }
        let mut salts = StdRng::seed_from_u64(seed);
        let mut dealt: Vec<_> =
            dealt.into_iter().map(|(of, splits, cells, at, to)| (of, Regions::new(*splits, cells), at, to)).collect();
        for (second, (access, key)) in &rows {
            for (remedy, regions, first, windows) in &mut dealt {
                let Some(window) = second.and_then(|second| windows.get_mut(second)) else { continue };
                for key in remedy.apply(*access, key, &mut salts) {
                    let server = (*first + regions.server(*access, &key)) % REGIONS;
                    window.get_mut(server).into_iter().for_each(|requests| *requests += 1);
                }
            }
        }
    }
    let seconds = arrivals.count as f64 / arrivals.rate as f64;
    windows.iter().map(|windows| spread::spread(windows, seconds)).collect()
}

#[cfg(test)]
mod tests;
