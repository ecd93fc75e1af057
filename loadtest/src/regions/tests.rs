//! What the whole simulation finds of small trees.

use std::sync::OnceLock;

use super::gauge::floor;
use super::*;

/// What there is to find of 20,000 files: found once.
fn found() -> &'static (Imports, Vec<HotSpot>) {
    static FOUND: OnceLock<(Imports, Vec<HotSpot>)> = OnceLock::new();
    FOUND.get_or_init(|| all(&Tree::new(20_000, 1), 1, &|_| {}).unwrap())
}

fn of<'a>(found: &'a [HotSpot], load: &str, layout: &str, table: &str, remedy: &str, splits: &str) -> &'a HotSpot {
    let same = |h: &&HotSpot| h.load == load && h.layout == layout && h.table == table && h.remedy == remedy;
    let mut all = found.iter().filter(same).filter(|h| h.splits == splits);
    let one = all.next().unwrap_or_else(|| panic!("no {load}, {layout}, {table}, {remedy}, {splits}"));
    assert!(all.next().is_none());
    one
}

fn ratio(found: &[HotSpot], load: &str, layout: &str, table: &str, remedy: &str) -> f64 {
    of(found, load, layout, table, remedy, "at quantiles").spread.hottest_over_mean
}

#[test]
fn keys_in_order_fill_one_region_after_another_and_random_ones_are_as_even_as_chance() {
    let (imports, _) = found();
    for (layout, table) in [("rowkey-id", "rows"), ("fullpath", "rows"), ("dirid-name", "file"), ("uuid", "dir")] {
        let spread = &imports[layout][table];
        assert!(spread.hottest_over_mean > 15.5, "{layout} {table}: {spread:?}");
        // All regions get their share in the end, one at a time: each serves an eighth of what comes, and its burst.
        // A folder with a tenth of all files is one row, which no split divides.
        let most = if table == "dir" { 0.11 } else { 0.07 };
        assert!(spread.hottest_share < most && spread.idle_regions == 0, "{layout} {table}: {spread:?}");
        assert!((0.12..0.20).contains(&spread.achieved), "{layout} {table}: {spread:?}");
    }
    assert_eq!(imports["rowkey-id"]["rows"].hottest_over_mean, 16.0);
    let spread = &imports["uuid"]["file"];
    let by_chance = spread.floor;
    assert!((spread.hottest_over_mean - by_chance).abs() < 0.05, "{} {by_chance}", spread.hottest_over_mean);
    assert!(spread.achieved > 0.999);
    assert_eq!(by_chance, floor(400).unwrap());
}

#[test]
fn remedies_spread_what_was_hot_or_do_not() {
    let (_, found) = found();
    let floor = floor(400).unwrap();
    let tree = "one tree imported";
    for layout in ["rowkey-id", "fullpath"] {
        assert!(ratio(found, tree, layout, "rows", "none") > 15.9);
        assert!(ratio(found, tree, layout, "rows", "salt 1") > 15.9);
        let four = ratio(found, tree, layout, "rows", "salt 4");
        assert!((4.0..5.5).contains(&four), "{layout}: {four}");
        for remedy in ["salt 16", "hash"] {
            let spread = ratio(found, tree, layout, "rows", remedy);
            assert!(spread < floor + 0.1, "{layout} {remedy}: {spread}");
        }
        // Salts lie where even splits do.
        let even = &of(found, tree, layout, "rows", "salt 16", "even").spread;
        assert!(even.hottest_over_mean < floor + 0.1 && even.idle_regions == 0, "{layout}: {even:?}");
    }
    // Paths begin alike, which an even division cannot know.
    let even = &of(found, tree, "fullpath", "rows", "none", "even").spread;
    assert_eq!((even.hottest_over_mean, even.idle_regions), (16.0, 15));

    // Two clocks: the times of modification and of addition each have a hot region, whichever end it is at.
    let now = "one tree imported, files modified now";
    for remedy in ["none", "times ascending"] {
        let spread = ratio(found, now, "uuid", "time", remedy);
        assert!(spread > 7.9, "{remedy}: {spread}");
    }
    assert!(ratio(found, now, "uuid", "time", "salt 16") < floor + 0.1);
}

#[test]
fn a_run_repeats_with_its_seed_and_differs_with_another() {
    let tree = Tree::new(1_000, 1);
    let (once, twice) = (all(&tree, 1, &|_| {}).unwrap(), all(&tree, 1, &|_| {}).unwrap());
    assert!(once.0 == twice.0 && once.1 == twice.1);
    let other = all(&tree, 2, &|_| {}).unwrap();
    assert!(other.0["uuid"]["file"] != once.0["uuid"]["file"]);
    assert!(other.0["rowkey-id"] == once.0["rowkey-id"]);
}

#[test]
fn a_tree_without_files_is_no_error() {
    let tree = Tree { dirs: Vec::new(), files: Vec::new() };
    let (imports, found) = all(&tree, 1, &|_| {}).unwrap();
    assert_eq!((imports.len(), imports["uuid"]["file"].hottest_over_mean), (6, 0.0));
    assert!(found.iter().all(|h| h.spread.idle_regions == REGIONS && h.spread.achieved == 1.0));
}
