//! Points in time, in milliseconds.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimePrinter;

/// Milliseconds since 1970-01-01T00:00:00Z, negative before it. Finer times are rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Why a text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time: write RFC 3339 with a zone, as 2026-01-02T03:04:05Z, in the years 1901 to 9999")]
pub struct InvalidTimestamp;

/// 1901-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z, in milliseconds.
const FIRST: i64 = -2_177_452_800_000;
const LAST: i64 = 253_402_300_799_999;

impl Timestamp {
    /// The time this many milliseconds after 1970.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// The time of the system's clock.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Parses RFC 3339 with any offset, and rounds down to milliseconds.
    pub fn parse(text: &str) -> Result<Self, InvalidTimestamp> {
        Self::in_range(parse_ns(text)?.div_euclid(1_000_000))
    }

    /// As [`parse`](Self::parse), but rounds up to milliseconds: so [from, to) is exact for times that were rounded
    /// down.
    pub fn parse_bound(text: &str) -> Result<Self, InvalidTimestamp> {
        let ns = parse_ns(text)?;
        Self::in_range(-(-ns).div_euclid(1_000_000))
    }

    /// Parses unix seconds, an integer or a decimal fraction without exponent, and rounds down to milliseconds.
    pub fn parse_unix(text: &str) -> Result<Self, InvalidTimestamp> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || whole.len() > 12 {
            return Err(InvalidTimestamp);
        }
        let seconds: i128 = whole.parse().map_err(|_| InvalidTimestamp)?;
        let nine: String = fraction.chars().chain("000000000".chars()).take(9).collect();
        let ns = seconds * 1_000_000_000 + nine.parse::<i128>().map_err(|_| InvalidTimestamp)?;
        // Digits after the ninth only make a negative time a little earlier.
        let beyond = fraction.bytes().skip(9).any(|b| b != b'0');
        let ns = if negative { -ns - i128::from(beyond) } else { ns };
        Self::in_range(ns.div_euclid(1_000_000))
    }

    /// The time so many seconds after 1970.
    pub fn from_unix(seconds: i64) -> Result<Self, InvalidTimestamp> {
        Self::in_range(i128::from(seconds) * 1_000)
    }

    /// The time so much later.
    pub fn after(self, length: SignedDuration) -> Result<Self, InvalidTimestamp> {
        Self::in_range(i128::from(self.0) + length.as_millis())
    }

    /// Errors if the time lies outside of the years that are accepted.
    fn in_range(ms: i128) -> Result<Self, InvalidTimestamp> {
        let ms = i64::try_from(ms).map_err(|_| InvalidTimestamp)?;
        if (FIRST..=LAST).contains(&ms) { Ok(Self(ms)) } else { Err(InvalidTimestamp) }
    }

    /// RFC 3339 in UTC with milliseconds.
    pub fn rfc3339(self) -> String {
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
        let time = EPOCH.saturating_add(SignedDuration::from_millis(self.0));
        // A page of a list has hundreds of times: allocate each once.
        let mut text = String::with_capacity("2026-01-02T03:04:05.678Z".len());
        // Writing to memory cannot fail.
        let _ = PRINTER.print_datetime(&time, &mut text);
        text.push('Z');
        text
    }
}

/// Appends a time as [`Timestamp::rfc3339`] gives it, in a fraction of the time: a page has hundreds of them.
pub fn write_rfc3339(time: Timestamp, to: &mut Vec<u8>) {
    if !(FIRST..=LAST).contains(&time.0) {
        // Only damage gives such a year, which may have more digits or a sign.
        return to.extend_from_slice(time.rfc3339().as_bytes());
    }
    let (year, month, day) = civil(time.0.div_euclid(DAY));
    let ms = time.0.rem_euclid(DAY);
    let digit = |number: i64| b'0' + (number % 10) as u8;
    let two = |number: i64| [digit(number / 10), digit(number)];
    let [[y0, y1], [y2, y3], [mo0, mo1], [d0, d1]] = [year / 100, year, month, day].map(two);
    let [[h0, h1], [m0, m1], [s0, s1]] = [ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60].map(two);
    let [f0, f1, f2] = [digit(ms / 100), digit(ms / 10), digit(ms)];
    to.extend_from_slice(&[
        y0, y1, y2, y3, b'-', mo0, mo1, b'-', d0, d1, b'T', h0, h1, b':', m0, m1, b':', s0, s1, b'.', f0, f1, f2, b'Z',
    ]);
}

/// Year, month and day of a day, in days since 1970. Counts in eras of 400 years of 146,097 days, which begin on the 1st of
/// March, so that a leap day is the last day of its year (Hinnant, `civil_from_days`).
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Of 0 for March to 11 for February.
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + later, month, of_month)
}

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Times are computed with jiff's civil calendar, since its `Timestamp` ends 26 hours before the end of the year 9999.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Nanoseconds since 1970. RFC 3339 section 5.6: a date, `T`, a time, and a zone, which is required.
fn parse_ns(text: &str) -> Result<i128, InvalidTimestamp> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let shape = [4, 7].iter().all(|&i| bytes.get(i) == Some(&b'-'))
        && matches!(bytes.get(10), Some(b'T' | b't' | b' '))
        && [13, 16].iter().all(|&i| bytes.get(i) == Some(&b':'))
        && [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18].into_iter().all(digit);
    if !shape {
        return Err(InvalidTimestamp);
    }
    let zone = text.get(19..).ok_or(InvalidTimestamp)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let local = text.strip_suffix(zone).ok_or(InvalidTimestamp)?;
    let local: DateTime = local.parse().map_err(|_| InvalidTimestamp)?;
    let since = local.duration_since(EPOCH).as_nanos();
    Ok(since - offset_seconds(zone)? * 1_000_000_000)
}

