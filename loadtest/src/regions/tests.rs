//! Loads, splits, remedies and spreads by hand, and what the whole simulation finds of small trees.

use std::collections::BTreeSet;
use std::process::Command;

use super::remedies::{
    ASCENDING, HASH_16, HASH_FOLDER, HASH_KEY, REVERSE_DIGITS, REVERSE_NAME, REVERSE_NUMBER, REVERSE_TIME, Remedy,
    SALT_16,
};
use super::requests::{GET, LIST, Request, SCAN, id};
use super::splits::EVEN;
use super::spread::{achieved, floor, spread};
use super::*;
use crate::data::File;

fn requests(load: Load, tree: &Tree) -> Vec<Request> {
    load.arrivals(tree, 1).unwrap().requests
}

#[test]
fn a_tree_comes_in_order_with_directories_before_what_is_in_them() {
    let tree = Tree::new(500, 7);
    let mut files = tree.files.iter().map(|file| tree.path(file)).enumerate();
    for ((second, _, node), number) in requests(Load::Rate(200), &tree).iter().zip(1..) {
        let parent = node.parent.as_ref().unwrap();
        assert_eq!(parent.path, node.path.rsplit_once('/').unwrap().0);
        assert!(node.number == number && parent.number < number, "{}", node.path);
        let file = (!node.is_directory).then(|| files.next().unwrap());
        assert!(file.is_none_or(|(n, path)| (*second, &node.path) == (Some(n / 200), &path)), "{}", node.path);
    }
    assert_eq!(files.next(), None);
}

#[test]
fn each_user_has_a_home_each_file_comes_once_and_cameras_count() {
    let tree = Tree::new(500, 7);
    let files = |load| requests(load, &tree).into_iter().map(|(.., node)| node).filter(|node| !node.is_directory);
    for (load, users, early) in [(Load::Users(10), 10, 10), (Load::NewUsers(8), 63, 7)] {
        // `/home` of the tree becomes the home.
        let found = files(load).map(|file| file.path.replace(&format!("/home/{}/", file.creator), "/home/"));
        assert_eq!(found.collect::<BTreeSet<_>>(), tree.files.iter().map(|file| tree.path(file)).collect());
        let some = |n| files(load).take(n).map(|file| file.creator.clone()).collect::<BTreeSet<_>>().len();
        assert_eq!((some(500), some(50)), (users, early));
    }
    let second = (1..500).find(|n| tree.files[*n].dir != tree.files[0].dir).unwrap();
    let named = format!("{}/IMG_{:08}.JPG", tree.dir(&tree.files[second]), second + 1);
    assert_eq!(files(Load::Camera).nth(second).unwrap().path, named);
}

/// With `<1>` for the id of 1.
#[test]
fn each_table_has_its_own_rows_touched() {
    let file = File { dir: 1, name: "C".into(), modified: 5 };
    let tree = Tree { dirs: ["/a", "/a/b"].map(str::to_owned).into(), files: vec![file] };
    // Directories are made in the root and in `/a`, then a file in that, which is read.
    let requests = requests(Load::Reads(1.0), &tree);
    let text = |(access, key): (Access, Vec<u8>)| {
        let text = key.escape_ascii().to_string().replace(&r"\x00".repeat(7), "0").replace(&r"\xff".repeat(6), "F");
        let id = |number| id(number, 1).key().escape_ascii().to_string();
        format!("{access:?} {}", (0..4).fold(text, |text, n| text.replace(&id(n), &format!("<{n}>"))))
    };
    for (layout, number, expected) in [
        ("rowkey-id", 0, r"Write 0\x01; Write 0\x02; Write 0\x03; Read 0\x03"),
        ("fullpath", 0, "Write /a; Read /a, Write /a/b; Read /a/b, Write /a/b/C; Read /a/b/C"),
        ("dirid-name", 0, "Write /, Write /a; Write /a, Write /a/b; Read /a/b; Read /a/b"),
        ("dirid-name", 1, r"Read 0\x00a; Read 0\x01b; Write 0\x02C; Read 0\x02C"),
        ("uuid", 1, "; ; Write <3>; Read <3>"),
        ("uuid-indexed", 2, r"; ; Write \x00\x7fF\xfa<3>, Write \x01\x7f\xff\xfe\\\xe7\xa3\xaf\xff<3>; "),
        ("uuid-indexed", 4, r"; ; Write c\x00f<3>; "),
        ("tree", 0, "Write <0>a; Read <0>a, Write <1>b; Read <1>b, Write <2>C; Read <1>b, Read <0>a, Read <2>C"),
    ] {
        let (_, tables) = LAYOUTS.iter().find(|(name, _)| *name == layout).unwrap();
        let rows = requests.iter().take(4).map(|(_, access, node)| tables[number].rows(*access, node));
        let texts: Vec<_> = rows.map(|rows| rows.into_iter().map(text).collect::<Vec<_>>().join(", ")).collect();
        assert_eq!(texts.join("; "), expected, "{layout}");
    }
}

