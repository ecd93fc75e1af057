//! The rules of the house that no compiler knows: arrows point down, files stay small, no drawers.

use std::fs;
use std::path::{Path, PathBuf};

/// What each module of the library may use of the others.
const MAY_USE: [(&str, &[&str]); 11] = [
    ("budget", &[]),
    ("table", &[]),
    ("schema", &["table"]),
    ("engines", &["table"]),
    ("content", &["budget", "schema"]),
    ("drive", &["budget", "content", "schema", "table"]),
    ("reindex", &["schema", "table"]),
    ("migrate", &["reindex", "schema", "table"]),
    ("check", &["content", "schema", "table"]),
    ("http", &["budget", "content", "drive", "schema"]),
    ("cli", &["check", "content", "drive", "engines", "http", "migrate", "schema", "table"]),
];

/// The same of the load test's modules.
const LOADTEST_MAY_USE: [(&str, &[&str]); 17] = [
    ("data", &[]),
    ("report", &[]),
    ("stats", &[]),
    ("settled", &[]),
    ("plain", &[]),
    ("layouts", &[]),
    ("machine", &["report"]),
    ("measure", &["report", "stats"]),
    ("http", &["report", "stats"]),
    ("regions", &["data", "report", "stats"]),
    ("load", &["data", "layouts", "measure"]),
    ("operations", &["data", "layouts", "measure", "report"]),
    ("subject", &["data", "layouts", "load", "measure", "operations", "report", "settled"]),
    ("subtrees", &["measure", "plain", "stats"]),
    ("limits", &["data", "http", "layouts", "load", "measure", "report", "settled", "stats", "subtrees"]),
    ("options", &["http", "limits", "measure", "subject", "subtrees"]),
    ("run", &["data", "http", "layouts", "limits", "machine", "measure", "options", "regions", "report", "subject"]),
];

/// Lines of code in a file, its unit tests not counted.
const LINES: usize = 400;

fn sources(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The modules that a source text names after any of these starts, tests aside.
fn uses(text: &str, starts: &[&str]) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap();
    let mut found = Vec::new();
    for line in code.lines().filter(|l| !l.trim_start().starts_with("//")) {
        for start in starts {
            for (at, _) in line.match_indices(start) {
                let rest = &line[at + start.len()..];
                found.push(rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect());
            }
        }
    }
    found
}

#[test]
fn arrows_point_down() {
    let mut wrong = upward("src", &MAY_USE, &["crate::", "rowdrive::"]);
    wrong.extend(upward("loadtest/src", &LOADTEST_MAY_USE, &["crate::"]));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the modules below this folder use that they may not.
fn upward(below: &str, may_use: &[(&str, &[&str])], starts: &[&str]) -> Vec<String> {
    let src = root().join(below);
    let mut wrong = Vec::new();
    for path in sources(&src) {
        let text = fs::read_to_string(&path).unwrap();
        let inner = path.strip_prefix(&src).unwrap();
        let module = inner.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if matches!(module, "lib" | "main") {
            continue;
        }
        let (_, may) = may_use.iter().find(|(m, _)| *m == module).unwrap_or_else(|| panic!("no rule for {module}"));
        if text.contains("use crate::{") {
            wrong.push(format!("{} hides what it uses: write one `use crate::<module>` for each", inner.display()));
        }
        for used in uses(&text, starts) {
            if !used.is_empty() && used != module && !may.contains(&used.as_str()) {
                wrong.push(format!("{} uses {used}", inner.display()));
            }
        }
    }
    wrong
}

#[test]
fn files_stay_small() {
    let mut wrong = Vec::new();
    for below in ["src", "loadtest/src"] {
        for path in sources(&root().join(below)) {
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
        ["src", "tests/all", "tests/model", "loadtest/src"].into_iter().flat_map(|below| sources(&root().join(below)));
    let wrong: Vec<_> = all
        .map(|path| path.strip_prefix(root()).unwrap().to_owned())
        .filter(|path| path.iter().any(|part| drawers.contains(&part.to_str().unwrap().trim_end_matches(".rs"))))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
