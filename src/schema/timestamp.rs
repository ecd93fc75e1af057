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
        let mut text = String::with_capacity(RFC3339_BYTES);
        // Writing to memory cannot fail.
        let _ = PRINTER.print_datetime(&time, &mut text);
        text.push('Z');
        text
    }
}

/// Bytes of [`rfc3339_bytes`].
pub const RFC3339_BYTES: usize = "2026-01-02T03:04:05.678Z".len();

/// Appends a time as [`Timestamp::rfc3339`] gives it, but faster: a page has hundreds of them.
pub fn write_rfc3339(time: Timestamp, to: &mut Vec<u8>) {
    match rfc3339_bytes(time) {
        Some(bytes) => to.extend_from_slice(&bytes),
        None => to.extend_from_slice(time.rfc3339().as_bytes()),
    }
}

/// A time as [`Timestamp::rfc3339`] gives it. None if it lies outside of the years that are accepted: only damage gives
/// such a year, which may have more digits or a sign.
pub fn rfc3339_bytes(time: Timestamp) -> Option<[u8; RFC3339_BYTES]> {
    if !(FIRST..=LAST).contains(&time.0) {
        return None;
    }
    // Neither the day nor the milliseconds of it are negative. Both have less than 32 bits, which are quicker to divide.
    let ms = time.0 + DAYS_BEFORE_1970 * DAY_MS;
    let (day, ms) = ((ms / DAY_MS) as u32, (ms % DAY_MS) as u32);
    let (year, month, day) = civil(day);
    let ([y0, y1], [y2, y3], [mo0, mo1], [d0, d1]) = (two(year / 100), two(year % 100), two(month), two(day));
    let (seconds, ms) = (ms / 1_000, ms % 1_000);
    let (minutes, hour) = (seconds / 60, seconds / 3_600);
    let ([h0, h1], [m0, m1], [s0, s1]) = (two(hour), two(minutes % 60), two(seconds % 60));
    let ([f0, f1], [_, f2]) = (two(ms / 10), two(ms % 10));
    Some([
        y0, y1, y2, y3, b'-', mo0, mo1, b'-', d0, d1, b'T', h0, h1, b':', m0, m1, b':', s0, s1, b'.', f0, f1, f2, b'Z',
    ])
}

/// The two digits of a number below 100. With `|`, which cannot overflow, so that nothing is checked.
fn two(number: u32) -> [u8; 2] {
    [b'0' | (number / 10) as u8, b'0' | (number % 10) as u8]
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_468;

/// Year, month and day of a day, in days since 0000-03-01, up to the year 9999. Years begin on the 1st of March, so that
/// a leap day is the last day of its year, and a division by a fixed fraction tells the month (Neri and Schneider,
/// "Euclidean affine functions and their application to calendar algorithms", 2022).
fn civil(day: u32) -> (u32, u32, u32) {
    let quarters = 4 * day + 3;
    let (century, of_century) = (quarters / 146_097, quarters % 146_097 / 4);
    // A year has 1,461 quarters of a day. To multiply by 2^32 / 1461, which is 2,939,745, divides by that: the high half is
    // the year, and the low half the remainder, times that factor.
    let product = 2_939_745 * u64::from(4 * of_century + 3);
    let (year, of_year) = ((product >> 32) as u32, (product as u32) / 2_939_745 / 4);
    // Of 3 for March to 14 for February.
    let months = 2_141 * of_year + 197_913;
    let (month, of_month) = (months >> 16, (months & 0xffff) / 2_141);
    let (month, next_year) = if of_year < 306 { (month, 0) } else { (month - 12, 1) };
    (century * 100 + year + next_year, month, of_month + 1)
}

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

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
        // Each day of 400 years, after which the calendar repeats, and days of all other years.
        let days = (0..146_097).chain((FIRST / DAY_MS..=LAST / DAY_MS).step_by(97));
        times.extend(days.flat_map(|day| [day * DAY_MS, (day + 1) * DAY_MS - 1]));
        // Each second of a day, and each millisecond of a second.
        times.extend((0..86_400).map(|second| second * 1_000 + 7));
        times.extend(0..1_000);
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
