//! Right passwords are remembered for a minute: a client that sends one with each request is neither slowed nor costs a
//! hash each time.
//!
//! What is kept is a hash of the password, the stored hash that it matches, the name and the address, under a key that only
//! this process knows: never the password. So another stored hash matches no more. A password is remembered for its address
//! alone: from elsewhere nobody finds out whether a guess is right once he is slowed. At the same address he does, in the
//! minute after its user has sent it; otherwise his wrong passwords would slow the right one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::random::{RandomError, random};
use super::sender::Sender;
use crate::schema::account::PasswordHash;

/// How long, since the last time that it was sent.
const REMEMBERED: Duration = Duration::from_secs(60);
/// More than Argon2 verifies in that time.
const PASSWORDS: usize = 4_096;

/// The keyed hash of a password that was sent. It does not leave the process, and nobody can choose it: to compare it
/// takes no constant time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SentDigest([u8; 32]);

impl SentDigest {
    /// One of so many numbers.
    pub fn number(&self, numbers: usize) -> usize {
        let SentDigest([first, second, ..]) = self;
        usize::from(u16::from_be_bytes([*first, *second])) % numbers.max(1)
    }
}

/// The right passwords of the last minute.
#[derive(Debug, Default)]
pub struct Remembered {
    key: OnceLock<[u8; 32]>,
    times: Mutex<HashMap<SentDigest, Instant>>,
}

impl Remembered {
    /// The digest of a password, with the stored hash to which it is compared.
    pub fn digest(&self, sender: &Sender, stored: &PasswordHash, password: &str) -> Result<SentDigest, RandomError> {
        let key = match self.key.get() {
            Some(key) => key,
            None => {
                let new = random()?;
                self.key.get_or_init(|| new)
            }
        };
        // All parts before the last have their length: no other parts make the same bytes.
        let parts = Sha256::new().chain_update(key).chain_update(sender.bytes());
        let length = (stored.0.len() as u64).to_be_bytes();
        let parts = parts.chain_update(length).chain_update(&stored.0).chain_update(password);
        Ok(SentDigest(parts.finalize().into()))
    }

    /// Whether this password was right within a minute. If so, it is right now.
    pub fn is_right(&self, digest: &SentDigest, now: Instant) -> bool {
        let mut times = self.times();
        let Some(time) = times.get_mut(digest).filter(|time| is_live(**time, now)) else { return false };
        *time = now.max(*time);
        true
    }

    /// Notes that this password is right.
    pub fn note(&self, digest: SentDigest, now: Instant) {
        let mut times = self.times();
        if times.len() >= PASSWORDS {
            times.retain(|_, time| is_live(*time, now));
        }
        if times.len() >= PASSWORDS {
            let oldest = times.iter().min_by_key(|(_, time)| **time).map(|(digest, _)| *digest);
            if let Some(oldest) = oldest {
                times.remove(&oldest);
            }
        }
        times.insert(digest, now);
    }

    fn times(&self) -> MutexGuard<'_, HashMap<SentDigest, Instant>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_live(time: Instant, now: Instant) -> bool {
    now.saturating_duration_since(time) < REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(name: &str, address: &str) -> Sender {
        Sender::new(name, address.parse().unwrap())
    }

    #[test]
    fn only_the_same_password_of_the_same_sender_matches_the_same_hash() {
        let (remembered, now) = (Remembered::default(), Instant::now());
        let digest = |name: &str, address: &str, stored: &str, password: &str| {
            remembered.digest(&sender(name, address), &PasswordHash(stored.into()), password).unwrap()
        };
        remembered.note(digest("tom", "10.0.0.1", "$a", "sesame"), now);
        for (name, address, stored, password, is_right) in [
            ("tom", "10.0.0.1", "$a", "sesame", true),
            ("TOM", "::ffff:10.0.0.1", "$a", "sesame", true),
            ("tim", "10.0.0.1", "$a", "sesame", false),
            ("tom", "10.0.0.2", "$a", "sesame", false),
            ("tom", "10.0.0.1", "$b", "sesame", false),
            ("tom", "10.0.0.1", "$as", "esame", false),
            ("tom", "10.0.0.1", "$a", "Sesame", false),
        ] {
            let digest = digest(name, address, stored, password);
            assert_eq!(remembered.is_right(&digest, now), is_right, "{name} {address} {stored} {password}");
        }
        let other = Remembered::default().digest(&sender("tom", "10.0.0.1"), &PasswordHash("$a".into()), "sesame");
        assert_ne!(other.unwrap(), digest("tom", "10.0.0.1", "$a", "sesame"), "the key is random");
        assert!(!format!("{remembered:?}").contains("sesame"));
    }

    #[test]
    fn a_password_is_remembered_for_a_minute_after_its_last_use() {
        let (remembered, now) = (Remembered::default(), Instant::now());
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        let digest = remembered.digest(&sender("tom", "::1"), &PasswordHash("$a".into()), "sesame").unwrap();
        assert!(!remembered.is_right(&digest, now));
        remembered.note(digest, now);
        for (seconds, is_right) in [(59, true), (118, true), (100, true), (177, true), (237, false), (300, false)] {
            assert_eq!(remembered.is_right(&digest, after(seconds)), is_right, "{seconds}");
        }
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_is_forgotten() {
        let (remembered, now) = (Remembered::default(), Instant::now());
        let digest = |n: usize| SentDigest(std::array::from_fn(|at| n.to_be_bytes().get(at).copied().unwrap_or(0)));
        let after = |ms: usize| now + Duration::from_millis(ms as u64);
        (0..=PASSWORDS).for_each(|n| remembered.note(digest(n), after(n)));
        assert_eq!(remembered.times().len(), PASSWORDS);
        let end = after(PASSWORDS);
        assert!(!remembered.is_right(&digest(0), end) && remembered.is_right(&digest(1), end));
        remembered.note(digest(0), end + REMEMBERED);
        assert_eq!(remembered.times().len(), 1);
    }
}
