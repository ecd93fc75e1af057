//! What a run found, written down: `report.json` for programs, CSV for spreadsheets, two pages for people.
//!
//! - [`model`]: what the JSON holds
//! - `order`: layouts and operations in their order and words; `ratios`: how layouts compare; `hot_spots`: how they
//!   spread load
//! - `table`: one table for all files, and figures in words; `pages`: all tables; `tables.md`: their columns and places
//! - [`text`], `html`: pages as Markdown and HTML

mod hot_spots;
mod html;
pub mod model;
pub mod order;
mod pages;
mod ratios;
mod table;
#[cfg(test)]
mod tests;
pub mod text;

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use serde_json::Value;

use model::Report;

/// All files of a report by name; none for a page of which no part was measured, and for a table without rows. What is
/// not a finite number is `null` in the JSON.
fn files(report: &Report) -> anyhow::Result<Vec<(String, Option<Vec<u8>>)>> {
    let json = serde_json::to_string_pretty(report).context("cannot write the report as JSON")?;
    let mut files = Vec::new();
    for table in pages::tables(report).into_iter().filter(|table| !table.file.is_empty()) {
        let csv = (!table.rows.is_empty()).then(|| table.csv()).transpose()?;
        files.push((table.file.to_owned(), csv));
    }
    let pages = pages::all(report);
    for page in &pages {
        let other = pages.iter().find(|other| other.name != page.name && other.is_measured);
        for (end, text) in [("html", html::page(page, other)), ("md", text::text(page))] {
            files.push((format!("{}.{end}", page.name), page.is_measured.then(|| text.into_bytes())));
        }
    }
    // IMPORTANT: last. Once it is there, the others are those of the same report.
    files.push(("report.json".to_owned(), Some(format!("{json}\n").into_bytes())));
    Ok(files)
}

/// When the report of a folder was begun; none if it has no report. Fails if the folder cannot be made or written, or if it
/// has a file which a report would replace or remove, and no report of this program.
pub fn prepare(dir: &Path) -> anyhow::Result<Option<Timestamp>> {
    let above = dir.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    tempfile::tempfile_in(above)
        .with_context(|| format!("cannot write a report into {}: name another folder with --out", dir.display()))?;
    let json = std::fs::read(dir.join("report.json")).unwrap_or_default();
    let json: Value = serde_json::from_slice(&json).unwrap_or_default();
    if let (Some(_), Some(started)) = (json.get("hot_spots"), json.pointer("/meta/started").and_then(Value::as_str)) {
        return started.parse().map(Some).context("the report that is there has no time");
    }
    let mut files = files(&Report::default())?.into_iter().map(|(name, _)| dir.join(name));
    if let Some(file) = files.find(|file| file.symlink_metadata().is_ok()) {
        anyhow::bail!("{} is there, and this program did not write it: name another folder with --out", file.display());
    }
    Ok(None)
}

/// Moves the files of a report to another folder, `report.json` last: a move that was cut off goes on with the next one.
/// Fails if that folder has a report.
pub fn set_aside(dir: &Path, to: &Path) -> anyhow::Result<()> {
    let failed = || format!("the report that is there cannot move to {}: name another folder with --out", to.display());
    anyhow::ensure!(!to.join("report.json").exists(), "{}", failed());
    std::fs::create_dir_all(to).with_context(failed)?;
    for (name, _) in files(&Report::default())? {
        let file = dir.join(&name);
        if file.symlink_metadata().is_ok() {
            std::fs::rename(file, to.join(&name)).with_context(failed)?;
        }
    }
    Ok(())
}

/// Writes all files of a report into a folder that is prepared, which is made if it is missing. Each is written under
/// another name and then renamed, so that a reader finds the old one or the new one, whole. Those that only an earlier
/// run has are removed. Fails if the folder cannot be written; what was replaced until then stays.
pub fn write(report: &Report, dir: &Path) -> anyhow::Result<()> {
    let mut files = files(report)?;
    // The first time it comes first, so that the others are known as this program's.
    let is_first = !dir.join("report.json").exists();
    files.rotate_right(usize::from(is_first));
    for (name, content) in files {
        let file = dir.join(&name);
        let Some(content) = content else { continue };
        replace(dir, &name, &content)
            .with_context(|| format!("cannot write {}: is there room, and may you?", file.display()))?;
    }
    Ok(())
}

fn replace(dir: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    // Less what the user's mask takes away: temporary files are private otherwise.
    let mode = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(name).permissions(mode).tempfile_in(dir)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(dir.join(name))?;
    Ok(())
}
