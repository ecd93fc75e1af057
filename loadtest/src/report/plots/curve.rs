//! Curves of latency by percentile, as HdrHistogram plots them.

use super::Plot;
use super::axis::{Axis, latency};
use super::canvas::{Canvas, Frame};
use super::look::Look;

/// Several lines over the same scales, in the plot's coordinates.
pub struct Curve<'a> {
    pub name: &'a str,
    pub look: Look,
    /// log10 of 1 / (1 - p), log10 of microseconds.
    pub points: &'a [(f64, f64)],
}

/// A curve's points, up to the percentile beyond which lies one request of `count`: further to the right a histogram
/// repeats its maximum. Percentiles are percents, 0 to 100.
pub fn points(curve: &[(f64, u64)], count: Option<u64>) -> Vec<(f64, f64)> {
    let furthest = count.map_or(6.0, |count| (count.max(1) as f64).log10().min(6.0));
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (percentile, us) in curve {
        if !(0.0..=100.0).contains(percentile) {
            continue;
        }
        let beyond = -(1.0 - percentile / 100.0).max(1e-12).log10();
        let at_end = beyond >= furthest - 1e-9;
        if at_end && count.is_none() {
            break;
        }
        points.push((beyond.min(furthest), ((*us).max(1) as f64).log10()));
        if at_end {
            break;
        }
    }
    points
}

/// The scale of percentiles that all plots of a section share.
pub fn percentiles<'a>(curves: impl Iterator<Item = &'a [(f64, f64)]>) -> Axis {
    Axis::percentiles(curves.flatten().map(|(beyond, _)| *beyond).fold(0.0, f64::max))
}

/// Nothing if no curve has a point. The scale of latencies is the plot's own: they lie decades apart between plots, and
/// it is the lines of one plot that are to be compared.
pub fn draw(title: String, x: &Axis, curves: &[Curve<'_>]) -> anyhow::Result<Option<Plot>> {
    let values = curves.iter().flat_map(|curve| curve.points).map(|(_, us)| 10_f64.powf(*us));
    let Some(y) = latency(values) else { return Ok(None) };
    let legend: Vec<_> = curves.iter().map(|curve| (curve.name, curve.look)).collect();
    let frame = Frame {
        title: &title,
        height: 420,
        x,
        y: &y,
        x_title: "percentile of requests",
        y_title: "latency",
        legend: &legend,
        // Half of the last label, should it stand at the end.
        right: 3,
        horizontal_lines: true,
    };
    let mut svg = String::new();
    let canvas = Canvas::open(&mut svg, &frame)?;
    for curve in curves {
        canvas.line(curve.points, curve.look.color)?;
        for at in marked(curve.points, x) {
            canvas.marker(at, curve.look, true)?;
        }
    }
    canvas.close()?;
    Ok(Some(Plot { title, svg }))
}

/// The points at or just before each label of the axis but the first, which stands on the other axis, and the last one.
fn marked(points: &[(f64, f64)], axis: &Axis) -> Vec<(f64, f64)> {
    let before = |at: f64| points.iter().rev().find(|(x, _)| *x <= at + 1e-9).copied();
    let mut marked: Vec<_> =
        axis.ticks.iter().skip(1).filter_map(|(at, _)| before(*at)).chain(points.last().copied()).collect();
    marked.dedup();
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(points: &[(f64, f64)], expected: &[(f64, f64)]) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        points.len() == expected.len() && points.iter().zip(expected).all(|(p, e)| close(p.0, e.0) && close(p.1, e.1))
    }

    #[test]
    fn a_curve_ends_where_one_request_is_left() {
        let curve = [(0.0, 10), (90.0, 100), (99.0, 1_000), (99.9, 1_000), (100.0, 1_000)];
        // A hundred requests: the maximum is at 99 %, and what follows only repeats it.
        assert!(near(&points(&curve, Some(100)), &[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]));
        // An unknown number of them: all but 100 %, which is infinitely far.
        assert!(near(&points(&curve, None), &[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 3.0)]));
    }

    #[test]
    fn no_percentile_is_left_out_silently_but_those_that_are_none() {
        assert!(near(&points(&[(f64::NAN, 1), (-1.0, 1), (101.0, 1), (0.0, 0)], None), &[(0.0, 0.0)]));
        assert!(points(&[], Some(0)).is_empty());
        // Five requests whose histogram goes from 80 % to 100 %: the maximum is kept, at 1 / (1 - p) = 5.
        assert!(near(&points(&[(80.0, 10), (100.0, 100)], Some(6)), &[(5_f64.log10(), 1.0), (6_f64.log10(), 2.0)]));
    }

    #[test]
    fn marks_stand_at_labels_and_at_the_end() {
        let axis = Axis::percentiles(2.0);
        let points = [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0), (1.5, 2.5)];
        assert_eq!(marked(&points, &axis), [(1.0, 2.0), (1.5, 2.5)]);
        assert!(marked(&[], &axis).is_empty());
    }
}
