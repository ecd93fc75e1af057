//! What the logs in the folder say of themselves, before RocksDB replays them.
//!
//! A crash cuts a log within the one write that was under way: nothing follows it, and it was never acknowledged.
//! Anything else that cannot be read is damage. RocksDB would end the replay there, or pass over it, and what was
//! acknowledged behind it would be gone without a word.
//!
//! A log is blocks of 32 KiB. A record is one fragment, or a first, middle ones and a last one, none across the end
//! of a block: checksum (4 bytes, of what follows the length), length (2), type (1), bytes. The bytes of a record are
//! a batch: sequence number of its first change (8), number of changes (4), changes. `MANIFEST` is such a log too,
//! of other records.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::edits::{HEAD, next_file};
use super::files::numbered;
use super::fragments::{BLOCK, FIRST, FULL, Fragment, HEADER, LAST, MIDDLE, batch, fragment, length, length_is_wrong};
use super::zeros::{self, SECTOR};
use crate::table::StoreError;
use crate::table::store::Result;

const LEAST: u64 = 32; // Fewer zeros at the end may be data.

/// How the logs end, if they are sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// With a whole record, or in the middle of one.
    Cut,
    /// With bytes that never reached the disk: its file system had made room for them and lost power.
    Unwritten,
}

/// Reads all logs and the `MANIFEST`, and changes nothing. `made`: whether the database was ever written to; `closed`:
/// if it ended in order, the names of those that were torn then, as they were: no other is.
///
/// Errors: `Damaged` naming the file and the place.
pub(super) fn examine(dir: &Path, made: bool, closed: Option<&BTreeSet<String>>) -> Result<Tail> {
    let mut tail = Tail::Cut;
    let mut unfinished: Option<(PathBuf, Log)> = None;
    let logs = list(dir).map_err(|e| StoreError::Failed(format!("{}: {e}", dir.display())))?;
    if logs.is_empty() && made {
        return Err(damaged(dir, "the log is missing"));
    }
    for path in logs {
        let log =
            Scan::run(&path, Kind::Batches).map_err(|e| StoreError::Failed(format!("{}: {e}", path.display())))?;
        if let End::Damaged { at, why } = log.end {
            return Err(damaged(&path, &format!("{why} at byte {at}, and it is not the end that a crash leaves")));
        }
        if let (Some((before, broken)), Some(first)) = (&unfinished, log.first) {
            // A start after a crash goes on with the next number: of more writes missing, one was acknowledged.
            if !broken.goes_on_with(first) {
                return Err(damaged(before, &format!("it ends too early: {} goes on behind it", path.display())));
            }
            unfinished = None;
        }
        if let End::Torn { at, unwritten } = log.end {
            if closed.is_some_and(|torn| !torn.contains(&name(&path))) {
                return Err(damaged(&path, "it is torn, although the store was closed in order"));
            }
            let bytes = fs::metadata(&path).map_or(0, |file| file.len().saturating_sub(at));
            tracing::warn!(log = %path.display(), at, bytes, "the log ends in a write that was broken off: it is dropped");
            tail = if unwritten { Tail::Unwritten } else { tail };
            unfinished = Some((path, log));
        }
    }
    manifest(dir, made, closed)?;
    Ok(tail)
}

/// Reads the `MANIFEST`: see [`examine`].
///
/// Errors: `Damaged` if that is certain; without it RocksDB itself says what is missing.
pub(super) fn manifest(dir: &Path, made: bool, closed: Option<&BTreeSet<String>>) -> Result<()> {
    let Some(path) = current(dir) else { return Ok(()) };
    let Ok(log) = Scan::run(&path, Kind::Edits) else { return Ok(()) };
    let what = match log.end {
        End::Damaged { at, why } => format!("{why} at byte {at}"),
        End::Torn { .. } if closed.is_some_and(|torn| !torn.contains(&name(&path))) => {
            "it is torn, although the store was closed in order".into()
        }
        // RocksDB would take the log as if nothing had been before it, and remove the tables that hold what was.
        _ if made && lost_its_end(dir, &log).map_err(|e| StoreError::Failed(format!("{}: {e}", dir.display())))? => {
            "it ends too early, or older logs are gone: all that are there were begun behind its end".into()
        }
        _ => return Ok(()),
    };
    Err(damaged(&path, &what))
}

