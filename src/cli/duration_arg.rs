//! Durations on the command line.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use jiff::fmt::friendly::{SpanParser, SpanPrinter};

/// A time limit: from 1 ms to a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationArg(pub Duration);

const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_hours(24);

impl FromStr for DurationArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = SpanParser::new().parse_unsigned_duration(text);
        let length = length.map_err(|_| "write a length of time with its unit, as in 30s, 2m or 500ms")?;
        if (LEAST..=MOST).contains(&length) { Ok(Self(length)) } else { Err("it is from 1ms to 24h") }
    }
}

impl Display for DurationArg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&SpanPrinter::new().unsigned_duration_to_string(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_written() {
        for (text, ms) in [("30s", 30_000), ("2m", 120_000), ("500ms", 500), ("1h 30m", 5_400_000), ("24h", 86_400_000)]
        {
            let duration = DurationArg(Duration::from_millis(ms));
            assert_eq!(text.parse(), Ok(duration), "{text}");
            assert_eq!(duration.to_string().parse(), Ok(duration), "{duration}");
        }
        assert_eq!(DurationArg(Duration::from_secs(60)).to_string(), "1m");
        for bad in ["", "30", "-1s", "30 parsecs", "0s", "1ns", "25h", "1mo", "s"] {
            assert!(bad.parse::<DurationArg>().is_err(), "{bad}");
        }
    }
}
