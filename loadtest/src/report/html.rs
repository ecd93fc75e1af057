//! Pages as HTML that needs nothing besides itself: no script, no network, no font.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::pages::Page;
use super::table::{Cell, Table};

/// `other`: the page beside this one, if there is one.
pub fn page(page: &Page, other: Option<&Page>) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                header {
                    h1 { (page.title) }
                    @for (kind, why) in &page.warnings { p.partial role="alert" { strong { (kind) ": " } (rich(why)) } }
                    nav aria-label="Contents" {
                        ul {
                            @for (first, _) in page.sections() { li { a href={ "#" (first.id) } { (first.section) } } }
                            @if let Some(other) = other {
                                li { a href={ (other.name) ".html" } { "→ " (other.title) } }
                            }
                        }
                    }
                }
                main {
                    @for (first, tables) in page.sections() {
                        section { h2 id=(first.id) { (first.section) } @for table in tables { (self::table(table)) } }
                    }
                }
            }
        }
    };
    whole.into_string()
}

fn table(table: &Table) -> Markup {
    html! {
        @if table.is_shown() { h3 { (rich(&table.caption)) } }
        @if !table.note.is_empty() { p.soft[!table.caption.is_empty()] { (rich(&table.note)) @if table.is_shown() { " " (table.bars) } } }
        @if table.is_shown() { (rows(table)) }
    }
}

/// Text between backticks is code.
fn rich(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() { @if at % 2 == 1 { code { (part) } } @else { (part) } }
    }
}

/// Scrolls by itself where the page is narrow; the first column stays.
fn rows(table: &Table) -> Markup {
    let at = table.columns.iter().position(|column| column.kind == '@');
    let name = |row: &[Cell]| Some(row.get(at?)?.text.clone());
    let columns = || table.shown(&table.columns).filter(|(column, _)| column.kind != '@');
    html! {
        div.table tabindex="0" role="region" aria-label=(table.caption) {
            table {
                thead { tr { @for (column, _) in columns() {
                    th.number[column.is_number()] scope="col" { (rich(&column.header)) }
                } } }
                @for group in table.rows.chunk_by(|one, next| name(one) == name(next)) {
                    tbody {
                        @if let Some(name) = group.first().and_then(|row| name(row)) {
                            tr { th.group scope="rowgroup" colspan=(columns().count()) { span { (name) } } }
                        }
                        @for row in group { tr {
                            @let cells = table.shown(row).filter(|(column, _)| column.kind != '@');
                            @for (at, (column, of)) in cells.enumerate() {
                                @if at == 0 { th scope="row" { (cell(of)) } } @else {
                                    td.number[column.is_number()].long[of.text.len() > 30] { (cell(of)) }
                                }
                            }
                        } }
                    }
                }
            }
        }
    }
}

fn cell(cell: &Cell) -> Markup {
    html! {
        (rich(&cell.text))
        @if !cell.more.is_empty() { small { (cell.more) } }
        @if let Some((from, to, class, marks)) = &cell.bar {
            span.bar aria-hidden="true" {
                span class=(class) style={ "left:" (place(*from)) ";width:" (place(to - from)) } {}
                @for mark in marks { span.mark style={ "left:" (place(*mark)) } {} }
            }
        }
    }
}

fn place(part: f64) -> String {
    format!("{:.1}%", part.clamp(0.0, 1.0) * 100.0)
}
