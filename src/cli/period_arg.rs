//! Times and periods, on the command line.

use jiff::civil::Date;
use jiff::{Span, ToSpan};
use rowdrive::schema::Timestamp;

/// A bound of a period, as a request has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeArg(pub String);

/// A period: from its start, and up to its end; without an end in the last year that has times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodArg {
    pub from: TimeArg,
    pub to: Option<TimeArg>,
}

impl TimeArg {
    /// Takes RFC 3339, or a year, a month or a day, of which it is the start in UTC.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((start, _)) = calendar(text) {
            return Self::of_day(start);
        }
        let error = |error| format!("{error}; or a day, a month or a year of UTC, as 2026-01-02, 2026-01 or 2026");
        Timestamp::parse_bound(text).map(|_| Self(text.to_owned())).map_err(error)
    }

    fn of_day(day: Date) -> Result<Self, String> {
        let text = format!("{day}T00:00:00Z");
        Timestamp::parse(&text).map_err(|_| "not in the years 1901 to 9999".to_owned())?;
        Ok(Self(text))
    }
}

impl PeriodArg {
    /// Takes a year, a month or a day, all in UTC.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (start, length) = calendar(text)
            .ok_or("name a day, a month or a year of UTC, as 2026-01-02, 2026-01 or 2026; or use --from and --to")?;
        let to = start.checked_add(length).ok().map(TimeArg::of_day).transpose()?;
        Ok(Self { from: TimeArg::of_day(start)?, to })
    }
}

/// The first day of a year, a month or a day, and how long it is. None if the text is none of them.
fn calendar(text: &str) -> Option<(Date, Span)> {
    let digits = |at: usize, n: usize| {
        let part = text.get(at..at + n).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
        part.parse::<i16>().ok()
    };
    let dashes_at = |positions: &[usize]| positions.iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    let two = |at| digits(at, 2).and_then(|number| i8::try_from(number).ok());
    let (month, day, length) = match text.len() {
        4 => (1, 1, 1.year()),
        7 if dashes_at(&[4]) => (two(5)?, 1, 1.month()),
        10 if dashes_at(&[4, 7]) => (two(5)?, two(8)?, 1.day()),
        _ => return None,
    };
    Some((Date::new(digits(0, 4)?, month, day).ok()?, length))
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
        ] {
            let bound = |day: &str| TimeArg(format!("{day}T00:00:00Z"));
            assert_eq!(PeriodArg::parse(text), Ok(PeriodArg { from: bound(from), to: Some(bound(to)) }), "{text}");
            assert_eq!(TimeArg::parse(text), Ok(bound(from)), "{text}");
        }
        for text in ["9999", "9999-12", "9999-12-31"] {
            assert_eq!(PeriodArg::parse(text).unwrap().to, None, "{text}");
        }
        let instant = "2026-01-02T03:04:05.0001+08:00";
        assert_eq!(TimeArg::parse(instant), Ok(TimeArg(instant.to_owned())));
        assert!(PeriodArg::parse(instant).unwrap_err().contains("--from"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "26",
            "2026-1",
            "2026-13",
            "2026-02-30",
            "2026/01",
            "2026-01-",
            "+026",
            "-026",
            "1900",
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
