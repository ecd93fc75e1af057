//! Wrong passwords are slowed, so that nobody can try many: 10 a minute of a name from an address, 100 a minute of an
//! address, 100 an hour of a name. Names without a user count as well.
//!
//! The last two spare a name at an address from which it was right within a day. So nobody locks a user out of where he
//! usually works: neither by guesses of his name from elsewhere, nor by guesses of other names at his address. And
//! nobody gets more guesses by it:
//!
//! - A right password spares its own name at its own address, and takes no wrong one back. Who has an account gets no
//!   guesses of other names by it.
//! - What is spared is counted all the same, and the first rule holds. So only who shares an address with a user has
//!   more guesses of his name than 100 an hour: 10 a minute.
//!
//! IMPORTANT: a password counts as wrong before it is verified, until it turns out to be right. Otherwise many that are
//! sent at once would all be verified.
//!
//! - `counts`: the times of wrong passwords, in bounded memory; what happens when that is full
//! - `successes`: from where a name was right

mod counts;
mod successes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::sender::{Sender, SentName};
use crate::client_net::ClientNet;
use counts::{Counts, Rate};
use successes::Successes;

const MINUTE: u64 = 60 * 1_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How many wrong passwords are verified, and of how many names and addresses they are counted.
#[derive(Clone, Copy, Debug)]
struct Rules {
    sender: Rate,
    net: Rate,
    name: Rate,
    /// Milliseconds for which a right password spares its name at its address.
    spared: u64,
    /// Senders, addresses and names in the tables. A full one refuses new keys after `most` wrong passwords for each
    /// that it holds: 400,000 in an hour for names. Argon2 verifies a quarter of that at most.
    keys: [usize; 3],
}

const RULES: Rules = Rules {
    sender: Rate { most: 10, window: MINUTE },
    net: Rate { most: 100, window: MINUTE },
    name: Rate { most: 100, window: HOUR },
    spared: DAY,
    keys: [8_192, 4_096, 4_096],
};

/// Slows wrong passwords. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Slowdown(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    counted: Mutex<Counted>,
}

#[derive(Debug)]
struct Counted {
    /// Milliseconds from the start to the latest call.
    now: u64,
    spared: u64,
    senders: Counts<Sender>,
    nets: Counts<ClientNet>,
    names: Counts<SentName>,
    successes: Successes,
}

/// A password that may be verified. It counts as wrong, unless this is dropped before it turned out to be.
#[derive(Debug)]
#[must_use = "a password that is wrong has to be counted"]
pub struct Pending {
    slowdown: Slowdown,
    sender: Sender,
    time: u64,
    is_wrong: bool,
}

impl Slowdown {
    /// `pending`: passwords that are verified at the same time, at most.
    pub fn new(pending: usize) -> Self {
        Self::with(RULES, pending)
    }

    fn with(rules: Rules, pending: usize) -> Self {
        let Rules { sender, net, name, spared, keys: [senders, nets, names] } = rules;
        let counted = Counted {
            now: 0,
            spared,
            senders: Counts::new(sender, senders, pending),
            nets: Counts::new(net, nets, pending),
            names: Counts::new(name, names, pending),
            successes: Successes::default(),
        };
        Self(Arc::new(Inner { start: Instant::now(), counted: Mutex::new(counted) }))
    }

    /// Counts a password as wrong before it is verified. If there were too many already: how long its sender has to
    /// wait, in whole seconds; then nothing is counted.
    pub fn begin(&self, sender: Sender, now: Instant) -> Result<Pending, Duration> {
        let mut counted = self.counted();
        let now = self.pass(&mut counted, now);
        match counted.wait(&sender, now) {
            0 => {}
            wait => return Err(Duration::from_secs(wait.div_ceil(1_000))),
        }
        counted.senders.add(&sender, now);
        counted.nets.add(&sender.net, now);
        counted.names.add(&sender.name, now);
        Ok(Pending { slowdown: self.clone(), sender, time: now, is_wrong: false })
    }

    /// Whether a name is spared at its address.
    pub fn is_spared(&self, sender: &Sender, now: Instant) -> bool {
        let mut counted = self.counted();
        let now = self.pass(&mut counted, now);
        counted.is_spared(sender, now)
    }

    /// A name was right again at an address, by a password that was not verified anew.
    pub fn renew(&self, sender: &Sender, now: Instant) {
        let mut counted = self.counted();
        let now = self.pass(&mut counted, now);
        counted.successes.note(sender, now);
    }

    /// The milliseconds from the start to the latest call, which is this one. Calls come a little out of order.
    fn pass(&self, counted: &mut Counted, now: Instant) -> u64 {
        let since = u64::try_from(now.saturating_duration_since(self.0.start).as_millis()).unwrap_or(u64::MAX);
        counted.now = counted.now.max(since);
        counted.now
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn wait(&self, sender: &Sender, now: u64) -> u64 {
        let own = self.senders.wait(sender, now);
        if self.is_spared(sender, now) {
            return own;
        }
        own.max(self.nets.wait(&sender.net, now)).max(self.names.wait(&sender.name, now))
    }

    fn is_spared(&self, sender: &Sender, now: u64) -> bool {
        self.successes.is_since(sender, now.checked_sub(self.spared))
    }
}

impl Pending {
    /// The password was wrong.
    pub fn wrong(mut self) {
        self.is_wrong = true;
    }

    /// The password was right: it does not count, and its name is spared at its address.
    pub fn right(self) {
        self.slowdown.counted().successes.note(&self.sender, self.time);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.is_wrong {
            return;
        }
        let mut counted = self.slowdown.counted();
        counted.senders.remove(&self.sender, self.time);
        counted.nets.remove(&self.sender.net, self.time);
        counted.names.remove(&self.sender.name, self.time);
    }
}

#[cfg(test)]
mod tests;
