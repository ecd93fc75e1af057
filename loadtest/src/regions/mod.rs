//! How evenly the requests of a load fall on the regions of a table, for each layout of row keys, and what remedies
//! change. Nothing is stored: the keys of a tree are made, dealt to 16 regions by split keys, and counted by simulated
//! seconds.
//!
//! - [`keys`]: which rows a request touches, by layout; [`splits`]: where a table is cut
//! - [`loads`], [`users`], [`pace`]: which requests come, from whom, and when
//! - [`remedies`]: changes of row keys; [`selection`]: which of them are tried where
//! - [`gauge`], [`bucket`]: what a table's regions get, and how much of it they serve; [`measure`]: all that at once

mod bucket;
mod gauge;
mod keys;
mod loads;
mod measure;
mod pace;
mod remedies;
mod selection;
mod splits;
mod users;

use std::collections::BTreeMap;

use keys::Keyed;
use loads::Load;
use measure::{Case, Replay};
use pace::Pace;
use remedies::Remedy;
use splits::Splitting;

use crate::data::Tree;
use crate::report::model::{HotSpot, Spread};

/// How many regions a table is cut into.
pub const REGIONS: usize = 16;

/// By layout, then by table.
pub type Imports = BTreeMap<String, BTreeMap<String, Spread>>;

/// The spread of each layout's tables while the whole tree is imported in order, split at the quantiles of their own
/// keys; and the spread under other loads, with remedies and with other splits, on 50,000 files of the tree at most,
/// taken evenly.
///
/// An import is 50 simulated seconds long, or goes at 20,000 files a second if that is longer: so trees of less than
/// 1,000,000 files have fewer requests a window, and chance alone makes the hottest region hotter. [`Spread::floor`] tells
/// how much of a spread that is.
///
/// `progress` hears what is worked on. Errors only if a distribution cannot be sampled, which no load asks for.
pub fn all(tree: &Tree, seed: u64, progress: &dyn Fn(&str)) -> anyhow::Result<(Imports, Vec<HotSpot>)> {
    let mut imports = Imports::new();
    for layout in Keyed::ALL {
        progress(&format!("regions: {}, the whole tree", layout.name()));
        imports.insert(layout.name().to_owned(), import(tree, layout, seed)?);
    }
    let mut hot_spots = Vec::new();
    for load in selection::LOADS {
        for layout in Keyed::ALL {
            progress(&format!("regions: {}, {}", layout.name(), load.name()));
            hot_spots.extend(compared(tree, layout, load, seed)?);
        }
    }
    Ok((imports, hot_spots))
}

/// By table.
fn import(tree: &Tree, layout: Keyed, seed: u64) -> anyhow::Result<BTreeMap<String, Spread>> {
    let pace = Pace::import(tree.files.len());
    let case = |table: &_| Case { table: *table, remedy: Remedy::None, splitting: Splitting::Quantiles };
    let cases: Vec<Case> = layout.tables().iter().map(case).collect();
    let spreads = Replay { tree, layout, load: Load::OneTree, pace, seed }.spreads(&cases)?;
    Ok(cases.iter().map(|case| case.table.name().to_owned()).zip(spreads).collect())
}

fn compared(tree: &Tree, layout: Keyed, load: Load, seed: u64) -> anyhow::Result<Vec<HotSpot>> {
    let cases = selection::cases(load, layout);
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let pace = Pace::of(load, tree.files.len());
    let spreads = Replay { tree, layout, load, pace, seed }.spreads(&cases)?;
    let hot_spot = |(case, spread): (Case, Spread)| HotSpot {
        load: load.name(),
        layout: layout.name().to_owned(),
        table: case.table.name().to_owned(),
        remedy: case.remedy.name(),
        splits: case.splitting.name().to_owned(),
        spread,
        cost: cost(case, layout),
        ..HotSpot::default()
    };
    Ok(cases.into_iter().zip(spreads).map(hot_spot).collect())
}

fn cost(case: Case, layout: Keyed) -> Option<String> {
    let costs = [case.remedy.cost(layout.shape(case.table)), case.splitting.cost().map(str::to_owned)];
    let costs: Vec<String> = costs.into_iter().flatten().collect();
    (!costs.is_empty()).then(|| costs.join("; "))
}

#[cfg(test)]
mod tests;