/// `Z`, `+hh:mm` or `-hh:mm` (RFC 3339). By hand and not by the parser of `jiff`, which takes shorter offsets too.
fn offset_seconds(zone: &str) -> Result<i128, InvalidTimestamp> {
    if zone.eq_ignore_ascii_case("z") {
        return Ok(0);
    }
    let sign = match zone.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(InvalidTimestamp),
    };
    let two = |text: &str, below: i128| match text.parse::<u8>() {
        Ok(n) if text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit()) && i128::from(n) < below => {
            Ok(i128::from(n))
        }
        _ => Err(InvalidTimestamp),
    };
    let (hours, minutes) = zone.get(1..).and_then(|z| z.split_once(':')).ok_or(InvalidTimestamp)?;
    Ok(sign * (two(hours, 24)? * 3600 + two(minutes, 60)? * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_is_read_and_written() {
        for (text, ms) in [
            ("2026-01-02T03:04:05.678Z", 1_767_323_045_678),
            ("2026-01-02T04:04:05.6789999+01:00", 1_767_323_045_678),
            ("1969-12-31T23:59:59.9999Z", -1),
            ("1901-01-01T00:00:00Z", FIRST),
            ("9999-12-31T23:59:59.999Z", LAST),
        ] {
            assert_eq!(Timestamp::parse(text), Ok(Timestamp(ms)), "{text}");
        }
        assert_eq!(Timestamp(1_767_323_045_678).rfc3339(), "2026-01-02T03:04:05.678Z");
        assert_eq!(Timestamp(-1).rfc3339(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp(0).rfc3339(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn times_are_written_as_the_library_does() {
        let mut times = vec![0, -1, FIRST, LAST, i64::MIN, i64::MAX, FIRST - 1, LAST + 1, 1_767_323_045_678];
        times.extend((0..2_000).map(|n| FIRST + n * 137_438_953_471 % (LAST - FIRST)));
        times.extend((0..200).map(|n| 1_767_225_600_000 + n * 1_234_567));
        // Each day of 400 years, at its last millisecond.
        times.extend((0..146_097).map(|day| (day + 1) * DAY - 1));
        for ms in times {
            let mut text = Vec::new();
            write_rfc3339(Timestamp(ms), &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), Timestamp(ms).rfc3339(), "{ms}");
        }
    }

    #[test]
    fn a_zone_is_required_and_years_are_bounded() {
        for text in [
            "2026-01-02T03:04:05",
            "2026-01-02",
            "1900-12-31T23:59:59Z",
            "10000-01-01T00:00:00Z",
            "",
            "now",
            "2026-02-30T00:00:00Z",
            "2026-01-02T03:04:05+0100",
            "2026-01-02T03:04:05,5Z",
            "2026-01-02T25:00:00Z",
            "2026-01-02T03:04Z",
            "2026-01-02T03:04:05Z[UTC]",
        ] {
            assert_eq!(Timestamp::parse(text), Err(InvalidTimestamp), "{text}");
        }
    }

    #[test]
    fn bounds_round_up() {
        assert_eq!(Timestamp::parse_bound("1970-01-01T00:00:00.0001Z"), Ok(Timestamp(1)));
        assert_eq!(Timestamp::parse_bound("1970-01-01T00:00:00.001Z"), Ok(Timestamp(1)));
        assert_eq!(Timestamp::parse_bound("1969-12-31T23:59:59.9999Z"), Ok(Timestamp(0)));
    }

    #[test]
    fn unix_seconds() {
        assert_eq!(Timestamp::from_unix(-1), Ok(Timestamp(-1_000)));
        assert_eq!(Timestamp::from_unix(LAST.div_euclid(1_000)), Ok(Timestamp(LAST - 999)));
        for out_of_range in [LAST.div_euclid(1_000) + 1, FIRST.div_euclid(1_000) - 1, i64::MAX, i64::MIN] {
            assert_eq!(Timestamp::from_unix(out_of_range), Err(InvalidTimestamp), "{out_of_range}");
        }
        for (text, ms) in
            [("0", 0), ("1767323045.678", 1_767_323_045_678), ("1.9999", 1_999), ("-0.0001", -1), ("-1", -1000)]
        {
            assert_eq!(Timestamp::parse_unix(text), Ok(Timestamp(ms)), "{text}");
        }
        for text in ["", "1e3", "+1", ".5", "1.", "0x1", " 1", "99999999999999", "1.5.5", "-"] {
            assert_eq!(Timestamp::parse_unix(text), Err(InvalidTimestamp), "{text}");
        }
    }
}
