//! Pages as HTML that needs nothing besides itself: no script, no network, no font.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::table::{Bar, Cell, Page, Part, Table};

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
                    @if let Some(why) = &page.partial { p.partial role="alert" { strong { "partial: " } (why) } }
                    nav aria-label="Contents" {
                        ul {
                            @for (id, title, _) in &page.sections { li { a href={ "#" (id) } { (title) } } }
                            @if let Some(other) = other {
                                li { a href={ (other.name) ".html" } { "→ " (other.title) } }
                            }
                        }
                    }
                }
                main {
                    @for (id, title, parts) in &page.sections {
                        section { h2 id=(id) { (title) } @for part in parts { (self::part(part)) } }
                    }
                }
            }
        }
    };
    whole.into_string()
}

fn part(part: &Part) -> Markup {
    match part {
        Part::Text(text) => html! { p { (rich(text)) } },
        Part::Drawn(markup) => markup.clone(),
        Part::Table(table) => html! {
            @if !table.rows.is_empty() { h3 id=(table.id) { (rich(&table.caption)) } }
            @if !table.note.is_empty() { p.soft { (rich(&table.note)) } }
            @if !table.rows.is_empty() { (self::table(table)) }
        },
    }
}

/// Text between `**` is strong, text between backticks is code.
fn rich(text: &str) -> Markup {
    let code = |text: &str| {
        html! {
            @for (at, part) in text.split('`').enumerate() { @if at % 2 == 1 { code { (part) } } @else { (part) } }
        }
    };
    html! { @for (at, part) in text.split("**").enumerate() {
        @if at % 2 == 1 { strong { (code(part)) } } @else { (code(part)) }
    } }
}

/// Scrolls by itself where the page is narrow; the first column stays.
fn table(table: &Table) -> Markup {
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
        @if let Some(file) = &cell.href { a href=(file) { (cell.text) } } @else { (rich(&cell.text)) }
        @if !cell.more.is_empty() { small { (cell.more) } }
        @if let Some(Bar(from, to, class, marks)) = &cell.bar {
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

#[cfg(test)]
mod tests {
    use crate::report::model::{Costs, Figures, HttpRun, Measured, Report, Spread};
    use crate::report::pages;
    use crate::report::tests::sample;

    fn written(report: &Report) -> Vec<String> {
        let pages = pages::all(report);
        pages.iter().map(|page| super::page(page, pages.iter().find(|other| other.name != page.name))).collect()
    }

    fn well_formed(page: &str) {
        roxmltree::Document::parse(&page[page.find("<body").unwrap()..page.find("</html>").unwrap()]).unwrap();
    }

    #[test]
    fn pages_are_well_formed_need_nothing_else_and_take_no_text_for_markup() {
        for page in written(&sample()) {
            well_formed(&page);
            assert!(page.contains("<svg") && page.contains("&lt;script&gt;") && !page.contains("<script"));
            let alone = page.replace("http://www.w3.org/2000/svg", "");
            assert!(
                ["http:", "https:", "src=", "@import", "url(", "<link"].iter().all(|outside| !alone.contains(outside))
            );
        }
    }

    #[test]
    fn what_is_no_number_breaks_nothing_and_a_partial_run_says_so_first() {
        let mut report = sample();
        report.meta.complete = false;
        report.http.push(HttpRun { curve: vec![(f64::NAN, 0), (101.0, u64::MAX)], ..report.http[0].clone() });
        report.http.push(HttpRun { offered_per_second: f64::INFINITY, ..report.http[0].clone() });
        report.limits[0].ratio = f64::NAN;
        report
            .regions
            .insert("new".into(), [("empty".to_owned(), Spread { heat: vec![vec![]], ..Spread::default() })].into());
        report.costs.insert("new".into(), Costs { disk_bytes_per_file: f64::NAN, ..Costs::default() });
        let none = Figures { per_second: f64::NAN, rounds: vec![0.0, f64::NAN], ..Figures::default() };
        report.layouts.insert("new".into(), [("stat".to_owned(), Measured::Figures(Box::new(none)))].into());
        for page in written(&report) {
            well_formed(&page);
            assert!(!page.contains("NaN") && !page.contains("inf<") && !page.contains("inf%"));
            assert!(page.find("partial: ").unwrap() < page.find("<nav").unwrap());
        }
    }
}
