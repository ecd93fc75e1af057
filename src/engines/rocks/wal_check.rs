//! Checks the WAL and the `MANIFEST` before RocksDB replays them: distinguishes the torn end after a crash from damage.
//!
//! A crash tears the WAL within the one write that was in progress: nothing follows it, and it was never acknowledged.
//! Anything else that cannot be read is damage. RocksDB would end the replay there, or skip it, and silently lose
//! acknowledged writes after it.
//!
//! A log file consists of blocks of 32 KiB. A record is one fragment, or a first, middle ones and a last one; no
//! fragment crosses the end of a block. A fragment: checksum (4 bytes, of what follows the length), length (2), type
//! (1), bytes. The bytes of a WAL record are a write batch: sequence number of its first change (8), number of changes
//! (4), changes. The `MANIFEST` has the same format with other records ([`version_edit`](super::version_edit)).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::files::numbered;
use super::log_format::{BLOCK, FIRST, FULL, Fragment, HEADER, LAST, MIDDLE, batch, fragment, length, length_is_wrong};
use super::unwritten::{self, SECTOR};
use super::version_edit::{HEAD, next_file};
use crate::table::StoreError;
use crate::table::store::Result;

const LEAST: u64 = 32; // Fewer zeros at the end may be data.

/// How the WAL ends, if it is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalTail {
    /// With a whole record, or within one.
    Cut,
    /// With bytes that never reached the disk: the file system had allocated them before a power loss.
    Unwritten,
}

/// Reads all WAL files and the `MANIFEST`; changes nothing. `made`: whether the database has tables. `closed`: after a
/// clean shutdown, the names of the files that were torn then: no other file may be torn.
///
/// Errors: `Damaged` with the file and the offset.
pub(super) fn examine(dir: &Path, made: bool, closed: Option<&BTreeSet<String>>) -> Result<WalTail> {
    let mut tail = WalTail::Cut;
    let mut unfinished: Option<(PathBuf, LogSummary)> = None;
    let logs = list(dir).map_err(|e| StoreError::Failed(format!("{}: {e}", dir.display())))?;
    if logs.is_empty() && made {
        return Err(damaged(dir, "the log is missing"));
    }
    for path in logs {
        let log = LogScan::run(&path, RecordKind::Batches)
            .map_err(|e| StoreError::Failed(format!("{}: {e}", path.display())))?;
        if let LogEnd::Damaged { at, why } = log.end {
            return Err(damaged(&path, &format!("{why} at byte {at}, and a crash does not leave such an end")));
        }
        if let (Some((before, broken)), Some(first)) = (&unfinished, log.first) {
            // After a crash RocksDB continues with the next sequence number. A larger gap means that acknowledged
            // writes are missing.
            if !broken.continues_with(first) {
                return Err(damaged(before, &format!("it ends too early: {} continues after a gap", path.display())));
            }
            unfinished = None;
        }
        if let LogEnd::Torn { at, unwritten } = log.end {
            if closed.is_some_and(|torn| !torn.contains(&name(&path))) {
                return Err(damaged(&path, "it is torn, although the store was closed in order"));
            }
            let bytes = fs::metadata(&path).map_or(0, |file| file.len().saturating_sub(at));
            tracing::warn!(log = %path.display(), at, bytes, "the log ends in an incomplete write, which is dropped");
            tail = if unwritten { WalTail::Unwritten } else { tail };
            unfinished = Some((path, log));
        }
    }
    manifest(dir, made, closed)?;
    Ok(tail)
}

/// Reads the `MANIFEST`: see [`examine`].
///
/// Errors: `Damaged` if that is certain. Other damage RocksDB reports when it opens the database.
pub(super) fn manifest(dir: &Path, made: bool, closed: Option<&BTreeSet<String>>) -> Result<()> {
    let Some(path) = current(dir) else { return Ok(()) };
    let Ok(log) = LogScan::run(&path, RecordKind::Edits) else { return Ok(()) };
    let what = match log.end {
        LogEnd::Damaged { at, why } => format!("{why} at byte {at}"),
        LogEnd::Torn { .. } if closed.is_some_and(|torn| !torn.contains(&name(&path))) => {
            "it is torn, although the store was closed in order".into()
        }
        // RocksDB would replay the WAL as if nothing had preceded it, and delete the SST files that the lost end names.
        _ if made && lost_its_end(dir, &log).map_err(|e| StoreError::Failed(format!("{}: {e}", dir.display())))? => {
            "it ends too early, or older logs are missing: all existing ones were created after its end".into()
        }
        _ => return Ok(()),
    };
    Err(damaged(&path, &what))
}

