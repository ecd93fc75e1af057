//! The bounded buffer of log lines: the reader of standard error may be slow, or may not read at all.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rowdrive::schema::Timestamp;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// How long the writer gathers lines before it writes them. Without it most lines would wake the writer, which costs a
/// small request a quarter of its CPU time. A warning, an error and a half-full buffer end the wait.
const GATHER: Duration = Duration::from_millis(10);
/// The pause before another write, if standard error is non-blocking and not writable now.
const PAUSE: Duration = Duration::from_millis(20);
/// The target of the line about dropped lines.
const TARGET: &str = "rowdrive::cli::log";

/// Lines that wait to be written to standard error.
pub struct LogBuffer {
    limit: usize,
    waiting: Mutex<PendingLines>,
    /// Signals to the writer that there is a first line, or that it shall not gather more.
    filled: Condvar,
    /// Signals that the writer has written all that it had taken.
    written: Condvar,
    /// The number of dropped lines since the start.
    dropped: AtomicU64,
    /// Formats the line about dropped lines.
    gap: OnceLock<fn(u64) -> String>,
}

struct PendingLines {
    /// Whole lines.
    lines: Vec<u8>,
    /// Lines that were dropped after those in `lines`.
    dropped: u64,
    writer: WriterState,
    /// Whether the writer shall not gather more lines.
    hurry: bool,
}

/// What the writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterState {
    /// Waits for a first line.
    Idle,
    /// Waits for more lines.
    Gathering,
    /// Has taken lines and not yet written all of them.
    Writing,
}

impl LogBuffer {
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            waiting: Mutex::new(PendingLines {
                lines: Vec::new(),
                dropped: 0,
                writer: WriterState::Idle,
                hurry: false,
            }),
            filled: Condvar::new(),
            written: Condvar::new(),
            dropped: AtomicU64::new(0),
            gap: OnceLock::new(),
        }
    }

    /// Reports dropped lines as text, not as JSON. Call it before lines are added.
    pub fn report_gaps_as_text(&self) {
        let _ = self.gap.set(text_gap);
    }

    /// Lines that were dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, PendingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a whole line. Never waits for the reader of standard error. `hurry`: write it at once, with all lines before it.
    pub fn add(&self, line: &[u8], hurry: bool) {
        let mut waiting = self.lock();
        // After a dropped line, drop all further ones until the writer takes the buffered lines: so the count is
        // written where the lines are missing.
        if waiting.dropped > 0 || waiting.lines.len() + line.len() > self.limit {
            waiting.dropped += 1;
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        waiting.lines.extend_from_slice(line);
        waiting.hurry |= hurry || waiting.lines.len() >= self.limit / 2;
        if waiting.writer == WriterState::Idle || (waiting.writer == WriterState::Gathering && waiting.hurry) {
            self.filled.notify_one();
        }
    }

    /// Writes lines to `out`. Never returns.
    pub fn write_to(&self, mut out: impl Write) {
        let mut batch = Vec::new();
        loop {
            let dropped = self.take(&mut batch);
            if dropped > 0 {
                let gap = self.gap.get_or_init(|| json_gap);
                batch.extend_from_slice(gap(dropped).as_bytes());
            }
            if let Err(lost) = write_all(&mut out, &batch) {
                // Only the metrics have this count: a log line cannot be written now.
                let lines = lost.iter().filter(|byte| **byte == b'\n').count();
                self.dropped.fetch_add(lines as u64, Relaxed);
            }
        }
    }

    /// Waits for lines and moves them into `batch`; returns how many were dropped after them.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        batch.clear();
        let mut waiting = self.lock();
        waiting.writer = WriterState::Idle;
        self.written.notify_all();
        while waiting.lines.is_empty() && waiting.dropped == 0 {
            waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.writer = WriterState::Gathering;
        let end = Instant::now() + GATHER;
        while !waiting.hurry
            && let Some(left) = end.checked_duration_since(Instant::now())
        {
            waiting = self.filled.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut waiting.lines, batch);
        (waiting.writer, waiting.hurry) = (WriterState::Writing, false);
        std::mem::take(&mut waiting.dropped)
    }

    /// Waits until all lines are written, for `limit` at most.
    pub fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let mut waiting = self.lock();
        while waiting.writer != WriterState::Idle || !waiting.lines.is_empty() || waiting.dropped > 0 {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return };
            waiting.hurry = true;
            self.filled.notify_one();
            waiting = self.written.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Errors: the lines that could not be written.
fn write_all<'a>(out: &mut impl Write, mut lines: &'a [u8]) -> Result<(), &'a [u8]> {
    while !lines.is_empty() {
        match out.write(lines) {
            Ok(0) => return Err(lines),
            Ok(written) => lines = lines.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process may have set the pipe that both write to as non-blocking.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(_) => return Err(lines),
        }
    }
    Ok(())
}

