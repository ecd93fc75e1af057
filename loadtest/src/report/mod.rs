//! What a run found, written down: `report.json` for programs, CSV for spreadsheets, two pages for people.
//!
//! - [`model`]: what the JSON holds
//! - `order`: layouts and operations in their order and words; `ratios`: how layouts compare; `hot_spots`: how they
//!   spread load
//! - `table`: one table for all files, and figures in words; `pages`: all tables; `tables.md`: their columns and places
//! - [`text`], `html`: pages as Markdown and HTML
//! - [`folder`]: where the files are written

pub mod folder;
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

use anyhow::Context;

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
    // Last, so that it names no files that are older than itself; `Folder::write` says when it comes first.
    files.push(("report.json".to_owned(), Some(format!("{json}\n").into_bytes())));
    Ok(files)
}
