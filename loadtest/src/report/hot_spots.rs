//! How load falls on regions: which hot spots decide, and maps of a few.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::{Value, json};

use super::model::{ALL_TABLES, HotSpot, REGIONS, Report, Spread};
use super::order;
use super::table::Table;

/// Maps of a page.
const MAPS: usize = 12;
/// Columns of a map: of more windows, several make one.
const COLUMNS: usize = 50;
/// Requests of a region through the mean of all: where a class of colour ends.
const CLASSES: [f64; 7] = [0.0, 0.5, 1.5, 3.0, 6.0, 12.0, f64::INFINITY];
const NAMES: [&str; 7] = ["none", "to 0.5", "to 1.5: even", "to 3", "to 6", "to 12", "more"];

pub fn all(report: &Report) -> [Table; 3] {
    let layouts = order::layouts(report).into_iter();
    let tables = layouts.filter_map(|layout| Some((layout, report.regions.get(layout)?)));
    let spreads = tables.flat_map(|(layout, tables)| tables.iter().map(move |(table, of)| (layout, table, of)));
    let regions = spreads.clone().map(|(layout, table, of)| json!([{"layout": layout, "table": table}, of, heat(of)]));
    let maps = spreads.filter_map(|(layout, table, of)| map(&format!("{layout}: {table}"), &of.heat));
    let maps: Vec<Markup> = maps.take(MAPS).collect();
    let drawn = html! {
        @if !maps.is_empty() {
            div.plots { @for map in &maps { (map) } }
            p.soft { "Time goes to the right, regions go upwards. Requests through the mean of all regions: " }
            ul.scale {
                @for (class, name) in NAMES.iter().enumerate() { li { span class={ "swatch h" (class) } {} (name) } }
            }
        }
    };
    let row = |spot: &HotSpot| json!([spot, spot.spread, heat(&spot.spread)]);
    [
        Table::new("deciding", deciding(report).into_iter().map(row)),
        Table { drawn, ..Table::new("regions", regions) },
        Table::new("hot_spots", report.hot_spots.iter().map(row)),
    ]
}

/// The bar of the hottest region, up to all in one.
fn heat(of: &Spread) -> Value {
    let [hottest, floor, worst] = [of.hottest_over_mean, of.floor, of.worst].map(|heat| heat / REGIONS as f64);
    json!({"hottest_over_mean_bar": (0.0, hottest, "less", [floor, worst])})
}

/// Of whole requests, where they were counted; the hottest and the coolest have their keys as they are, in regions of as
/// many cells each.
fn deciding(report: &Report) -> Vec<&HotSpot> {
    let heat = |spot: &HotSpot| spot.spread.hottest_per_second;
    let by_heat = |one: &&HotSpot, other: &&HotSpot| heat(one).total_cmp(&heat(other));
    let is_alone = |spot: &HotSpot| report.regions.get(&spot.layout).is_some_and(|tables| tables.len() == 1);
    let mut found: Vec<&HotSpot> = Vec::new();
    for load in report.hot_spots.chunk_by(|one, next| one.load == next.load) {
        let whole = load.iter().any(|spot| spot.table == ALL_TABLES);
        let spots = || load.iter().filter(|spot| !whole || spot.table == ALL_TABLES || is_alone(spot));
        let plain = || spots().filter(|spot| spot.remedy == "none" && spot.splits == "at quantiles");
        let Some(hottest) = plain().max_by(by_heat) else { continue };
        let same = |spot: &&HotSpot| (&spot.layout, &spot.table) == (&hottest.layout, &hottest.table);
        let mended = spots().filter(same).filter(|spot| spot.remedy != "none" && heat(spot) < heat(hottest));
        let mended = mended.min_by(by_heat);
        let even = plain().min_by(by_heat).filter(|even| *even != hottest);
        found.extend([Some(hottest), mended, even].into_iter().flatten());
    }
    found
}

/// Windows to the right, regions upwards in the order of their keys; nothing without windows or regions.
fn map(title: &str, windows: &[Vec<u32>]) -> Option<Markup> {
    let regions = windows.iter().map(Vec::len).max().filter(|regions| *regions > 0)?;
    let chunks = windows.chunks(windows.len().div_ceil(COLUMNS));
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for (column, windows) in chunks.clone().enumerate() {
        let count = |region| windows.iter().filter_map(|window| window.get(region)).map(|n| f64::from(*n)).sum::<f64>();
        let mean = (0..regions).map(count).sum::<f64>() / regions as f64;
        for region in 0..regions {
            let class = CLASSES.iter().position(|end| count(region) <= end * mean + 1e-9).unwrap_or_default();
            paths.entry(class).or_default().push_str(&format!("M{column} {}h1v1h-1z", regions - 1 - region));
        }
    }
    Some(html! {
        figure {
            figcaption { (title) }
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (chunks.len()) " " (regions) }
                preserveAspectRatio="none" role="img" aria-label=(title) {
                @for (class, path) in &paths { path class={ "h" (class) } d=(path) {} }
            }
        }
    })
}
