//! Where requests fall, window by window and region by region.

use plotters::style::RGBColor;

use super::Plot;
use super::axis::Axis;
use super::canvas::{Canvas, Frame};
use super::look::INK;
use crate::report::model::Spread;
use crate::report::numbers;

/// Columns of a map: of more windows, several make one.
const COLUMNS: usize = 60;

/// Requests of a region through the mean of all regions: a class ends at its bound. ColorBrewer's YlOrRd of six, and a
/// grey where there was no request.
const CLASSES: [(f64, RGBColor, &str); 7] = [
    (0.0, RGBColor(0xe9, 0xec, 0xef), "none"),
    (0.5, RGBColor(0xff, 0xff, 0xb2), "to 0.5 x"),
    (1.5, RGBColor(0xfe, 0xd9, 0x76), "to 1.5 x: even"),
    (3.0, RGBColor(0xfe, 0xb2, 0x4c), "to 3 x"),
    (6.0, RGBColor(0xfd, 0x8d, 0x3c), "to 6 x"),
    (12.0, RGBColor(0xf0, 0x3b, 0x20), "to 12 x"),
    (f64::INFINITY, RGBColor(0xbd, 0x00, 0x26), "more"),
];

/// The colours of all maps as `#rrggbb`, and what they mean.
pub fn scale() -> impl Iterator<Item = (String, &'static str)> {
    CLASSES
        .iter()
        .map(|(_, RGBColor(red, green, blue), meaning)| (format!("#{red:02x}{green:02x}{blue:02x}"), *meaning))
}

/// Windows to the right, regions upwards in the order of their keys; nothing without windows or regions.
pub fn plot(title: String, spread: &Spread) -> anyhow::Result<Option<Plot>> {
    let regions = spread.heat.iter().map(Vec::len).max().unwrap_or_default();
    if regions == 0 {
        return Ok(None);
    }
    let per_column = spread.heat.len().div_ceil(COLUMNS);
    let columns: Vec<Vec<usize>> = spread.heat.chunks(per_column).map(|windows| classes(windows, regions)).collect();
    let x = windows(spread.heat.len());
    let y = region_axis(regions);
    let frame = Frame {
        title: &title,
        height: 300,
        x: &x,
        y: &y,
        x_title: "window of a second",
        y_title: "region",
        legend: &[],
        right: 0,
        horizontal_lines: false,
    };
    let mut svg = String::new();
    let canvas = Canvas::open(&mut svg, &frame)?;
    for region in 0..regions {
        let row: Vec<usize> = columns.iter().filter_map(|column| column.get(region).copied()).collect();
        let mut from = 0;
        for run in row.chunk_by(|a, b| a == b) {
            let to = from + run.len();
            let color = run.first().and_then(|class| CLASSES.get(*class)).map_or(INK, |class| class.1);
            let end = (to * per_column).min(spread.heat.len());
            let corners = (((from * per_column) as f64, region as f64), (end as f64, region as f64 + 1.0));
            canvas.block(corners.0, corners.1, color)?;
            from = to;
        }
    }
    canvas.close()?;
    Ok(Some(Plot { title, svg }))
}

/// The class of each region over some windows.
fn classes(windows: &[Vec<u32>], regions: usize) -> Vec<usize> {
    let mut requests = vec![0_u64; regions];
    for window in windows {
        for (sum, count) in requests.iter_mut().zip(window) {
            *sum += u64::from(*count);
        }
    }
    let mean = requests.iter().sum::<u64>() as f64 / regions as f64;
    let class = |count: u64| {
        let of_mean = if count == 0 { 0.0 } else { count as f64 / mean };
        CLASSES.iter().position(|(bound, ..)| of_mean <= *bound + 1e-9).unwrap_or_default()
    };
    requests.into_iter().map(class).collect()
}

/// Ends with the last window, wherever that is.
fn windows(count: usize) -> Axis {
    let count = count as f64;
    let round = Axis::linear(count.max(5.0), numbers::round);
    Axis { low: 0.0, high: count, ticks: round.ticks.into_iter().filter(|(at, _)| *at <= count).collect() }
}

/// Labels every fourth region, in its middle.
fn region_axis(regions: usize) -> Axis {
    let every = regions.div_ceil(4).max(1);
    let ticks = (0..regions).step_by(every).map(|region| (region as f64 + 0.5, region.to_string())).collect();
    Axis { low: 0.0, high: regions as f64, ticks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_classed_by_the_mean_of_its_window() {
        // A mean of 10: none, half, the mean, 2.5 times.
        assert_eq!(classes(&[vec![0, 5, 10, 25]], 4), [0, 1, 2, 3]);
        // All in one of sixteen: sixteen times the mean.
        let mut all_in_one = vec![0; 16];
        all_in_one[3] = 400;
        assert_eq!(classes(&[all_in_one], 16)[3], 6);
    }

    #[test]
    fn windows_that_share_a_column_are_summed() {
        assert_eq!(classes(&[vec![10, 0], vec![0, 10]], 2), [2, 2]);
        assert_eq!(classes(&[vec![], vec![0, 0]], 2), [0, 0]);
    }

    #[test]
    fn nothing_is_drawn_without_windows_or_regions() {
        assert!(plot(String::new(), &Spread::default()).unwrap().is_none());
        assert!(plot(String::new(), &Spread { heat: vec![vec![]], ..Spread::default() }).unwrap().is_none());
        assert!(plot(String::new(), &Spread { heat: vec![vec![0]], ..Spread::default() }).unwrap().is_some());
    }

    #[test]
    fn the_axis_of_windows_ends_with_the_last() {
        assert_eq!(windows(3).high, 3.0);
        assert_eq!(windows(3).ticks.last().unwrap().1, "3");
        let labels: Vec<String> = windows(90).ticks.into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "20", "40", "60", "80"]);
    }
}
