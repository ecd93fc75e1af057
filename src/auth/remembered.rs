//! Right passwords are remembered for a minute: a client that sends one with each request is neither slowed nor costs a
//! hash each time.
//!
//! What is kept is a hash of the password, the name and the address, and one of the stored hash that it matches, under
//! a key that only this process knows: never the password. So another stored hash matches no more, and whether a
//! password is remembered at all is known without a read of what is stored. A password is remembered for its address
//! alone: from elsewhere nobody finds out whether a guess is right once he is slowed. At the same address he does, in
//! the minute after its user has sent it; otherwise his wrong passwords would slow the right one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::random::{RandomError, random};
use super::sender::Sender;
use crate::client_net::address_bytes;
use crate::schema::account::PasswordHash;
use crate::sha256::Sha256;

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

/// The keyed hash of a name, a password and an address exactly as they were sent: it costs less than a [`SentDigest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoginDigest([u8; 32]);

/// The right passwords of the last minute.
#[derive(Debug, Default)]
pub struct Remembered {
    key: OnceLock<[u8; 32]>,
    right: Mutex<HashMap<SentDigest, Right>>,
}

/// A right password.
#[derive(Clone, Copy, Debug)]
struct Right {
    /// The keyed hash of the stored hash that it matches.
    stored: [u8; 32],
    time: Instant,
}

impl Remembered {
    /// The digest of a password.
    pub fn digest(&self, sender: &Sender, password: &str) -> Result<SentDigest, RandomError> {
        // The sender's bytes have their length: no others make the same bytes with another password.
        Ok(SentDigest(self.keyed(b"sent", sender.bytes(), password)?))
    }

    /// The digest of what was sent, as it was sent.
    pub fn login_digest(&self, name: &str, password: &str, address: IpAddr) -> Result<LoginDigest, RandomError> {
        // The name has its length: no others make the same bytes with another password.
        let name = [&address_bytes(address)[..], &name.len().to_be_bytes(), name.as_bytes()].concat();
        Ok(LoginDigest(self.keyed(b"text", name, password)?))
    }

    fn keyed(&self, what: &[u8; 4], more: impl AsRef<[u8]>, text: &str) -> Result<[u8; 32], RandomError> {
        let key = match self.key.get() {
            Some(key) => key,
            None => {
                let new = random()?;
                self.key.get_or_init(|| new)
            }
        };
        let mut parts = Sha256::new();
        for part in [key.as_slice(), what, more.as_ref(), text.as_bytes()] {
            parts.update(part);
        }
        Ok(parts.done())
    }

    /// Whether this password matched any stored hash within a minute.
    pub fn is_known(&self, digest: &SentDigest, now: Instant) -> bool {
        self.right().get(digest).is_some_and(|right| right.is_live(now))
    }

    /// Whether this password matched this stored hash within a minute. If so, it is right now.
    pub fn is_right(&self, digest: &SentDigest, stored: &PasswordHash, now: Instant) -> Result<bool, RandomError> {
        let stored = self.keyed(b"kept", [], &stored.0)?;
        let mut all = self.right();
        let is_right = |right: &&mut Right| right.is_live(now) && right.stored == stored;
        let Some(right) = all.get_mut(digest).filter(is_right) else { return Ok(false) };
        right.time = now.max(right.time);
        Ok(true)
    }

