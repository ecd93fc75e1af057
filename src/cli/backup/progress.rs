//! The progress of a backup or restore on standard error: a spinner on a terminal, elsewhere a line every 10 seconds.

use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

/// Time between two lines, without a terminal.
const PAUSE: Duration = Duration::from_secs(10);

pub struct Progress {
    bar: ProgressBar,
    stage: &'static str,
    files: u64,
    bytes: u64,
    printed: Instant,
    /// The first line that could not be printed, and why.
    failed: RefCell<Option<io::Error>>,
}

impl Progress {
    pub fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        Self { bar, stage: "", files: 0, bytes: 0, printed: Instant::now(), failed: RefCell::default() }
    }

    pub fn stage(&mut self, stage: &'static str) {
        (self.stage, self.files, self.bytes) = (stage, 0, 0);
    }

    /// Counts a file that was copied.
    pub fn add(&mut self, bytes: u64) {
        self.rows(1);
        self.bytes += bytes;
    }

    pub fn rows(&mut self, rows: u64) {
        self.files += rows;
        let message = format!("{}: {}, {}", self.stage, HumanCount(self.files), HumanBytes(self.bytes));
        if !self.bar.is_hidden() {
            self.bar.set_message(message);
            self.bar.tick();
        } else if self.printed.elapsed() >= PAUSE {
            self.printed = Instant::now();
            crate::cli::say(&message);
        }
    }

    /// Prints a line on standard output. If that fails the work continues, and [`finish`](Self::finish) returns the
    /// error.
    pub fn print(&self, line: &str) {
        let printed = self.bar.suspend(|| writeln!(io::stdout(), "{line}"));
        if let Err(error) = printed {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    /// Errors: something could not be printed.
    pub fn finish(self) -> io::Result<()> {
        self.bar.finish_and_clear();
        io::stdout().flush()?;
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}
