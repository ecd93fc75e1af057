//! In which order and words layouts and operations are shown: `layouts.md` and `operations.md` are the lists. What they
//! do not know comes last, by name.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Figures, Measured, Report, Work};

pub const LAYOUTS: &str = include_str!("layouts.md");
pub const OPERATIONS: &str = include_str!("operations.md");

/// What all layouts are compared with: the simplest that finds a file by its path.
pub const REFERENCE: &str = "fullpath";

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim_matches('|').split('|').map(str::trim)
}

/// What a list, a Markdown table, says of a name: the cells of its row, by column.
pub fn words(list: &'static str, name: &str) -> BTreeMap<&'static str, &'static str> {
    let row = list.lines().skip(2).find(|line| cells(line).next() == Some(name));
    row.into_iter().flat_map(|row| cells(list.lines().next().unwrap_or_default()).zip(cells(row))).collect()
}

fn ordered<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let place = |name: &str| list.lines().position(|line| cells(line).next() == Some(name)).unwrap_or(usize::MAX);
    let names: BTreeSet<(usize, &str)> = names.map(|name| (place(name), name.as_str())).collect();
    names.into_iter().map(|(_, name)| name).collect()
}

/// All layouts of which a report says anything.
pub fn layouts(report: &Report) -> Vec<&str> {
    let all = report.layouts.keys().chain(report.costs.keys()).chain(report.regions.keys());
    ordered(LAYOUTS, all.chain(report.hot_spots.iter().map(|spot| &spot.layout)))
}

pub fn operations(report: &Report) -> Vec<&str> {
    ordered(OPERATIONS, report.layouts.values().flat_map(|all| all.keys()))
}

/// An operation as people call it.
pub fn label(operation: &str) -> String {
    words(OPERATIONS, operation).get("shown").map_or_else(|| operation.replace('_', " "), |shown| (*shown).to_owned())
}

/// What each layout says of each operation, in order.
pub fn measured(report: &Report) -> impl Iterator<Item = (&str, &str, &Measured)> {
    let layouts = layouts(report);
    operations(report).into_iter().flat_map(move |operation| {
        let of = move |layout| Some((operation, layout, report.layouts.get(layout)?.get(operation)?));
        layouts.clone().into_iter().filter_map(of)
    })
}

pub fn figures<'a>(report: &'a Report, layout: &str, operation: &str) -> Option<&'a Figures> {
    match report.layouts.get(layout)?.get(operation)? {
        Measured::Figures(figures) => Some(figures),
        Measured::Unsupported { .. } => None,
    }
}

/// The work of an operation: of the store with one client, which shares no sync with others, and of the CPU with many,
/// since one client mostly wakes threads.
pub fn work(report: &Report, layout: &str, operation: &str) -> Option<Work> {
    let figures = figures(report, layout, operation)?;
    let one = figures.one_client.as_ref().and_then(|one| one.work).or(figures.work);
    Some(Work { cpu_us: figures.work?.cpu_us, ..one? })
}
