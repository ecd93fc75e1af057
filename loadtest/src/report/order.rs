//! In which order and words layouts and operations are shown: `layouts.md` and `operations.md` are the lists. What they
//! do not know comes last, by name.

use serde_json::{Value, json};

use super::model::{Figures, Measured, Report, Work};

const LAYOUTS: &str = include_str!("layouts.md");
const OPERATIONS: &str = include_str!("operations.md");

/// What all layouts are compared with: the simplest that finds a file by its path.
pub const REFERENCE: &str = "fullpath";

/// The layouts that differ by one factor.
pub const STEPS: [[&str; 2]; 6] = [
    ["uuid-cells", "uuid"],
    ["uuid-copied", "uuid"],
    ["uuid-indexed", "uuid-copied"],
    ["fullpath-indexed", "fullpath"],
    ["uuid-indexed", "fullpath-indexed"],
    ["drive", "uuid-indexed"],
];

/// The cells of each row of a Markdown table.
pub fn rows(list: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    list.lines().skip(2).map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

fn ordered<'a>(list: &'static str, names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    let place = |name: &str| rows(list).position(|row| row.first() == Some(&name)).unwrap_or(usize::MAX);
    names.sort_by_cached_key(|name| (place(name), *name));
    names.dedup();
    names
}

/// What the list says of a name in this column.
fn said(list: &'static str, name: &str, column: usize) -> Option<&'static str> {
    rows(list).find(|row| row.first() == Some(&name))?.get(column).copied()
}

/// All layouts of which a report says anything.
pub fn layouts(report: &Report) -> Vec<&str> {
    let all = report.layouts.keys().chain(report.costs.keys()).chain(report.regions.keys());
    ordered(LAYOUTS, all.chain(report.hot_spots.iter().map(|spot| &spot.layout)))
}

/// The operations of all layouts.
pub fn operations(report: &Report) -> Vec<&str> {
    ordered(OPERATIONS, report.layouts.values().flat_map(|all| all.keys()))
}

/// What the list of layouts says of this one.
pub fn step(layout: &str) -> Value {
    let [key, can, cannot] = [1, 2, 3].map(|column| said(LAYOUTS, layout, column).unwrap_or("-"));
    json!([{"layout": layout, "key": key, "can": can, "cannot": cannot}])
}

/// What the list of operations says of this one.
pub fn meaning(operation: &str) -> Value {
    json!([{"shown": label(operation), "meaning": said(OPERATIONS, operation, 2).unwrap_or("-")}])
}

/// An operation as people call it.
pub fn label(operation: &str) -> String {
    said(OPERATIONS, operation, 1).map_or_else(|| operation.replace('_', " "), str::to_owned)
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
    let one = figures.one_client.as_deref().unwrap_or(figures);
    Some(Work { cpu_us: figures.work?.cpu_us, ..one.work? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_come_in_their_order_and_the_others_last() {
        let names = ["zebra", "tree", "uuid", "ape", "fullpath"].map(str::to_owned);
        assert_eq!(ordered(LAYOUTS, names.iter()), ["fullpath", "uuid", "tree", "ape", "zebra"]);
        assert_eq!([label("ycsb_a"), label("new_one")], ["YCSB A", "new one"]);
        for (list, columns) in [(LAYOUTS, 4), (OPERATIONS, 3)] {
            assert!(rows(list).all(|row| row.len() == columns && row.iter().all(|cell| !cell.is_empty())));
        }
        let known = |name| rows(LAYOUTS).any(|row| row[0] == name);
        assert!(STEPS.as_flattened().iter().all(|name| known(*name)) && known(REFERENCE));
    }
}
