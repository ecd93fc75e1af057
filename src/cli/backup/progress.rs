//! How far a backup is: a line that changes on a terminal, a line now and then elsewhere, on the standard error.

use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

/// How often something is said without a terminal.
const PAUSE: Duration = Duration::from_secs(10);

pub struct Progress {
    bar: ProgressBar,
    stage: &'static str,
    files: u64,
    bytes: u64,
    said: Instant,
    /// The first line that could not be printed, and why.
    failed: RefCell<Option<io::Error>>,
}

impl Progress {
    pub fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        Self { bar, stage: "", files: 0, bytes: 0, said: Instant::now(), failed: RefCell::default() }
    }

    pub fn stage(&mut self, stage: &'static str) {
        (self.stage, self.files, self.bytes) = (stage, 0, 0);
    }

    /// A file is done.
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
        } else if self.said.elapsed() >= PAUSE {
            self.said = Instant::now();
            crate::cli::say(&message);
        }
    }

    /// Says something that stays. If that cannot be, the work goes on, and [`ended`](Self::ended) tells.
    pub fn print(&self, line: &str) {
        let printed = self.bar.suspend(|| writeln!(io::stdout(), "{line}"));
        if let Err(error) = printed {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    /// Errors: something could not be printed.
    pub fn ended(self) -> io::Result<()> {
        self.bar.finish_and_clear();
        io::stdout().flush()?;
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}
