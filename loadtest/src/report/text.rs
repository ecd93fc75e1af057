//! Pages as Markdown, for files and for a terminal.

use std::path::Path;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table as Drawn};

use super::model::Report;
use super::pages::{self, Page};
use super::table::{Cell, Table};

/// The tables that are printed. The others, up to hundreds of rows, are in the files alone.
const PRINTED: [&str; 5] = ["answers", "costs", "deciding", "met", "goals"];

/// What the program prints: an overview of each page, and the files that have it whole, if they are written.
pub fn render(report: &Report, folder: Option<&Path>) -> String {
    let overview = |mut page: Page| {
        page.tables.retain(|table| PRINTED.contains(&table.id));
        let Some(folder) = folder else { return self::text(&page) };
        let [html, text] = ["html", "md"].map(|end| folder.join(page.name).with_extension(end));
        let whole = format!("All tables: {}; without bars, {}", html.display(), text.display());
        format!("{}\n{whole}\n", self::text(&page))
    };
    pages::all(report).into_iter().filter(|page| page.is_measured).map(overview).collect::<Vec<_>>().join("\n")
}

pub fn text(page: &Page) -> String {
    let mut text = format!("# {}\n", page.title);
    text.extend(page.warnings.iter().map(|(kind, why)| format!("\n**{}: {why}**\n", kind.to_uppercase())));
    for (first, tables) in page.sections() {
        text.push_str(&format!("\n## {}\n", first.section));
        text.extend(tables.iter().map(table));
    }
    text
}

fn table(table: &Table) -> String {
    let note = if table.note.is_empty() { String::new() } else { format!("\n{}\n", table.note) };
    if !table.is_shown() {
        return note;
    }
    let mut drawn = Drawn::new();
    drawn.load_style(ASCII_MARKDOWN).set_header(table.shown(&table.columns).map(|(column, _)| &column.header));
    drawn.add_rows(table.rows.iter().map(|row| table.shown(row).map(|(_, of)| cell(of)).collect::<Vec<_>>()));
    for (column, (of, _)) in drawn.column_iter_mut().zip(table.shown(&table.columns)) {
        column.set_cell_alignment(if of.is_number() { CellAlignment::Right } else { CellAlignment::Left });
    }
    format!("\n### {}\n{note}\n{drawn}\n", table.caption)
}

/// As `0.66 (0.61 to 0.72)`.
fn cell(cell: &Cell) -> String {
    let more = if cell.more.is_empty() { String::new() } else { format!(" ({})", cell.more) };
    format!("{}{more}", cell.text).replace('|', "\\|").replace('\n', " ")
}
