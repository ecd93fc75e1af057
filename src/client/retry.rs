//! Repeats requests while the server is stopped or busy: a restart of the server must not break a transfer.
//!
//! Not with `backon`: its limit counts pauses only. The limit here includes the time of the attempts, and `Retry-After`
//! is a lower bound of the next pause alone.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::ClientError;

/// The first pause between two tries, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long to retry, counted from the first failure.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy(pub Duration);

impl RetryPolicy {
    /// Repeats an attempt until it succeeds, fails permanently, or its next pause would end after the limit.
    pub async fn run<T, E: Retryable>(self, mut attempt: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
        let (mut pause, longest) = PAUSES;
        let mut until = None;
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let Some(at_least) = error.retry_after() else {
                return Err(error);
            };
            let now = Instant::now();
            let until = *until.get_or_insert(now + self.0);
            let wait = at_least.max(pause);
            if now + wait > until {
                return Err(error);
            }
            sleep(wait).await;
            pause = (pause * 2).min(longest);
        }
    }
}

/// An error after which a retry may succeed.
pub trait Retryable {
    /// The shortest pause before a retry; none if a retry is useless.
    fn retry_after(&self) -> Option<Duration>;
}

impl Retryable for ClientError {
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unreachable(..) | Self::ConnectionLost(..) => Some(Duration::ZERO),
            // 408: the body was sent too slowly. The others are answers of the server or of a proxy in front of it.
            Self::Problem(problem) if matches!(problem.status.as_u16(), 408 | 429 | 502 | 503 | 504) => {
                Some(problem.retry_after.unwrap_or_default())
            }
            Self::Problem(_)
            | Self::UnexpectedAnswer(..)
            | Self::Ca(..)
            | Self::Untrusted(..)
            | Self::Credential(_) => None,
        }
    }
}
