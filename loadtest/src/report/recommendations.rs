//! Which key for whom: sentences that are made from the figures of a run.

use super::hot_spots::{by_heat, is_plain};
use super::model::{ALL_TABLES, HotSpot, Report};
use super::numbers::figure;
use super::order::{self, REFERENCE, label};
use super::ratios::{ROUNDS, Ratio};

/// A question, the operation that decides it, and others that belong to it or are its price.
const QUESTIONS: [(&str, &str, &[&str]); 4] = [
    ("A drive that renames folders often", "rename_folder", &["rename_deep", "move_file", "stat", "create"]),
    ("An archive asked by period", "time_period", &["time_period_scattered", "time_period_under", "create"]),
    ("Many writers at once", "create", &["overwrite", "move_file", "list_attributes", "find_name"]),
    ("One very large folder", "list_page_deep", &["list_page_first", "rename_folder", "stat"]),
];
/// They differ from the others by more than their key.
const NO_KEYS: [&str; 2] = ["relational", "drive"];

/// A paragraph for each question.
pub fn all(report: &Report) -> Vec<String> {
    let answers = QUESTIONS.iter().map(|(question, operation, also)| {
        let regions = if *operation == "create" { regions(report) } else { String::new() };
        format!("**{question}:** {}{regions}", answer(report, operation, also))
    });
    answers.collect()
}

