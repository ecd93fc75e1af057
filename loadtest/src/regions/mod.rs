//! Hot spots: how evenly the requests of a load fall on the regions of a table, for each layout of row keys, and what
//! remedies change. Nothing is stored: the keys of a tree are made, dealt to 16 regions by split keys, and counted
//! by simulated seconds.
//!
//! To be read in this order, each file knows those above it alone:
//!
//! - [`keys`]: which rows a request touches, by layout; [`loads`]: which requests arrive, and when
//! - [`remedies`]: changes of row keys, and their price; [`splits`]: the regions of a table
//! - [`selection`]: which remedies and splits answer a question; [`spread`]: figures of the load of regions
//!
//! `independent.py` computes two of the figures from their description alone, and a test compares them.

mod keys;
mod loads;
mod remedies;
mod selection;
mod splits;
mod spread;

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::rngs::StdRng;

use keys::{Access, Key, KeyLayout, LAYOUTS};
use loads::{Arrivals, LOADS, Load};
use remedies::Remedy;
use selection::Case;
use splits::{Regions, Splitting};

use crate::data::Tree;
use crate::report::model::{ALL_TABLES, HotSpot, REGIONS, Spread};

/// How far apart the first regions of two tables are. HBase assigns the regions of a new table round-robin, from any
/// server on; 5 and 16 have no common divisor, so no two tables of a layout begin on the same server.
const OFFSET: usize = 5;

/// By layout, then by table.
pub type Imports = BTreeMap<String, BTreeMap<String, Spread>>;

/// The tree that is simulated in a run of so many files: a large run has a smaller one for this, with all its folders.
pub fn tree(files: u32, seed: u64) -> Tree {
    Tree::new(files.min(50_000), seed)
}

/// The spread of each layout's tables while one tree is imported, split at the quantiles of their own keys; and the
/// spread under other loads, with remedies and with other splits.
///
/// The fewer requests a second, the hotter is the hottest region by chance alone: [`Spread::floor`].
///
/// `progress` gets what is simulated. Errors only if a distribution cannot be sampled, which no load asks for.
pub fn all(tree: &Tree, seed: u64, progress: &dyn Fn(&str)) -> anyhow::Result<(Imports, Vec<HotSpot>)> {
    let (mut imports, mut hot_spots) = (Imports::new(), Vec::new());
    for (name, load) in LOADS {
        let arrivals = load.arrivals(tree, seed)?;
        for layout in &LAYOUTS {
            progress(&format!("regions: {}, {name}", layout.name));
            let cases = selection::cases(load, layout);
            for (case, spread) in cases.iter().zip(spreads(layout, &cases, &arrivals, seed)?) {
                let is_plain = case.remedy == Remedy::None && case.splitting == Splitting::Quantiles;
                if load == Load::Import && is_plain && case.table != ALL_TABLES {
                    let tables: &mut BTreeMap<_, _> = imports.entry(layout.name.to_owned()).or_default();
                    tables.insert(case.table.to_owned(), spread.clone());
                }
                let key = layout.tables.iter().find(|(table, _)| *table == case.table).map(|(_, key)| *key);
                let (remedy, reads) = case.remedy.name_and_reads(key);
                let [get, list, scan] = reads.map(|reads| reads.filter(|reads| *reads > 0));
                hot_spots.push(HotSpot {
                    load: name.to_owned(),
                    layout: layout.name.to_owned(),
                    table: case.table.to_owned(),
                    remedy,
                    splits: case.splitting.name().to_owned(),
                    spread,
                    cost: key.filter(|_| case.remedy != Remedy::None).map(|key| case.remedy.cost(key)),
                    rate: arrivals.rate as f64,
                    get,
                    list,
                    scan,
                });
            }
        }
    }
    Ok((imports, hot_spots))
}

/// A table of a layout, as a case changes and splits it.
struct Table<'a> {
    number: usize,
    key: Key,
    case: &'a Case,
    case_number: usize,
}

/// The spread of each case, in their order. Rows are dealt twice: to find the split keys, and to count where requests
/// fall. Salts are drawn for all cases in turn.
fn spreads(layout: &KeyLayout, cases: &[Case], arrivals: &Arrivals, seed: u64) -> anyhow::Result<Vec<Spread>> {
    let mut tables = Vec::new();
    for (case_number, case) in cases.iter().enumerate() {
        let own = layout.tables.iter().enumerate().filter(|(_, (name, _))| [*name, ALL_TABLES].contains(&case.table));
        tables.extend(own.map(|(number, (_, key))| Table { number, key: *key, case, case_number }));
    }
    let rows = || {
        let requests = arrivals.requests.iter();
        requests.flat_map(|of| layout.rows(of.access, &of.node).into_iter().map(|row| (of.second, row)))
    };
    let mut cells = vec![Vec::new(); tables.len()];
    let mut salts = StdRng::seed_from_u64(seed);
    for (_, (access, number, key)) in rows().filter(|(_, (access, ..))| *access == Access::Write) {
        for (table, cells) in tables.iter().zip(&mut cells).filter(|(table, _)| table.number == number) {
            if matches!(table.case.splitting, Splitting::Quantiles | Splitting::Growing) {
                cells.extend(table.case.remedy.apply(table.key, access, &key, &mut salts));
            }
        }
    }
    let regions = tables.iter().zip(cells).map(|(table, cells)| Regions::new(table.case.splitting, cells));
    let mut regions: Vec<Regions> = regions.collect();
    let mut windows = vec![vec![[0; REGIONS]; arrivals.count.div_ceil(arrivals.rate).max(1)]; cases.len()];
    let mut salts = StdRng::seed_from_u64(seed);
    for (second, (access, number, key)) in rows() {
        for (table, regions) in tables.iter().zip(&mut regions).filter(|(table, _)| table.number == number) {
            let window = windows.get_mut(table.case_number).and_then(|windows| windows.get_mut(second?));
            let Some(window) = window else { continue };
            let first = if table.case.table == ALL_TABLES { table.number * OFFSET } else { 0 };
            for key in table.case.remedy.apply(table.key, access, &key, &mut salts) {
                let server = (first + regions.server(access, &key)) % REGIONS;
                window.iter_mut().skip(server).take(1).for_each(|requests| *requests += 1);
            }
        }
    }
    let seconds = arrivals.count as f64 / arrivals.rate as f64;
    windows.iter().map(|windows| spread::spread(windows, seconds)).collect()
}

#[cfg(test)]
mod tests;
