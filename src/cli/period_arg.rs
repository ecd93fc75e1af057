//! Times and periods, on the command line.

use std::ops::Range;

use jiff::civil::Date;
use jiff::{Span, ToSpan};
use rowdrive::schema::Timestamp;

/// A bound of a period. In a time query it gives the same files as the text that was parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct TimeArg(Timestamp);

/// A period: [from, to). `to` is none if it ends with the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodArg {
    pub from: TimeArg,
    pub to: Option<TimeArg>,
}

impl TimeArg {
    /// Takes RFC 3339, or a year, a month or a day, which means its start in UTC.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((start, _)) = parse_date(text)? {
            return Self::of_day(start);
        }
        let error = |error| format!("{error}; or give a year, a month or a day in UTC, as 2026, 2026-01 or 2026-01-02");
        Timestamp::parse_bound(text).map(Self).map_err(error)
    }

    /// As a request has it.
    pub fn rfc3339(self) -> String {
        self.0.rfc3339()
    }

    fn of_day(day: Date) -> Result<Self, String> {
        let time = Timestamp::parse(&format!("{day}T00:00:00Z"));
        time.map(Self).map_err(|_| format!("{:04} is no year here: they go from 1901 to 9999", day.year()))
    }
}

impl PeriodArg {
    /// Takes a year, a month or a day, all in UTC.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (start, length) = parse_date(text)?
            .ok_or("give a year, a month or a day in UTC, as 2026, 2026-01 or 2026-01-02; or use --from and --to")?;
        let from = TimeArg::of_day(start)?;
        let to = start.checked_add(length).ok().map(TimeArg::of_day).transpose()?;
        Ok(Self { from, to })
    }
}

/// Parses a year, a month or a day: its first day, and its length. None if the text has the form of none of them.
///
/// Errors: there is no such month or day.
fn parse_date(text: &str) -> Result<Option<(Date, Span)>, String> {
    let Some((year, month, day, length)) = parse_numbers(text) else { return Ok(None) };
    let why = if (1..=12).contains(&month) { "this month has no such day" } else { "the months are 01 to 12" };
    Date::new(year, month, day).map(|date| Some((date, length))).map_err(|_| why.to_owned())
}

/// The numbers of a year, a month and a day, of which the text may have the first ones alone; and the length of what it has.
fn parse_numbers(text: &str) -> Option<(i16, i8, i8, Span)> {
    let digits = |range: Range<usize>| text.get(range).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let two_digits = |at| digits(at..at + 2)?.parse::<i8>().ok();
    let dashes_at = |positions: &[usize]| positions.iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    let year = digits(0..4)?.parse().ok()?;
    match text.len() {
        4 => Some((year, 1, 1, 1.year())),
        7 if dashes_at(&[4]) => Some((year, two_digits(5)?, 1, 1.month())),
        10 if dashes_at(&[4, 7]) => Some((year, two_digits(5)?, two_digits(8)?, 1.day())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_a_year_a_month_or_a_day() {
        for (text, from, to) in [
            ("2026", "2026-01-01", "2027-01-01"),
            ("2026-12", "2026-12-01", "2027-01-01"),
            ("2024-02-29", "2024-02-29", "2024-03-01"),
            ("1901", "1901-01-01", "1902-01-01"),
            ("9999-11", "9999-11-01", "9999-12-01"),
        ] {
            let bound = |day: &str| format!("{day}T00:00:00.000Z");
            let period = PeriodArg::parse(text).unwrap();
            assert_eq!((period.from.rfc3339(), period.to.unwrap().rfc3339()), (bound(from), bound(to)), "{text}");
            assert_eq!(TimeArg::parse(text), Ok(period.from), "{text}");
        }
        for text in ["9999", "9999-12", "9999-12-31"] {
            assert_eq!(PeriodArg::parse(text).unwrap().to, None, "{text}");
        }
        // A bound is rounded up, as the server does.
        let instant = "2026-01-02T03:04:05.0001+08:00";
        assert_eq!(TimeArg::parse(instant).unwrap().rfc3339(), "2026-01-01T19:04:05.001Z");
        assert!(PeriodArg::parse(instant).unwrap_err().contains("--from"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for (text, why) in [
            ("2026-13", "months"),
            ("2026-00-01", "months"),
            ("2026-02-30", "no such day"),
            ("2025-02-29", "no such day"),
            ("2026-01-00", "no such day"),
            ("1900", "1901"),
            ("0000-12", "0000 is no year here: they go from 1901"),
        ] {
            for error in [PeriodArg::parse(text).unwrap_err(), TimeArg::parse(text).unwrap_err()] {
                assert!(error.contains(why) && !error.contains("RFC"), "{text}: {error}");
            }
        }
        for text in [
            "",
            "26",
            "2026-1",
            "2026/01",
            "2026-01-",
            "+026",
            "-026",
            "2026-01-02T03:04:05",
            "20é6",
            "202é",
            "2026-0é",
            "yesterday",
        ] {
            assert!(PeriodArg::parse(text).is_err(), "{text}");
            let error = TimeArg::parse(text).unwrap_err();
            assert!(error.contains("1901"), "{text}: {error}");
        }
    }
}
