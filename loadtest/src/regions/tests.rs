//! What the whole simulation finds of small trees.

use std::process::Command;
use std::sync::OnceLock;

use super::region_load::floor;
use super::*;
use crate::data::CAMERA;
use crate::report::model::REGIONS;

/// What there is to find of 20,000 files, 400 a second: found once.
fn found() -> &'static (Imports, Vec<HotSpot>) {
    static FOUND: OnceLock<(Imports, Vec<HotSpot>)> = OnceLock::new();
    FOUND.get_or_init(|| all(&Tree::new(20_000, 1), 1, &|_| {}).unwrap())
}

fn name(spot: &HotSpot) -> String {
    [&spot.load, &spot.layout, &spot.table, &spot.remedy, &spot.splits].map(String::as_str).join("|")
}

/// The only hot spot of this name.
fn hot_spot(named: &str) -> &'static HotSpot {
    let all: Vec<&HotSpot> = found().1.iter().filter(|spot| name(spot) == named).collect();
    assert_eq!(all.len(), 1, "{named}");
    all[0]
}

/// What decides, with the range that each ratio has of 20,000 files: 1.36 is chance, 16 is one region.
#[test]
fn the_rows_that_decide() {
    let chance = 1.3..1.5;
    let rows = [
        // Keys in order have one hot region, and full paths too; random ids have none.
        ("one tree imported|rowkey-id|rows|none|at quantiles", 15.9..16.1),
        ("one tree imported|fullpath|rows|none|at quantiles", 15.9..16.1),
        ("one tree imported|dirid-name|file|none|at quantiles", 15.9..16.1),
        ("one tree imported|uuid|dir|none|at quantiles", 15.0..16.1),
        ("one tree imported|uuid|file|none|at quantiles", chance.clone()),
        // Paths begin alike, hexadecimal digits are not all bytes, and a growing table has few regions at first.
        ("one tree imported|fullpath|rows|none|even", 15.9..16.1),
        ("one tree imported|fullpath|rows|hash in hexadecimal|even", 9.0..11.0),
        ("one tree imported|rowkey-id|rows|hash in hexadecimal|hexadecimal", chance.clone()),
        ("one tree imported|uuid|file|none|growing", 1.3..4.0),
        // Salting and hashing spread writes; four prefixes spread them over four regions. The row of a folder, which
        // each file in it has as a condition, is in one region if hashed, and looked for in all if salted.
        ("one tree imported|rowkey-id|rows|salt 16|even", chance.clone()),
        ("one tree imported|fullpath|rows|salt 16|even", 1.0..1.1),
        ("one tree imported|fullpath|rows|salt 4|at quantiles", 4.0..5.5),
        ("one tree imported|rowkey-id|rows|hash|even", chance.clone()),
        ("one tree imported|fullpath|rows|hash|even", 2.2..3.0),
        ("one tree imported|rowkey-id|rows|reverse decimal digits|at quantiles", 1.0..1.8),
        // A whole request: half of the rows of `uuid` are in the hot table, a seventh of those of `uuid-indexed`.
        ("one tree imported|uuid|all tables|none|at quantiles", 8.0..9.5),
        ("one tree imported|uuid-indexed|all tables|none|at quantiles", 2.5..3.5),
        // The time of addition goes on whichever end is first; a reversed one does not.
        ("one tree imported, files modified now|uuid-indexed|time|none|at quantiles", 7.9..8.1),
        ("one tree imported, files modified now|uuid-indexed|time|times ascending|at quantiles", 7.9..8.1),
        ("one tree imported, files modified now|uuid-indexed|time|reverse|at quantiles", 1.0..1.5),
        // A camera counts on: even names are the doing of a generator that deals numbers over folders.
        // Half of the rows are those of folders, before or after all files.
        ("one tree imported, camera names|name|rows|none|at quantiles", 7.9..8.6),
        // Hashed folders are even if a second goes over many of them.
        ("one tree imported, 200 files/s|tree|rows|none|at quantiles", 3.0..8.0),
        ("one tree imported, 10000 files/s|tree|rows|none|at quantiles", 1.0..2.6),
    ];
    for (name, range) in rows {
        let spread = &hot_spot(name).spread;
        assert!(range.contains(&spread.hottest_over_mean), "{name}: {spread:?}");
        assert!(spread.worst >= spread.hottest_over_mean && spread.idle_regions < REGIONS, "{name}: {spread:?}");
    }
    let row = hot_spot("reads, Zipf 0.99|fullpath|rows|salt 16|at quantiles");
    assert_eq!((row.get, row.list, row.scan, row.rate), (Some(16), Some(16), Some(16), 1_000.0));
    // Each read asks all prefixes.
    assert_eq!(row.spread.heat[0].iter().sum::<u32>(), 16_000);
}

