//! Rules of layout that no compiler checks: arrows point down as the maps show them and form no circles, methods are
//! next to their type, files are small, and no file collects unrelated things.

mod arrows;
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use arrows::House;
use source::{Source, files, read_all};

/// The page with the maps of the rooms and their arrows.
const MAPS: &str = include_str!("../../../docs/architecture.md");

/// The text before each map; the name of the folder follows.
const MARKER: &str = "<!-- A test compares this map with the imports of ";

/// Which modules each module of the load test may use.
const LOADTEST_MAY_USE: [(&str, &[&str]); 11] = [
    ("data", &[]),
    ("stats", &[]),
    ("progress", &[]),
    ("report", &["stats"]),
    ("layouts", &[]),
    ("machine", &["report"]),
    ("comparison", &["data", "layouts", "progress", "report", "stats"]),
    ("regions", &["data", "report", "stats"]),
    ("limits", &["progress", "report"]),
    ("options", &["comparison", "layouts"]),
    ("run", &["comparison", "data", "limits", "machine", "options", "progress", "regions", "report"]),
];

/// The largest number of lines in a file, without its unit tests.
const LINES: usize = 400;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    read_all(&root().join("src"), "rowdrive")
}

/// The lines `room -> room, room` of a map, from top to bottom.
type Map = Vec<(String, Vec<String>)>;

/// The maps of the page, each with its folder.
fn maps() -> Vec<(String, Map)> {
    let mut maps = Vec::new();
    for after in MAPS.split(MARKER).skip(1) {
        let (folder, rest) = after.split_once(". -->").unwrap();
        let map = rest.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
        let rooms = map.lines().map(|line| {
            let (room, uses) = line.split_once("->").unwrap_or((line, ""));
            let uses = uses.split(',').map(str::trim).filter(|name| !name.is_empty());
            (room.trim().to_owned(), uses.map(str::to_owned).collect())
        });
        maps.push((folder.trim().to_owned(), rooms.collect()));
    }
    maps
}

#[test]
fn the_maps_of_the_architecture_are_true_and_their_arrows_point_down() {
    let sources = sources();
    let house = House::new(&sources);
    let maps = maps();
    let drawn: Vec<&str> = maps.iter().map(|(folder, _)| folder.as_str()).collect();
    assert_eq!(drawn, ["src", "src/drive", "src/http"]);
    let mut wrong = Vec::new();
    for (folder, map) in &maps {
        let room: Vec<String> = folder.split('/').skip(1).map(str::to_owned).collect();
        let mut rooms = house.rooms_inside(&room);
        for (at, (name, uses)) in map.iter().enumerate() {
            let Some(used) = rooms.remove(name) else {
                wrong.push(format!("{folder}: there is no {name}"));
                continue;
            };
            let drawn = uses.iter().cloned().collect();
            wrong.extend(used.difference(&drawn).map(|to| format!("{folder}: the map lacks {name} -> {to}")));
            wrong.extend(drawn.difference(&used).map(|to| format!("{folder}: {name} does not use {to}")));
            let below = |to: &String| map[at + 1..].iter().any(|(other, _)| other == to);
            wrong.extend(uses.iter().filter(|to| !below(to)).map(|to| format!("{folder}: {name} -> {to} points up")));
        }
        wrong.extend(rooms.into_keys().map(|name| format!("{folder}: the map lacks {name}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let sources = sources();
    let circles = House::new(&sources).circles();
    assert!(circles.is_empty(), "{circles:#?}");
}

/// A method call shows no import: if methods are defined away from their type, an arrow is hidden. Outside of `drive`,
/// the files of one folder may share the methods of a type.
#[test]
fn methods_stand_beside_their_type() {
    let sources = sources();
    let folder = |source: &Source| source.path.parent().unwrap().to_owned();
    let mut apart = Vec::new();
    for source in &sources {
        for name in source.methods_of.iter().filter(|name| !source.types.contains(name)) {
            let beside = |other: &&Source| folder(source).starts_with(folder(other)) && other.types.contains(name);
            if source.path.starts_with("drive") || !sources.iter().any(|other| beside(&other)) {
                apart.push(format!("{}: impl {name}", source.path.display()));
            }
        }
    }
    assert!(apart.is_empty(), "{apart:#?}");
}

/// The rules cover code after a module of tests, names that are re-exported, and arguments of macros.
#[test]
fn no_part_of_a_file_is_hidden_from_the_rules() {
    let files = [
        ("a/mod.rs", "mod inner;\npub use inner::Thing;\n"),
        ("a/inner.rs", "pub struct Thing;\n"),
        ("b.rs", "#[cfg(test)]\nmod tests { use crate::d; }\nuse crate::a::Thing;\nimpl Thing { fn f() {} }\n"),
        ("c.rs", "fn f() { debug!(\"{}\", crate::b::f()); }\n"),
        ("d.rs", "#[cfg(test)]\nuse crate::a;\nfn f(_: super::c::X) { inner::g() }\n"),
    ];
    let sources: Vec<Source> =
        files.iter().map(|(path, text)| Source::parse(Path::new(path), text, "rowdrive")).collect();
    let arrows: Vec<String> = House::new(&sources)
        .arrows()
        .iter()
        .map(|(from, to)| format!("{} -> {}", from.path.display(), to.path.display()))
        .collect();
    let expected = ["a/mod.rs -> a/inner.rs", "b.rs -> a/inner.rs", "c.rs -> b.rs", "d.rs -> c.rs"];
    assert_eq!(arrows, expected);
    assert_eq!(sources[2].methods_of, ["Thing"]);
}

#[test]
fn the_load_test_uses_no_module_above() {
    let sources = read_all(&root().join("loadtest/src"), "");
    let rooms = House::new(&sources).rooms_inside(&[]);
    let rules: BTreeMap<&str, &[&str]> = LOADTEST_MAY_USE.into_iter().collect();
    let mut wrong = Vec::new();
    for (room, uses) in rooms {
        let may = rules.get(room.as_str()).unwrap_or_else(|| panic!("no rule for {room}"));
        wrong.extend(uses.iter().filter(|to| !may.contains(&to.as_str())).map(|to| format!("{room} -> {to}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Only the server itself asks the drive without restriction: a request says who asks.
#[test]
fn no_request_asks_the_drive_without_restriction() {
    let asks = |path: &std::path::PathBuf| fs::read_to_string(path).unwrap().contains("unrestricted()");
    let wrong: Vec<_> = files(&root().join("src/http")).into_iter().filter(asks).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn files_stay_small() {
    let mut wrong = Vec::new();
    for below in ["src", "loadtest/src"] {
        for path in files(&root().join(below)) {
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.split("#[cfg(test)]\nmod tests").next().unwrap().lines().count();
            let is_tests = path.ends_with("tests.rs");
            if lines > LINES && !is_tests {
                wrong.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_drawers() {
    let drawers = ["util", "utils", "helper", "helpers", "common", "misc", "manager", "shared"];
    let all =
        ["src", "tests/all", "tests/model", "loadtest/src"].into_iter().flat_map(|below| files(&root().join(below)));
    let wrong: Vec<_> = all
        .map(|path| path.strip_prefix(root()).unwrap().to_owned())
        .filter(|path| path.iter().any(|part| drawers.contains(&part.to_str().unwrap().trim_end_matches(".rs"))))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
