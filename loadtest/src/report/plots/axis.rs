//! Scales of a plot, and where their labels stand.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::report::numbers;

/// A scale in the plot's own coordinates (log10 of the value where it is logarithmic), with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub low: f64,
    pub high: f64,
    /// Ascending, all of them within the scale.
    pub ticks: Vec<(f64, String)>,
}

/// Above so many decades only powers of ten are labelled.
const FINE_DECADES: f64 = 2.2;
/// Above so many, only every other one.
const COARSE_DECADES: f64 = 7.0;
/// Labels of a linear scale, at most.
const LINEAR_TICKS: f64 = 5.0;

impl Axis {
    /// From the round number (1, 2 or 5 times a power of ten) below the least value to the one above the greatest.
    /// Nothing if no value is positive, as none could be shown.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>, label: fn(f64) -> String) -> Option<Self> {
        let (least, greatest) = values
            .into_iter()
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(least, greatest), v| (least.min(v), greatest.max(v)));
        if greatest == 0.0 {
            return None;
        }
        let decades = |v: f64| (v.log10().floor() as i32 - 1)..=(v.log10().ceil() as i32 + 1);
        let steps = |v: f64| decades(v).flat_map(|d| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(d)));
        let from = steps(least).rfind(|s| *s <= least)?;
        let to = steps(greatest).find(|s| *s >= greatest && *s > from)?;
        let (low, high) = (from.log10(), to.log10());
        let every = if high - low > COARSE_DECADES { 2 } else { 1 };
        let steps: &[f64] = if high - low > FINE_DECADES { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let ticks = (low.floor() as i32..=high.ceil() as i32)
            .filter(|decade| decade.rem_euclid(every) == 0)
            .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
            .map(|value| (value.log10(), label(value)))
            .filter(|(at, _)| (low - 1e-9..=high + 1e-9).contains(at))
            .collect();
        Some(Self { low, high, ticks })
    }

    /// Percentiles as HdrHistogram plots them, log10 of 1 / (1 - p): each step to the right is a tenth of the
    /// requests. `to` is the greatest coordinate that is to be shown, with some room beyond it.
    pub fn percentiles(to: f64) -> Self {
        let to = if to.is_finite() { to.clamp(1.0, 6.0) } else { 1.0 };
        let labels = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999"];
        let places = (0..=to as i32).map(f64::from);
        let ticks = places.zip(labels).map(|(at, label)| (at, label.to_owned())).collect();
        Self { low: 0.0, high: to + 0.2, ticks }
    }

    /// From zero to a round number that is not below `greatest`.
    pub fn linear(greatest: f64, label: fn(f64) -> String) -> Self {
        let greatest = if greatest.is_finite() && greatest > 0.0 { greatest } else { 1.0 };
        let decade = 10_f64.powf((greatest / LINEAR_TICKS).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|step| step * decade)
            .into_iter()
            .find(|step| greatest / step <= LINEAR_TICKS + 1e-9)
            .unwrap_or(greatest);
        let count = (greatest / step - 1e-9).ceil();
        let ticks = (0..=count as u32).map(|n| f64::from(n) * step).map(|at| (at, label(at))).collect();
        Self { low: 0.0, high: count * step, ticks }
    }

    /// One place of width 1 a name, the first at the top of a vertical axis.
    pub fn categories<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let count = names.len();
        let mut ticks: Vec<_> = names.enumerate().map(|(at, name)| (place(at, count), name.to_owned())).collect();
        ticks.reverse();
        Self { low: 0.0, high: count.max(1) as f64, ticks }
    }

    /// Characters of the longest label.
    pub fn widest(&self) -> usize {
        self.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or_default()
    }
}

/// Labels stand where this says, not where `plotters` would find room for them.
impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Light points are further grid lines between those with labels: there are none.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.iter().map(|(at, _)| *at).collect() }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, at: &f64) -> String {
        let near = self.ticks.iter().find(|(tick, _)| (tick - at).abs() < 1e-9);
        near.map(|(_, label)| label.clone()).unwrap_or_default()
    }
}

/// The middle of the category `at` among `count`.
pub fn place(at: usize, count: usize) -> f64 {
    count.saturating_sub(at) as f64 - 0.5
}

/// Labels latencies in microseconds.
pub fn latency(values: impl IntoIterator<Item = f64>) -> Option<Axis> {
    Axis::logarithmic(values, numbers::latency)
}

/// Labels rates and counts.
pub fn rate(values: impl IntoIterator<Item = f64>) -> Option<Axis> {
    Axis::logarithmic(values, numbers::compact)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn a_logarithmic_scale_ends_at_round_numbers() {
        let narrow = latency([30.0, 120.0]).unwrap();
        assert_eq!(labels(&narrow), ["20 µs", "50 µs", "100 µs", "200 µs"]);
        assert!((narrow.low - 20_f64.log10()).abs() < 1e-9 && (narrow.high - 200_f64.log10()).abs() < 1e-9);
        let wide = latency([30.0, 1_200_000.0]).unwrap();
        assert_eq!(labels(&wide), ["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        assert!((wide.high - 2e6_f64.log10()).abs() < 1e-9);
    }

    #[test]
    fn a_single_value_has_a_scale_and_no_value_has_none() {
        assert_eq!(labels(&rate([1_000.0]).unwrap()), ["1k", "2k"]);
        assert_eq!(rate([0.0, -1.0, f64::NAN, f64::INFINITY]), None);
        assert_eq!(rate([]), None);
    }

    #[test]
    fn many_decades_are_labelled_at_every_other_one() {
        assert_eq!(labels(&rate([1.0, 1e8]).unwrap()), ["1", "100", "10k", "1M", "100M"]);
    }

    #[test]
    fn percentiles_reach_as_far_as_asked() {
        assert_eq!(labels(&Axis::percentiles(2.3)), ["0", "90", "99"]);
        assert_eq!(labels(&Axis::percentiles(0.0)), ["0", "90"]);
        assert_eq!(Axis::percentiles(f64::NAN).high, 1.2);
        assert_eq!(Axis::percentiles(99.0).high, 6.2);
    }

    #[test]
    fn a_linear_scale_has_at_most_six_labels() {
        assert_eq!(labels(&Axis::linear(1.1, numbers::round)), ["0", "0.5", "1", "1.5"]);
        assert_eq!(labels(&Axis::linear(930.0, numbers::round)), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!(labels(&Axis::linear(f64::NAN, numbers::round)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn what_is_beyond_a_scale_is_drawn_at_its_end() {
        let axis = Axis::linear(4.0, numbers::round);
        assert_eq!([-1.0, 0.0, 1.0, 4.0, 1e300].map(|v| axis.map(&v, (100, 200))), [100, 100, 125, 200, 200]);
        assert_eq!([0.0, 1.0].map(|v| axis.map(&v, (200, 100))), [200, 175]);
    }

    #[test]
    fn the_first_category_is_at_the_top() {
        let axis = Axis::categories(["a", "bcd"].into_iter());
        assert_eq!(axis.format_ext(&1.5), "a");
        assert_eq!(axis.format_ext(&0.5), "bcd");
        assert_eq!(axis.widest(), 3);
    }
}
