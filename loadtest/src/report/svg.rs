//! Small plots: curves of latency and maps of regions. Their colours are the page's.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::numbers::{grouped, latency};

/// Of the curves in a plot of 360 by 230, without their labels: left, right, top and bottom.
const FRAME: [f64; 4] = [52.0, 250.0, 10.0, 200.0];

/// A curve: log10 across, microseconds upwards.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, u64)>,
}

/// The points of a curve by percentile: each step of one across is a tenth of the requests. The slowest has no place.
pub fn percentiles(curve: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let within = curve.iter().filter(|(percentile, _)| (0.0..100.0).contains(percentile));
    within.map(|(percentile, us)| (-(1.0 - percentile / 100.0).log10(), *us)).collect()
}

/// The round number (1, 2 or 5 times a power of ten) at a third of a decade.
fn round(third: i32) -> f64 {
    [1.0, 2.0, 5.0].get(third.rem_euclid(3) as usize).copied().unwrap_or(1.0) * 10_f64.powi(third.div_euclid(3))
}

/// Round numbers around all values, which are log10; only powers of ten if they are many.
fn ticks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = ((low * 3.0 - 0.1).floor() as i32, (high * 3.0 + 0.1).ceil() as i32);
    match high - low > 6 {
        true => (low.div_euclid(3)..=(high + 2).div_euclid(3)).map(|decade| round(decade * 3)).collect(),
        false => (low..=high).map(round).collect(),
    }
}

/// Curves with their names at their ends; nothing without a point.
pub fn chart(title: &str, by_percentile: bool, lines: &[Line]) -> Markup {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|(x, _)| x.is_finite());
    if points().next().is_none() {
        return Markup::default();
    }
    let percents = ["0", "90 %", "99 %", "99.9 %", "99.99 %"];
    let across: Vec<(f64, String)> = match by_percentile {
        true => (0..).map(f64::from).zip(percents.map(str::to_owned)).collect(),
        false => ticks(points().map(|(x, _)| *x)).into_iter().map(|x| (x.log10(), grouped(x as u64))).collect(),
    };
    let log = |us: u64| (us.max(1) as f64).log10();
    let up = ticks(points().map(|(_, us)| log(*us)));
    let [left, right, top, bottom] = FRAME;
    let ends = |values: &[f64]| values.first().copied().zip(values.last().copied()).unwrap_or((0.0, 1.0));
    let (x_ends, y_ends) = (ends(&across.iter().map(|(x, _)| *x).collect::<Vec<_>>()), ends(&up));
    let x = |value: f64| left + (value - x_ends.0) / (x_ends.1 - x_ends.0) * (right - left);
    let y = |us: f64| bottom - (us.log10() - y_ends.0.log10()) / (y_ends.1 / y_ends.0).log10() * (bottom - top);
    let place = |(at, us): &(f64, u64)| format!("{:.1},{:.1}", x(*at), y((*us).max(1) as f64));
    let drawn = |line: &Line| line.points.iter().map(place).collect::<Vec<_>>().join(" ");
    let names = apart(lines, |us| y(us.max(1) as f64));
    html! {
        figure.plot {
            figcaption { (title) }
            svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 230" role="img" aria-label=(title) {
                @for us in &up {
                    path.grid d={ "M" (left) " " (y(*us)) "H" (right) } {}
                    text.end x=(left - 5.0) y=(y(*us) + 4.0) { (latency(*us)) }
                }
                @for (at, label) in &across { text.middle x=(x(*at)) y=(bottom + 18.0) { (label) } }
                @for (at, (line, name)) in lines.iter().zip(names).enumerate() {
                    polyline class={ "line c" (at % 6) } points=(drawn(line)) {}
                    @if let Some(y) = name {
                        path class={ "line c" (at % 6) } d={ "M" (right + 4.0) " " (y) "h16" } {}
                        text x=(right + 24.0) y=(y + 4.0) { (line.name) }
                    }
                }
            }
        }
    }
}

/// Where the names of lines stand: at their last points, but a line of text apart.
fn apart(lines: &[Line], y: impl Fn(u64) -> f64) -> Vec<Option<f64>> {
    let mut places: Vec<Option<f64>> = lines.iter().map(|line| line.points.last().map(|(_, us)| y(*us))).collect();
    let mut sorted: Vec<&mut f64> = places.iter_mut().flatten().collect();
    sorted.sort_by(|one, other| one.total_cmp(other));
    let mut least = 0.0_f64;
    for place in sorted {
        *place = place.max(least);
        least = *place + 14.0;
    }
    places
}

/// Columns of a map: of more windows, several make one.
const COLUMNS: usize = 50;
/// Requests of a region through the mean of all: where a class of colour ends.
const CLASSES: [f64; 7] = [0.0, 0.5, 1.5, 3.0, 6.0, 12.0, f64::INFINITY];
const NAMES: [&str; 7] = ["none", "to 0.5", "to 1.5: even", "to 3", "to 6", "to 12", "more"];

/// Windows to the right, regions upwards in the order of their keys; nothing without windows or regions.
pub fn heat(title: &str, windows: &[Vec<u32>]) -> Option<Markup> {
    let regions = windows.iter().map(Vec::len).max().filter(|regions| *regions > 0)?;
    let chunks = windows.chunks(windows.len().div_ceil(COLUMNS));
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for (column, windows) in chunks.clone().enumerate() {
        let count = |region| windows.iter().filter_map(|window| window.get(region)).map(|n| f64::from(*n)).sum::<f64>();
        let mean = (0..regions).map(count).sum::<f64>() / regions as f64;
        for region in 0..regions {
            let class = CLASSES.iter().position(|end| count(region) <= end * mean + 1e-9).unwrap_or_default();
            paths.entry(class).or_default().push_str(&format!("M{column} {}h1v1h-1z", regions - 1 - region));
        }
    }
    Some(html! {
        figure.plot {
            figcaption { (title) }
            svg.heat xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (chunks.len()) " " (regions) }
                preserveAspectRatio="none" role="img" aria-label=(title) {
                @for (class, path) in &paths { path class={ "h" (class) } d=(path) {} }
            }
        }
    })
}

pub fn heat_scale() -> Markup {
    html! {
        p.soft { "Time goes to the right, regions go upwards. Requests through the mean of all regions: " }
        ul.scale {
            @for (class, name) in NAMES.iter().enumerate() { li { span class={ "swatch h" (class) } {} (name) } }
        }
    }
}
