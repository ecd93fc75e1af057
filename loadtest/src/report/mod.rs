//! What a run found, written down: `report.json` for programs, CSV for spreadsheets, two pages for people.
//!
//! - [`model`]: what the JSON holds
//! - `order`: layouts and operations in their order and words; `ratios`: how layouts compare; `recommendations`: which
//!   to take
//! - `table`: one table for all files; `rows`: those that are CSV too; `hot_spots`; `pages`: which page has which
//! - [`text`], `html`: pages as Markdown and HTML; `svg`: small plots; `numbers`: figures in words

mod hot_spots;
mod html;
pub mod model;
mod numbers;
mod order;
mod pages;
mod ratios;
mod recommendations;
mod rows;
mod svg;
mod table;
pub mod text;

use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use model::Report;

/// Files of pages, without their ends.
const PAGES: [&str; 2] = ["report", "limits"];

/// Makes the folder of a report if it is missing. Fails if it cannot be written, or if it has a file which a report
/// would replace or remove, and no report of this program.
pub fn prepare(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .and_then(|()| tempfile::tempfile_in(dir))
        .with_context(|| format!("cannot write a report into {}: name another folder with --out", dir.display()))?;
    let json = std::fs::read(dir.join("report.json")).unwrap_or_default();
    let json: Value = serde_json::from_slice(&json).unwrap_or_default();
    if ["meta", "regions", "hot_spots"].iter().all(|member| json.get(member).is_some()) {
        return Ok(());
    }
    let tables = rows::all(&Report::default()).into_iter().map(|table| table.file);
    let pages = PAGES.iter().flat_map(|page| ["html", "md"].map(|end| format!("{page}.{end}")));
    let mut files = ["report.json".to_owned()].into_iter().chain(tables).chain(pages).map(|name| dir.join(name));
    if let Some(file) = files.find(|file| file.symlink_metadata().is_ok()) {
        anyhow::bail!("{} is there, and this program did not write it: name another folder with --out", file.display());
    }
    Ok(())
}

/// Writes all files of a report into a folder that is prepared. Each is written under another name and then renamed, so
/// that a reader finds the old one or the new one, whole. What is not a finite number is `null` in the JSON. A page of
/// which no part was measured is removed, and so is a table without rows.
///
/// Fails if the folder cannot be written; what was replaced until then stays.
pub fn write(report: &Report, dir: &Path) -> anyhow::Result<()> {
    let mut json = serde_json::to_vec_pretty(report).context("cannot write the report as JSON")?;
    json.push(b'\n');
    replace(dir, "report.json", &json)?;
    for table in rows::all(report) {
        match table.rows.is_empty() {
            true => remove(&dir.join(&table.file))?,
            false => replace(dir, &table.file, &table.csv()?)?,
        }
    }
    let pages = pages::all(report);
    for name in PAGES {
        let other = pages.iter().find(|page| page.name != name);
        match pages.iter().find(|page| page.name == name) {
            Some(page) => {
                replace(dir, &format!("{name}.html"), html::page(page, other).as_bytes())?;
                replace(dir, &format!("{name}.md"), text::page(page).as_bytes())?;
            }
            None => {
                remove(&dir.join(format!("{name}.html")))?;
                remove(&dir.join(format!("{name}.md")))?;
            }
        }
    }
    Ok(())
}

fn remove(file: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}, which is of an earlier run", file.display()))
        }
        _ => Ok(()),
    }
}

/// Mode of the files, less what the user's mask takes away: temporary files are private otherwise.
const MODE: u32 = 0o666;

fn replace(dir: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let mut options = tempfile::Builder::new();
        options.prefix(name).permissions(Permissions::from_mode(MODE));
        let mut file = options.tempfile_in(dir)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(dir.join(name))?;
        Ok(())
    };
    write()
        .with_context(|| format!("cannot write {}: is there room, and may you write there?", dir.join(name).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("sample.json");

    /// A small report with something in every member; some text of it looks like markup.
    pub fn sample() -> Report {
        serde_json::from_str(SAMPLE).unwrap()
    }

    #[test]
    fn the_json_keeps_its_shape() {
        let dir = tempfile::tempdir().unwrap();
        write(&sample(), dir.path()).unwrap();
        let written = std::fs::read(dir.path().join("report.json")).unwrap();
        let [written, expected] =
            [&written, SAMPLE.as_bytes()].map(|json| serde_json::from_slice::<Value>(json).unwrap());
        assert_eq!(written, expected);
    }

    #[test]
    fn files_are_replaced_whole_and_those_without_a_part_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("to/be/made");
        let names = |report: &Report| {
            prepare(&dir).unwrap();
            write(report, &dir).unwrap();
            let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
            files.collect::<std::collections::BTreeSet<_>>()
        };
        let tables = "costs.csv hot_spots.csv http.csv layouts.csv limits.csv ratios.csv regions.csv table_bytes.csv \
            work.csv";
        let set = |files: &str| files.split_whitespace().map(str::to_owned).collect();
        assert_eq!(names(&Report::default()), set("report.json"));
        assert_eq!(names(&sample()), set(&format!("{tables} limits.html limits.md report.html report.json report.md")));
        let mode = std::fs::metadata(dir.join("report.html")).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
        assert!(std::fs::read_to_string(dir.join("report.html")).unwrap().contains("href=\"limits.html\""));
        let limits = Report { limits: sample().limits, ..Report::default() };
        assert_eq!(names(&limits), set("limits.csv limits.html limits.md report.json"));
        assert!(!std::fs::read_to_string(dir.join("limits.html")).unwrap().contains("report.html"));
    }

    #[test]
    fn a_folder_that_cannot_be_made_or_is_of_others_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let failed = prepare(&file.path().join("below")).unwrap_err();
        assert!(failed.to_string().contains("below"), "{failed}");
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("load-test.md"), "").unwrap();
        for name in ["limits.md", "work.csv", "report.json"] {
            prepare(dir.path()).unwrap();
            let file = dir.path().join(name);
            std::fs::write(&file, r#"{"meta": {}}"#).unwrap();
            let refused = prepare(dir.path()).unwrap_err();
            assert!(refused.to_string().contains(name) && refused.to_string().contains("--out"), "{refused}");
            std::fs::remove_file(file).unwrap();
        }
    }
}
