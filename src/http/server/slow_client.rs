//! Which clients are too slow, for a body that they send or a response that they read: no byte for a while, or too few
//! bytes in all.
//!
//! While other requests wait for memory, or find no place over HTTP/2, a stall may last 5 seconds only, and the
//! required rate doubles with each second of their wait. So the slowest clients are cut first, and no more of them than
//! necessary.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::streams::RunningStream;
use crate::api::path::share_secret;
use crate::budget::Budget;
use crate::client_net::ClientNet;
use crate::http::options::Limits;

/// Bytes of a body that a client must send each second, or bytes of a response that it must read, on average after
/// [`Limits::body_grace`](crate::http::Limits).
pub const MIN_RATE: u64 = 1024;
/// How long a client may stall while others wait for memory, a connection or a place of HTTP/2.
pub const SHORT_STALL: Duration = Duration::from_secs(5);
/// How many times the required rate doubles at most while others wait for memory: to 64 KiB a second, which a client
/// with a slow link can still send.
const MAX_DOUBLINGS: u64 = 6;
/// After so long a wait for a client, its pace is counted anew for others who wait for memory.
const WINDOW: Duration = Duration::from_secs(10);
/// So much of the time in which the server does not read what a client sends is not a part of the stalls of one body,
/// or of one response. It is short: the client may have brought it about by other requests, while this one holds
/// memory.
pub const EXCUSED: Duration = Duration::from_secs(3);
/// How often a stall is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time-outs of a client, and for whom it hurries.
#[derive(Clone)]
pub struct Timeouts {
    pub limits: Limits,
    budgets: Arc<Budgets>,
}

/// Whose requests may wait for memory.
struct Budgets {
    /// Those of users: every client hurries for them.
    of_users: Budget,
    /// Those of strangers of the same address too: a client that asks by a link hurries for them.
    of_strangers: Budget,
}

impl Timeouts {
    /// Those of a connection. `address`: of a proxy none, its clients have many.
    pub fn new(limits: Limits, memory: &Budget, address: Option<ClientNet>) -> Self {
        let of_strangers = address.map_or_else(|| memory.of_strangers(), |address| memory.of_stranger(address));
        Self { limits, budgets: Arc::new(Budgets { of_users: memory.clone(), of_strangers }) }
    }

    /// Those of tests: nobody waits.
    #[cfg(test)]
    pub fn for_tests() -> Self {
        Self::new(Limits::default(), &Budget::unlimited(), None)
    }

    /// The memory of the strangers of its address.
    pub fn memory_of_others(&self) -> &Budget {
        &self.budgets.of_strangers
    }

    /// How long requests have waited for memory that the client of this one hurries for; none if none waits.
    pub fn others_wait(&self, is_by_link: bool) -> Option<Duration> {
        let memory = if is_by_link { &self.budgets.of_strangers } else { &self.budgets.of_users };
        memory.is_short().then(|| memory.waited())
    }

    /// As [`others_wait`](Self::others_wait), of a request of HTTP/2: if it has a place, also for those that find none.
    pub fn others_wait_for_stream(&self, is_by_link: bool, stream: &RunningStream) -> Option<Duration> {
        self.others_wait(is_by_link).max(stream.wanted_for())
    }
}

/// Whether a request of this path is by the link of a share.
pub fn is_by_link(path: &str) -> bool {
    share_secret(path).is_some()
}

/// How much a client has sent of a body, or read of a response, and how long the server has waited for it meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    all: Span,
    /// Since the last [`WINDOW`] ended: a client that was fast for long may not be slow for long.
    recent: Span,
}

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    bytes: u64,
    waited: Duration,
}

impl Pace {
    /// The client has sent or read so many bytes, after the server has waited so long for it.
    pub fn add(&mut self, bytes: u64, waited: Duration) {
        if self.recent.waited >= WINDOW {
            self.recent = Span::default();
        }
        for span in [&mut self.all, &mut self.recent] {
            span.bytes += bytes;
            span.waited += waited;
        }
    }

    /// As it is after so long a wait.
    pub fn after(mut self, waited: Duration) -> Self {
        self.add(0, waited);
        self
    }

    /// Whether the client is too slow. `others_wait`: [`Timeouts::others_wait`].
    pub fn is_too_slow(&self, limits: &Limits, others_wait: Option<Duration>) -> bool {
        self.all.is_below(MIN_RATE, limits.body_grace) || self.is_too_slow_for_others(others_wait)
    }

    /// Whether it is too slow while others wait.
    pub fn is_too_slow_for_others(&self, others_wait: Option<Duration>) -> bool {
        let seconds = others_wait.map_or(0, |wait| wait.as_secs()).min(MAX_DOUBLINGS);
        seconds > 0 && self.recent.is_below(MIN_RATE << seconds, SHORT_STALL)
    }