fn servers<const N: usize>(regions: &mut Regions, keys: [&[u8]; N]) -> [usize; N] {
    keys.map(|key| regions.server(Access::Write, key))
}

#[test]
fn a_split_key_is_the_first_of_its_region() {
    let keys = [&b""[..], b"\x0f\xff", b"\x10", b"\x1f", b"\x20", b"\xef\xff", b"\xf0"];
    assert_eq!(servers(&mut Regions::new(EVEN, Vec::new()), keys), [0, 0, 1, 1, 2, 14, 15]);
    // Ten keys each.
    let mut regions = Regions::new(QUANTILES, (0..160).rev().map(|key| vec![key]).collect());
    assert_eq!(servers(&mut regions, [&[0], &[9], &[10], &[149], &[150], &[255]]), [0, 0, 1, 14, 15, 15]);
    // A row larger than a region leaves others idle.
    let mut regions = Regions::new(QUANTILES, (0..16).map(|key: u8| vec![key.max(8)]).collect());
    assert_eq!(servers(&mut regions, [&[7], &[8], &[9], &[15]]), [0, 8, 9, 15]);
}

#[test]
fn a_growing_table_splits_full_regions_at_their_middle() {
    // 64 cells: a region is full with four.
    let [mut table, mut other] = [(); 2].map(|()| Regions::new(GROWING, vec![Vec::new(); 64]));
    assert_eq!(servers(&mut table, [b"a", b"b", b"c", b"d"]), [0; 4]);
    // c and d are on server 1, a and b on server 2: server 0 has had requests.
    assert_eq!(servers(&mut table, [b"d", b"b", b"c"]), [1, 2, 1]);
    // c, c are on server 4 now, d, d on server 3; reads do not fill them.
    assert_eq!([b"c", b"d", b"d"].map(|key| table.server(Access::Read, key)), [4, 3, 3]);
    assert_eq!(servers(&mut table, [b"e", b"e", b"d"]), [3, 3, 6]);
    // A row is never divided.
    assert_eq!((servers(&mut other, [b"b"; 20]), servers(&mut other, [b"a"; 12])), ([0; 20], [0; 12]));
    assert_eq!(servers(&mut other, [b"a", b"b"]), [2, 1]);
}

#[test]
fn each_remedy_and_its_cost_by_hand() {
    // SHA-256 of "abc" (FIPS 180-2, appendix B.1), its first half.
    let abc = 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223_u128.to_be_bytes();
    let [nothing, scan] = ["nothing: a reader computes the key", "a scan reads the whole table"];
    let both = "a listing reads the whole table; a scan reads the whole table";
    let examples: [(Remedy, &[u8], &[u8], &str); 8] = [
        (HASH_16, b"abc", b"\xb0abc", "a listing is 16 reads; a scan is 16 reads"),
        (HASH_FOLDER, b"abc/d", b"\xb0abc/d", "a scan is 16 reads"),
        (HASH_KEY, b"abc", &abc, both),
        (REVERSE_NUMBER, b"\0\0\0\0\0\0\x01\x02ab", b"\x02\x01\0\0\0\0\0\0ab", scan),
        (REVERSE_TIME, b"\x01abcdefghid", b"\x01hgfedcbaid", scan),
        (REVERSE_NAME, b"a1\0fid", b"1a\0fid", scan),
        (REVERSE_DIGITS, b"\0\0\0\0\0\0\x01\x02", b"8520000000", scan),
        (ASCENDING, b"\x01ABCDEFGH0123456789abcdef", b"\x01\xbe\xbd\xbc\xbb\xba\xb9\xb8\xb70123456789abcdef", nothing),
    ];
    let salts = &mut StdRng::seed_from_u64(1);
    for (remedy, key, changed, cost) in examples {
        assert_eq!(remedy.apply(Access::Write, key, salts), [changed], "{}", remedy.0);
        assert_eq!(remedy.cost([[GET, LIST, SCAN]; 2].into_iter()), cost, "{}", remedy.0);
    }
    let asked = SALT_16.apply(Access::Read, b"a", salts);
    assert!(asked.iter().map(|key| &**key).eq((0..16).map(|salt| [salt << 4, b'a']).collect::<Vec<_>>().iter()));
    let written = (0..1_000).flat_map(|_| SALT_16.apply(Access::Write, b"a", salts));
    assert_eq!(written.collect::<BTreeSet<_>>(), asked.into_iter().collect());
    let absent = "a get is 16 reads; a write that must not replace a row looks under all prefixes first";
    assert_eq!(SALT_16.cost([[GET, None, None]].into_iter()), absent);
}

