//! Which hot spots decide, and maps of a few.

use maud::html;

use super::model::{ALL_TABLES, HotSpot, Report};
use super::table::{Part, Table};
use super::{order, rows, svg};

/// Maps of a page.
const MAPS: usize = 12;

/// Keys as they are, in regions of as many rows each.
pub fn is_plain(spot: &HotSpot) -> bool {
    spot.remedy == "none" && spot.splits == "at quantiles"
}

pub fn by_heat(one: &&HotSpot, other: &&HotSpot) -> std::cmp::Ordering {
    one.spread.hottest_over_mean.total_cmp(&other.spread.hottest_over_mean)
}

pub fn parts(report: &Report) -> Vec<Part> {
    let layouts = order::layouts(report);
    let mut all: Vec<&HotSpot> = report.hot_spots.iter().collect();
    for load in all.chunk_by_mut(|one, next| one.load == next.load) {
        load.sort_by_key(|spot| layouts.iter().position(|layout| *layout == spot.layout));
    }
    let tables = layouts.iter().filter_map(|layout| Some((layout, report.regions.get(*layout)?)));
    let spreads = tables.flat_map(|(layout, tables)| tables.iter().map(move |of| (layout, of)));
    let maps = spreads.filter_map(|(layout, (table, of))| svg::heat(&format!("{layout}: {table}"), &of.heat));
    let maps: Vec<_> = maps.take(MAPS).collect();
    let regions = rows::regions(report);
    vec![
        Part::Text(regions.note.clone()),
        Part::Table(rows::hot_spots("deciding", deciding(&all))),
        Part::Table(Table { note: String::new(), ..regions }),
        Part::Drawn(html! { @if !maps.is_empty() { div.plots { @for map in &maps { (map) } } (svg::heat_scale()) } }),
        Part::Table(rows::hot_spots("hot_spots", all)),
    ]
}

/// Of whole requests, where they were counted.
fn deciding<'a>(all: &[&'a HotSpot]) -> Vec<&'a HotSpot> {
    let mut found: Vec<&HotSpot> = Vec::new();
    for load in all.chunk_by(|one, next| one.load == next.load) {
        let whole = load.iter().any(|spot| spot.table == ALL_TABLES);
        let spots = || load.iter().copied().filter(|spot| !whole || spot.table == ALL_TABLES);
        let plain = || spots().filter(|spot| is_plain(spot));
        let Some(hottest) = plain().max_by(by_heat) else { continue };
        let same = |spot: &&HotSpot| (&spot.layout, &spot.table) == (&hottest.layout, &hottest.table);
        let mended = spots().filter(same).filter(|spot| spot.remedy != "none").min_by(by_heat);
        found.extend(
            [Some(hottest), mended, plain().min_by(by_heat).filter(|even| *even != hottest)].into_iter().flatten(),
        );
    }
    found
}
