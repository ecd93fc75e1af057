//! The progress of a transfer on standard error: a bar on a terminal, else a line every 10 seconds.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use tokio::time::{Instant, interval};

use crate::client::stats::{TransferStats, TransferTotal};

/// How often the bar is drawn, and how often a line is printed without a terminal.
const TICK: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_secs(10);
/// The number of ticks over which the rate is computed.
const WINDOW: usize = 80;
/// The cost of a file besides its bytes, in bytes: small files take time too.
const FILE: u64 = 32 << 10;

pub struct TransferProgress {
    bar: ProgressBar,
    done: String,
    /// One for each tick.
    samples: VecDeque<(Instant, TransferTotal)>,
    printed: Instant,
}

impl TransferProgress {
    pub fn new(done: &str) -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, done: done.to_owned(), samples: VecDeque::new(), printed: Instant::now() }
    }

    /// Never ends.
    pub async fn show(&mut self, stats: &TransferStats) -> Infallible {
        let mut ticks = interval(TICK);
        loop {
            let now = ticks.tick().await;
            let done = stats.done();
            self.samples.push_back((now, done));
            if self.samples.len() > WINDOW {
                self.samples.pop_front();
            }
            if !self.bar.is_hidden() {
                self.bar.set_message(self.line(now, done, stats));
                self.bar.tick();
            } else if self.printed.elapsed() >= PAUSE {
                self.printed = now;
                crate::cli::say(&self.line(now, done, stats));
            }
        }
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, now: Instant, done: TransferTotal, stats: &TransferStats) -> String {
        let (since, before) = self.samples.front().copied().unwrap_or((now, done));
        let seconds = (now - since).as_secs_f64();
        let of = |total: Option<String>| total.map(|total| format!(" of {total}")).unwrap_or_default();
        let total = stats.total.get();
        let mut line = format!(
            "{}{} files, {}{} {}",
            HumanCount(done.files),
            of(total.map(|t| HumanCount(t.files).to_string())),
            HumanBytes(done.bytes),
            of(total.map(|t| HumanBytes(t.bytes).to_string())),
            self.done,
        );
        if seconds > 0.0 {
            let a_second = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds).round() as u64;
            let pace = a_second(weight(done), weight(before));
            // Before the rates: a narrow terminal cuts the end.
            if let Some(total) = total.filter(|_| pace > 0) {
                let left = weight(*total).saturating_sub(weight(done)) / pace;
                line += &format!(", {:#} left", HumanDuration(Duration::from_secs(left)));
            }
            let files = HumanCount(a_second(done.files, before.files));
            let bytes = HumanBytes(a_second(done.bytes, before.bytes));
            line += &format!(", {files} files/s, {bytes}/s");
        }
        line
    }
}

fn weight(total: TransferTotal) -> u64 {
    total.bytes.saturating_add(total.files.saturating_mul(FILE))
}
