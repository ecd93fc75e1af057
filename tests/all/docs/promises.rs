//! `docs/promises.md`: every test that it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../docs/promises.md");

fn sources(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The names of all tests that `make test` runs: the functions after a test attribute.
fn tests() -> BTreeSet<String> {
    let (root, mut found) = (Path::new(env!("CARGO_MANIFEST_DIR")), Vec::new());
    ["src", "tests"].iter().for_each(|below| sources(&root.join(below), &mut found));
    let mut names = BTreeSet::new();
    for path in found {
        let text = fs::read_to_string(path).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if line.starts_with("#[ignore") {
                // `make test` does not run ignored tests.
                is_test = false;
            } else if let Some(name) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))
                && std::mem::take(&mut is_test)
            {
                names.insert(name.split(['(', '<']).next().unwrap().to_owned());
            }
        }
    }
    names
}

#[test]
fn every_promise_names_tests_that_exist() {
    let (tests, promises) = (tests(), PAGE.split("\n# ").next().unwrap());
    assert!(tests.contains("every_promise_names_tests_that_exist"));
    let mut missing = Vec::new();
    let sections: Vec<_> = promises.split("\n## ").skip(1).collect();
    assert!(sections.len() > 10, "{}", sections.len());
    for section in sections {
        let (promise, held) = section.split_once("\nHeld by: ").expect(section);
        assert!(promise.contains('\n') && held.trim_end().ends_with("`."), "{section}");
        // Names are between pairs of backticks.
        let named: Vec<_> = held.split('`').skip(1).step_by(2).collect();
        missing.extend(named.into_iter().filter(|name| !tests.contains(*name)).map(|name| (&promise[..20], name)));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