/// Reports dropped lines at the place where they are missing, also where `RUST_LOG` filters warnings.
fn json_gap(dropped: u64) -> String {
    let mut timestamp = String::new();
    // Writing to a string does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let fields = serde_json::json!({ "message": gap_message(dropped), "dropped": dropped });
    let line = serde_json::json!({ "timestamp": timestamp, "level": "WARN", "fields": fields, "target": TARGET });
    format!("{line}\n")
}

fn text_gap(dropped: u64) -> String {
    format!("{} WARN {}\n", Timestamp::now().rfc3339(), gap_message(dropped))
}

fn gap_message(dropped: u64) -> String {
    format!("{dropped} lines were dropped")
}

impl<'a> MakeWriter<'a> for &'static LogBuffer {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { to: self, hurry: true }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line {
        Line { to: self, hurry: *event.level() <= Level::WARN }
    }
}

/// The writer of one line. The subscriber writes each line in one call.
pub struct Line {
    to: &'static LogBuffer,
    hurry: bool,
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.to.add(line, self.hurry);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Each write waits for a signal, then fails or forwards the bytes.
    struct GatedWriter(Receiver<bool>, Sender<Vec<u8>>);

    impl Write for GatedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once the sender is dropped, block for ever, as a stalled reader does.
            let Ok(is_open) = self.0.recv() else {
                loop {
                    std::thread::park()
                }
            };
            if !is_open {
                return Err(ErrorKind::StorageFull.into());
            }
            // Partial writes.
            let some = &bytes[..bytes.len().min(7)];
            self.1.send(some.to_owned()).unwrap();
            Ok(some.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(limit: usize) -> (&'static LogBuffer, Sender<bool>, Receiver<Vec<u8>>) {
        let log: &'static LogBuffer = Box::leak(Box::new(LogBuffer::new(limit)));
        let ((open, gate), (to, written)) = (channel(), channel());
        std::thread::spawn(move || log.write_to(GatedWriter(gate, to)));
        (log, open, written)
    }

    #[test]
    fn lines_beyond_the_limit_are_dropped_and_counted_where_they_are_missing() {
        let (log, open, written) = log(40);
        log.add(b"first\n", true);
        while log.lock().writer != WriterState::Writing {
            std::thread::yield_now();
        }
        for n in 0..10 {
            log.add(format!("line {n}\n").as_bytes(), false);
        }
        assert_eq!(log.dropped.load(Relaxed), 5);
        (0..1000).for_each(|_| open.send(true).unwrap());
        log.flush(Duration::from_secs(60));
        log.add(b"after\n", false);
        log.flush(Duration::from_secs(60));
        let text = String::from_utf8(written.try_iter().flatten().collect()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..6], ["first", "line 0", "line 1", "line 2", "line 3", "line 4"]);
        let gap: serde_json::Value = serde_json::from_str(lines[6]).unwrap();
        assert_eq!((&gap["fields"]["dropped"], gap["level"].as_str()), (&5.into(), Some("WARN")));
        assert_eq!(lines[7..], ["after"]);
        assert_eq!(log.dropped.load(Relaxed), 5);
    }

    #[test]
    fn flush_waits_for_a_stalled_reader_until_its_limit() {
        let (log, _open, written) = log(40);
        log.add(b"never\n", false);
        log.flush(Duration::from_millis(50));
        assert_eq!(written.try_iter().count(), 0);
    }

    #[test]
    fn lines_that_cannot_be_written_count_as_dropped() {
        let (log, open, _written) = log(40);
        log.add(b"one\ntwo\n", false);
        open.send(false).unwrap();
        log.flush(Duration::from_secs(60));
        assert_eq!(log.dropped.load(Relaxed), 2);
    }

    #[test]
    fn lines_are_gathered_until_one_of_them_is_urgent() {
        /// Notes each batch, which is shorter than its buffer.
        struct Batches(Sender<Vec<u8>>);

        impl Write for Batches {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.send(bytes.to_owned()).unwrap();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let log: &'static LogBuffer = Box::leak(Box::new(LogBuffer::new(1 << 20)));
        let (to, written) = channel();
        std::thread::spawn(move || log.write_to(Batches(to)));
        let mut gathered = 0;
        for _ in 0..50 {
            // The writer would have the time to write each line alone.
            for line in [b"first\n", b"other\n"] {
                log.add(line, false);
                std::thread::sleep(Duration::from_millis(1));
            }
            log.add(b"error\n", true);
            log.flush(Duration::from_secs(60));
            gathered += usize::from(written.try_iter().count() == 1);
        }
        // This thread may have paused for longer than the writer gathers.
        assert!(gathered > 25, "{gathered} of 50");
        // Without an urgent line they are written all the same.
        log.add(b"last\n", false);
        assert_eq!(written.recv_timeout(Duration::from_secs(60)).unwrap(), b"last\n");
        assert_eq!(log.dropped(), 0);
    }
}
