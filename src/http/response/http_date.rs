//! Dates of HTTP headers: whole seconds in GMT (RFC 9110 section 5.6.7).

use std::time::UNIX_EPOCH;

use jiff::SignedDuration;
use jiff::civil::DateTime;

use crate::schema::Timestamp;

/// Seconds since 1970, negative before it: files may be older than other libraries can print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpDate(i64);

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const FORMAT: &str = "%a, %d %b %Y %H:%M:%S GMT";
/// Bytes of the usual format, as in `Sun, 06 Nov 1994 08:49:37 GMT`.
const BYTES: usize = 29;

impl HttpDate {
    /// The `Last-Modified` of a file. A time in the future is replaced by the present (RFC 9110 section 8.8.2.1): otherwise
    /// later changes would look older to a client.
    pub fn last_modified(modified: Timestamp, now: Timestamp) -> Self {
        Self(modified.min(now).ms().div_euclid(1000))
    }

    /// Parses one of the three formats of HTTP.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() == BYTES
            && let Ok(date) = DateTime::strptime(FORMAT, text)
        {
            return Some(Self(date.duration_since(EPOCH).as_secs()));
        }
        let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok().map(Self)
    }

    pub fn print(self) -> String {
        EPOCH.saturating_add(SignedDuration::from_secs(self.0)).strftime(FORMAT).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_printed_and_parsed_back() {
        let later = Timestamp::from_ms(i64::MAX);
        for (ms, text) in [
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (-2_177_452_800_000, "Tue, 01 Jan 1901 00:00:00 GMT"),
            (253_402_300_799_999, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            let date = HttpDate::last_modified(Timestamp::from_ms(ms), later);
            assert_eq!(date.print(), text);
            assert_eq!(HttpDate::parse(text), Some(date));
        }
        let now = Timestamp::from_ms(5000);
        assert_eq!(HttpDate::last_modified(Timestamp::from_ms(9999), now), HttpDate(5));
    }

    #[test]
    fn old_formats_are_parsed_and_nonsense_is_not() {
        let date = HttpDate::parse("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(HttpDate::parse("Sunday, 06-Nov-94 08:49:37 GMT"), date);
        assert_eq!(HttpDate::parse("Sun Nov  6 08:49:37 1994"), date);
        for bad in
            ["", "yesterday", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 32 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"]
        {
            assert_eq!(HttpDate::parse(bad), None, "{bad}");
        }
    }
}