/// Whether no WAL file is left that existed when the last record was written: see
/// [`version_edit`](super::version_edit).
fn lost_its_end(dir: &Path, manifest: &LogSummary) -> io::Result<bool> {
    let first = numbered(dir, "log")?.into_iter().next();
    Ok(first.zip(manifest.next_file).is_some_and(|((number, _), next_file)| number >= next_file))
}

/// The `MANIFEST` that `CURRENT` names, if that can be read.
pub(super) fn current(dir: &Path) -> Option<PathBuf> {
    Some(dir.join(fs::read_to_string(dir.join("CURRENT")).ok()?.trim_end()))
}

/// The WAL files, in the order of their creation.
pub(super) fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(numbered(dir, "log")?.into_iter().map(|(_, path)| path).collect())
}

/// The names of the WAL files, and of the `MANIFEST`, that end within a record.
pub(super) fn torn(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut torn = BTreeSet::new();
    let logs = list(dir)?.into_iter().map(|path| (path, RecordKind::Batches));
    for (path, kind) in logs.chain(current(dir).map(|path| (path, RecordKind::Edits))) {
        if let LogEnd::Torn { .. } = LogScan::run(&path, kind)?.end {
            torn.insert(name(&path));
        }
    }
    Ok(torn)
}

pub(super) fn name(log: &Path) -> String {
    log.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn damaged(path: &Path, what: &str) -> StoreError {
    StoreError::Damaged(format!("{}: {what}", path.display()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    Batches,
    Edits,
}

/// The result of scanning a log file.
struct LogSummary {
    end: LogEnd,
    /// The sequence number of its first batch.
    first: Option<u64>,
    /// The sequence number after its last whole batch, and the one after the torn batch that follows it.
    next: Option<u64>,
    next_if_torn_counts: Option<u64>,
    /// Of a `MANIFEST`: the number of the next file when its last record was written.
    next_file: Option<u64>,
}

impl LogSummary {
    fn continues_with(&self, first: u64) -> bool {
        // Without a whole record there is nothing to compare.
        self.next.is_none_or(|next| next == first) || self.next_if_torn_counts == Some(first)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum LogEnd {
    Whole,
    Torn { at: u64, unwritten: bool },
    Damaged { at: u64, why: &'static str },
}

/// The first fragment that is not sound.
struct BadFragment {
    at: u64,
    /// The offset of its record.
    record: u64,
    why: &'static str,
    /// The offset of its end, if the length can be trusted.
    end: u64,
    /// The file ends before the fragment does: nothing can follow.
    cut: bool,
    /// Its checksum is right, but it must not follow the fragment before it.
    sound: bool,
}

struct LogScan {
    kind: RecordKind,
    /// The offset and the first bytes of the record that is being read.
    record: Option<(u64, Vec<u8>)>,
    /// Number of whole records with consecutive sequence numbers.
    run: u64,
    bad: Option<BadFragment>,
    log: LogSummary,
}

impl LogScan {
    fn run(path: &Path, kind: RecordKind) -> io::Result<LogSummary> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut scan = Self::new(kind);
        let mut block = vec![0; BLOCK];
        let mut base = 0;
        while base < size {
            let len = BLOCK.min(usize::try_from(size - base).unwrap_or(BLOCK));
            let Some(part) = block.get_mut(..len) else { break };
            file.read_exact_at(part, base)?;
            scan.block(part, base, base + len as u64 == size);
            if scan.bad.is_some() {
                break;
            }
            base += len as u64;
        }
        scan.log.end = match (&scan.bad, &scan.record) {
            // A `MANIFEST` has no content of files, so anything after the cut that looks like a record is one.
            (Some(bad), _)
                if bad.cut && (kind == RecordKind::Batches || !scan.has_later_records(&file, bad.at + 1, size)?) =>
            {
                LogEnd::Torn { at: bad.record, unwritten: false }
            }
            (Some(bad), _) if !bad.cut && scan.unwritten(&file, bad, size)? => {
                LogEnd::Torn { at: bad.record, unwritten: true }
            }
            (Some(bad), _) => LogEnd::Damaged { at: bad.at, why: bad.why },
            (None, Some((start, _))) => LogEnd::Torn { at: *start, unwritten: false },
            (None, None) => LogEnd::Whole,
        };
        if let (Some(next), Some((_, head))) = (scan.log.next, &scan.record) {
            scan.log.next_if_torn_counts =
                batch(head).filter(|(sequence, _)| *sequence == next).map(|(_, count)| next + count);
        }
        Ok(scan.log)
    }

    fn new(kind: RecordKind) -> Self {
        let log =
            LogSummary { end: LogEnd::Whole, first: None, next: None, next_if_torn_counts: None, next_file: None };
        Self { kind, record: None, run: 0, bad: None, log }
    }

    /// Reads a block, or the rest of one.
    fn block(&mut self, block: &[u8], base: u64, last: bool) {
        let mut at = 0;
        let full = (base + block.len() as u64).is_multiple_of(BLOCK as u64);
        while self.bad.is_none() {
            let rest = block.get(at..).unwrap_or_default();
            match fragment(rest) {
                Fragment::None if rest.is_empty() || !last || full => return,
                Fragment::Sound(kind, bytes) => {
                    self.take(kind, bytes, base + at as u64);
                    at += HEADER + bytes.len();
                }
                bad => self.set_bad(&bad, rest, base + at as u64, last),
            }
        }
    }

    /// Whether the end of the file, from the bad fragment on, never reached the disk: it reads as zeros. Less than a
    /// page of zeros within a fragment is no proof: content may have them. (Content may have a page of zeros too. If
    /// the disk damages such a last write, the opening only warns: otherwise it would also refuse sound stores after a
    /// power loss.)
    fn unwritten(&self, file: &File, bad: &BadFragment, size: u64) -> io::Result<bool> {
        if bad.sound {
            return Ok(false);
        }
        let sector = (bad.at + HEADER as u64 - 1) / SECTOR * SECTOR;
        let header = bad.at.max(sector)..(sector + SECTOR).min(size);
        let no_header = unwritten::start(file, header.start, header.end)? == header.start;
        if no_header || unwritten::has_page(file, bad.at, bad.end.min(size))? {
            return Ok(!self.has_later_records(file, if no_header { header.end } else { bad.at + 1 }, size)?);
        }
        // The first sector of zeros after which there are only zeros.
        let zeros = unwritten::start(file, bad.at, size)?.div_ceil(SECTOR) * SECTOR;
        // By its header the fragment extends past the zeros, so nothing was written after it.
        Ok(zeros < size && size - zeros >= LEAST.min(size - bad.at) && bad.end > zeros)
    }

    /// Whether records follow somewhere after a missing header.
    ///
    /// Content may itself be a log file, so what looks like a record may be part of one. Each block starts with a
    /// fragment: if the fragments of a block are sound from its start, what follows them is certain. Elsewhere records
    /// must continue in the next block, where a header interrupts content; in the last block there must be two in a
    /// row, or one that ends with the file.
    fn has_later_records(&self, file: &File, from: u64, size: u64) -> io::Result<bool> {
        let lost_from = self.bad.as_ref().map_or(from, |bad| bad.record);
        let mut block = vec![0; BLOCK];
        let mut base = from;
        while base < size {
            let end = ((base / BLOCK as u64 + 1) * BLOCK as u64).min(size);
            let len = usize::try_from(end - base).unwrap_or(BLOCK);
            let Some(part) = block.get_mut(..len) else { break };
            file.read_exact_at(part, base)?;
            let between = base - lost_from;
            let is_framed = self.kind == RecordKind::Batches && base.is_multiple_of(BLOCK as u64);
            let Some(unframed) = (if is_framed { self.pass(part, between) } else { Some(0) }) else {
                return Ok(true);
            };
            for at in unframed..len {
                let rest = part.get(at..).unwrap_or_default();
                if starts(rest, self.kind, self.log.next, between + at as u64)
                    && self.follow(file, rest, base + at as u64, size)?
                {
                    return Ok(true);
                }
            }
            base = end;
        }
        Ok(false)
    }

    /// Skips the sound fragments at the start of a block, and returns the offset of their end; None if a record starts
    /// with one of them.
    fn pass(&self, block: &[u8], between: u64) -> Option<usize> {
        let mut at = 0;
        loop {
            let rest = block.get(at..).unwrap_or_default();
            match fragment(rest) {
                _ if starts(rest, self.kind, self.log.next, between + at as u64) => return None,
                Fragment::Sound(_, bytes) => at += HEADER + bytes.len(),
                Fragment::None => return Some(block.len()),
                Fragment::Cut | Fragment::Broken => return Some(at),
            }
        }
    }

    fn follow(&self, file: &File, first: &[u8], from: u64, size: u64) -> io::Result<bool> {
        let mut scan = Self::new(self.kind);
        let mut base = from + first.len() as u64;
        scan.block(first, from, base == size);
        let mut block = vec![0; BLOCK];
        while scan.bad.is_none() && base < size {
            let len = BLOCK.min(usize::try_from(size - base).unwrap_or(BLOCK));
            let Some(part) = block.get_mut(..len) else { break };
            file.read_exact_at(part, base)?;
            if self.kind == RecordKind::Batches {
                return Ok(match fragment(part) {
                    Fragment::Sound(FULL | FIRST, _) => scan.record.is_none(),
                    Fragment::Sound(MIDDLE | LAST, _) => scan.record.is_some(),
                    // A metadata record of RocksDB, or more damage.
                    _ => true,
                });
            }
            base += len as u64;
            scan.block(part, base - len as u64, base == size);
        }
        Ok(base == size && scan.run >= 2 || scan.bad.is_none() && scan.record.is_none())
    }

    fn set_bad(&mut self, fragment: &Fragment<'_>, rest: &[u8], at: u64, last: bool) {
        let (why, cut) = match fragment {
            Fragment::Cut if last && !length_is_wrong(rest) => ("a record is cut off", true),
            Fragment::Cut => ("the length of a record is wrong", false),
            Fragment::None => ("a record is cut off", true),
            _ => ("a record is not what its checksum says", false),
        };
        if self.record.is_none() && cut {
            self.record = Some((at, rest.get(HEADER..).unwrap_or_default().to_vec()));
        }
        let record = self.record.as_ref().map_or(at, |(start, _)| *start);
        let end = at + (HEADER + length(rest)) as u64;
        let end = if length_is_wrong(rest) { at } else { end };
        self.bad = Some(BadFragment { at, end, record, why, cut, sound: false });
    }

    fn take(&mut self, kind: u8, bytes: &[u8], at: u64) {
        match (kind, self.record.take()) {
            (FULL, None) => self.whole(bytes),
            (FIRST, None) => self.record = Some((at, bytes.get(..HEAD.min(bytes.len())).unwrap_or_default().to_vec())),
            (MIDDLE | LAST, Some((start, mut head))) => {
                let missing = HEAD.saturating_sub(head.len()).min(bytes.len());
                head.extend_from_slice(bytes.get(..missing).unwrap_or_default());
                if kind == LAST { self.whole(&head) } else { self.record = Some((start, head)) }
            }
            (FULL | FIRST | MIDDLE | LAST, _) => {
                let why = "a part of a record is missing";
                self.bad = Some(BadFragment { at, end: at, record: at, why, cut: false, sound: true });
            }
            // A metadata record of RocksDB.
            (_, record) => self.record = record,
        }
    }

    fn whole(&mut self, head: &[u8]) {
        if self.kind == RecordKind::Edits {
            self.log.next_file = self.log.next_file.max(next_file(head));
        } else if let Some((sequence, count)) = batch(head) {
            self.log.first = self.log.first.or(Some(sequence));
            self.run = if self.log.next == Some(sequence) { self.run + 1 } else { 1 };
            self.log.next = Some(sequence.saturating_add(count));
        }
    }
}

/// Whether a record starts here that was written after one that ended at sequence number `next`, with `between` bytes
/// in between.
fn starts(rest: &[u8], kind: RecordKind, next: Option<u64>, between: u64) -> bool {
    let likely = rest.get(HEADER - 1).is_some_and(|kind| matches!(*kind, FULL | FIRST));
    let Fragment::Sound(_, bytes) = (if likely { fragment(rest) } else { Fragment::None }) else { return false };
    match (kind, next) {
        (RecordKind::Edits, _) => !bytes.is_empty(),
        // A change takes more than a byte, which bounds the sequence number.
        (RecordKind::Batches, next) => batch(bytes).is_some_and(|(sequence, _)| {
            next.is_none_or(|next| (next..=next.saturating_add(between)).contains(&sequence))
        }),
    }
}
