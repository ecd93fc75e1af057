//! How near each operation comes to what the machine can do: the ratio as a bar, the goal as a mark.

use super::Plot;
use super::axis::{self, Axis};
use super::canvas::{Canvas, Frame};
use super::look::{INK, Look, MET, MISSED, Marker};
use crate::report::model::{Limit, Report};
use crate::report::numbers;

/// The scale ends here: what is beyond is cut, and its number printed all the same.
const GREATEST: f64 = 3.0;

pub fn plot(report: &Report) -> anyhow::Result<Option<Plot>> {
    if report.limits.is_empty() {
        return Ok(None);
    }
    let limits = &report.limits;
    let shown = limits.iter().flat_map(|limit| [Some(limit.ratio), goal(&limit.goal)]).flatten();
    let greatest = shown.filter(|ratio| ratio.is_finite()).fold(1.0, f64::max);
    let x = Axis::linear(greatest.min(GREATEST), numbers::round);
    let title = "Ours through the limit".to_owned();
    let legend = [
        ("goal met", Look { color: MET, marker: Marker::Square }),
        ("goal missed (outlined)", Look { color: MISSED, marker: Marker::Square }),
    ];
    let frame = Frame {
        title: &title,
        height: limits.len() as u32 * 92,
        x: &x,
        // The names stand above the bars, which would have little room beside them.
        y: &Axis { ticks: Vec::new(), ..Axis::categories(limits.iter().map(|_| "")) },
        x_title: "ratio",
        y_title: "",
        legend: &legend,
        right: 0,
        horizontal_lines: false,
    };
    let mut svg = String::new();
    let canvas = Canvas::open(&mut svg, &frame)?;
    for (row, limit) in limits.iter().enumerate() {
        bar(&canvas, limit, axis::place(row, limits.len()), x.high)?;
    }
    canvas.close()?;
    Ok(Some(Plot { title, svg }))
}

fn bar(canvas: &Canvas<'_>, limit: &Limit, y: f64, high: f64) -> anyhow::Result<()> {
    let beyond = if limit.ratio > high { ", cut" } else { "" };
    let verdict = if limit.met { "met" } else { "missed" };
    let name = format!("{}: {} {verdict}{beyond}", limit.operation, numbers::figure(limit.ratio));
    canvas.text((0.0, y + 0.24), &name)?;
    if limit.ratio.is_finite() {
        let end = limit.ratio.clamp(0.0, high);
        let (from, to) = ((0.0, y - 0.36), (end, y));
        if limit.met { canvas.block(from, to, MET)? } else { canvas.outline(from, to, MISSED)? }
    }
    match goal(&limit.goal) {
        Some(goal) if goal <= high => canvas.line(&[(goal, y - 0.44), (goal, y + 0.06)], INK),
        _ => Ok(()),
    }
}

/// The number in a goal such as `>= 0.85`.
fn goal(text: &str) -> Option<f64> {
    let number = text.trim_start_matches(|c: char| c.is_whitespace() || "<>=≤≥".contains(c));
    number.split_whitespace().next()?.parse().ok().filter(|goal: &f64| goal.is_finite() && *goal >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_a_number_after_a_sign() {
        assert_eq!(goal(">= 0.85"), Some(0.85));
        assert_eq!(goal("≤2 of the limit"), Some(2.0));
        assert_eq!(goal("none"), None);
        assert_eq!(goal(""), None);
        assert_eq!(goal(">= NaN"), None);
    }
}
