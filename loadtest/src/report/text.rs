//! Pages as Markdown, for files and for a terminal.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table as Drawn};

use super::model::Report;
use super::pages;
use super::table::{Cell, Page, Part, Table};

/// Rows of a table that are printed; a longer table is in the files alone.
const PRINTED: usize = 60;

/// Of all pages: what the program prints.
pub fn render(report: &Report) -> String {
    pages::all(report).iter().map(|page| text(page, PRINTED)).collect::<Vec<_>>().join("\n")
}

/// A page whole, as its file has it.
pub fn page(page: &Page) -> String {
    text(page, usize::MAX)
}

fn text(page: &Page, most: usize) -> String {
    let mut text = format!("# {}\n", page.title);
    text.extend(page.partial.iter().map(|why| format!("\n**PARTIAL: {why}**\n")));
    for (_, title, parts) in &page.sections {
        text.push_str(&format!("\n## {title}\n"));
        text.extend(parts.iter().map(|part| match part {
            Part::Text(paragraph) => format!("\n{paragraph}\n"),
            Part::Table(table) if table.rows.len() > most => {
                format!("\n### {}\n\n{} rows: they are in the files.\n", table.caption, table.rows.len())
            }
            Part::Table(table) => self::table(table),
            Part::Drawn(_) => String::new(),
        }));
    }
    text
}

fn table(table: &Table) -> String {
    let note = if table.note.is_empty() { String::new() } else { format!("\n{}\n", table.note) };
    if table.rows.is_empty() {
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

/// As `0.66 (0.61 to 0.72)`; a file is a link.
fn cell(cell: &Cell) -> String {
    let text = match &cell.href {
        Some(file) => format!("[{}]({file})", cell.text),
        None if cell.more.is_empty() => cell.text.clone(),
        None => format!("{} ({})", cell.text, cell.more),
    };
    text.replace('|', "\\|").replace('\n', " ")
}
