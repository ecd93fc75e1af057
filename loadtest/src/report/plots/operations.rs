//! Operations per second, bars of layouts grouped by operation.

use super::Plot;
use super::axis::{self, Axis};
use super::canvas::{Canvas, Frame};
use super::look::{Look, bar};
use crate::report::model::{Measured, Report};
use crate::report::{numbers, order};

/// Operations of one plot: of more there are several, side by side.
const OPERATIONS: usize = 6;
pub fn plots(report: &Report) -> anyhow::Result<Vec<Plot>> {
    let rates =
        report.layouts.values().flat_map(|operations| operations.values()).filter_map(|measured| match measured {
            Measured::Figures(figures) => Some(figures.per_second),
            Measured::Unsupported { .. } => None,
        });
    // A bar at the very start of the scale would have no length.
    let Some(x) = axis::rate(rates.flat_map(|rate| [rate, rate / 1.5])) else { return Ok(Vec::new()) };
    let operations = order::operations(report);
    let count = operations.len().div_ceil(OPERATIONS);
    let parts = operations.chunks(operations.len().div_ceil(count.max(1)).max(1)).enumerate();
    parts.map(|(part, operations)| plot(report, &x, operations, (part + 1, count))).collect()
}

fn plot(report: &Report, x: &Axis, operations: &[&str], (part, of): (usize, usize)) -> anyhow::Result<Plot> {
    let title = if of > 1 { format!("Operations per second ({part} of {of})") } else { "Operations per second".into() };
    let legend: Vec<(&str, Look)> =
        report.layouts.keys().enumerate().map(|(at, layout)| (layout.as_str(), bar(at))).collect();
    let frame = Frame {
        title: &title,
        height: (operations.len() * (legend.len() * 34 + 30)) as u32,
        x,
        y: &Axis::categories(operations.iter().copied()),
        x_title: "operations per second, logarithmic",
        y_title: "",
        legend: &legend,
        right: 9,
        horizontal_lines: false,
    };
    let mut svg = String::new();
    let canvas = Canvas::open(&mut svg, &frame)?;
    let thick = 0.84 / legend.len().max(1) as f64;
    for (row, operation) in operations.iter().enumerate() {
        let top = axis::place(row, operations.len()) + 0.42;
        for (at, layout) in report.layouts.values().enumerate() {
            let y = top - (at as f64 + 0.5) * thick;
            match layout.get(*operation) {
                Some(Measured::Figures(figures)) if figures.per_second.is_finite() && figures.per_second > 0.0 => {
                    let end = figures.per_second.log10();
                    canvas.block((x.low, y - thick * 0.44), (end, y + thick * 0.44), bar(at).color)?;
                    canvas.text((end, y), &numbers::figure(figures.per_second))?;
                }
                Some(Measured::Unsupported { .. }) => canvas.text((x.low, y), "not supported")?,
                _ => canvas.text((x.low, y), "not measured")?,
            }
        }
    }
    canvas.close()?;
    Ok(Plot { title, svg })
}
