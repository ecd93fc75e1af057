//! The log as JSON: the line of a request is written by hand, other events as `tracing-subscriber` does.
//!
//! Every request has such a line. Written the general way, it takes a twelfth of the CPU time of a stat.

use std::fmt::{self, Debug};
use std::time::{SystemTime, UNIX_EPOCH};

use rowdrive::api::json_text::write_text;
use rowdrive::schema::Timestamp;
use rowdrive::schema::timestamp::write_rfc3339;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Json, Writer, format};
use tracing_subscriber::registry::LookupSpan;

use super::text::ACCESS;

pub struct JsonFormat {
    events: Format<Json>,
}

impl JsonFormat {
    pub fn new() -> Self {
        Self { events: format().json() }
    }
}

/// Appends the present as `tracing-subscriber` writes it: to the microsecond.
fn write_now(to: &mut Vec<u8>) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    write_rfc3339(Timestamp::from_ms(ms), to);
    // The `Z`.
    to.pop();
    let micros = since.subsec_micros() % 1_000;
    to.extend([micros / 100, micros / 10, micros].map(|number| b'0' + (number % 10) as u8));
    to.push(b'Z');
}

/// The fields of a span, as a JSON object.
pub struct SpanFields;

impl<'a> FormatFields<'a> for SpanFields {
    fn format_fields<R: RecordFields>(&self, mut out: Writer<'a>, fields: R) -> fmt::Result {
        let mut members = Fields(Vec::with_capacity(64));
        members.0.push(b'{');
        fields.record(&mut members);
        out.write_str(&members.done())
    }
}

impl<S, N> FormatEvent<S, N> for JsonFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        if event.metadata().target() != ACCESS || context.lookup_current().is_some() {
            return self.events.format_event(context, out, event);
        }
        let mut line = Fields(Vec::with_capacity(512));
        line.0.extend_from_slice(br#"{"timestamp":""#);
        write_now(&mut line.0);
        line.0.extend_from_slice(br#"","level":""#);
        line.0.extend_from_slice(event.metadata().level().as_str().as_bytes());
        line.0.extend_from_slice(br#"","fields":{"#);
        event.record(&mut line);
        out.write_str(&line.done())?;
        out.write_str(",\"target\":\"access\"}\n")
    }
}

/// Fields as members of JSON, each with a comma after it.
struct Fields(Vec<u8>);

impl Fields {
    /// Adds a number or a boolean.
    fn add_unquoted(&mut self, field: &Field, value: &impl serde::Serialize) {
        self.write_name(field);
        // Neither a write to memory nor the JSON of such a value can fail.
        let _ = serde_json::to_writer(&mut self.0, value);
        self.0.push(b',');
    }

    fn add_text(&mut self, field: &Field, value: &str) {
        self.write_name(field);
        write_text(&mut self.0, value);
        self.0.push(b',');
    }

    fn write_name(&mut self, field: &Field) {
        write_text(&mut self.0, field.name());
        self.0.push(b':');
    }

    /// Ends the object.
    fn done(mut self) -> String {
        // The comma after the last field.
        if self.0.last() == Some(&b',') {
            self.0.pop();
        }
        self.0.push(b'}');
        String::from_utf8(self.0).unwrap_or_default()
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add_unquoted(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add_unquoted(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add_unquoted(field, &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add_unquoted(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add_text(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Lines {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// What is logged, with each digit of the time replaced.
    fn logged(events: impl FnOnce(), format: impl FnOnce(Lines) -> tracing::Dispatch) -> String {
        let lines = Lines::default();
        tracing::dispatcher::with_default(&format(lines.clone()), events);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let start = r#"{"timestamp":""#.len();
        let line = |line: &str| {
            let (time, rest) = line.split_at(start + "2026-01-02T03:04:05.678901Z".len());
            time.replace(|c: char| c.is_ascii_digit(), "0") + rest
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn lines_are_those_of_the_library() {
        let events = || {
            for (path, ms) in [("/v1/fs/a", 0.125), ("/\"\\\u{1}é", 1e-7), ("", 12_345.678_901_234)] {
                let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
                tracing::info!(target: "access", id, method = "GET", path, status = 200, bytes = u64::MAX, ms);
                tracing::info!(target: "access", id = %id, ms = f64::NAN, is = true);
            }
            let _outer = tracing::info_span!("without").entered();
            let _span = tracing::info_span!("request", id = "\"1\"", n = 2, is = false).entered();
            tracing::info!(target: "access", bytes = 1u64);
            tracing::warn!(path = "/a", "something else");
        };
        let ours = logged(events, |lines| {
            let log = tracing_subscriber::fmt().with_writer(lines).fmt_fields(SpanFields);
            log.event_format(JsonFormat::new()).into()
        });
        let theirs = logged(events, |lines| tracing_subscriber::fmt().with_writer(lines).json().into());
        assert_eq!(ours, theirs);
        assert_eq!(ours.lines().count(), 8);
    }
}
