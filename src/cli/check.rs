//! `rowdrive check`: checks the consistency of a data folder, with the server stopped.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use rowdrive::check::{CheckError, CheckEvent, CheckOptions, CheckSummary, Finding, FindingKind, check};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate::{self, MigrateError};
use rowdrive::table::{StoreError, Tables};

use super::{CommandOutcome, backup, signals, size_arg};
use crate::data_folder::{self, DataFolderError, FolderState};

/// Check a data folder: whether every name leads to a whole file, and nothing is left over.
///
/// The server must be stopped. Without --repair nothing in the folder changes. Exit code 1 if something is wrong and
/// was not repaired; each such thing is named.
#[derive(Args)]
pub struct CheckArgs {
    /// The folder to check.
    #[arg(long, value_name = "DIR", env = "ROWDRIVE_DATA")]
    data: PathBuf,
    /// Read every byte of every file too, and compare it with its digest.
    #[arg(long)]
    content: bool,
    /// Put back index rows and links, and remove what no name leads to. Content is saved in DIR/lost before.
    #[arg(long)]
    repair: bool,
    /// Print one JSON object: `findings` and `summary`.
    #[arg(long)]
    json: bool,
    /// Memory for caches and write buffers, as in 512MiB or 4GiB; at least 32MiB.
    #[arg(long, value_name = "BYTES", value_parser = size_arg::parse_memory, default_value = "256MiB")]
    memory: u64,
}

/// Why the folder could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckFailed {
    #[error("{0} is no data folder: there is no {0}/db")]
    NoStore(PathBuf),
    #[error(
        "{0} is a backup: a repair would change it, and it could not be restored any more. Restore it into a folder of its own, and repair that"
    )]
    Backup(PathBuf),
    #[error("the data folder {0} cannot be opened: {1}{hint}", hint = super::recovery_hint(.1))]
    Store(PathBuf, StoreError),
    #[error("the data folder {0} cannot be checked: {1}")]
    DataFolder(PathBuf, DataFolderError),
    #[error("the data folder {0} cannot be checked: {1}")]
    Migrate(PathBuf, MigrateError),
    #[error("the check of {0} failed: {1}")]
    Check(PathBuf, CheckError),
    #[error("what was found cannot be printed: {0}")]
    Print(#[from] io::Error),
}

type Result<T> = std::result::Result<T, CheckFailed>;

impl CheckArgs {
    pub fn run(self) -> Result<CommandOutcome> {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(self.check())
    }

    async fn check(self) -> Result<CommandOutcome> {
        signals::explain_interruption()?;
        let data = std::path::absolute(&self.data)?;
        let state = data_folder::compare(&data).map_err(|e| CheckFailed::DataFolder(self.data.clone(), e))?;
        if state == FolderState::New {
            return Err(CheckFailed::NoStore(self.data));
        }
        if self.repair && backup::is_backup(&data) {
            return Err(CheckFailed::Backup(self.data));
        }
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        let open = if self.repair { Rocks::open } else { Rocks::open_read_only };
        let rocks = open(&data.join("db"), RocksOptions::with_memory(memory));
        let rocks = Arc::new(rocks.map_err(|e| CheckFailed::Store(self.data.clone(), e))?);
        let tables = Tables::new(rocks.clone());
        migrate::open(&tables).await.map_err(|e| CheckFailed::Migrate(self.data.clone(), e))?;
        if state == FolderState::Unidentified {
            let checked = data_folder::check_content(&data, &tables).await;
            checked.map_err(|e| CheckFailed::DataFolder(self.data.clone(), e))?;
        }
        let options = CheckOptions { content: self.content, repair: self.repair };
        let mut printer = Printer::new(self.json);
        let summary = check(&tables, &data, &options, &mut |event| printer.print(&event)).await;
        // The list of an earlier process, and those that this check found.
        let tables = rocks.damaged_tables();
        rocks.close().await;
        printer.progress.finish_and_clear();
        let mut summary = summary.map_err(|e| CheckFailed::Check(self.data, e))?;
        for (file, family) in tables {
            summary.wrong += 1;
            printer.print(&CheckEvent::Finding(&unreadable(file, &family)));
        }
        printer.end(&summary, &data, self.content)?;
        Ok(if summary.is_right() { CommandOutcome::Done } else { CommandOutcome::WithFailures })
    }
}

