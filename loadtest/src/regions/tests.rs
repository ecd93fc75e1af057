//! What the whole simulation finds of small trees.

use std::process::Command;

use super::*;
use crate::data::File;

/// What decides of 20,000 files, 400 a second, with the range that each ratio has: 1.36 is chance, 16 is one region.
#[test]
fn the_rows_that_decide() {
    let (imports, hot_spots) = all(&Tree::new(20_000, 1), 1, &|_| {}).unwrap();
    let name = |spot: &HotSpot| {
        [&spot.load, &spot.layout, &spot.table, &spot.remedy, &spot.splits].map(String::as_str).join("|")
    };
    let by_name: BTreeMap<String, &HotSpot> = hot_spots.iter().map(|spot| (name(spot), spot)).collect();
    assert_eq!((by_name.len(), hot_spots.len()), (174, 174));
    for (name, range) in [
        // Keys in order have one hot region, and full paths too; random ids have none.
        ("one tree imported|rowkey-id|rows|none|at quantiles", 15.9..16.1),
        ("one tree imported|fullpath|rows|none|at quantiles", 15.9..16.1),
        ("one tree imported|uuid|dir|none|at quantiles", 15.0..16.1),
        ("one tree imported|uuid|file|none|at quantiles", 1.3..1.5),
        // Paths begin alike, hexadecimal digits are not all bytes, and a growing table has few regions at first.
        ("one tree imported|fullpath|rows|none|even", 15.9..16.1),
        ("one tree imported|fullpath|rows|hash in hexadecimal|even", 9.0..11.0),
        ("one tree imported|rowkey-id|rows|hash in hexadecimal|hexadecimal", 1.3..1.5),
        ("one tree imported|uuid|file|none|growing", 1.3..4.0),
        // Salting and hashing spread writes; four prefixes spread them over four regions. The row of a folder, which
        // each file in it has as a condition, is in one region if hashed, and looked for in all if salted.
        ("one tree imported|fullpath|rows|salt 16|even", 1.0..1.1),
        ("one tree imported|fullpath|rows|salt 4|at quantiles", 4.0..5.5),
        ("one tree imported|fullpath|rows|hash|even", 2.2..3.0),
        ("one tree imported|rowkey-id|rows|reverse decimal digits|at quantiles", 1.0..1.8),
        // A whole request: half of the rows of `uuid` are in the hot table, a seventh of those of `uuid-indexed`.
        ("one tree imported|uuid|all tables|none|at quantiles", 8.0..9.5),
        ("one tree imported|uuid-indexed|all tables|none|at quantiles", 2.5..3.5),
        // The time of addition goes on whichever end is first; a reversed one does not.
        ("one tree imported, files modified now|uuid-indexed|time|times ascending|at quantiles", 7.9..8.1),
        ("one tree imported, files modified now|uuid-indexed|time|reverse|at quantiles", 1.0..1.5),
        // A camera counts on. Half of the rows are those of folders, before or after all files.
        ("one tree imported, camera names|name|rows|none|at quantiles", 7.9..8.6),
        // Hashed folders are even if a second goes over many of them.
        ("one tree imported, 200 files/s|tree|rows|none|at quantiles", 3.0..8.0),
        ("one tree imported, 10000 files/s|tree|rows|none|at quantiles", 1.0..2.6),
    ] {
        let spread = &by_name[name].spread;
        assert!(range.contains(&spread.hottest_over_mean), "{name}: {spread:?}");
    }
    // Each read asks all prefixes.
    let row = by_name["reads, Zipf 0.99|fullpath|rows|salt 16|at quantiles"];
    assert_eq!((row.scan, row.rate, row.spread.heat[0].iter().sum::<u32>()), (Some(16), 1_000.0, 16_000));
    // Each region gets its share of keys in order in the end, and serves an eighth of what comes, and its burst.
    let ordered = &imports["rowkey-id"]["rows"];
    assert_eq!((ordered.hottest_over_mean, ordered.idle_regions), (16.0, 0));
    assert!(ordered.hottest_share < 0.07 && (0.12..0.20).contains(&ordered.achieved), "{ordered:?}");
    assert!(imports["uuid-indexed"]["file"].achieved > 0.999);
}