    /// Notes that this password matches this stored hash.
    pub fn note(&self, digest: SentDigest, stored: &PasswordHash, now: Instant) -> Result<(), RandomError> {
        let stored = self.keyed(b"kept", [], &stored.0)?;
        let mut all = self.right();
        if all.len() >= PASSWORDS {
            all.retain(|_, right| right.is_live(now));
        }
        if all.len() >= PASSWORDS {
            let oldest = all.iter().min_by_key(|(_, right)| right.time).map(|(digest, _)| *digest);
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        all.insert(digest, Right { stored, time: now });
        Ok(())
    }

    fn right(&self) -> MutexGuard<'_, HashMap<SentDigest, Right>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Right {
    fn is_live(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.time) < REMEMBERED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(name: &str, address: &str) -> Sender {
        Sender::new(name, address.parse().unwrap())
    }

    fn stored(text: &str) -> PasswordHash {
        PasswordHash(text.into())
    }

    #[test]
    fn only_the_same_password_of_the_same_sender_matches_the_same_hash() {
        let (remembered, now) = (Remembered::default(), Instant::now());
        let digest =
            |name: &str, address: &str, password: &str| remembered.digest(&sender(name, address), password).unwrap();
        remembered.note(digest("tom", "10.0.0.1", "sesame"), &stored("$a"), now).unwrap();
        for (name, address, hash, password, [is_known, is_right]) in [
            ("tom", "10.0.0.1", "$a", "sesame", [true, true]),
            ("TOM", "::ffff:10.0.0.1", "$a", "sesame", [true, true]),
            ("tom", "10.0.0.1", "$b", "sesame", [true, false]),
            ("tim", "10.0.0.1", "$a", "sesame", [false, false]),
            ("tom", "10.0.0.2", "$a", "sesame", [false, false]),
            ("tom", "10.0.0.1", "$a", "Sesame", [false, false]),
        ] {
            let digest = digest(name, address, password);
            let found = [remembered.is_known(&digest, now), remembered.is_right(&digest, &stored(hash), now).unwrap()];
            assert_eq!(found, [is_known, is_right], "{name} {address} {hash} {password}");
        }
        let other = Remembered::default().digest(&sender("tom", "10.0.0.1"), "sesame");
        assert_ne!(other.unwrap(), digest("tom", "10.0.0.1", "sesame"), "the key is random");
        assert!(!format!("{remembered:?}").contains("sesame"));
    }

    #[test]
    fn what_was_sent_has_one_digest_and_all_else_another() {
        let remembered = Remembered::default();
        let digest = |(name, password, address): (&str, &str, &str)| {
            remembered.login_digest(name, password, address.parse().unwrap()).unwrap()
        };
        let sent = [
            ("tom", "sesame", "10.0.0.1"),
            ("TOM", "sesame", "10.0.0.1"),
            ("tomse", "same", "10.0.0.1"),
            ("tom", "sesame", "10.0.0.2"),
            ("tom", "sesamE", "10.0.0.1"),
            ("tom", "sesame", "::1"),
        ];
        for (at, one) in sent.into_iter().enumerate() {
            let same: Vec<_> = sent.iter().map(|other| digest(one) == digest(*other)).collect();
            assert!(same.iter().enumerate().all(|(other, is_same)| *is_same == (other == at)), "{one:?}");
        }
    }

    #[test]
    fn a_password_is_remembered_for_a_minute_after_its_last_use() {
        let (remembered, now, hash) = (Remembered::default(), Instant::now(), stored("$a"));
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        let digest = remembered.digest(&sender("tom", "::1"), "sesame").unwrap();
        assert!(!remembered.is_right(&digest, &hash, now).unwrap());
        remembered.note(digest, &hash, now).unwrap();
        for (seconds, is_right) in [(59, true), (118, true), (100, true), (177, true), (237, false), (300, false)] {
            assert_eq!(remembered.is_known(&digest, after(seconds)), is_right, "{seconds}");
            assert_eq!(remembered.is_right(&digest, &hash, after(seconds)).unwrap(), is_right, "{seconds}");
        }
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_is_forgotten() {
        let (remembered, now, hash) = (Remembered::default(), Instant::now(), stored("$a"));
        let digest = |n: usize| SentDigest(std::array::from_fn(|at| n.to_be_bytes().get(at).copied().unwrap_or(0)));
        let after = |ms: usize| now + Duration::from_millis(ms as u64);
        (0..=PASSWORDS).for_each(|n| remembered.note(digest(n), &hash, after(n)).unwrap());
        assert_eq!(remembered.right().len(), PASSWORDS);
        let end = after(PASSWORDS);
        assert!(!remembered.is_known(&digest(0), end) && remembered.is_known(&digest(1), end));
        remembered.note(digest(0), &hash, end + REMEMBERED).unwrap();
        assert_eq!(remembered.right().len(), 1);
    }
}