#[test]
fn an_import_in_order_fills_one_region_after_another() {
    let (imports, hot_spots) = found();
    assert!((100..=182).contains(&hot_spots.len()), "{}", hot_spots.len());
    hot_spots.iter().for_each(|spot| assert_eq!(hot_spot(&name(spot)), spot));
    let spread = &imports["rowkey-id"]["rows"];
    assert_eq!((spread.hottest_over_mean, spread.idle_regions), (16.0, 0));
    // Each region gets its share in the end, and serves an eighth of what comes, and its burst.
    assert!(spread.hottest_share < 0.07 && (0.12..0.20).contains(&spread.achieved), "{spread:?}");
    let spread = &imports["uuid-indexed"]["file"];
    assert!(spread.achieved > 0.999 && spread.floor == floor(400).unwrap(), "{spread:?}");
}

#[test]
fn the_largest_folder_of_a_large_run_keeps_its_tenth() {
    let (tree, mut camera) = (tree(100_000, 1), 0);
    let is_in_camera = |request: &keys::SimulatedRequest<'_>| request.dirs.last().unwrap().path == CAMERA;
    IMPORT.replay(&tree, 1, &mut |_, request| camera += usize::from(is_in_camera(request))).unwrap();
    assert_eq!((tree.files.len(), camera), (50_000, 5_000));
}

#[test]
fn a_run_repeats_with_its_seed_and_differs_with_another() {
    let tree = Tree::new(1_000, 1);
    let [once, twice, other] = [1, 1, 2].map(|seed| all(&tree, seed, &|_| {}).unwrap());
    assert!(once == twice);
    assert!(other.0["uuid"]["file"] != once.0["uuid"]["file"] && other.0["rowkey-id"] == once.0["rowkey-id"]);
    let mut empty = tree;
    empty.files.clear();
    let (imports, hot_spots) = all(&empty, 1, &|_| {}).unwrap();
    assert!(LAYOUTS.iter().all(|layout| imports[layout.name].len() == layout.tables.len()));
    assert_eq!(imports["uuid"]["file"].hottest_over_mean, 0.0);
    assert!(hot_spots.iter().all(|spot| spot.spread.idle_regions == REGIONS && spot.spread.achieved == 1.0));
}

#[test]
fn an_independent_calculation_agrees() {
    let python = Command::new("python3").args(["-c", include_str!("independent.py"), "20000"]).output();
    let python = python.expect("this test needs python3: run `.ci/needs test`");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let text = String::from_utf8(python.stdout).unwrap();
    let figures: Vec<f64> = text.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    let mut tree = Tree::new(20_000, 1);
    tree.dirs.truncate(1);
    tree.files.iter_mut().for_each(|file| file.dir = 0);
    let [ordered, even] = [(Remedy::None, Splitting::Quantiles), (Remedy::HashKey, Splitting::Even)];
    let cases = [ordered, even].map(|(remedy, splitting)| Case { table: "rows", remedy, splitting });
    let simulation = Simulation { tree: &tree, layout: &LAYOUTS[0], load: IMPORT, seed: 1 };
    let spreads = simulation.spreads(&cases).unwrap();
    let ours: Vec<f64> = spreads.iter().flat_map(|spread| [spread.hottest_over_mean, spread.worst]).collect();
    assert!(ours.iter().zip(&figures).all(|(ours, theirs)| (ours - theirs).abs() < 1e-9), "{ours:?} {figures:?}");
    assert!((spreads[0].floor - figures[4]).abs() < 0.03, "{figures:?}");
}
