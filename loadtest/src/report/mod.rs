//! What a run found, written down: `report.json` for programs, CSV for spreadsheets, `report.html` for people.
//!
//! `model` is what the JSON holds, `rows` the CSV, `html` and `plots` the page, `text` the same for a terminal,
//! `order`, `phrases` and `numbers` how both order operations and write words and numbers, `ratios` how layouts compare.

mod html;
pub mod model;
mod numbers;
mod order;
mod phrases;
mod plots;
mod ratios;
mod rows;
pub mod text;

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

use model::Report;

/// Writes all files of a report into `dir`, which is made if it is missing. Each is written under another name and then
/// renamed, so that a reader finds the old one or the new one, whole. What is not a finite number is `null` in the JSON.
///
/// Fails if the folder cannot be written; what was replaced until then stays.
pub fn write(report: &Report, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot make the folder {} for the report: choose another", dir.display()))?;
    let mut json = serde_json::to_vec_pretty(report).context("cannot write the report as JSON")?;
    json.push(b'\n');
    replace(dir, "report.json", &json)?;
    for (name, rows) in rows::all(report)? {
        replace(dir, name, &rows)?;
    }
    replace(dir, "report.html", html::page(report)?.as_bytes())
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
                        "hottest_over_mean": 16.0, "floor": 0.0, "gini": 0.9375, "hottest_share": 0.25, "idle_regions": 3,
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
    fn a_report_is_replaced_whole_and_leaves_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("to/be/made");
        write(&Report::default(), &dir).unwrap();
        write(&samples::full(), &dir).unwrap();
        let mut names: Vec<String> =
            std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let expected = [
            "costs.csv",
            "hot_spots.csv",
            "http.csv",
            "layouts.csv",
            "limits.csv",
            "ratios.csv",
            "regions.csv",
            "report.html",
            "report.json",
            "table_bytes.csv",
            "work.csv",
        ];
        assert_eq!(names, expected);
        assert!(std::fs::read_to_string(dir.join("report.json")).unwrap().contains("fullpath"));
        let mode = std::fs::metadata(dir.join("report.html")).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let failed = write(&Report::default(), &file.path().join("below")).unwrap_err();
        assert!(failed.to_string().contains("below"), "{failed}");
    }
}
