//! Pages as Markdown, for files and for a terminal.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table as Drawn};

use super::model::Report;
use super::pages::{self, Page};
use super::table::{Cell, Table};

/// Rows of a table that are printed; a longer table is in the files alone.
const PRINTED: usize = 60;

/// Of all pages: what the program prints.
pub fn render(report: &Report) -> String {
    let pages = pages::all(report);
    pages.iter().filter(|page| page.is_measured).map(|page| text(page, PRINTED)).collect::<Vec<_>>().join("\n")
}

/// A page, with tables of so many rows at most.
pub fn text(page: &Page, most: usize) -> String {
    let mut text = format!("# {}\n", page.title);
    text.extend(page.partial.iter().map(|why| format!("\n**PARTIAL: {why}**\n")));
    for (first, tables) in page.sections() {
        text.push_str(&format!("\n## {}\n", first.section));
        text.extend(tables.iter().map(|table| self::table(table, most)));
    }
    text
}

fn table(table: &Table, most: usize) -> String {
    let note = if table.note.is_empty() { String::new() } else { format!("\n{}\n", table.note) };
    if !table.is_shown() {
        return note;
    }
    if table.rows.len() > most {
        return format!("\n### {}\n\n{} rows: they are in the files.\n", table.caption, table.rows.len());
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
