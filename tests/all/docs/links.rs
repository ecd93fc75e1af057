//! Everything that the pages name exists: the targets of links, the files of the project, and the functions, files and
//! types of the map in `docs/architecture.md`.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the top folder and of `docs/`.
fn pages() -> Vec<PathBuf> {
    let in_folder = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = in_folder(root().to_owned()).chain(in_folder(root().join("docs")));
    all.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// The text of a page without its code blocks.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap();
    text.split("```").step_by(2).collect()
}

/// The anchor of a heading, as code forges derive it.
fn anchors(page: &Path) -> Vec<String> {
    let text = prose(page);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    for page in pages() {
        let text = prose(&page);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let found = path.exists() && (heading.is_empty() || anchors(&path).iter().any(|a| a == heading));
            if !found {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_file_of_the_project_that_a_page_names_is_there() {
    let mut missing = Vec::new();
    for page in pages() {
        let text = prose(&page);
        for named in text.split('`').skip(1).step_by(2) {
            let below = ["src/", "tests/", "loadtest/", "docs/", "examples/", "migrations/", "packaging/"];
            let is_path = named.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            if is_path && below.iter().any(|folder| named.starts_with(folder)) && !root().join(named).exists() {
                missing.push(format!("{}: {named}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

const MAP: &str = include_str!("../../../docs/architecture.md");

/// The walkthroughs of the map: rows `| file | functions | .. |`.
#[test]
fn every_function_of_a_walk_is_in_its_file() {
    let mut missing = Vec::new();
    let mut seen = 0;
    for row in MAP.lines().filter(|line| line.starts_with("| `src/")) {
        let cells: Vec<_> = row.split(" | ").collect();
        let file = cells[0].trim_start_matches("| `").trim_end_matches('`');
        if cells.len() != 3 || !file.ends_with(".rs") || !cells[1].starts_with('`') {
            continue;
        }
        let source = fs::read_to_string(root().join(file)).unwrap_or_default();
        for function in cells[1].split('`').skip(1).step_by(2) {
            seen += 1;
            if !source.contains(&format!("fn {function}(")) && !source.contains(&format!("fn {function}<")) {
                missing.push(format!("{file}: {function}"));
            }
        }
    }
    assert!(missing.is_empty() && seen > 30, "{seen}: {missing:#?}");
}

/// The files of the rooms that the map lists one by one.
#[test]
fn every_file_of_these_rooms_is_on_the_map() {
    let mut missing = Vec::new();
    for room in ["drive", "auth", "http", "engines", "content", "table", "schema", "migrate", "check", "client", "cli"]
    {
        let section = MAP.split(&format!("\n### `src/{room}`\n")).nth(1).expect(room);
        let section = section.split("\n##").next().unwrap();
        let top = root().join("src").join(room);
        let mut left = vec![top.clone()];
        while let Some(folder) = left.pop() {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let inner = path.strip_prefix(&top).unwrap().to_str().unwrap();
                if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
                    left.push(path);
                } else if inner.ends_with(".rs") && !inner.ends_with("mod.rs") && !inner.ends_with("tests.rs") {
                    missing.extend((!section.contains(&format!("`{inner}`"))).then(|| format!("src/{room}/{inner}")));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The types and modules in the glossary.
#[test]
fn every_type_of_the_words_is_in_the_code() {
    let mut sources = String::new();
    let mut left = vec![root().join("src")];
    while let Some(folder) = left.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                left.push(path);
            } else {
                sources += &fs::read_to_string(path).unwrap();
            }
        }
    }
    let words = MAP.split("\n## Words\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let types = words.lines().skip_while(|line| !line.starts_with("|---")).filter_map(|row| row.split(" | ").nth(1));
    let types: Vec<_> = types.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let defines = |name: &&str| {
        let kinds = ["struct", "enum", "trait", "type", "mod"].map(|kind| format!("{kind} {name}"));
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        kinds.iter().any(|defined| sources.match_indices(defined).any(|(at, _)| ends(&sources[at + defined.len()..])))
    };
    let missing: Vec<_> = types.iter().filter(|name| !defines(name)).collect();
    assert!(missing.is_empty() && types.len() > 20, "{missing:#?} of {types:?}");
}