    /// Whether it is so slow that its connection may be evicted.
    pub fn drips(&self) -> bool {
        self.all.is_below(MIN_RATE, SHORT_STALL)
    }
}

impl Span {
    /// Whether the server has waited for at least `grace`, for less than so many bytes a second.
    fn is_below(&self, rate: u64, grace: Duration) -> bool {
        self.waited >= grace && self.bytes < self.waited.as_secs().saturating_mul(rate)
    }
}

/// A timer that runs while a client stalls.
pub struct StallTimer {
    since: Instant,
    /// For how long, in all, the server has not read what the client sends: as it was when `since` was set.
    paused: Duration,
    next_check: Pin<Box<Sleep>>,
    idle: Duration,
}

impl StallTimer {
    /// `idle`: how long the stall may last. `paused`: for how long, in all, the server has not read what the client
    /// sends.
    pub fn start(idle: Duration, paused: Duration) -> Self {
        let next_check = Box::pin(tokio::time::sleep(idle.min(CHECK_INTERVAL)));
        Self { since: Instant::now(), paused, next_check, idle }
    }

    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// `paused`: as in [`start`](Self::start), now. What was added to it is not a part of the stall, as far as
    /// `excused` is not used up: what is left of [`EXCUSED`].
    pub fn exclude_pauses(&mut self, paused: Duration, excused: &mut Duration) {
        let excluded = paused.saturating_sub(self.paused).min(*excused);
        *excused -= excluded;
        self.since += excluded;
        self.paused = paused;
    }

    /// Ready when the stall has lasted too long.
    pub fn poll_end(&mut self, cx: &mut Context<'_>, do_others_wait: impl Fn() -> bool) -> Poll<()> {
        while !ready!(self.poll_check(cx, &do_others_wait)) {}
        Poll::Ready(())
    }

    /// Ready every second and at the end, and returns whether the stall has lasted too long. Call it until it is
    /// pending.
    pub fn poll_check(&mut self, cx: &mut Context<'_>, do_others_wait: impl Fn() -> bool) -> Poll<bool> {
        ready!(self.next_check.as_mut().poll(cx));
        let idle = if do_others_wait() { self.idle.min(SHORT_STALL) } else { self.idle };
        let next = self.idle.saturating_sub(self.elapsed()).clamp(Duration::from_millis(1), CHECK_INTERVAL);
        self.next_check.as_mut().reset(Instant::now() + next);
        Poll::Ready(self.elapsed() >= idle)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn strangers_alone_hurry_for_strangers() {
        let memory = Budget::new(64 << 20);
        let [address, other] = [1, 2].map(|last| ClientNet::new([192, 0, 2, last].into()));
        let strangers = memory.of_stranger(address);
        let _all = strangers.take(64 << 20).await;
        let mut waiting = Box::pin(strangers.take(1 << 20));
        assert!((&mut waiting).now_or_never().is_none());
        let hurries = |address, path| {
            let timeouts = Timeouts::new(Limits::default(), &memory, address);
            timeouts.others_wait(is_by_link(path)).is_some()
        };
        for (path, is_stranger) in [("/s/secret/fs/a", true), ("/s/secret/", true), ("/v1/fs/s/a", false)] {
            assert_eq!([Some(address), None].map(|address| hurries(address, path)), [is_stranger; 2], "{path}");
            assert!(!hurries(Some(other), path), "of another address: {path}");
        }
    }

    #[tokio::test]
    async fn others_who_wait_need_a_rate_of_the_last_seconds() {
        let memory = Budget::new(64 << 20);
        let all = memory.take(64 << 20).await;
        let mut waiting = Box::pin(memory.take(1 << 20));
        let (limits, wait) = (Limits::default(), || memory.is_short().then(|| memory.waited()));
        // A client that was fast for a gigabyte, and then reads a kilobyte and a half each second.
        let mut pace = Pace::default();
        pace.add(1 << 30, Duration::ZERO);
        let mut slow = |seconds: u64| {
            (0..seconds).any(|_| {
                pace.add(1536, Duration::from_secs(1));
                pace.is_too_slow(&limits, wait())
            })
        };
        assert!(!slow(100), "nobody waits");
        assert!((&mut waiting).now_or_never().is_none());
        assert!(!slow(15), "nobody has waited for a second");
        sleep(Duration::from_millis(1_100)).await;
        assert!(slow(15), "it needs 2 KiB a second");
        drop((all, waiting));
        assert!(!slow(15));
        // Below 1 KiB a second is too slow for nobody too, but only in all.
        let mut drip = Pace::default();
        drip.add(1000, limits.body_grace);
        assert!(drip.drips() && drip.is_too_slow(&limits, wait()) && !Pace::default().after(SHORT_STALL / 2).drips());
    }
}
