//! Hot spots: how evenly the requests of a load fall on the regions of a table, for each layout of row keys, and what
//! remedies change. Nothing is stored: the keys of a tree are made, dealt to 16 regions by split keys, and counted
//! by simulated seconds.
//!
//! To be read in this order, each file knows those above it alone:
//!
//! - [`keys`]: which rows a request touches, by layout; [`loads`]: which requests arrive, and when
//! - [`remedies`]: changes of row keys, and their price; [`splits`]: the regions of a table
//! - [`token_bucket`]: how much of its load a region serves; [`region_load`]: what is counted by region
//! - [`simulation`]: a load on a layout; [`selection`]: which of them answer a question
//!
//! `independent.py` computes two of the figures from their description alone, and a test compares them.

mod keys;
mod loads;
mod region_load;
mod remedies;
mod selection;
mod simulation;
mod splits;
mod token_bucket;

use std::collections::BTreeMap;

use keys::{KeyLayout, LAYOUTS};
use loads::{IMPORT, LOADS, Load};
use remedies::Remedy;
use simulation::{Case, Simulation};
use splits::Splitting;

use crate::data::Tree;
use crate::report::model::{ALL_TABLES, HotSpot, Spread};

/// Files of the tree that is simulated, at most: a larger run has a tree of its own for this, with all its folders.
pub const FILES: u32 = 50_000;

/// By layout, then by table.
pub type Imports = BTreeMap<String, BTreeMap<String, Spread>>;

/// The tree that is simulated in a run of so many files.
pub fn tree(files: u32, seed: u64) -> Tree {
    Tree::new(files.min(FILES), seed)
}

/// The spread of each layout's tables while one tree is imported, split at the quantiles of their own keys; and the
/// spread under other loads, with remedies and with other splits.
///
/// The fewer requests a second, the hotter is the hottest region by chance alone: [`Spread::floor`].
///
/// `progress` gets what is simulated. Errors only if a distribution cannot be sampled, which no load asks for.
pub fn all(tree: &Tree, seed: u64, progress: &dyn Fn(&str)) -> anyhow::Result<(Imports, Vec<HotSpot>)> {
    let (mut imports, mut hot_spots) = (Imports::new(), Vec::new());
    for load in LOADS {
        for layout in &LAYOUTS {
            progress(&format!("regions: {}, {}", layout.name, load.name));
            let cases = selection::cases(load, layout);
            let (_, rate) = load.arrival_rate(tree.files.len());
            let spreads = cases.iter().zip(Simulation { tree, layout, load, seed }.spreads(&cases)?);
            for (case, spread) in spreads {
                let plain = (case.remedy, case.splitting) == (Remedy::None, Splitting::Quantiles);
                if load == IMPORT && plain && case.table != ALL_TABLES {
                    let tables: &mut BTreeMap<_, _> = imports.entry(layout.name.to_owned()).or_default();
                    tables.insert(case.table.to_owned(), spread.clone());
                }
                hot_spots.push(hot_spot(layout, load, case, rate as f64, spread));
            }
        }
    }
    Ok((imports, hot_spots))
}

fn hot_spot(layout: &KeyLayout, load: Load, case: &Case, rate: f64, spread: Spread) -> HotSpot {
    let table = layout.tables.iter().find(|(name, _)| *name == case.table).map(|(_, key)| *key);
    // The prices of all tables are those of each.
    let [get, list, scan] = table.map(|key| case.remedy.price(key)).unwrap_or_default();
    HotSpot {
        load: load.name.to_owned(),
        layout: layout.name.to_owned(),
        table: case.table.to_owned(),
        remedy: case.remedy.name(table),
        splits: case.splitting.name().to_owned(),
        spread,
        cost: table.and_then(|key| case.remedy.cost(key)),
        rate,
        get,
        list,
        scan,
    }
}

#[cfg(test)]
mod tests;