#[test]
fn the_spread_of_windows_by_hand() {
    let window = |first: u32, second: u32| -> [u32; REGIONS] {
        std::array::from_fn(|region| [first, second].get(region).copied().unwrap_or_default())
    };
    // Neither a second without requests is counted, nor the rest of one.
    let windows = [window(0, 16), window(8, 8), window(0, 0), [1; REGIONS], window(1, 0)];
    let found = spread(&windows, 4.1).unwrap();
    // 16, 8 and 1; 15/16, 14/16 and 0.
    assert_eq!((found.hottest_over_mean, found.worst), (8.0, 16.0));
    assert!((found.gini - (15.0 + 14.0) / 16.0 / 3.0).abs() < 1e-12, "{}", found.gini);
    assert_eq!((found.hottest_share, found.idle_regions, found.floor), (25.0 / 49.0, 0, floor(16).unwrap()));
    assert_eq!(found.heat, windows[..4]);
    // The rest is all there is, and one request is never even.
    let few = spread(&[window(1, 0)], 0.1).unwrap();
    assert_eq!((few.worst, few.floor, few.idle_regions), (16.0, 16.0, 15));
    // The heat map of a long load has every so many.
    let long: Vec<_> = (0..500).map(|second| window(second, 0)).collect();
    assert!(spread(&long, 500.0).unwrap().heat.iter().eq(long.iter().step_by(16)));
    // 32 a second over 16 regions: a refill of 4. The first region serves 8 of 9, and then 4 of 6; it saves 3 of 4,
    // serves 7 of 8, and after two idle seconds no more than 8. The second has a bucket of its own.
    let windows = [(9, 0), (6, 0), (1, 9), (8, 6), (0, 0), (0, 0), (9, 1)].map(|(first, other)| window(first, other));
    assert_eq!(achieved(&windows, 32.0), (8 + 4 + 1 + 7 + 8 + 8 + 4 + 1) as f64 / 49.0);
    // A table that is hardly used has one token.
    assert_eq!((achieved(&[window(2, 0)], 0.1), achieved(&[], 0.0)), (1.0, 1.0));
}

/// What decides of 20,000 files, 400 a second, with the range that each ratio has: 1.36 is chance, 16 is one region.
#[test]
fn the_rows_that_decide() {
    let (imports, hot_spots) = simulate(20_000, 1, |_| true).unwrap();
    let name = |spot: &HotSpot| format!("{}|{}|{}|{}|{}", spot.load, spot.layout, spot.table, spot.remedy, spot.splits);
    let by_name: BTreeMap<String, &HotSpot> = hot_spots.iter().map(|spot| (name(spot), spot)).collect();
    assert_eq!((by_name.len(), hot_spots.len()), (155, 155));
    for (name, range) in [
        // Keys in order have one hot region, and full paths too; random ids have none.
        ("one tree imported|uuid|dir|none|at quantiles", 15.0..16.1),
        ("one tree imported|uuid|file|none|at quantiles", 1.3..1.5),
        // Paths begin alike, and a growing table has few regions at first.
        ("one tree imported|fullpath|rows|none|even", 15.9..16.1),
        ("one tree imported|uuid|file|none|growing", 1.3..4.0),
        // The row of a folder, which each file in it has as a condition, is in one region if hashed, and looked for in
        // all if salted.
        ("one tree imported|fullpath|rows|salt 16|even", 1.0..1.1),
        ("one tree imported|fullpath|rows|hash|even", 2.2..3.0),
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
        ("one tree imported, 2000 files/s|tree|rows|none|at quantiles", 1.0..3.4),
        // The first of 20,000 files has 20 % of the reads; the others are even.
        ("reads, Zipf 1.2|fullpath|rows|none|at quantiles", 3.8..4.2),
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
}

#[test]
fn a_run_repeats_with_its_seed_and_differs_with_another() {
    let [once, twice, other] = [1, 1, 2].map(|seed| simulate(1_000, seed, |_| true).unwrap());
    assert!(once == twice && other.0["uuid"]["file"] != once.0["uuid"]["file"]);
    assert!(LAYOUTS.iter().all(|(layout, tables)| once.0[*layout].len() == tables.len()));
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
    let cases = [("rows", NONE, QUANTILES), ("rows", HASH_KEY, EVEN)];
    let spreads = spreads(LAYOUTS[0].1, &cases, &Load::Import.arrivals(&tree, 1).unwrap(), 1).unwrap();
    let ours: Vec<f64> = spreads.iter().flat_map(|spread| [spread.hottest_over_mean, spread.worst]).collect();
    assert!(ours.iter().zip(&figures).all(|(ours, theirs)| (ours - theirs).abs() < 1e-9), "{ours:?} {figures:?}");
    assert!((spreads[0].floor - figures[4]).abs() < 0.015, "{figures:?}");
}
