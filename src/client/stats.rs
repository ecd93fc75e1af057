//! Statistics of a transfer, and when to give it up.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::client::FailureScope;

/// Files and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferTotal {
    pub files: u64,
    pub bytes: u64,
}

/// What the summary says of a single file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferNote {
    /// Neither file nor folder.
    Skipped,
    /// It has another name on the drive.
    Renamed,
    Failed,
}

/// Notes of each kind that are kept with their text. Further ones are only counted, so that memory is bounded.
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
    /// Files that were there already, and their bytes.
    kept_files: AtomicU64,
    kept_bytes: AtomicU64,
    folders: AtomicU64,
    /// Bytes of files that are under way.
    under_way: AtomicU64,
    /// The whole work, once it is counted.
    pub total: OnceLock<TransferTotal>,
    notes: Mutex<Notes>,
    /// The weight of all shared failures since the last success.
    failures_in_a_row: AtomicU64,
    /// At this weight the transfer gives up.
    give_up_at: u64,
    /// The weight of a failure after all retries were used up.
    weight_after_wait: u64,
    given_up: Notify,
}

impl TransferStats {
    /// For `jobs` files at a time: when each of them has used up its retries, the next will too. Of failures without a wait
    /// at least `MIN_FAILURES` are needed, however few files are transferred at a time.
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

    /// Counts a failure, and notes its text.
    pub fn fail(&self, text: String, scope: FailureScope) {
        self.note(TransferNote::Failed, text);
        let weight = match scope {
            FailureScope::Item => return,
            FailureScope::Shared => 1,
            FailureScope::SharedAfterWait => self.weight_after_wait,
        };
        if self.failures_in_a_row.fetch_add(weight, Relaxed) + weight >= self.give_up_at {
            self.given_up.notify_one();
        }
    }

    /// Ends when too many shared failures have followed each other.
    pub async fn given_up(&self) {
        self.given_up.notified().await;
    }

    pub fn failed(&self) -> u64 {
        *self.notes().of_kind(TransferNote::Failed).1
    }

    /// What has been dealt with.
    pub fn done(&self) -> TransferTotal {
        let (moved, kept) = (self.moved_files.load(Relaxed), self.kept_files.load(Relaxed));
        let bytes = [&self.moved_bytes, &self.kept_bytes, &self.under_way].map(|bytes| bytes.load(Relaxed));
        TransferTotal { files: moved + kept + self.failed(), bytes: bytes.iter().sum() }
    }

    /// One line for each thing that is not as one would expect.
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

    /// The last line.
    pub fn summary(&self, done: &str) -> String {
        let [files, bytes, kept, folders] =
            [&self.moved_files, &self.moved_bytes, &self.kept_files, &self.folders].map(|n| n.load(Relaxed));
        let [skipped, renamed, failed] = self.notes().counts;
        format!(
            "{files} files {done} ({bytes} bytes), {kept} were there; {folders} folders made; \
             {skipped} skipped, {renamed} renamed, {failed} failed"
        )
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of one file under way; they no longer count when it is dropped.
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
        self.stats.under_way.fetch_add(bytes, Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl Drop for BytesInFlight {
    fn drop(&mut self) {
        self.stats.under_way.fetch_sub(self.bytes(), Relaxed);
    }
}
