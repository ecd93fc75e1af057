//! What a loop counts: answers, failures by kind, and latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use hyper::StatusCode;

use super::client::Failure;
use super::generator::Shares;

/// The longest latency that is told apart, in microseconds: ten minutes.
const LONGEST: u64 = 600_000_000;

/// The share of its time that a thread computes from which it counts as having none left.
const BOUND: f64 = 0.95;

/// Requests that were not answered as they should be, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Answered, but with a status other than 2xx.
    pub statuses: BTreeMap<u16, u64>,
    /// No connection could be made.
    pub refused: u64,
    /// The connection ended before the answer did.
    pub broken: u64,
    /// Sent, and not answered when the loop gave up.
    pub unanswered: u64,
    /// Due, and not sent when the loop gave up: no connection was free.
    pub unsent: u64,
}

impl Failures {
    pub fn total(&self) -> u64 {
        self.statuses.values().sum::<u64>() + self.refused + self.broken + self.unanswered + self.unsent
    }

    /// Those that there were, for a report.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let mut named: BTreeMap<String, u64> =
            self.statuses.iter().map(|(status, count)| (format!("status {status}"), *count)).collect();
        let others = [
            ("no connection", self.refused),
            ("connection broken", self.broken),
            ("not answered", self.unanswered),
            ("not sent", self.unsent),
        ];
        named.extend(others.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)));
        named
    }

    fn add(&mut self, other: &Self) {
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        self.refused += other.refused;
        self.broken += other.broken;
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
    }
}

/// What a loop found.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Answered with 2xx before the time was over: the rate is of these.
    pub requests: u64,
    /// Answered with 2xx after that.
    pub late: u64,
    /// Bodies of `requests`, both ways.
    pub bytes: u64,
    /// How long requests were sent.
    pub seconds: f64,
    /// Latencies in microseconds, of `requests` and `late`; and, as a lower bound, how long each request had waited
    /// that was not sent or not answered when the loop gave up. Other failures are not in it.
    pub histogram: Histogram<u64>,
    pub failures: Failures,
    /// How often a connection was closed by the server between two requests, and opened again.
    pub reopened: u64,
    /// Time of the busiest generator thread.
    pub generator: Shares,
    /// It was ended early: all is of the time until then, without the requests that were under way.
    pub interrupted: bool,
}

impl Loop {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            requests: 0,
            late: 0,
            bytes: 0,
            seconds: 0.0,
            histogram: Histogram::new_with_bounds(1, LONGEST, 3)?,
            failures: Failures::default(),
            reopened: 0,
            generator: Shares::default(),
            interrupted: false,
        })
    }

    /// What all threads of a loop found together.
    pub(super) fn merge(parts: Vec<Self>) -> anyhow::Result<Self> {
        let mut all = Self::new()?;
        for part in parts {
            all.requests += part.requests;
            all.late += part.late;
            all.bytes += part.bytes;
            all.seconds = all.seconds.max(part.seconds);
            all.histogram.add(&part.histogram)?;
            all.failures.add(&part.failures);
            all.reopened += part.reopened;
            all.generator = all.generator.busier(part.generator);
            all.interrupted |= part.interrupted;
        }
        Ok(all)
    }

    pub(super) fn answered(&mut self, latency: Duration, bytes: u64, in_time: bool) {
        self.record(latency);
        if in_time {
            self.requests += 1;
            self.bytes += bytes;
        } else {
            self.late += 1;
        }
    }

    pub(super) fn refused(&mut self, status: StatusCode) {
        *self.failures.statuses.entry(status.as_u16()).or_default() += 1;
    }

    pub(super) fn failed(&mut self, failure: &Failure) {
        match failure {
            Failure::Connect(_) => self.failures.refused += 1,
            Failure::Broken(_) => self.failures.broken += 1,
        }
    }

    pub(super) fn unanswered(&mut self, waited: Duration) {
        self.record(waited);
        self.failures.unanswered += 1;
    }

    pub(super) fn unsent(&mut self, waited: Duration) {
        self.record(waited);
        self.failures.unsent += 1;
    }

    fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record((latency.as_micros() as u64).max(1));
    }

    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }

    /// Requests that were not answered as they should be.
    pub fn errors(&self) -> u64 {
        self.failures.total()
    }

    /// A thread of the generator computed for 95 % of the time or more: more load could not have been made, so these
    /// are no limits of the server.
    pub fn generator_bound(&self) -> bool {
        self.generator.computing >= BOUND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(latencies: std::ops::RangeInclusive<u64>) -> Loop {
        let mut found = Loop::new().unwrap();
        for millis in latencies {
            found.answered(Duration::from_millis(millis), 10, millis <= 500);
        }
        found
    }

    #[test]
    fn threads_add_up() {
        let (mut one, mut two) = (of(1..=100), of(401..=600));
        (one.seconds, two.seconds) = (2.0, 2.0);
        one.generator.computing = 0.96;
        two.generator.computing = 0.2;
        one.refused(StatusCode::NOT_FOUND);
        two.refused(StatusCode::NOT_FOUND);
        two.unsent(Duration::from_secs(5));
        let all = Loop::merge(vec![one, two]).unwrap();
        // 100 of the first; of the second, 401 to 500 ms came in time and 501 to 600 did not.
        assert_eq!((all.requests, all.late, all.bytes), (200, 100, 2000));
        assert!((all.per_second() - 100.0).abs() < 1e-9);
        assert_eq!(all.errors(), 3);
        assert_eq!(all.failures.by_name(), BTreeMap::from([("status 404".into(), 2), ("not sent".into(), 1)]));
        assert_eq!(all.histogram.len(), 301);
        assert!(all.generator_bound());
    }
}
