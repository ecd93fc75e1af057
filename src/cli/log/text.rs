//! The log as text: a short line for each request, and the compact format of `tracing-subscriber` for other events.

use std::fmt::{self, Debug};

use clap::builder::styling::{AnsiColor, Style};
use indicatif::HumanBytes;
use rowdrive::schema::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{Compact, Format, FormatEvent, FormatFields, Writer, debug_fn, format};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::registry::LookupSpan;

/// The target of the event that `rowdrive::http` logs for each request.
pub const ACCESS: &str = "access";

/// Times in UTC, to the millisecond or finer, as in the API.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        out.write_str(&Timestamp::now().rfc3339())
    }
}

pub struct TextFormat {
    events: Format<Compact, Utc>,
}

impl TextFormat {
    pub fn new() -> Self {
        Self { events: format().compact().with_timer(Utc).with_target(false) }
    }
}

impl<S, N> FormatEvent<S, N> for TextFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if event.metadata().target() != ACCESS {
            return self.events.format_event(context, out, event);
        }
        let mut request = AccessLine::default();
        event.record(&mut request);
        Utc.format_time(&mut out)?;
        let colours = out.has_ansi_escapes();
        writeln!(out, " {}", request.in_words(colours))
    }
}

/// The fields of events and spans. Control characters are escaped, so that an event stays one line.
pub fn fields() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    let fields = debug_fn(|out: &mut Writer<'_>, field, value| {
        let text = format!("{value:?}");
        if field.name() != "message" {
            write!(out, "{}=", field.name())?;
        }
        text.chars().try_for_each(|c| match c {
            c if c.is_control() => write!(out, "{}", c.escape_default()),
            c => out.write_char(c),
        })
    });
    fields.delimited(" ")
}

/// The logged fields of a request.
#[derive(Debug, Default)]
struct AccessLine {
    method: String,
    /// Percent-encoded.
    path: String,
    /// 0 if the client left before there was an answer.
    status: u64,
    bytes: u64,
    ms: f64,
}

impl AccessLine {
    fn in_words(&self, colours: bool) -> String {
        let Self { method, path, status, bytes, ms } = self;
        let style = if colours { colour(*status) } else { Style::new() };
        let status = if *status == 0 { "no answer".to_owned() } else { status.to_string() };
        format!("{method} {path} {style}{status}{style:#} {ms:.1} ms {}", HumanBytes(*bytes))
    }
}

fn colour(status: u64) -> Style {
    let colour = match status {
        200..300 => AnsiColor::Green,
        300..400 => AnsiColor::Cyan,
        400..500 => AnsiColor::Yellow,
        500.. => AnsiColor::Red,
        _ => AnsiColor::Magenta,
    };
    colour.on_default()
}

impl Visit for AccessLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "method" => value.clone_into(&mut self.method),
            "path" => value.clone_into(&mut self.path),
            _ => {}
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "status" => self.status = value,
            "bytes" => self.bytes = value,
            _ => {}
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "ms" {
            self.ms = value;
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_short_line_coloured_by_its_status() {
        let line =
            |status| AccessLine { method: "GET".into(), path: "/v1/fs/a%0Ab".into(), status, bytes: 2048, ms: 1.26 };
        assert_eq!(line(200).in_words(false), "GET /v1/fs/a%0Ab 200 1.3 ms 2.00 KiB");
        assert_eq!(line(0).in_words(false), "GET /v1/fs/a%0Ab no answer 1.3 ms 2.00 KiB");
        for (status, colour) in [(206, "32"), (304, "36"), (404, "33"), (507, "31")] {
            let text = line(status).in_words(true);
            assert!(text.contains(&format!("\u{1b}[{colour}m{status}\u{1b}[0m")), "{text:?}");
        }
    }
}