/// Whether no log is left of those that were there when the last record was written: see [`edits`](super::edits).
fn lost_its_end(dir: &Path, manifest: &Log) -> io::Result<bool> {
    let first = numbered(dir, "log")?.into_iter().next();
    Ok(first.zip(manifest.next_file).is_some_and(|((number, _), next_file)| number >= next_file))
}

/// The `MANIFEST` that counts, if that can be read.
pub(super) fn current(dir: &Path) -> Option<PathBuf> {
    Some(dir.join(fs::read_to_string(dir.join("CURRENT")).ok()?.trim_end()))
}

/// The logs, in the order in which they were written.
pub(super) fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(numbered(dir, "log")?.into_iter().map(|(_, path)| path).collect())
}

/// The names of the logs, and of the `MANIFEST`, that end in the middle of a record.
pub(super) fn torn(dir: &Path) -> io::Result<BTreeSet<String>> {
    let mut torn = BTreeSet::new();
    let logs = list(dir)?.into_iter().map(|path| (path, Kind::Batches));
    for (path, kind) in logs.chain(current(dir).map(|path| (path, Kind::Edits))) {
        if let End::Torn { .. } = Scan::run(&path, kind)?.end {
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
enum Kind {
    Batches,
    Edits,
}

/// What a log holds, as far as it matters.
struct Log {
    end: End,
    /// The sequence number of its first batch.
    first: Option<u64>,
    /// The one that follows its last whole batch, and the one that follows the torn batch behind it.
    next: Option<u64>,
    next_if_torn_counts: Option<u64>,
    /// Of a `MANIFEST`: the number that no file had yet when its last record was written.
    next_file: Option<u64>,
}

impl Log {
    fn goes_on_with(&self, first: u64) -> bool {
        // Nothing whole in it: there is nothing to compare.
        self.next.is_none_or(|next| next == first) || self.next_if_torn_counts == Some(first)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole,
    Torn { at: u64, unwritten: bool },
    Damaged { at: u64, why: &'static str },
}

/// The place where reading came to an end.
struct Bad {
    at: u64,
    /// Where the record that holds it starts.
    record: u64,
    why: &'static str,
    /// Where the fragment ends, if its length is to be trusted.
    end: u64,
    /// The file ends before the fragment does: nothing follows, whatever its bytes look like.
    cut: bool,
    /// It is what its checksum says, and not what has to follow.
    sound: bool,
}

struct Scan {
    kind: Kind,
    /// Where the record that is being read starts, and its first bytes.
    record: Option<(u64, Vec<u8>)>,
    /// Whole records in a row, by their sequence numbers.
    run: u64,
    bad: Option<Bad>,
    log: Log,
}

impl Scan {
    fn run(path: &Path, kind: Kind) -> io::Result<Log> {
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
            // No client's bytes are in a `MANIFEST`: there any record behind is one.
            (Some(bad), _) if bad.cut && (kind == Kind::Batches || !scan.goes_on(&file, bad.at + 1, size)?) => {
                End::Torn { at: bad.record, unwritten: false }
            }
            (Some(bad), _) if !bad.cut && scan.unwritten(&file, bad, size)? => {
                End::Torn { at: bad.record, unwritten: true }
            }
            (Some(bad), _) => End::Damaged { at: bad.at, why: bad.why },
            (None, Some((start, _))) => End::Torn { at: *start, unwritten: false },
            (None, None) => End::Whole,
        };
        if let (Some(next), Some((_, head))) = (scan.log.next, &scan.record) {
            scan.log.next_if_torn_counts =
                batch(head).filter(|(sequence, _)| *sequence == next).map(|(_, count)| next + count);
        }
        Ok(scan.log)
    }

    fn new(kind: Kind) -> Self {
        let log = Log { end: End::Whole, first: None, next: None, next_if_torn_counts: None, next_file: None };
        Self { kind, record: None, run: 0, bad: None, log }
    }

    /// Reads a block, or what follows a place in it.
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
                bad => self.give_up(&bad, rest, base + at as u64, last),
            }
        }
    }

    /// Whether the end of the file, from the bad fragment on, never reached the disk: it reads as zeros. Fewer than a
    /// page inside a fragment are no proof: content may hold them. (It may hold a page too: if such a last write rots,
    /// the opening warns of it; to refuse would refuse sound stores after a loss of power.)
    fn unwritten(&self, file: &File, bad: &Bad, size: u64) -> io::Result<bool> {
        if bad.sound {
            return Ok(false);
        }
        let sector = (bad.at + HEADER as u64 - 1) / SECTOR * SECTOR;
        let header = bad.at.max(sector)..(sector + SECTOR).min(size);
        let no_header = zeros::start(file, header.start, header.end)? == header.start;
        if no_header || zeros::has_page(file, bad.at, bad.end.min(size))? {
            return Ok(!self.goes_on(file, if no_header { header.end } else { bad.at + 1 }, size)?);
        }
        // From the first sector on that is zeros, as all behind it.
        let zeros = zeros::start(file, bad.at, size)?.div_ceil(SECTOR) * SECTOR;
        // What the header says is no room for anything behind the fragment.
        Ok(zeros < size && size - zeros >= LEAST.min(size - bad.at) && bad.end > zeros)
    }

    /// Whether records go on somewhere behind a header that is not there.
    ///
    /// Content may be a log itself, so what looks like a record may lie within one. Each block starts with a fragment:
    /// where they are sound from there on, what follows is told for certain. Elsewhere records must go on in the next
    /// block, where content is broken off by a header; in the last block they are two in a row, or one up to the end.
    fn goes_on(&self, file: &File, from: u64, size: u64) -> io::Result<bool> {
        let lost_from = self.bad.as_ref().map_or(from, |bad| bad.record);
        let mut block = vec![0; BLOCK];
        let mut base = from;
        while base < size {
            let end = ((base / BLOCK as u64 + 1) * BLOCK as u64).min(size);
            let len = usize::try_from(end - base).unwrap_or(BLOCK);
            let Some(part) = block.get_mut(..len) else { break };
            file.read_exact_at(part, base)?;
            let between = base - lost_from;
            let is_framed = self.kind == Kind::Batches && base.is_multiple_of(BLOCK as u64);
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

    /// Passes over the sound fragments that a block starts with, and tells where they end; None if a record starts
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
            if self.kind == Kind::Batches {
                return Ok(match fragment(part) {
                    Fragment::Sound(FULL | FIRST, _) => scan.record.is_none(),
                    Fragment::Sound(MIDDLE | LAST, _) => scan.record.is_some(),
                    // A note of RocksDB's own, or one more damage.
                    _ => true,
                });
            }
            base += len as u64;
            scan.block(part, base - len as u64, base == size);
        }
        Ok(base == size && scan.run >= 2 || scan.bad.is_none() && scan.record.is_none())
    }

    fn give_up(&mut self, fragment: &Fragment<'_>, rest: &[u8], at: u64, last: bool) {
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
        self.bad = Some(Bad { at, end, record, why, cut, sound: false });
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
                self.bad = Some(Bad { at, end: at, record: at, why, cut: false, sound: true });
            }
            // A note of RocksDB's own.
            (_, record) => self.record = record,
        }
    }

    fn whole(&mut self, head: &[u8]) {
        if self.kind == Kind::Edits {
            self.log.next_file = self.log.next_file.max(next_file(head));
        } else if let Some((sequence, count)) = batch(head) {
            self.log.first = self.log.first.or(Some(sequence));
            self.run = if self.log.next == Some(sequence) { self.run + 1 } else { 1 };
            self.log.next = Some(sequence.saturating_add(count));
        }
    }
}

/// Whether a record starts here that was written behind one that ended at sequence number `next`, with so many bytes
/// between them.
fn starts(rest: &[u8], kind: Kind, next: Option<u64>, between: u64) -> bool {
    let likely = rest.get(HEADER - 1).is_some_and(|kind| matches!(*kind, FULL | FIRST));
    let Fragment::Sound(_, bytes) = (if likely { fragment(rest) } else { Fragment::None }) else { return false };
    match (kind, next) {
        (Kind::Edits, _) => !bytes.is_empty(),
        // A change takes more than a byte.
        (Kind::Batches, next) => batch(bytes).is_some_and(|(sequence, _)| {
            next.is_none_or(|next| (next..=next.saturating_add(between)).contains(&sequence))
        }),
    }
}
