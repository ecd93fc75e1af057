//! Which clients are too slow, for a body that they send or a response that they read: no byte for a while, or too few
//! bytes in all.
//!
//! While other requests wait for memory, a stall may last 5 seconds only, and the required rate doubles with each second
//! of their wait. So the slowest clients are cut first, and no more of them than necessary.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::api::path::share_secret;
use crate::budget::Budget;
use crate::client_net::ClientNet;
use crate::http::options::Limits;

/// Bytes of a body that a client must send each second, or bytes of a response that it must read, on average after
/// [`Limits::body_grace`](crate::http::Limits).
pub const MIN_RATE: u64 = 1024;
/// How long a client may stall while others wait for memory, or for a connection.
pub const SHORT_STALL: Duration = Duration::from_secs(5);
/// How many times the required rate doubles at most while others wait for memory: to 64 KiB a second, which a client with
/// a slow link can still send.
const MAX_DOUBLINGS: u64 = 6;
/// After so long a wait for a client, its pace is counted anew for others who wait for memory.
const WINDOW: Duration = Duration::from_secs(10);
/// How often a stall is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time-outs of a client, and the memory that other requests may wait for.
#[derive(Clone)]
pub struct Timeouts {
    pub limits: Limits,
    budgets: Arc<Budgets>,
    is_of_stranger: bool,
}

/// Whose requests wait: while they do, the client hurries.
struct Budgets {
    /// Those of users: every client hurries for them.
    of_users: Budget,
    /// Those of strangers of the same address too: a client that asks by a link hurries for them.
    of_strangers: Budget,
}

impl Timeouts {
    /// Those of a connection from this address; of a proxy none: its clients have many.
    pub fn new(limits: Limits, memory: &Budget, address: Option<IpAddr>) -> Self {
        let of_stranger = |address| memory.of_stranger(ClientNet::new(address));
        let of_strangers = address.map_or_else(|| memory.of_strangers(), of_stranger);
        Self { limits, budgets: Arc::new(Budgets { of_users: memory.clone(), of_strangers }), is_of_stranger: false }
    }

    /// Those of a request of this path.
    pub fn of_path(self, path: &str) -> Self {
        Self { is_of_stranger: is_by_link(path), ..self }
    }

    /// The memory that requests wait for, for which the client of this one hurries.
    pub fn memory(&self) -> &Budget {
        self.memory_of(self.is_of_stranger)
    }

    /// As [`memory`](Self::memory), for a connection.
    pub fn memory_of(&self, is_of_stranger: bool) -> &Budget {
        if is_of_stranger { &self.budgets.of_strangers } else { &self.budgets.of_users }
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

    /// Whether the client is too slow. `memory`: what others wait for.
    pub fn is_too_slow(&self, limits: &Limits, memory: &Budget) -> bool {
        self.all.is_below(MIN_RATE, limits.body_grace) || self.is_too_slow_for_others(memory)
    }

    /// Whether it is too slow while others wait for memory.
    pub fn is_too_slow_for_others(&self, memory: &Budget) -> bool {
        let seconds = memory.waited().as_secs().min(MAX_DOUBLINGS);
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
    next_check: Pin<Box<Sleep>>,
    idle: Duration,
}

impl StallTimer {
    /// `idle`: how long the stall may last.
    pub fn start(idle: Duration) -> Self {
        Self { since: Instant::now(), next_check: Box::pin(tokio::time::sleep(idle.min(CHECK_INTERVAL))), idle }
    }

    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ready when the stall has lasted too long.
    pub fn poll_end(&mut self, cx: &mut Context<'_>, memory: &Budget) -> Poll<()> {
        while !ready!(self.poll_check(cx, memory)) {}
        Poll::Ready(())
    }

    /// Ready every second and at the end, and returns whether the stall has lasted too long. Call it until it is pending.
    pub fn poll_check(&mut self, cx: &mut Context<'_>, memory: &Budget) -> Poll<bool> {
        ready!(self.next_check.as_mut().poll(cx));
        let idle = if memory.is_short() { self.idle.min(SHORT_STALL) } else { self.idle };
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
        let address: IpAddr = [192, 0, 2, 1].into();
        let strangers = memory.of_stranger(ClientNet::new(address));
        let _all = strangers.take(64 << 20).await;
        let mut waiting = Box::pin(strangers.take(1 << 20));
        assert!((&mut waiting).now_or_never().is_none());
        for (path, is_of_stranger) in [
            ("/s/secret/fs/a", true),
            ("/s/secret/", true),
            ("/s/secret/login", true),
            ("/v1/fs/s/a", false),
            ("/login", false),
        ] {
            let of_path = |address| Timeouts::new(Limits::default(), &memory, address).of_path(path);
            for address in [Some(address), None] {
                assert_eq!(of_path(address).memory().is_short(), is_of_stranger, "{path} {address:?}");
            }
            assert!(!of_path(Some([192, 0, 2, 2].into())).memory().is_short(), "of another address: {path}");
        }
    }

    #[tokio::test]
    async fn others_who_wait_need_a_rate_of_the_last_seconds() {
        let memory = Budget::new(64 << 20);
        let all = memory.take(64 << 20).await;
        let mut waiting = Box::pin(memory.take(1 << 20));
        let limits = Limits::default();
        // A client that was fast for a gigabyte, and then reads a kilobyte and a half each second.
        let mut pace = Pace::default();
        pace.add(1 << 30, Duration::ZERO);
        let mut slow = |seconds: u64| {
            (0..seconds).any(|_| {
                pace.add(1536, Duration::from_secs(1));
                pace.is_too_slow(&limits, &memory)
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
        assert!(drip.drips() && drip.is_too_slow(&limits, &memory) && !Pace::default().after(SHORT_STALL / 2).drips());
    }
}
