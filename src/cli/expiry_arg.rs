//! When a secret expires, on the command line.

use std::str::FromStr;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;
use rowdrive::schema::Timestamp;

/// A time, as [`Timestamp::parse`] reads it, or how long from now on, as in 7d. In RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiryArg(pub String);

impl FromStr for ExpiryArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = SpanParser::new().parse_span(text).and_then(|span| {
            // Each day has 24 hours; a month or a year has no length of its own.
            span.to_duration(SpanRelativeTo::days_are_24_hours())
        });
        let end = match length {
            Ok(length) => {
                let ms = i64::try_from(length.as_millis()).ok().and_then(|ms| Timestamp::now().ms().checked_add(ms));
                Timestamp::parse(&Timestamp::from_ms(ms.unwrap_or(i64::MAX)).rfc3339())
            }
            Err(_) => Timestamp::parse(text),
        };
        let end = end.map_err(|error| format!("{error}, or how long from now on, as in 7d or 12h"))?;
        Ok(Self(end.rfc3339()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        let ExpiryArg(end) = text.parse().unwrap();
        Timestamp::parse(&end).unwrap().ms()
    }

    #[test]
    fn it_is_a_time_or_a_length_from_now_on() {
        assert_eq!("2099-12-31T23:59:59Z".parse(), Ok(ExpiryArg("2099-12-31T23:59:59.000Z".to_owned())));
        const HOUR: i64 = 3_600_000;
        for (text, length) in [("7d", 168 * HOUR), ("12h", 12 * HOUR), ("2w", 336 * HOUR), ("1 hour 30m", HOUR * 3 / 2)]
        {
            let before = Timestamp::now().ms();
            let end = ms(text);
            assert!((before + length..=Timestamp::now().ms() + length).contains(&end), "{text}");
        }
        for bad in ["", "7", "tomorrow", "1mo", "1y", "2027-01-01", "1000000000h"] {
            assert!(bad.parse::<ExpiryArg>().is_err(), "{bad}");
        }
    }
}
