//! How load falls on regions, and which hot spots decide.

use serde_json::{Value, json};

use super::model::{ALL_TABLES, HotSpot, MIN_FILES, READS_ALL, REGIONS, Report, Spread};
use super::order;
use super::table::Table;

/// A remedy, or another key, counts if its hottest server has less than this part of the hottest key's.
const GAIN: f64 = 0.9;

pub fn all(report: &Report) -> [Table; 3] {
    let layouts = order::layouts(report).into_iter();
    let tables = layouts.filter_map(|layout| Some((layout, report.regions.get(layout)?)));
    let spreads = tables.flat_map(|(layout, tables)| tables.iter().map(move |(table, of)| (layout, table, of)));
    let regions = spreads.map(|(layout, table, of)| json!([{"layout": layout, "table": table}, of, bar(of)]));
    let row = |spot: &HotSpot| json!([spot, spot.spread, bar(&spot.spread)]);
    let decided =
        deciding(report).into_iter().map(|(spot, keys)| json!([spot, spot.spread, {"keys": keys}, bar(&spot.spread)]));
    let mut decided = Table::new("deciding", decided);
    if report.meta.files < MIN_FILES {
        decided.rows.clear();
        decided.note = format!("No key is named with fewer than {MIN_FILES} files (--size): {}.", report.meta.files);
    }
    [decided, Table::new("regions", regions), Table::new("hot_spots", report.hot_spots.iter().map(row))]
}

/// Requests a second of the hottest server under a load, without a remedy.
pub fn hottest(report: &Report, layout: &str, load: &str) -> Option<f64> {
    let mut plain = report.hot_spots.iter().filter(|spot| is_plain(report, spot));
    plain.find(|spot| spot.layout == layout && spot.load == load).map(|spot| spot.spread.hottest_per_second)
}

/// Whether it has no remedy, and counts whole requests: those of all tables, or of a layout's only table.
fn is_plain(report: &Report, spot: &HotSpot) -> bool {
    let is_whole = || report.regions.get(&spot.layout).is_some_and(|tables| tables.len() == 1);
    spot.remedy == "none" && spot.splits == "at quantiles" && (spot.table == ALL_TABLES || is_whole())
}

/// The bar of the hottest region, up to all in one.
fn bar(of: &Spread) -> Value {
    let [hottest, floor, worst] = [of.hottest_over_mean, of.floor, of.worst].map(|heat| heat / REGIONS as f64);
    json!({"hottest_over_mean_bar": (0.0, hottest, "less", [floor, worst])})
}

/// For each load the hottest key, its best remedy, and the coolest key, with the number of keys that were compared.
fn deciding(report: &Report) -> Vec<(&HotSpot, usize)> {
    let heat = |spot: &HotSpot| spot.spread.hottest_per_second;
    let by_heat = |one: &&HotSpot, other: &&HotSpot| heat(one).total_cmp(&heat(other));
    let mut found = Vec::new();
    for load in report.hot_spots.chunk_by(|one, next| one.load == next.load) {
        let plain = || load.iter().filter(|spot| is_plain(report, spot));
        let Some(hottest) = plain().max_by(by_heat).filter(|_| plain().count() > 1) else { continue };
        let same = |spot: &&HotSpot| (&spot.layout, &spot.table) == (&hottest.layout, &hottest.table);
        let mended = load.iter().filter(same).filter(|spot| spot.remedy != "none" && spot.splits == hottest.splits);
        let mended: Vec<_> = mended.filter(|spot| heat(spot) < heat(hottest) * GAIN).collect();
        // Of those that are hardly hotter than the best, one that leaves readers a range of keys.
        let bound = mended.iter().copied().min_by(by_heat).map_or(0.0, heat) / GAIN;
        let reads_all = |spot: &&HotSpot| spot.cost.as_ref().is_some_and(|cost| cost.contains(READS_ALL));
        let mended = mended.into_iter().filter(|spot| heat(spot) <= bound);
        let mended = mended.min_by(|one, other| reads_all(one).cmp(&reads_all(other)).then(by_heat(one, other)));
        let coolest = plain().min_by(by_heat).filter(|coolest| heat(coolest) < heat(hottest) * GAIN);
        found.extend([Some(hottest), mended, coolest].into_iter().flatten().map(|spot| (spot, plain().count())));
    }
    found
}