/// With `<1>` for the id of 1.
#[test]
fn each_table_has_its_own_rows_touched() {
    let file = File { dir: 1, name: "C".into(), modified: 5 };
    let tree = Tree { dirs: ["/a", "/a/b"].map(str::to_owned).into(), files: vec![file] };
    // A directory in `/a` is made, then a file in that, which is read.
    let requests = Load::Reads(1.0).arrivals(&tree, 1).unwrap().requests;
    let ids = [0, 1, 2, 3].map(|number| (keys::id(number, 1).key().escape_ascii().to_string(), format!("<{number}>")));
    let text = |(access, key): (Access, Vec<u8>)| {
        let text = key.escape_ascii().to_string().replace(&r"\x00".repeat(7), "0").replace(&r"\xff".repeat(6), "F");
        format!("{access:?} {}", ids.iter().fold(text, |text, (id, name)| text.replace(id, name)))
    };
    for (layout, number, expected) in [
        ("rowkey-id", 0, r"Write 0\x02; Write 0\x03; Read 0\x03"),
        ("name", 0, "Read a, Write b; Read b, Write C; Read C"),
        ("fullpath", 0, "Read /a, Write /a/b; Read /a/b, Write /a/b/C; Read /a/b/C"),
        ("dirid-name", 0, "Write /a, Write /a/b; Read /a/b; Read /a/b"),
        ("dirid-name", 1, r"Read 0\x01b; Write 0\x02C; Read 0\x02C"),
        ("uuid-indexed", 0, "Write /a, Write /a/b; Write /a/b; Read /a/b"),
        ("uuid-indexed", 1, "; Write <3>; Read <3>"),
        ("uuid-indexed", 2, r"; Write \x00\x7fF\xfa<3>, Write \x01\x7f\xff\xfe\\\xe7\xa3\xaf\xff<3>; "),
        ("uuid-indexed", 4, r"; Write c\x00f<3>; "),
        ("tree", 0, "Read <0>a, Write <1>b; Read <1>b, Write <2>C; Read <1>b, Read <0>a, Read <2>C"),
    ] {
        let (_, tables) = LAYOUTS.iter().find(|(name, _)| *name == layout).unwrap();
        let rows = requests[1..4].iter().map(|(_, access, node)| tables[number].rows(*access, node));
        let texts: Vec<_> = rows.map(|rows| rows.into_iter().map(text).collect::<Vec<_>>().join(", ")).collect();
        assert_eq!(texts.join("; "), expected, "{layout}");
    }
}

#[test]
fn a_run_repeats_with_its_seed_and_differs_with_another() {
    let tree = Tree::new(1_000, 1);
    let [once, twice, other] = [1, 1, 2].map(|seed| all(&tree, seed, &|_| {}).unwrap());
    assert!(once == twice);
    assert!(other.0["uuid"]["file"] != once.0["uuid"]["file"] && other.0["rowkey-id"] == once.0["rowkey-id"]);
    let (imports, hot_spots) = all(&Tree { files: Vec::new(), ..tree }, 1, &|_| {}).unwrap();
    assert!(LAYOUTS.iter().all(|(layout, tables)| imports[*layout].len() == tables.len()));
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
    tree.files.iter_mut().zip(0..).for_each(|(file, n)| (file.dir, file.name) = (0, format!("{n}")));
    let cases = [("rows", NONE, QUANTILES), ("rows", remedies::HASH_KEY, splits::EVEN)];
    let spreads = spreads(LAYOUTS[0].1, &cases, &Load::Import.arrivals(&tree, 1).unwrap(), 1).unwrap();
    let ours: Vec<f64> = spreads.iter().flat_map(|spread| [spread.hottest_over_mean, spread.worst]).collect();
    assert!(ours.iter().zip(&figures).all(|(ours, theirs)| (ours - theirs).abs() < 1e-9), "{ours:?} {figures:?}");
    assert!((spreads[0].floor - figures[4]).abs() < 0.03, "{figures:?}");
}
