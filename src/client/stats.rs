//! What a transfer has done so far.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::cli::remote::Outlook;

/// Files and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub files: u64,
    pub bytes: u64,
}

/// What is told of single files at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Neither file nor folder.
    Skipped,
    /// It has another name on the drive.
    Renamed,
    Failed,
}

/// Notes that are kept to be told, of each kind; beyond they are only counted, so that the memory is bounded.
const KEPT: usize = 100_000;
/// Failures in a row, each likely to be shared by the next file, that are the end at the earliest.
const IN_A_ROW: u64 = 16;

#[derive(Default)]
struct Notes {
    skipped: Vec<String>,
    renamed: Vec<String>,
    failed: Vec<String>,
    counts: [u64; 3],
}

impl Notes {
    fn of(&mut self, note: Note) -> (&mut Vec<String>, &mut u64) {
        let [skipped, renamed, failed] = &mut self.counts;
        match note {
            Note::Skipped => (&mut self.skipped, skipped),
            Note::Renamed => (&mut self.renamed, renamed),
            Note::Failed => (&mut self.failed, failed),
        }
    }
}

#[derive(Default)]
pub struct Tally {
    moved_files: AtomicU64,
    moved_bytes: AtomicU64,
    /// Files that were there already, and their bytes.
    kept_files: AtomicU64,
    kept_bytes: AtomicU64,
    folders: AtomicU64,
    /// Bytes of files that are under way.
    under_way: AtomicU64,
    /// What there is to do, once it is known.
    pub total: OnceLock<Total>,
    notes: Mutex<Notes>,
    /// Failures without a success between them that the next file is likely to share, each with its weight.
    in_a_row: AtomicU64,
    /// So much of them is the end.
    hopeless_after: u64,
    /// The weight of one for which the server was waited for.
    waited: u64,
    given_up: Notify,
}

impl Tally {
    /// With so many files at once: when all of them have waited for the server in vain, so will the next. Of failures
    /// that come at once at least `IN_A_ROW` are the end, however few files are under way.
    pub fn new(jobs: usize) -> Self {
        let jobs = jobs.max(1) as u64;
        let hopeless_after = jobs.max(IN_A_ROW);
        Self { hopeless_after, waited: hopeless_after.div_ceil(jobs), ..Self::default() }
    }

    pub fn moved(&self, bytes: u64) {
        self.moved_files.fetch_add(1, Relaxed);
        self.moved_bytes.fetch_add(bytes, Relaxed);
        self.in_a_row.store(0, Relaxed);
    }

    pub fn kept(&self, bytes: u64) {
        self.kept_files.fetch_add(1, Relaxed);
        self.kept_bytes.fetch_add(bytes, Relaxed);
        self.in_a_row.store(0, Relaxed);
    }

    pub fn made_folder(&self) {
        self.folders.fetch_add(1, Relaxed);
        self.in_a_row.store(0, Relaxed);
    }

    pub fn note(&self, note: Note, text: String) {
        let mut notes = self.notes();
        let (texts, count) = notes.of(note);
        *count += 1;
        if texts.len() < KEPT {
            texts.push(text);
        }
    }

    /// A failure, and what it says of the next file.
    pub fn fail(&self, text: String, outlook: Outlook) {
        self.note(Note::Failed, text);
        let weight = match outlook {
            Outlook::Open => return,
            Outlook::Poor => 1,
            Outlook::Bad => self.waited,
        };
        if self.in_a_row.fetch_add(weight, Relaxed) + weight >= self.hopeless_after {
            self.given_up.notify_one();
        }
    }

    /// Ends when there is no sense in going on.
    pub async fn hopeless(&self) {
        self.given_up.notified().await;
    }

    pub fn failed(&self) -> u64 {
        *self.notes().of(Note::Failed).1
    }

    /// What has been dealt with.
    pub fn done(&self) -> Total {
        let (moved, kept) = (self.moved_files.load(Relaxed), self.kept_files.load(Relaxed));
        let bytes = [&self.moved_bytes, &self.kept_bytes, &self.under_way].map(|bytes| bytes.load(Relaxed));
        Total { files: moved + kept + self.failed(), bytes: bytes.iter().sum() }
    }

    /// One line for each thing that is not as one would expect.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let mut notes = self.notes();
        for (note, what) in [(Note::Skipped, "skipped"), (Note::Renamed, "renamed"), (Note::Failed, "failed")] {
            let (texts, count) = notes.of(note);
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
    pub fn in_words(&self, done: &str) -> String {
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

/// What of one file is under way; dropping it takes it back.
pub struct UnderWay {
    tally: Arc<Tally>,
    bytes: AtomicU64,
}

impl UnderWay {
    pub fn new(tally: Arc<Tally>) -> Self {
        Self { tally, bytes: AtomicU64::new(0) }
    }

    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.tally.under_way.fetch_add(bytes, Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.tally.under_way.fetch_sub(self.bytes(), Relaxed);
    }
}
