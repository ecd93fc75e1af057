//! Bytes on disk for each file, by table, stacked.

use std::collections::BTreeSet;

use super::Plot;
use super::axis::{self, Axis};
use super::canvas::{Canvas, Frame};
use super::look::bar;
use crate::report::model::{Costs, Report};
use crate::report::numbers;

/// A bar per layout; nothing if no layout has tables and files.
pub fn plot(report: &Report) -> anyhow::Result<Option<Plot>> {
    let rows: Vec<(&str, &Costs)> = report
        .costs
        .iter()
        .filter(|(_, costs)| costs.files > 0 && !costs.table_bytes.is_empty())
        .map(|(layout, costs)| (layout.as_str(), costs))
        .collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let tables: BTreeSet<&str> =
        rows.iter().flat_map(|(_, costs)| costs.table_bytes.keys().map(String::as_str)).collect();
    let legend: Vec<_> = tables.iter().enumerate().map(|(at, table)| (*table, bar(at))).collect();
    let x = Axis::linear(rows.iter().map(|(_, costs)| total(costs)).fold(0.0, f64::max), numbers::round);
    let title = "Bytes on disk by table".to_owned();
    let frame = Frame {
        title: &title,
        height: rows.len() as u32 * 64,
        x: &x,
        y: &Axis::categories(rows.iter().map(|(layout, _)| *layout)),
        x_title: "bytes per file",
        y_title: "",
        legend: &legend,
        right: 5,
        horizontal_lines: false,
    };
    let mut svg = String::new();
    let canvas = Canvas::open(&mut svg, &frame)?;
    for (row, (_, costs)) in rows.iter().enumerate() {
        let y = axis::place(row, rows.len());
        let mut from = 0.0;
        for (table, look) in &legend {
            let to = from + costs.table_bytes.get(*table).copied().unwrap_or_default() as f64 / costs.files as f64;
            canvas.block((from, y - 0.32), (to, y + 0.32), look.color)?;
            from = to;
        }
        canvas.text((from, y), &numbers::figure(from))?;
    }
    canvas.close()?;
    Ok(Some(Plot { title, svg }))
}

/// Bytes per file of all tables together.
fn total(costs: &Costs) -> f64 {
    costs.table_bytes.values().map(|bytes| *bytes as f64).sum::<f64>() / costs.files.max(1) as f64
}
