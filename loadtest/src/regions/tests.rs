//! What the whole simulation finds of small trees.

use std::process::Command;

use super::spread::floor;
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
        let spread = &by_name[name].spread;
        assert!(range.contains(&spread.hottest_over_mean), "{name}: {spread:?}");
        assert!(spread.worst >= spread.hottest_over_mean && spread.idle_regions < REGIONS, "{name}: {spread:?}");
    }
    // Each read asks all prefixes.
    let row = by_name["reads, Zipf 0.99|fullpath|rows|salt 16|at quantiles"];
    assert_eq!((row.scan, row.rate, row.spread.heat[0].iter().sum::<u32>()), (Some(16), 1_000.0, 16_000));
    // Each region gets its share of keys in order in the end, and serves an eighth of what comes, and its burst.
    let ordered = &imports["rowkey-id"]["rows"];
    assert_eq!((ordered.hottest_over_mean, ordered.idle_regions), (16.0, 0));
    assert!(ordered.hottest_share < 0.07 && (0.12..0.20).contains(&ordered.achieved), "{ordered:?}");
    let random = &imports["uuid-indexed"]["file"];
    assert!(random.achieved > 0.999 && random.floor == floor(400).unwrap(), "{random:?}");
}

/// With `<1>` for the id of 1, `0` and `T` for the first bytes of numbers and of times.
#[test]
fn each_layout_touches_its_own_rows() {
    let file = File { dir: 1, name: "C".into(), modified: 5 };
    let tree = Tree { dirs: ["/a", "/a/b"].map(str::to_owned).into(), files: vec![file] };
    let requests = Load::Reads(1.0).arrivals(&tree, 1).unwrap().requests;
    let added = r"\x7f\xff\xfe\\\xe7\xa3\xaf\xff";
    let text = |layout: &KeyLayout, (access, table, key): keys::Row| {
        let mut text = key.escape_ascii().to_string().replace(&r"\x00".repeat(7), "0");
        for number in 0..=3 {
            text = text.replace(&keys::id(number, 1).key().escape_ascii().to_string(), &format!("<{number}>"));
        }
        let text = text.replace(&format!(r"\x7f{}", r"\xff".repeat(6)), "T").replace(added, "ADDED");
        format!("{access:?} {} {text}", layout.tables[table].0)
    };
    let index = [
        r"Write time \x00T\xfa<3>, Write time \x01ADDED<3>, Write owner 000000resu\x00\x00T\xfa<3>",
        r"Write owner 000000resu\x00\x01ADDED<3>, Write name c\x00f<3>",
    ]
    .join(", ");
    // A directory in `/a` is made, then a file in that, which is read.
    let expected = [
        r"rowkey-id: Write rows 0\x02; Write rows 0\x03; Read rows 0\x03",
        r"name: Read rows a, Write rows b; Read rows b, Write rows C; Read rows C",
        r"fullpath: Read rows /a, Write rows /a/b; Read rows /a/b, Write rows /a/b/C; Read rows /a/b/C",
        r"fullpath-indexed: Read rows /a, Write rows /a/b; Read rows /a/b, Write rows /a/b/C, INDEX; Read rows /a/b/C",
        r"dirid-name: MKDIR, Read file 0\x01b; Read dir /a/b, Write FILE; Read dir /a/b, Read FILE",
        r"uuid: MKDIR; Write dir /a/b, Write file <3>; Read dir /a/b, Read file <3>",
        r"uuid-indexed: MKDIR; Write dir /a/b, Write file <3>, INDEX; Read dir /a/b, Read file <3>",
        r"tree: Read rows <0>a, Write rows <1>b; Read rows <1>b, Write rows <2>C; WALK, Read rows <2>C",
    ];
    let words = [
        ("INDEX", index.as_str()),
        ("MKDIR", "Write dir /a, Write dir /a/b"),
        ("FILE", r"file 0\x02C"),
        ("WALK", "Read rows <1>b, Read rows <0>a"),
    ];
    for (layout, expected) in LAYOUTS.iter().zip(expected) {
        let rows = requests[1..4].iter().map(|request| layout.rows(request.access, &request.node));
        let texts = rows.map(|rows| rows.into_iter().map(|row| text(layout, row)).collect::<Vec<_>>().join(", "));
        let expected = words.iter().fold(expected.to_owned(), |text, (word, rows)| text.replace(word, rows));
        assert_eq!(format!("{}: {}", layout.name, texts.collect::<Vec<_>>().join("; ")), expected);
    }
}

#[test]
fn a_run_repeats_with_its_seed_and_differs_with_another() {
    assert_eq!(super::tree(100_000, 1).files.len(), 50_000);
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
    tree.files.iter_mut().zip(0..).for_each(|(file, n)| (file.dir, file.name) = (0, format!("{n}")));
    let [ordered, even] = [(Remedy::None, Splitting::Quantiles), (Remedy::HashKey, Splitting::Even)];
    let cases = [ordered, even].map(|(remedy, splitting)| Case { table: "rows", remedy, splitting });
    let spreads = spreads(&LAYOUTS[0], &cases, &Load::Import.arrivals(&tree, 1).unwrap(), 1).unwrap();
    let ours: Vec<f64> = spreads.iter().flat_map(|spread| [spread.hottest_over_mean, spread.worst]).collect();
    assert!(ours.iter().zip(&figures).all(|(ours, theirs)| (ours - theirs).abs() < 1e-9), "{ours:?} {figures:?}");
    assert!((spreads[0].floor - figures[4]).abs() < 0.03, "{figures:?}");
}
