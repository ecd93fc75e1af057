//! Statistics of a transfer, and the rule for giving it up.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::client::FailureScope;

/// Files and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferTotal {
    pub files: u64,
    pub bytes: u64,
}

/// The kind of a note about a single file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferNote {
    /// It is neither file nor folder, or the target has something else of its name, which is left as it is.
    Skipped,
    /// It has another name on the drive.
    Renamed,
    Failed,
}

/// The most notes of each kind that are kept with their text. Further ones are only counted, so that memory is bounded.
const MAX_NOTES: usize = 100_000;
/// The fewest shared failures in a row after which a transfer gives up.
const MIN_FAILURES: u64 = 16;

#[derive(Default)]
struct Notes {
    skipped: Vec<String>,
    renamed: Vec<String>,
    failed: Vec<String>,
    counts: [u64; 3],
}

impl Notes {
    fn of_kind(&mut self, note: TransferNote) -> (&mut Vec<String>, &mut u64) {
        let [skipped, renamed, failed] = &mut self.counts;
        match note {
            TransferNote::Skipped => (&mut self.skipped, skipped),
            TransferNote::Renamed => (&mut self.renamed, renamed),
            TransferNote::Failed => (&mut self.failed, failed),
        }
    }
}

#[derive(Default)]
pub struct TransferStats {
    moved_files: AtomicU64,
    moved_bytes: AtomicU64,
    /// Files that existed already with the same content, and their bytes.
    kept_files: AtomicU64,
    kept_bytes: AtomicU64,
    /// Of the moved files those that have replaced another one.
    replaced_files: AtomicU64,
    folders: AtomicU64,
    /// Bytes of files in transfer.
    in_flight: AtomicU64,
    /// The files and bytes to transfer, once they are counted.
    pub total: OnceLock<TransferTotal>,
    notes: Mutex<Notes>,
    /// The weight of all shared failures since the last success.
    failures_in_a_row: AtomicU64,
    /// At this weight the transfer gives up.
    give_up_at: u64,
    /// The weight of a failure after all retries were used up.
    weight_after_wait: u64,
    given_up: Notify,
    /// Whether a failure that concerns all is noted.
    has_failed_as_a_whole: AtomicBool,
}

impl TransferStats {
    /// For `jobs` files at a time. When all of them have used up their retries, the next ones would too. Failures
    /// without a wait must be at least `MIN_FAILURES`, even if only a few files are transferred at a time.
    pub fn new(jobs: usize) -> Self {
        let jobs = jobs.max(1) as u64;
        let give_up_at = jobs.max(MIN_FAILURES);
        Self { give_up_at, weight_after_wait: give_up_at.div_ceil(jobs), ..Self::default() }
    }

    pub fn moved(&self, bytes: u64) {
        self.moved_files.fetch_add(1, Relaxed);
        self.moved_bytes.fetch_add(bytes, Relaxed);
        self.failures_in_a_row.store(0, Relaxed);
    }

    /// One of the moved files has replaced another one.
    pub fn replaced(&self) {
        self.replaced_files.fetch_add(1, Relaxed);
    }

    pub fn kept(&self, bytes: u64) {
        self.kept_files.fetch_add(1, Relaxed);
        self.kept_bytes.fetch_add(bytes, Relaxed);
        self.failures_in_a_row.store(0, Relaxed);
    }

    pub fn made_folder(&self) {
        self.folders.fetch_add(1, Relaxed);
        self.failures_in_a_row.store(0, Relaxed);
    }

    pub fn note(&self, note: TransferNote, text: String) {
        let mut notes = self.notes();
        let (texts, count) = notes.of_kind(note);
        *count += 1;
        if texts.len() < MAX_NOTES {
            texts.push(text);
        }
    }

    /// Counts a failure, and notes its text. Of those that concern all, only the first one.
    pub fn fail(&self, text: String, scope: FailureScope) {
        if scope == FailureScope::All && self.has_failed_as_a_whole.swap(true, Relaxed) {
            return;
        }
        self.note(TransferNote::Failed, text);
        let weight = match scope {
            FailureScope::Item => return,
            FailureScope::Shared => 1,
            FailureScope::SharedAfterWait => self.weight_after_wait,
            FailureScope::All => self.give_up_at,
        };
        if self.failures_in_a_row.fetch_add(weight, Relaxed) + weight >= self.give_up_at {
            self.given_up.notify_one();
        }
    }

    /// Returns when too many shared failures have followed each other.
    pub async fn given_up(&self) {
        self.given_up.notified().await;
    }

    pub fn failed(&self) -> u64 {
        *self.notes().of_kind(TransferNote::Failed).1
    }

    /// The files and bytes that are transferred, kept or failed.
    pub fn done(&self) -> TransferTotal {
        let (moved, kept) = (self.moved_files.load(Relaxed), self.kept_files.load(Relaxed));
        let bytes = [&self.moved_bytes, &self.kept_bytes, &self.in_flight].map(|bytes| bytes.load(Relaxed));
        TransferTotal { files: moved + kept + self.failed(), bytes: bytes.iter().sum() }
    }

    /// Prints one line for each file that was skipped or renamed, or failed.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let mut notes = self.notes();
        for (note, what) in
            [(TransferNote::Skipped, "skipped"), (TransferNote::Renamed, "renamed"), (TransferNote::Failed, "failed")]
        {
            let (texts, count) = notes.of_kind(note);
            texts.sort();
            for text in texts.iter() {
                writeln!(out, "{what}: {text}")?;
            }
            if *count > texts.len() as u64 {
                writeln!(out, "{what}: {} more", *count - texts.len() as u64)?;
            }
        }
        Ok(())
    }

    /// The last line. Replaced files and folders are counted if there were any.
    pub fn summary(&self, done: &str) -> String {
        let [files, bytes, kept, folders] =
            [&self.moved_files, &self.moved_bytes, &self.kept_files, &self.folders].map(|n| n.load(Relaxed));
        let replaced = match self.replaced_files.load(Relaxed) {
            0 => String::new(),
            many => format!(" {many} of them replaced others,"),
        };
        let [skipped, renamed, failed] = self.notes().counts;
        let folders = if folders == 0 { String::new() } else { format!(" {folders} folders made;") };
        format!(
            "{files} files {done} ({bytes} bytes),{replaced} {kept} were there;{folders} \
             {skipped} skipped, {renamed} renamed, {failed} failed"
        )
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of one file in transfer; they no longer count when this is dropped.
pub struct BytesInFlight {
    stats: Arc<TransferStats>,
    bytes: AtomicU64,
}

impl BytesInFlight {
    pub fn new(stats: Arc<TransferStats>) -> Self {
        Self { stats, bytes: AtomicU64::new(0) }
    }

    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.stats.in_flight.fetch_add(bytes, Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl Drop for BytesInFlight {
    fn drop(&mut self) {
        self.stats.in_flight.fetch_sub(self.bytes(), Relaxed);
    }
}
