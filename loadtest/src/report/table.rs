//! Tables and pages, built once from a report; [`super::text`] and [`super::html`] write them. `tables.md` has the words
//! of tables.

use anyhow::Context;
use maud::Markup;
use serde::Deserialize;
use serde_json::Value;

use super::numbers::{bytes, figure, grouped, percent};
use super::order::{label, rows};

const TABLES: &str = include_str!("tables.md");

#[derive(Clone, Debug, Default)]
pub struct Table {
    pub id: String,
    /// Of its CSV; empty for none.
    pub file: String,
    pub caption: String,
    pub note: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug)]
pub struct Column {
    /// Of the model, or of one of its members: `at_rate_p99_us` is `p99_us` of `at_rate`; of a list it is the length.
    member: String,
    /// Empty for a column of the CSV alone.
    pub header: String,
    /// `@` of groups of rows, `#` of numbers, `%` of shares, `~` of bytes, `?` of goals, `^` of files, "`" of code.
    pub kind: char,
}

#[derive(Clone, Debug, Default)]
pub struct Cell {
    raw: String,
    /// Text between backticks is code.
    pub text: String,
    /// In smaller letters, as a range: the member with `_more`.
    pub more: String,
    /// The member with `_bar`.
    pub bar: Option<Bar>,
    pub href: Option<String>,
}

/// From one part of its width (0 to 1) to another, a class of colour (`more`, `less`, `same`), and strokes across it.
#[derive(Clone, Debug, Deserialize)]
pub struct Bar(pub f64, pub f64, pub String, pub Vec<f64>);

impl Table {
    /// Each row is a list of objects, whose members are the columns.
    pub fn new(id: &str, rows: impl IntoIterator<Item = Value>) -> Self {
        let words = self::rows(TABLES).find(|row| row.first() == Some(&id)).unwrap_or_default();
        let word = |at: usize| words.get(at).map(|word| (*word).to_owned()).unwrap_or_default();
        let table = Self { id: id.into(), file: word(1), caption: word(2), note: word(4), ..Self::default() };
        table.with(&word(3), rows)
    }

    /// With these columns, separated by commas: `member=header`.
    pub fn with(mut self, columns: &str, rows: impl IntoIterator<Item = Value>) -> Self {
        let kinds = ['@', '#', '%', '~', '?', '^', '`'];
        let column = |column: &str| {
            let (member, header) = column.split_once('=').unwrap_or((column, ""));
            let kind = header.chars().next().filter(|kind| kinds.contains(kind));
            let header = header.strip_prefix(kinds).unwrap_or(header);
            Column { member: member.into(), header: header.into(), kind: kind.unwrap_or(' ') }
        };
        self.columns = columns.split(',').map(column).collect();
        let cells = |row: Value| self.columns.iter().map(|column| column.cell(&row)).collect();
        self.rows = rows.into_iter().map(cells).collect();
        self
    }

    pub fn shown<'a, T>(&'a self, row: &'a [T]) -> impl Iterator<Item = (&'a Column, &'a T)> {
        self.columns.iter().zip(row).filter(|(column, _)| !column.header.is_empty())
    }

    /// Its header and its rows.
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
            value => value.to_string(),
        };
        let number = value.as_f64().unwrap_or(f64::NAN);
        let text = match self.kind {
            '@' => label(&raw),
            '`' if !raw.contains('`') => format!("`{raw}`"),
            '?' => if raw == "true" { "✓ met" } else { "✗ **missed**" }.to_owned(),
            '^' if !raw.is_empty() => "where its time goes".to_owned(),
            '%' => percent(number),
            '~' => bytes(number),
            '#' if value.is_null() => "-".to_owned(),
            _ if value.is_f64() => figure(number),
            _ => value.as_u64().map_or_else(|| raw.clone(), grouped),
        };
        let more = of("_more").and_then(|more| more.as_str().map(str::to_owned)).unwrap_or_default();
        let bar = of("_bar").and_then(|bar| serde_json::from_value(bar).ok());
        let href = Some(raw.clone()).filter(|file| self.kind == '^' && !file.is_empty());
        Cell { raw, text, more, bar, href }
    }
}

fn member(object: &Value, name: &str) -> Option<Value> {
    if let Some(value) = object.get(name) {
        return Some(value.clone()).filter(|value| !value.is_null());
    }
    let inner = |(outer, value): (&String, &Value)| member(value, name.strip_prefix(outer)?.strip_prefix('_')?);
    object.as_object()?.iter().find_map(inner)
}

pub enum Part {
    Text(String),
    Table(Table),
    /// For HTML alone.
    Drawn(Markup),
}

pub struct Page {
    /// Of the files, before the point.
    pub name: &'static str,
    pub title: &'static str,
    /// Why the run is not whole; nothing if it is.
    pub partial: Option<String>,
    /// Each has an id, a title, and what it says.
    pub sections: Vec<(&'static str, &'static str, Vec<Part>)>,
}

#[cfg(test)]
mod tests {
    use crate::report::model::Report;
    use crate::report::rows;
    use crate::report::tests::sample;

    #[test]
    fn csv_columns_keep_their_names_and_each_of_them_is_filled() {
        // Those that programs may ask for.
        let kept = "layout operation per_second p50_us p99_us count note unsupported clients rounds lowest_per_second \
            highest_per_second one_client_per_second one_client_p50_us\nlayout operation reads rows_read cells_read \
            bytes_read commits cells_written bytes_written syncs cpu_us\noperation layout reference clients median \
            lowest highest rounds clear\nlayout files refused load_seconds load_cpu_seconds disk_bytes_per_file cells_per_file \
            write_amplification index_and_filter_bytes open_ms rename_ms rename_files\nlayout table bytes\nlayout table \
            hottest_over_mean floor gini hottest_share idle_regions achieved\nload layout table remedy splits \
            hottest_over_mean floor gini hottest_share idle_regions achieved cost\noperation unit ours limit limit_is \
            ratio goal met note profile\nmix of_peak open_loop connections offered_per_second per_second \
            bytes_per_second errors p50_us p99_us generator_bound";
        let all = rows::all(&sample());
        for (kept, table) in kept.lines().zip(&all) {
            let mut missing = kept.split(' ').filter(|name| table.columns.iter().all(|column| column.member != *name));
            assert_eq!(missing.next(), None, "{}", table.file);
        }
        for (table, empty) in all.iter().zip(rows::all(&Report::default())) {
            for (at, column) in table.columns.iter().enumerate() {
                assert!(table.rows.iter().any(|row| !row[at].raw.is_empty()), "{}: {}", table.file, column.member);
            }
            assert_eq!(String::from_utf8(empty.csv().unwrap()).unwrap().lines().count(), 1, "{}", table.file);
        }
    }
}
