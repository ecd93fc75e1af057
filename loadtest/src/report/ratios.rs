//! How much faster or slower a layout is than the one that all are compared with, and whether the run shows it clearly.

use super::model::{Figures, Measured, Report};
use super::numbers::figure;
use super::order;

/// What all layouts are compared with: the simplest that finds a file by its path.
pub const REFERENCE: &str = "fullpath";

/// Fewer rounds say nothing of which layout is faster: two alike layouts have all of five rounds on one side in one case
/// of sixteen, and all of two rounds in one case of two.
const ROUNDS: usize = 5;

/// The rate of a layout divided by that of the reference in the same round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Clients of both.
    pub clients: usize,
    /// Whether one client is compared although the reference was measured with many: the layout was not.
    pub is_alone: bool,
    pub rounds: usize,
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Ratio {
    /// Over the rounds that both have. None if there are none, or if the two have no number of clients in common.
    pub fn new(layout: &Figures, reference: &Figures) -> Option<Self> {
        let is_alone = layout.clients != reference.clients && reference.one_client.is_some();
        let [top, bottom] = if layout.clients == reference.clients {
            [layout, reference]
        } else {
            [layout, reference].map(|figures| figures.one_client.as_deref().unwrap_or(figures))
        };
        if top.clients != bottom.clients {
            return None;
        }
        let rounds: Vec<f64> = top.rounds.iter().zip(&bottom.rounds).map(|(top, bottom)| top / bottom).collect();
        let lowest = rounds.iter().copied().reduce(f64::min)?;
        let highest = rounds.iter().copied().reduce(f64::max)?;
        let median = crate::stats::median(&rounds);
        let ratio = Self { clients: top.clients?, is_alone, rounds: rounds.len(), median, lowest, highest };
        median.is_finite().then_some(ratio)
    }

    /// Whether the run shows which of the two is faster: in all of its rounds it is the same one.
    pub fn is_clear(&self) -> bool {
        self.rounds >= ROUNDS && (self.highest < 1.0 || self.lowest > 1.0)
    }

    /// As `0.66 (0.61 to 0.72)`; with `?` if it is not clear, and with `*` if one client is compared.
    pub fn text(&self) -> String {
        let marks = [(!self.is_clear(), "?"), (self.is_alone, "*")];
        let marks: String = marks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark).collect();
        format!("{}{marks} ({} to {})", figure(self.median), figure(self.lowest), figure(self.highest))
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
        let rounds = ([50.0, 6.0, 80.0, 70.0, 55.0], [100.0, 10.0, 100.0, 100.0, 100.0]);
        let ratio = Ratio::new(&figures(64, &rounds.0), &figures(64, &rounds.1)).unwrap();
        assert_eq!((ratio.clients, ratio.median, ratio.lowest, ratio.highest), (64, 0.6, 0.5, 0.8));
        assert_eq!((ratio.is_clear(), ratio.text().as_str()), (true, "0.60 (0.50 to 0.80)"));
    }

    #[test]
    fn rounds_in_both_directions_and_few_rounds_are_not_clear() {
        let hundred = [100.0; 5];
        let both = Ratio::new(&figures(1, &[90.0, 120.0, 90.0, 90.0, 90.0]), &figures(1, &hundred)).unwrap();
        assert_eq!((both.is_clear(), both.text().as_str()), (false, "0.90? (0.90 to 1.20)"));
        // One of the two was interrupted after four rounds.
        let few = Ratio::new(&figures(1, &[50.0; 4]), &figures(1, &hundred)).unwrap();
        assert_eq!((few.rounds, few.text().as_str()), (4, "0.50? (0.50 to 0.50)"));
    }

    #[test]
    fn what_one_client_did_is_compared_with_one_client() {
        let quick = Figures { one_client: Some(Box::new(figures(1, &[10.0]))), ..figures(64, &[100.0]) };
        let slow = figures(1, &[2.0]);
        let ratio = Ratio::new(&slow, &quick).unwrap();
        assert_eq!((ratio.clients, ratio.text().as_str()), (1, "0.20?* (0.20 to 0.20)"));
        assert_eq!(Ratio::new(&quick, &slow).unwrap().text(), "5.00? (5.00 to 5.00)");
        assert_eq!(Ratio::new(&figures(64, &[]), &figures(64, &[])), None);
        assert_eq!(Ratio::new(&figures(64, &[1.0]), &figures(64, &[0.0])), None);
        assert_eq!(Ratio::new(&figures(64, &[1.0]), &figures(32, &[1.0])), None);
    }
}
