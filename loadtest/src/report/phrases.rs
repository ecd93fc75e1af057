//! Parts of a report in words, the same in the terminal and the page.

use super::model::{Costs, Figures, HttpRun, Meta};
use super::numbers::{bytes, figure, grouped};

/// Which run this was: names and values.
pub fn facts(meta: &Meta) -> Vec<(&str, String)> {
    let machine = &meta.machine;
    let mut facts = vec![
        ("Began", known(&meta.started).to_owned()),
        ("Took", format!("{} s", figure(meta.seconds))),
        ("Tree", format!("{} files in {} folders", grouped(meta.files), grouped(meta.directories))),
        ("Seed", meta.seed.to_string()),
        ("Clients", meta.clients.to_string()),
        ("Size of run", if meta.quick { "quick: for a look, not for conclusions" } else { "full" }.to_owned()),
        ("Processor", format!("{}, {} cores", known(&machine.cpu), machine.cores)),
        ("Memory", bytes(machine.memory_bytes as f64)),
        ("System", format!("{}, {}", known(&machine.system), known(&machine.file_system))),
        ("Load test", known(&meta.version).to_owned()),
    ];
    facts.extend(meta.rounds.map(|rounds| ("Rounds over all layouts", rounds.to_string())));
    facts.extend(meta.versions.iter().map(|(name, version)| (name.as_str(), version.clone())));
    facts
}

fn known(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

/// Why the run is not whole; nothing if it is.
pub fn partial(meta: &Meta) -> Option<String> {
    let why = if meta.notes.is_empty() { "the run did not end".to_owned() } else { meta.notes.join("; ") };
    (!meta.complete).then_some(why)
}

/// `10,200 to 11,900`: operations a second in the slowest and in the fastest round.
pub fn range(figures: &Figures) -> String {
    let text = |(lowest, highest): (f64, f64)| format!("{} to {}", figure(lowest), figure(highest));
    figures.range().map_or_else(|| "-".to_owned(), text)
}

/// `64`, or a dash.
pub fn clients(figures: &Figures) -> String {
    figures.clients.map_or_else(|| "-".to_owned(), |clients| clients.to_string())
}

/// `12.0 ms (1,000 files)`.
pub fn renamed(costs: &Costs) -> String {
    match costs.rename_ms {
        Some(ms) => format!("{} ms ({} files)", figure(ms), grouped(costs.rename_files)),
        None => "-".to_owned(),
    }
}

/// `closed`, or `open, 75 %`.
pub fn loop_of(run: &HttpRun) -> String {
    if run.open_loop { format!("open, {}", of_peak(run)) } else { "closed".to_owned() }
}

/// `75 %`, or a dash of an unknown peak.
pub fn of_peak(run: &HttpRun) -> String {
    if run.of_peak.is_finite() { format!("{:.0} %", run.of_peak * 100.0) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_partial_with_or_without_a_reason() {
        let mut meta = Meta { notes: vec!["interrupted".into(), "in http".into()], ..Meta::default() };
        assert_eq!(partial(&meta).unwrap(), "interrupted; in http");
        meta.notes.clear();
        assert_eq!(partial(&meta).unwrap(), "the run did not end");
        meta.complete = true;
        assert_eq!(partial(&meta), None);
    }

    #[test]
    fn a_loop_and_a_rename_are_told_in_few_words() {
        assert_eq!(loop_of(&HttpRun { open_loop: true, of_peak: 0.75, ..HttpRun::default() }), "open, 75 %");
        assert_eq!(loop_of(&HttpRun::default()), "closed");
        let costs = Costs { rename_ms: Some(12.0), rename_files: 1_000, ..Costs::default() };
        assert_eq!(renamed(&costs), "12.0 ms (1,000 files)");
        assert_eq!(renamed(&Costs::default()), "-");
    }
}