fn answer(report: &Report, operation: &str, also: &[&str]) -> String {
    let keys = order::layouts(report).into_iter().filter(|layout| !NO_KEYS.contains(layout));
    let mut found: Vec<(&str, Ratio)> =
        keys.filter_map(|key| Some((key, Ratio::of(report, operation, [key, REFERENCE], true)?))).collect();
    found.sort_by(|(_, one), (_, other)| other.median.total_cmp(&one.median));
    let [(best, first), others @ ..] = found.as_slice() else {
        return format!("not answered: “{}” of `{REFERENCE}` was not measured.", label(operation));
    };
    if others.is_empty() {
        return format!("not answered: of the row keys, only `{best}` was measured.");
    }
    if first.rounds < ROUNDS {
        let few = format!("needs {ROUNDS} rounds (--rounds), and this run has {}", first.rounds);
        return format!("not answered: `{best}` was fastest, but to tell a difference from noise {few}.");
    }
    let is_clear = |(other, _): &&(&str, Ratio)| {
        Ratio::of(report, operation, [best, other], true).is_some_and(|ratio| ratio.is_clear())
    };
    let (slower, same): (Vec<_>, Vec<_>) = others.iter().partition(is_clear);
    let names = |keys: &[(&str, Ratio)]| keys.iter().map(|(key, _)| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    let rival = slower.iter().find(|(key, _)| *key == REFERENCE).or(slower.first()).map(|(key, _)| *key);
    let Some((rival, first)) =
        rival.and_then(|rival| Some((rival, Ratio::of(report, operation, [best, rival], true)?)))
    else {
        return format!("no difference in this run among {}.", names(&found));
    };
    let text = |name, ratio: Ratio| format!("“{}” at {} times ({})", label(name), ratio.text(), ratio.range());
    let also = also.iter().filter_map(|name| Some(text(name, Ratio::of(report, name, [best, rival], true)?)));
    let also = also.collect::<Vec<_>>().join(", ");
    let mut sentences = vec![
        format!("`{best}`: {} the rate of `{rival}` (clients: {})", text(operation, first), first.clients),
        why(report, operation, best, rival),
    ];
    sentences.extend((!same.is_empty()).then(|| format!("No difference between it and {}", names(&same))));
    sentences.extend((!also.is_empty()).then(|| format!("Beside it, by the same key: {also}")));
    sentences.iter().map(|sentence| format!("{sentence}. ")).collect::<String>().trim_end().into()
}

/// What the faster one does least of, beside the other. The time of the CPU is no explanation.
fn why(report: &Report, operation: &str, best: &str, rival: &str) -> String {
    let work = |layout| serde_json::to_value(order::work(report, layout, operation)).unwrap_or_default();
    let (ours, theirs) = (work(best), work(rival));
    let members = ours.as_object().into_iter().flatten().filter(|(name, _)| *name != "cpu_us");
    let both = members.filter_map(|(name, ours)| Some((name, ours.as_f64()?, theirs.get(name)?.as_f64()?)));
    let factor = |(_, ours, theirs): &(&String, f64, f64)| (theirs + 0.01) / (ours + 0.01);
    match both.max_by(|one, other| factor(one).total_cmp(&factor(other))) {
        Some(most) if factor(&most) > 1.1 => {
            let name = most.0.replace('_', " ");
            format!("Its work: {} {name} for each, instead of {}", figure(most.1), figure(most.2))
        }
        Some(_) => "Its work does not explain it".into(),
        None => "Its work was not counted".into(),
    }
}

/// Where the writes of many users fall in a cluster: a rate on one machine does not show it.
fn regions(report: &Report) -> String {
    let of = |spot: &&HotSpot| is_plain(spot) && spot.load.starts_with("64 users") && spot.table == ALL_TABLES;
    let mut spots: Vec<_> = report.hot_spots.iter().filter(of).collect();
    spots.sort_by(by_heat);
    let [even, .., hot] = spots.as_slice() else {
        return " How its writes spread over regions was not measured.".into();
    };
    let heat = |spot: &HotSpot| format!("`{}` {} times the mean", spot.layout, figure(spot.spread.hottest_over_mean));
    let chance = figure(even.spread.floor);
    format!(" Over regions: the hottest gets with {}, with {}; by chance {chance}.", heat(even), heat(hot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Figures, Measured, Work};

    /// The answer about renames, from rates and cells written by layout.
    fn renames(layouts: &[(&str, f64, f64)], rounds: usize) -> String {
        let mut report = Report::default();
        for (layout, per_second, cells) in layouts {
            let work = Some(Work { cells_written: Some(*cells), ..Work::default() });
            let rounds = vec![*per_second; rounds];
            let figures = Figures { clients: Some(1), rounds, work, ..Figures::default() };
            let all = report.layouts.entry((*layout).to_owned()).or_default();
            all.insert("rename_folder".into(), Measured::Figures(Box::new(figures)));
        }
        all(&report).remove(0)
    }

    #[test]
    fn a_sentence_follows_from_the_figures() {
        let found = renames(&[("fullpath", 10.0, 20_000.0), ("tree", 2_600.0, 2.0), ("uuid", 27.0, 19_000.0)], 5);
        let expected = "**A drive that renames folders often:** `tree`: “rename a folder” at 260 times (260 to 260) the \
            rate of `fullpath` (clients: 1). Its work: 2.00 cells written for each, instead of 20,000.";
        assert_eq!(found, expected);
        let turned = renames(&[("fullpath", 3_000.0, 2.0), ("tree", 30.0, 2.0)], 5);
        assert!(
            turned.contains("`fullpath`: “rename a folder” at 100 times (100 to 100) the rate of `tree`"),
            "{turned}"
        );
        assert!(turned.contains("Its work does not explain it"), "{turned}");
        // The drive's own promises are no key.
        assert_eq!(renames(&[("fullpath", 1.0, 1.0), ("drive", 9.0, 1.0)], 5), renames(&[("fullpath", 1.0, 1.0)], 5));
    }

    #[test]
    fn noise_few_rounds_and_missing_figures_are_no_answer() {
        let same = renames(&[("fullpath", 10.0, 9.0), ("tree", 260.0, 2.0), ("dirid-name", 260.0, 2.0)], 5);
        assert!(same.contains("No difference between it and `"), "{same}");
        let equal = renames(&[("fullpath", 10.0, 9.0), ("tree", 10.0, 9.0)], 5);
        assert!(equal.contains("no difference in this run among `fullpath`, `tree`."), "{equal}");
        let few = renames(&[("fullpath", 1.0, 1.0), ("tree", 9.0, 1.0)], 4);
        assert!(few.contains("needs 5 rounds (--rounds), and this run has 4"), "{few}");
        assert!(renames(&[("tree", 9.0, 1.0)], 5).contains("was not measured"));
        assert!(renames(&[("fullpath", 9.0, 1.0)], 5).contains("only `fullpath` was measured"));
    }
}
