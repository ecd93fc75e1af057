//! Latency over HTTP: by offered load, and by percentile at each load.

use std::collections::BTreeMap;

use super::axis::{self, Axis};
use super::canvas::{Canvas, Frame};
use super::look;
use super::{Plot, curve};
use crate::report::model::HttpRun;
use crate::report::phrases::of_peak;

type Mixes<'a> = BTreeMap<&'a str, Vec<&'a HttpRun>>;

/// The open loops of each mix, by rising load: only they have a latency that counts the wait for a busy server.
fn open_loops(runs: &[HttpRun]) -> Mixes<'_> {
    let mut mixes = Mixes::new();
    for run in
        runs.iter().filter(|run| run.open_loop && run.offered_per_second.is_finite() && run.offered_per_second > 0.0)
    {
        mixes.entry(&run.mix).or_default().push(run);
    }
    for loops in mixes.values_mut() {
        loops.sort_by(|a, b| a.offered_per_second.total_cmp(&b.offered_per_second));
    }
    mixes
}

/// The median and the 99th percentile by offered load, a line per mix, both with the same scales.
pub fn by_load(runs: &[HttpRun]) -> anyhow::Result<Vec<Plot>> {
    let mixes = open_loops(runs);
    let all = || mixes.values().flatten();
    let Some(x) = axis::rate(all().map(|run| run.offered_per_second)) else { return Ok(Vec::new()) };
    let latencies = all().flat_map(|run| [run.p50_us, run.p99_us]).map(|us| us.max(1) as f64);
    let Some(y) = axis::latency(latencies) else { return Ok(Vec::new()) };
    let median = latency_by_load("Median by offered load", (&x, &y), &mixes, |run| run.p50_us)?;
    let tail = latency_by_load("99th percentile by offered load", (&x, &y), &mixes, |run| run.p99_us)?;
    Ok(vec![median, tail])
}

fn latency_by_load(
    title: &str,
    (x, y): (&Axis, &Axis),
    mixes: &Mixes<'_>,
    of: fn(&HttpRun) -> u64,
) -> anyhow::Result<Plot> {
    let legend: Vec<_> = mixes.keys().enumerate().map(|(at, mix)| (*mix, look::line(at))).collect();
    let frame = Frame {
        title,
        height: 420,
        x,
        y,
        x_title: "requests offered per second",
        y_title: "latency",
        legend: &legend,
        right: 0,
        horizontal_lines: true,
    };
    let mut svg = String::new();
    let canvas = Canvas::open(&mut svg, &frame)?;
    for ((_, look), loops) in legend.iter().zip(mixes.values()) {
        let place = |run: &HttpRun| (run.offered_per_second.log10(), (of(run).max(1) as f64).log10());
        let points: Vec<_> = loops.iter().map(|run| place(run)).collect();
        canvas.line(&points, look.color)?;
        for (at, run) in points.iter().zip(loops) {
            canvas.marker(*at, *look, !run.generator_bound)?;
        }
    }
    canvas.close()?;
    Ok(Plot { title: title.to_owned(), svg })
}

/// Latency by percentile, a plot per mix and a line per load, all with the same scale of percentiles.
pub fn by_percentile(runs: &[HttpRun]) -> anyhow::Result<Vec<Plot>> {
    let mixes = open_loops(runs);
    let named: Vec<(&str, Vec<Line>)> = mixes.iter().map(|(mix, loops)| (*mix, lines(loops))).collect();
    let x = curve::percentiles(named.iter().flat_map(|(_, lines)| lines).map(|line| line.points.as_slice()));
    let drawn = named.iter().filter_map(|(mix, lines)| {
        let curves: Vec<_> = lines
            .iter()
            .enumerate()
            .map(|(at, line)| curve::Curve { name: &line.name, look: look::line(at), points: &line.points })
            .collect();
        curve::draw(format!("{mix}, at parts of its peak"), &x, &curves).transpose()
    });
    drawn.collect()
}

/// A load of a mix, and its curve.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

fn lines(loops: &[&HttpRun]) -> Vec<Line> {
    let lines = loops.iter().map(|run| {
        let points = curve::points(&run.curve, None);
        Line { name: of_peak(run), points }
    });
    lines.filter(|line| !line.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(offered_per_second: f64, open_loop: bool) -> HttpRun {
        HttpRun { mix: "stat".into(), offered_per_second, open_loop, ..HttpRun::default() }
    }

    #[test]
    fn only_open_loops_with_a_load_are_drawn_by_rising_load() {
        let runs = [run(900.0, true), run(1_000.0, false), run(f64::NAN, true), run(0.0, true), run(250.0, true)];
        let mixes = open_loops(&runs);
        assert_eq!(mixes["stat"].iter().map(|run| run.offered_per_second).collect::<Vec<_>>(), [250.0, 900.0]);
    }
}
