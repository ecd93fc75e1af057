//! One table for all files, made once from a report; [`super::text`] and [`super::html`] write it. `tables.md` has the
//! words of each.

use anyhow::Context;
use indicatif::{BinaryBytes, HumanCount};
use serde_json::Value;

use super::order::{label, words};

const TABLES: &str = include_str!("tables.md");

#[derive(Clone, Debug)]
pub struct Table {
    pub id: &'static str,
    /// The pages that have it, as `report limits`, and where.
    pub pages: &'static str,
    pub section: &'static str,
    /// Of its CSV; empty for none.
    pub file: &'static str,
    /// Empty if pages have its note alone.
    pub caption: String,
    pub note: String,
    /// What is drawn beside its figures, for HTML alone.
    pub bars: &'static str,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug)]
pub struct Column {
    /// Of the model, or of one of its members: `at_rate_p99_us` is `p99_us` of `at_rate`; of a list it is the length.
    pub member: String,
    /// Empty for a column of the CSV alone.
    pub header: String,
    /// `@` of groups, `#` of numbers, `%` of shares, `~` of bytes, `?` of goals, "`" of code.
    pub kind: char,
}

#[derive(Clone, Debug)]
pub struct Cell {
    pub raw: String,
    /// Text between backticks is code.
    pub text: String,
    /// In smaller letters, as a range: the member with `_more`.
    pub more: String,
    /// The member with `_bar`: from one part of its width (0 to 1) to another, a class of colour (`more`, `less`,
    /// `same`), and strokes across it.
    pub bar: Option<(f64, f64, String, Vec<f64>)>,
}

impl Table {
    /// Each row is a list of objects, whose members are the columns.
    pub fn new(id: &'static str, rows: impl IntoIterator<Item = Value>) -> Self {
        Self::with(id, "", rows)
    }

    /// With these columns behind those that `tables.md` names; each begins with a comma.
    pub fn with(id: &'static str, columns: &str, rows: impl IntoIterator<Item = Value>) -> Self {
        let words = words(TABLES, id);
        let word = |name| words.get(name).copied().unwrap_or_default();
        let columns: Vec<Column> = format!("{}{columns}", word("columns")).split(',').map(Column::new).collect();
        let cells = |row| columns.iter().map(|column| column.cell(&row)).collect();
        let rows = rows.into_iter().map(cells).collect();
        let (caption, note) = (word("caption").into(), word("note").into());
        let [pages, section, file, bars] = ["pages", "section", "file", "bars"].map(word);
        Self { id, pages, section, file, caption, note, bars, columns, rows }
    }

    /// Whether pages have its rows.
    pub fn is_shown(&self) -> bool {
        !self.caption.is_empty() && !self.rows.is_empty()
    }

    pub fn shown<'a, T>(&'a self, row: &'a [T]) -> impl Iterator<Item = (&'a Column, &'a T)> {
        self.columns.iter().zip(row).filter(|(column, _)| !column.header.is_empty())
    }

    pub fn csv(&self) -> anyhow::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.columns.iter().map(|column| &column.member))?;
        for row in &self.rows {
            writer.write_record(row.iter().map(|cell| &cell.raw))?;
        }
        writer.into_inner().context("cannot write the report as CSV")
    }
}

impl Column {
    /// Parses `member=header`. The kind, if there is one, is the first character of the header.
    fn new(column: &str) -> Self {
        let kinds = ['@', '#', '%', '~', '?', '`'];
        let (member, header) = column.split_once('=').unwrap_or((column, ""));
        let kind = header.chars().next().filter(|kind| kinds.contains(kind)).unwrap_or(' ');
        Self { member: member.into(), header: header.strip_prefix(kinds).unwrap_or(header).into(), kind }
    }

    pub fn is_number(&self) -> bool {
        ['#', '%', '~'].contains(&self.kind)
    }

    fn cell(&self, row: &Value) -> Cell {
        let of =
            |suffix: &str| row.as_array()?.iter().find_map(|part| member(part, &format!("{}{suffix}", self.member)));
        let value = of("").unwrap_or_default();
        let raw = match &value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(list) => list.len().to_string(),
            Value::Object(members) => {
                let text = |(name, value): (&String, &Value)| Some(format!("{name} {}", figure(value.as_f64()?)));
                members.iter().filter_map(text).collect::<Vec<_>>().join("; ")
            }
            value => value.to_string(),
        };
        let number = value.as_f64().unwrap_or_default();
        let text = match self.kind {
            '@' => label(&raw),
            '`' if !raw.is_empty() && !raw.contains('`') => format!("`{raw}`"),
            '?' => if raw == "true" { "✓ met" } else { "✗ missed" }.to_owned(),
            // What is not finite is null in JSON too.
            _ if self.is_number() && value.is_null() => "-".to_owned(),
            '%' => format!("{:.1} %", number * 100.0),
            '~' => BinaryBytes(number as u64).to_string(),
            _ if value.is_f64() => figure(number),
            _ => value.as_u64().map_or_else(|| raw.clone(), |count| HumanCount(count).to_string()),
        };
        let more = of("_more").and_then(|more| more.as_str().map(str::to_owned)).unwrap_or_default();
        let bar = of("_bar").and_then(|bar| serde_json::from_value(bar).ok());
        Cell { raw, text, more, bar }
    }
}

fn member(object: &Value, name: &str) -> Option<Value> {
    if let Some(value) = object.get(name) {
        return Some(value.clone()).filter(|value| !value.is_null());
    }
    let inner = |(outer, value): (&String, &Value)| member(value, name.strip_prefix(outer)?.strip_prefix('_')?);
    object.as_object()?.iter().find_map(inner)
}

/// About three digits: `12,345`, `85.2`, `0.91`, `0.0026`; `-` for what is no number.
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".to_owned(),
        size if size >= 1e15 => format!("{value:.2e}"),
        size if size >= 99.95 => format!("{}{}", if value < 0.0 { "-" } else { "" }, HumanCount(size.round() as u64)),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.2}"),
        size if size >= 0.0001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// The least and the greatest of some.
pub fn ends(values: &[f64]) -> Option<[f64; 2]> {
    let values = || values.iter().copied();
    Some([values().reduce(f64::min)?, values().reduce(f64::max)?])
}
