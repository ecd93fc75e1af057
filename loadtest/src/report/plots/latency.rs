//! Latency by percentile of each operation, a line per layout.

use super::{Plot, curve, look};
use crate::report::model::{Measured, Report};
use crate::report::order;

/// A layout's curve of an operation, with its place among the layouts.
struct Line<'a> {
    layout: &'a str,
    at: usize,
    points: Vec<(f64, f64)>,
}

/// A plot per operation that has a curve in at least one layout, all with the same scale of percentiles.
pub fn plots(report: &Report) -> anyhow::Result<Vec<Plot>> {
    let operations = order::operations(report);
    let named: Vec<(&str, Vec<Line<'_>>)> = operations.into_iter().map(|name| (name, lines(report, name))).collect();
    let x = curve::percentiles(named.iter().flat_map(|(_, lines)| lines).map(|line| line.points.as_slice()));
    let drawn = named.iter().filter_map(|(operation, lines)| {
        let curves: Vec<_> = lines
            .iter()
            .map(|line| curve::Curve { name: line.layout, look: look::line(line.at), points: &line.points })
            .collect();
        curve::draw((*operation).to_owned(), &x, &curves).transpose()
    });
    drawn.collect()
}

fn lines<'a>(report: &'a Report, operation: &str) -> Vec<Line<'a>> {
    let lines = report.layouts.iter().enumerate().filter_map(|(at, (layout, operations))| {
        let Measured::Figures(figures) = operations.get(operation)? else { return None };
        Some(Line { layout, at, points: curve::points(&figures.curve, Some(figures.count)) })
    });
    lines.filter(|line| !line.points.is_empty()).collect()
}
