//! What a run found, written down: `report.json` for programs, CSV for spreadsheets, two pages for people.
//!
//! - [`model`]: what the JSON holds
//! - `order`: layouts and operations in their order and words; `ratios`: how layouts compare; `verdict`: which to take
//! - `table`: one table for all files; `rows`: those that are CSV too; `hot_spots`; `pages`: which page has which
//! - [`text`], `html`: pages as Markdown and HTML; `svg`: small plots; `numbers`: figures in words

mod hot_spots;
mod html;
pub mod model;
mod numbers;
mod order;
mod pages;
mod ratios;
mod rows;
mod svg;
mod table;
pub mod text;
mod verdict;

use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

use model::Report;

/// Writes all files of a report into `dir`, which is made if it is missing. Each is written under another name and then
/// renamed, so that a reader finds the old one or the new one, whole. What is not a finite number is `null` in the JSON.
/// A page of which no part was measured is removed.
///
/// Fails if the folder cannot be written; what was replaced until then stays.
pub fn write(report: &Report, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot make the folder {} for the report: choose another", dir.display()))?;
    let mut json = serde_json::to_vec_pretty(report).context("cannot write the report as JSON")?;
    json.push(b'\n');
    replace(dir, "report.json", &json)?;
    for table in rows::all(report) {
        replace(dir, &table.file, &table.csv()?)?;
    }
    let pages = pages::all(report);
    for name in ["report", "limits"] {
        let other = pages.iter().find(|page| page.name != name);
        match pages.iter().find(|page| page.name == name) {
            Some(page) => {
                replace(dir, &format!("{name}.html"), html::page(page, other).as_bytes())?;
                replace(dir, &format!("{name}.md"), text::page(page).as_bytes())?;
            }
            None => ["html", "md"].iter().try_for_each(|kind| remove(&dir.join(format!("{name}.{kind}"))))?,
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
mod samples;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_json_keeps_its_shape() {
        let expected = json!({
            "meta": {
                "version": "0.1.0", "started": "2026-01-02T03:04:05Z", "seconds": 12.5, "complete": true, "notes": [],
                "seed": 7, "files": 1000, "directories": 20, "clients": 64, "quick": false,
                "machine": {
                    "cpu": "A processor", "cores": 2, "memory_bytes": 1024, "system": "Linux", "file_system": "ext4",
                },
                "versions": {"rocksdb": "11.8.1"},
            },
            "layouts": {
                "fullpath": {
                    "period": {"unsupported": "no order by time"},
                    "stat": {
                        "per_second": 1000.5, "p50_us": 50, "p99_us": 900, "count": 100,
                        "curve": [[0.0, 10], [99.0, 900]],
                    },
                },
            },
            "regions": {
                "fullpath": {
                    "rows": {
                        "hottest_over_mean": 16.0, "floor": 0.0, "gini": 0.9375, "hottest_share": 0.25, "idle_regions": 3, "worst": 16.0,
                        "achieved": 0.125, "heat": [[0, 4]],
                    },
                },
            },
            "hot_spots": [],
            "costs": {},
            "http": [],
            "limits": [{
                "operation": "stat", "unit": "requests/s", "ours": 90.0, "limit": 100.0, "limit_is": "static handler",
                "ratio": 0.9, "goal": ">= 0.85", "met": true, "raw": {}, "also": {},
            }],
        });
        let read: Report = serde_json::from_value(expected.clone()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        write(&read, dir.path()).unwrap();
        let written: Value = serde_json::from_slice(&std::fs::read(dir.path().join("report.json")).unwrap()).unwrap();
        assert_eq!(written, expected);
    }

    #[test]
    fn files_are_replaced_whole_and_pages_without_a_part_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("to/be/made");
        let names = |report: &Report| {
            write(report, &dir).unwrap();
            let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
            files.collect::<std::collections::BTreeSet<_>>()
        };
        let always = "costs.csv hot_spots.csv http.csv layouts.csv limits.csv ratios.csv regions.csv report.json \
            table_bytes.csv work.csv";
        let pages = [names(&Report::default()), names(&samples::full())];
        assert_eq!(pages[0], always.split(' ').map(str::to_owned).collect());
        let all = "limits.html limits.md report.html report.md";
        assert_eq!(pages[1], format!("{always} {all}").split(' ').map(str::to_owned).collect());
        let mode = std::fs::metadata(dir.join("report.html")).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
        assert!(std::fs::read_to_string(dir.join("report.html")).unwrap().contains("href=\"limits.html\""));
        let limits = names(&Report { limits: samples::full().limits, ..Report::default() });
        assert_eq!(limits, format!("{always} limits.html limits.md").split(' ').map(str::to_owned).collect());
        assert!(!std::fs::read_to_string(dir.join("limits.html")).unwrap().contains("report.html"));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let failed = write(&Report::default(), &file.path().join("below")).unwrap_err();
        assert!(failed.to_string().contains("below"), "{failed}");
    }
}
