//! What a user sees of a run, and how it ends early.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;

/// Becomes true when the user wants no more. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stop(pub watch::Receiver<bool>);

impl Stop {
    /// An error once the user has asked for the end.
    pub fn check(&self) -> Result<()> {
        if *self.0.borrow() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Ends when the user asks for the end.
    pub async fn asked(&self) {
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }
}

/// A line that says what is being done, where there is a terminal; otherwise it is printed once.
pub fn bar(title: &str) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{spinner} {msg:44} {elapsed:>4} {pos:>10} {per_sec}")?;
    let bar = ProgressBar::new_spinner().with_style(style).with_message(title.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    if bar.is_hidden() {
        say(title);
    }
    Ok(bar)
}

/// Prints a line for the user, who may have closed the terminal or the pipe: a run goes on without.
pub fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