/// Prints findings on standard output as the check makes them, and progress on standard error.
struct Printer {
    out: BufWriter<Stdout>,
    json: bool,
    findings: usize,
    /// The first error of printing.
    failed: Option<io::Error>,
    progress: ProgressBar,
    rows: u64,
    stage: &'static str,
    /// When the last line of progress was printed, without a terminal.
    printed: Instant,
}

/// Time between two lines of progress, without a terminal.
const PAUSE: Duration = Duration::from_secs(10);

impl Printer {
    fn new(json: bool) -> Self {
        let progress = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            progress.set_style(style);
        }
        let (out, printed) = (BufWriter::new(io::stdout()), Instant::now());
        Self { out, json, findings: 0, failed: None, progress, rows: 0, stage: "", printed }
    }

    fn print(&mut self, event: &CheckEvent<'_>) {
        match event {
            CheckEvent::Stage(stage) => (self.stage, self.rows) = (stage, 0),
            CheckEvent::Rows(rows) => self.rows += *rows as u64,
            CheckEvent::Finding(finding) => {
                let printed = self.progress.suspend(|| print_finding(&mut self.out, self.json, self.findings, finding));
                self.findings += 1;
                self.failed = self.failed.take().or(printed.err());
                return;
            }
        }
        let message = format!("checking {}: {}", self.stage, HumanCount(self.rows));
        if self.progress.is_hidden() {
            if self.printed.elapsed() >= PAUSE {
                self.printed = Instant::now();
                super::say(&message);
            }
        } else {
            self.progress.set_message(message);
            self.progress.tick();
        }
    }

    fn end(mut self, summary: &CheckSummary, data: &Path, content: bool) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.json {
            let start = if self.findings == 0 { "{\"findings\":[" } else { "" };
            let summary = serde_json::to_string(summary)?;
            writeln!(self.out, "{start}\n],\"summary\":{summary}}}")?;
        } else {
            let unread = if content { "" } else { "; content was not read: --content reads it" };
            writeln!(self.out, "{}{unread}", in_words(summary, data))?;
        }
        self.out.flush()
    }
}

fn print_finding(out: &mut impl Write, json: bool, before: usize, finding: &Finding) -> io::Result<()> {
    if json {
        let start = if before == 0 { "{\"findings\":[\n" } else { ",\n" };
        write!(out, "{start}{}", serde_json::to_string(finding)?)?;
    } else {
        writeln!(out, "{finding}")?;
    }
    out.flush()
}

/// A file of RocksDB in which a block cannot be read.
fn unreadable(file: String, family: &str) -> Finding {
    let detail = format!(
        "a part of it cannot be read, so {family} is no longer compacted: export the drive, or restore a backup, into \
         a new folder"
    );
    Finding { kind: FindingKind::Unreadable, table: "db", row: file, path: None, detail, repaired: false }
}

fn in_words(summary: &CheckSummary, data: &Path) -> String {
    let CheckSummary { directories, files, bytes, wrong, strays, notes, repaired, saved, pending, looked_for_strays } =
        summary;
    let mut text = format!("{files} files, {bytes} bytes, in {directories} directories: {wrong} wrong, {strays} stray");
    if *notes > 0 {
        text += &format!(", {notes} notes");
    }
    if *repaired > 0 {
        text += &format!(", {repaired} of them repaired");
    }
    if *saved > 0 {
        text += &format!("; content of {saved} saved in {}", data.join("lost").display());
    }
    if *pending > 0 {
        text += &format!("; {pending} things are left for the next start to complete or remove");
    }
    if !looked_for_strays {
        text += "; the directories could not be read whole, so nothing else was looked for";
    }
    text
}
