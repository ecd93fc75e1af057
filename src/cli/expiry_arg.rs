//! When a secret expires, on the command line.

use std::str::FromStr;

use jiff::fmt::friendly::SpanParser;
use jiff::{SignedDuration, Span, SpanRelativeTo};
use rowdrive::schema::Timestamp;

/// A time, as [`Timestamp::parse`] reads it, or how long from now on, as in 7d, by the clock of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryArg(Timestamp);

impl ExpiryArg {
    /// As a request has it.
    pub fn rfc3339(self) -> String {
        self.0.rfc3339()
    }
}

impl FromStr for ExpiryArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Ok(span) = SpanParser::new().parse_span(text) else {
            let end = Timestamp::parse(text);
            return end.map(Self).map_err(|error| format!("{error}, or how long from now on, as in 7d or 12h"));
        };
        let end = Timestamp::now().after(length(span)?);
        end.map(Self).map_err(|_| "it ends after the year 9999: leave it out".to_owned())
    }
}

/// Every day has 24 hours.
fn length(span: Span) -> Result<SignedDuration, String> {
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let length = length.map_err(|_| "a month and a year have no fixed length: give days or weeks, as in 30d or 52w")?;
    // A time has milliseconds.
    if length.as_millis() > 0 { Ok(length) } else { Err("it is in the past: give a time to come, as in 7d".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_time_or_a_length_from_now_on() {
        let ms = |text: &str| text.parse::<ExpiryArg>().unwrap().0.ms();
        assert_eq!(ms("2099-12-31T23:59:59Z"), 4_102_444_799_000);
        const HOUR: i64 = 3_600_000;
        for (text, length) in [("7d", 168 * HOUR), ("12h", 12 * HOUR), ("2w", 336 * HOUR), ("1h 30m", HOUR * 3 / 2)] {
            let before = Timestamp::now().ms();
            let end = ms(text);
            assert!((before + length..=Timestamp::now().ms() + length).contains(&end), "{text}");
        }
        for (bad, told) in [
            ("", "RFC 3339"),
            ("7", "RFC 3339"),
            ("tomorrow", "7d"),
            ("2027-01-01", "RFC 3339"),
            ("1mo", "days"),
            ("1y", "days"),
            ("-7d", "past"),
            ("7d ago", "past"),
            ("0s", "past"),
            ("999us", "past"),
            ("100000000h", "9999"),
        ] {
            let error = bad.parse::<ExpiryArg>().unwrap_err();
            assert!(error.contains(told), "{bad}: {error}");
        }
    }
}
