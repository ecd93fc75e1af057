//! How much faster or slower a layout is than the one that all are compared with, and whether that is more than noise.

use super::model::{Figures, Measured, Report};
use super::numbers::figure;
use super::order;

/// What all layouts are compared with: the simplest that finds a file by its path.
pub const REFERENCE: &str = "fullpath";

/// A rate divided by that of the reference in the same round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Clients of both; where one layout was measured with one client alone, it is one.
    pub clients: usize,
    /// Over all rounds.
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Ratio {
    /// None if the two were not measured in the same rounds.
    pub fn new(of: &Figures, reference: &Figures) -> Option<Self> {
        if of.clients != reference.clients {
            let one = |figures: &Figures| figures.one_client.as_deref().cloned().unwrap_or_else(|| figures.clone());
            let (of, reference) = (one(of), one(reference));
            return if of.clients == reference.clients { Self::new(&of, &reference) } else { None };
        }
        if of.rounds.is_empty() || of.rounds.len() != reference.rounds.len() {
            return None;
        }
        let rounds: Vec<f64> = of.rounds.iter().zip(&reference.rounds).map(|(of, to)| of / to).collect();
        let lowest = rounds.iter().copied().reduce(f64::min)?;
        let highest = rounds.iter().copied().reduce(f64::max)?;
        let median = crate::stats::median(&rounds);
        median.is_finite().then_some(Self { clients: of.clients?, median, lowest, highest })
    }

    /// Whether some rounds had one of them faster, and some the other.
    pub fn is_noise(&self) -> bool {
        self.lowest <= 1.0 && self.highest >= 1.0
    }

    /// As `0.66 (0.61 to 0.72)`, or as `none (0.93 to 1.08)`, which is no difference.
    pub fn text(&self) -> String {
        let median = if self.is_noise() { "none".to_owned() } else { figure(self.median) };
        let range = if self.lowest < self.highest {
            format!(" ({} to {})", figure(self.lowest), figure(self.highest))
        } else {
            String::new()
        };
        format!("{median}{range}")
    }
}

/// The layouts that are compared with the reference, in order; none if the reference was not measured.
pub fn layouts(report: &Report) -> Vec<&str> {
    if !report.layouts.contains_key(REFERENCE) {
        return Vec::new();
    }
    report.layouts.keys().map(String::as_str).filter(|layout| *layout != REFERENCE).collect()
}

/// Each operation that the reference can do, with the ratio of each of [`layouts`].
pub fn rows(report: &Report) -> Vec<(&str, Vec<Option<Ratio>>)> {
    let layouts = layouts(report);
    let figures = |layout: &str, operation: &str| match report.layouts.get(layout)?.get(operation)? {
        Measured::Figures(figures) => Some(figures),
        Measured::Unsupported { .. } => None,
    };
    let row = |operation| {
        let reference = figures(REFERENCE, operation)?;
        let ratio = |layout: &&str| Ratio::new(figures(layout, operation)?, reference);
        Some((operation, layouts.iter().map(ratio).collect::<Vec<_>>()))
    };
    order::operations(report).into_iter().filter_map(row).filter(|(_, all)| all.iter().any(Option::is_some)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(clients: usize, rounds: &[f64]) -> Figures {
        Figures { clients: Some(clients), rounds: rounds.to_vec(), ..Figures::default() }
    }

    #[test]
    fn rounds_are_compared_one_by_one() {
        // The machine was ten times as slow in the second round, for both.
        let ratio = Ratio::new(&figures(64, &[50.0, 6.0, 80.0]), &figures(64, &[100.0, 10.0, 100.0])).unwrap();
        assert_eq!((ratio.clients, ratio.median, ratio.lowest, ratio.highest), (64, 0.6, 0.5, 0.8));
        assert_eq!((ratio.is_noise(), ratio.text().as_str()), (false, "0.60 (0.50 to 0.80)"));
    }

    #[test]
    fn what_differs_in_both_directions_is_no_difference() {
        let ratio = Ratio::new(&figures(1, &[90.0, 120.0]), &figures(1, &[100.0, 100.0])).unwrap();
        assert_eq!((ratio.is_noise(), ratio.text().as_str()), (true, "none (0.90 to 1.20)"));
    }

    #[test]
    fn what_one_client_did_is_compared_with_one_client() {
        let quick = Figures { one_client: Some(Box::new(figures(1, &[10.0]))), ..figures(64, &[100.0]) };
        let slow = figures(1, &[2.0]);
        let ratio = Ratio::new(&slow, &quick).unwrap();
        assert_eq!((ratio.clients, ratio.text().as_str()), (1, "0.20"));
        assert_eq!(Ratio::new(&figures(64, &[1.0, 2.0]), &figures(64, &[1.0])), None);
        assert_eq!(Ratio::new(&figures(64, &[]), &figures(64, &[])), None);
        assert_eq!(Ratio::new(&figures(64, &[1.0]), &figures(64, &[0.0])), None);
    }
}
