//! The log on standard error: text for a person at a terminal, JSON for programs.
//!
//! A request never waits for the reader of standard error. Lines go into a bounded [buffer]; one thread writes them
//! out, many at a time: a request's line up to 10 ms later, a warning or an error at once. When the buffer is full, lines
//! are dropped and counted, and the log reports the count once it can be written again.
//!
//! In both formats each event is one line: no text of a client can look like another line.

mod buffer;
mod filter;
mod json;
mod text;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::ValueEnum;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use buffer::LogBuffer;
use json::{JsonFormat, SpanFields};
use text::TextFormat;

/// The most bytes of lines in the buffer: some thousand lines of requests.
const BUFFER: usize = 1 << 20;
/// How long the process waits at its end until the last lines are written.
const LAST_LINES: Duration = Duration::from_secs(2);

static LOG: LogBuffer = LogBuffer::new(BUFFER);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    #[default]
    Auto,
    /// One short line a request, and other events in words.
    Text,
    /// One JSON object a line.
    Json,
}

/// The variable that says which events are logged, as in `warn` or `info,access=warn`.
const FILTER: &str = "RUST_LOG";

/// Starts the log; `RUST_LOG` filters it. `level`: what is logged if that is not set.
pub fn start(format: LogFormat, level: LevelFilter) -> io::Result<()> {
    std::thread::Builder::new().name("log".into()).spawn(|| LOG.write_to(io::stderr()))?;
    let chosen = filter::parse(&std::env::var_os(FILTER).unwrap_or_default(), level);
    let is_malformed = chosen.is_none();
    let filtered = tracing_subscriber::registry().with(chosen.unwrap_or_else(|| filter::all(level)));
    let log = tracing_subscriber::fmt::layer().with_writer(&LOG);
    let is_terminal = io::stderr().is_terminal();
    if format == LogFormat::Text || (format == LogFormat::Auto && is_terminal) {
        LOG.report_gaps_as_text();
        let colours = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        filtered.with(log.with_ansi(colours).fmt_fields(text::fields()).event_format(TextFormat::new())).init();
    } else {
        filtered.with(log.fmt_fields(SpanFields).event_format(JsonFormat::new())).init();
    }
    if is_malformed {
        tracing::warn!(
            "{FILTER} is ignored: write a level, and targets with their levels, as in warn or info,access=warn"
        );
    }
    // The hook of the standard library writes to standard error, and would wait for its reader.
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(%backtrace, "{panic}");
        // A panic of the main thread ends the process without a call of `end`.
        if std::thread::current().name() == Some("main") {
            LOG.flush(LAST_LINES);
        }
    }));
    Ok(())
}

/// Writes a last line, not as an event, and waits a moment until it and the lines before it are written.
pub fn end(last: Option<String>) {
    if let Some(mut last) = last {
        last.push('\n');
        LOG.add(last.as_bytes(), true);
    }
    LOG.flush(LAST_LINES);
}

/// Registers the metrics of the log.
pub fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(DroppedLines));
}

#[derive(Debug)]
struct DroppedLines;

impl prometheus_client::collector::Collector for DroppedLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let dropped = ConstCounter::new(LOG.dropped());
        let help = "Lines of the log that were dropped since standard error did not take them";
        let kind = dropped.metric_type();
        dropped.encode(encoder.encode_descriptor("rowdrive_log_lines_dropped", help, None, kind)?)
    }
}
