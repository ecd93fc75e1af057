//! The log: lines of JSON on standard error, so that nothing a client names can look like a line of its own.
//!
//! A request never waits for whoever reads standard error. Lines go into a bounded buffer; one thread writes them out.
//! When the buffer is full, lines are dropped and counted, and the log says how many as soon as it goes on.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Bytes of lines that wait to be written: some thousand lines of requests.
const BUFFER: usize = 1 << 20;
/// How long the last lines may take at the end.
const LAST_LINES: Duration = Duration::from_secs(2);
/// How long to wait for a standard error that takes nothing now, where it does not block.
const PAUSE: Duration = Duration::from_millis(20);

static LOG: Log = Log::new(BUFFER);

/// Starts the log; `RUST_LOG` says how much of it there is.
pub fn start() -> io::Result<()> {
    std::thread::Builder::new().name("log".into()).spawn(|| LOG.write_to(io::stderr()))?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_writer(&LOG).with_env_filter(filter).init();
    // The hook of the standard library writes to standard error itself, and would wait for its reader.
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(%backtrace, "{panic}");
        // The process ends with this thread, without coming to `end`.
        if std::thread::current().name() == Some("main") {
            LOG.flush(LAST_LINES);
        }
    }));
    Ok(())
}

/// Writes a last line for people, and waits a moment until it and the lines before it are written.
pub fn end(last: Option<String>) {
    if let Some(mut last) = last {
        last.push('\n');
        LOG.add(last.as_bytes());
    }
    LOG.flush(LAST_LINES);
}

/// Adds what operators see of the log.
pub fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(Dropped));
}

#[derive(Debug)]
struct Dropped;

impl prometheus_client::collector::Collector for Dropped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let dropped = ConstCounter::new(LOG.dropped.load(Relaxed));
        let help = "Lines of the log that were dropped since standard error did not take them";
        let kind = dropped.metric_type();
        dropped.encode(encoder.encode_descriptor("rowdrive_log_lines_dropped", help, None, kind)?)
    }
}

struct Log {
    limit: usize,
    waiting: Mutex<Waiting>,
    /// There are lines to write, or all are written.
    changed: Condvar,
    /// Since the start.
    dropped: AtomicU64,
}

struct Waiting {
    /// Whole lines.
    lines: Vec<u8>,
    /// Lines that were dropped after those in `lines`.
    dropped: u64,
    /// The writer has taken lines, and not yet written them all.
    writing: bool,
}

impl Log {
    const fn new(limit: usize) -> Self {
        Self {
            limit,
            waiting: Mutex::new(Waiting { lines: Vec::new(), dropped: 0, writing: false }),
            changed: Condvar::new(),
            dropped: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never waits for a reader.
    fn add(&self, line: &[u8]) {
        let mut waiting = self.lock();
        // Once a line is dropped, all are until the writer comes: the count then stands where the gap is.
        if waiting.dropped > 0 || waiting.lines.len() + line.len() > self.limit {
            waiting.dropped += 1;
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        waiting.lines.extend_from_slice(line);
        self.changed.notify_all();
    }

    /// Writes lines out, for ever.
    fn write_to(&self, mut out: impl Write) {
        let mut batch = Vec::new();
        loop {
            let dropped = self.take(&mut batch);
            if dropped > 0 {
                batch.extend_from_slice(gap(dropped).as_bytes());
            }
            if let Err(lost) = write_all(&mut out, &batch) {
                // Nobody can be told now; the count may be read.
                let lines = lost.iter().filter(|byte| **byte == b'\n').count();
                self.dropped.fetch_add(lines as u64, Relaxed);
            }
        }
    }

    /// Waits for lines, takes them into `batch`, and gives how many were dropped after them.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        batch.clear();
        let mut waiting = self.lock();
        waiting.writing = false;
        self.changed.notify_all();
        while waiting.lines.is_empty() && waiting.dropped == 0 {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut waiting.lines, batch);
        waiting.writing = true;
        std::mem::take(&mut waiting.dropped)
    }

    /// Waits until all lines are written, at most so long.
    fn flush(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut waiting = self.lock();
        while waiting.writing || !waiting.lines.is_empty() || waiting.dropped > 0 {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return };
            waiting = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Errors: what of the lines could not be written.
fn write_all<'a>(out: &mut impl Write, mut lines: &'a [u8]) -> Result<(), &'a [u8]> {
    while !lines.is_empty() {
        match out.write(lines) {
            Ok(0) => return Err(lines),
            Ok(written) => lines = lines.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process may have made the pipe that both write to one that does not block.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(_) => return Err(lines),
        }
    }
    Ok(())
}

/// The line that stands where others were dropped. It is written whatever `RUST_LOG` leaves away.
fn gap(dropped: u64) -> String {
    let mut timestamp = String::new();
    // It writes to a string, which does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let fields = serde_json::json!({ "message": format!("{dropped} lines were dropped"), "dropped": dropped });
    let line = serde_json::json!({
        "timestamp": timestamp, "level": "WARN", "fields": fields, "target": module_path!(),
    });
    format!("{line}\n")
}

impl<'a> MakeWriter<'a> for &'static Log {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self)
    }
}

/// The writer of one line: the subscriber formats it and writes it in one piece.
struct Line(&'static Log);

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(line);
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

    /// Takes nothing until it is told to, then fails or gives it on.
    struct Gate(Receiver<bool>, Sender<Vec<u8>>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // A reader that is gone for good holds the thread, as a stalled one does.
            let Ok(opens) = self.0.recv() else {
                loop {
                    std::thread::park()
                }
            };
            if !opens {
                return Err(ErrorKind::StorageFull.into());
            }
            // Piece by piece.
            let some = &bytes[..bytes.len().min(7)];
            self.1.send(some.to_owned()).unwrap();
            Ok(some.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(limit: usize) -> (&'static Log, Sender<bool>, Receiver<Vec<u8>>) {
        let log: &'static Log = Box::leak(Box::new(Log::new(limit)));
        let ((open, gate), (to, written)) = (channel(), channel());
        std::thread::spawn(move || log.write_to(Gate(gate, to)));
        (log, open, written)
    }

    #[test]
    fn lines_beyond_the_limit_are_dropped_counted_and_named_where_they_are_missing() {
        let (log, open, written) = log(40);
        log.add(b"first\n");
        while !log.lock().writing {
            std::thread::yield_now();
        }
        for n in 0..10 {
            log.add(format!("line {n}\n").as_bytes());
        }
        assert_eq!(log.dropped.load(Relaxed), 5);
        (0..1000).for_each(|_| open.send(true).unwrap());
        log.flush(Duration::from_secs(60));
        log.add(b"after\n");
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
    fn a_reader_that_stalls_is_waited_for_no_longer_than_is_said() {
        let (log, _open, written) = log(40);
        log.add(b"never\n");
        log.flush(Duration::from_millis(50));
        assert_eq!(written.try_iter().count(), 0);
    }

    #[test]
    fn lines_that_cannot_be_written_count_as_dropped() {
        let (log, open, _written) = log(40);
        log.add(b"one\ntwo\n");
        open.send(false).unwrap();
        log.flush(Duration::from_secs(60));
        assert_eq!(log.dropped.load(Relaxed), 2);
    }
}
