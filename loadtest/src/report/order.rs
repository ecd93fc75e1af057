//! The order in which operations are shown, the same in the terminal, the page and the plots.

use std::collections::BTreeSet;

use super::model::{Measured, Report, Work};

/// What every reader looks for, first; the others follow by name.
const FIRST: [&str; 4] = ["create", "stat", "list", "time_period"];

pub fn in_order(mut names: BTreeSet<&str>) -> Vec<&str> {
    let mut all: Vec<&str> = FIRST.into_iter().filter(|name| names.remove(name)).collect();
    all.extend(names);
    all
}

/// The operations of all layouts.
pub fn operations(report: &Report) -> Vec<&str> {
    in_order(report.layouts.values().flat_map(|operations| operations.keys().map(String::as_str)).collect())
}

/// What each layout says of an operation, if it says anything.
pub fn by_layout<'a>(report: &'a Report, operation: &'a str) -> impl Iterator<Item = (&'a str, &'a Measured)> {
    report.layouts.iter().filter_map(move |(layout, all)| Some((layout.as_str(), all.get(operation)?)))
}

/// The work of an operation, by operation and layout: of the store with one client, which shares no sync with others,
/// and of the CPU with many, since one client mostly wakes threads.
pub fn work(report: &Report) -> impl Iterator<Item = (&str, &str, Work)> {
    let each = |operation| by_layout(report, operation).map(move |(layout, measured)| (operation, layout, measured));
    operations(report).into_iter().flat_map(each).filter_map(|(operation, layout, measured)| {
        let Measured::Figures(figures) = measured else { return None };
        let one = figures.one_client.as_deref().unwrap_or(figures);
        Some((operation, layout, Work { cpu_us: figures.work?.cpu_us, ..one.work? }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_operations_come_first_and_the_others_by_name() {
        assert_eq!(
            in_order(BTreeSet::from(["stat", "rename", "create", "copy"])),
            ["create", "stat", "copy", "rename"]
        );
    }
}
