//! How long a server that is away is waited for: one that restarts must not break a transfer.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::RemoteError;

/// The first pause between two tries, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long to go on trying, from the first failure on.
#[derive(Clone, Copy, Debug)]
pub struct Patience(pub Duration);

impl Patience {
    /// Tries until it succeeds, fails for a reason that time does not mend, or the patience is at its end.
    pub async fn with<T, E: Passing>(self, mut attempt: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
        let (mut pause, longest) = PAUSES;
        let mut until = None;
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let Some(asked) = error.passes() else {
                return Err(error);
            };
            let now = Instant::now();
            let until = *until.get_or_insert(now + self.0);
            let wait = asked.max(pause);
            if now + wait > until {
                return Err(error);
            }
            sleep(wait).await;
            pause = (pause * 2).min(longest);
        }
    }
}

pub trait Passing {
    /// Whether the same may succeed later, and how long to wait at least.
    fn passes(&self) -> Option<Duration>;
}

impl Passing for RemoteError {
    fn passes(&self) -> Option<Duration> {
        match self {
            Self::Unreachable(..) | Self::Cut(..) => Some(Duration::ZERO),
            // 408: it was too slow; the others come from the server or what stands before it.
            Self::Refused(refusal) if matches!(refusal.status.as_u16(), 408 | 429 | 502 | 503 | 504) => {
                Some(refusal.retry_after.unwrap_or_default())
            }
            Self::Refused(_) | Self::Foreign(..) => None,
        }
    }
}
