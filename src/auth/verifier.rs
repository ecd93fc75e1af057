//! Verifies the passwords that clients send: remembered ones at once, wrong ones slowly, a few at a time.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Mutex;

use super::error::{AuthError, Result};
use super::hash_queue::{HashQueue, QUEUED};
use super::password::{self, PasswordError};
use super::remembered::Remembered;
use super::sender::Sender;
use super::slowdown::Slowdown;
use crate::budget::Budget;
use crate::schema::account::PasswordHash;

type HashResult<T> = std::result::Result<T, PasswordError>;

/// Locks for passwords that are sent several times at once. Two passwords that share one wait for each other.
const LOCKS: usize = 1_024;

/// A password as a client has sent it.
#[derive(Clone, Copy)]
pub struct SentPassword<'a> {
    /// The password.
    pub password: &'a str,
    /// Who has sent it.
    pub sender: Sender,
    /// The time now.
    pub now: Instant,
}

/// Verifies passwords, and hashes new ones. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Verifier(Arc<Inner>);

struct Inner {
    queue: HashQueue,
    slowdown: Slowdown,
    remembered: Arc<Remembered>,
    alike: Box<[Mutex<()>]>,
}

impl Verifier {
    /// `memory`: what hashing takes for a while.
    pub fn new(memory: Budget) -> Self {
        Self(Arc::new(Inner {
            queue: HashQueue::new(memory),
            slowdown: Slowdown::new(QUEUED),
            remembered: Arc::default(),
            alike: (0..LOCKS).map(|_| Mutex::default()).collect(),
        }))
    }

    /// The hash of a new password.
    pub async fn hash(&self, password: &str) -> HashResult<PasswordHash> {
        let password = password::allowed(password)?;
        self.0.queue.enter(None)?.run(move || password::hash(&password)).await?
    }

    /// Whether a user who is logged in knows his password.
    pub async fn verify_own(&self, password: &str, stored: PasswordHash) -> HashResult<bool> {
        let password = password::allowed(password).ok();
        self.0.queue.enter(None)?.run(move || password::is_right(password.as_deref(), Some(&stored))).await?
    }

    /// Whether the password that a client has sent is the right one. `stored`: none if the name has none; that takes as
    /// long.
    ///
    /// Errors: [`AuthError::Slowed`] after too many wrong ones, [`PasswordError::Busy`] if too many are sent.
    pub async fn verify_sent(&self, sent: SentPassword<'_>, stored: Option<PasswordHash>) -> Result<bool> {
        let Inner { queue, slowdown, remembered, alike } = &*self.0;
        let SentPassword { password, sender, now } = sent;
        let password = password::allowed(password).ok();
        let none = PasswordHash(String::new());
        let digest = remembered.digest(&sender, stored.as_ref().unwrap_or(&none), password.as_deref().unwrap_or(""))?;
        if remembered.is_right(&digest, now) {
            return Ok(true);
        }
        // A client sends many requests at once: the first one is verified, and the others find it remembered. Otherwise
        // they would slow each other.
        let _alone = match alike.get(digest.number(LOCKS)) {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        if remembered.is_right(&digest, now) {
            return Ok(true);
        }
        // IMPORTANT: a password that finds the queue full was never counted.
        let queued = queue.enter(Some(sender.net)).map_err(PasswordError::from)?;
        let pending = slowdown.begin(sender, now).map_err(|wait| AuthError::Slowed(wait.as_secs()))?;
        let remembered = remembered.clone();
        let verified = queued.run(move || -> HashResult<bool> {
            // On this thread, since the caller may leave before it is done: he would not have sent a wrong password then.
            let is_right = password::is_right(password.as_deref(), stored.as_ref())?;
            if is_right {
                pending.right();
                remembered.note(digest, now);
            } else {
                pending.wrong();
            }
            Ok(is_right)
        });
        Ok(verified.await.map_err(PasswordError::from)??)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::super::hash_queue::HASH_BYTES;
    use super::*;

    async fn verify(verifier: &Verifier, password: &str, address: &str, stored: Option<&PasswordHash>) -> Result<bool> {
        let sender = Sender::new("tom", address.parse().unwrap());
        verifier.verify_sent(SentPassword { password, sender, now: Instant::now() }, stored.cloned()).await
    }

    fn count(verified: &[Result<bool>], is: impl Fn(&Result<bool>) -> bool) -> usize {
        verified.iter().filter(|one| is(one)).count()
    }

    #[tokio::test]
    async fn only_the_right_password_is_verified() {
        let verifier = Verifier::new(Budget::unlimited());
        let hash = verifier.hash("sesame, open").await.unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=65536,t=3,p=4$"), "{}", hash.0);
        assert_ne!(hash, verifier.hash("sesame, open").await.unwrap(), "the salt is random");
        for (password, is_right) in
            [("sesame, open", true), ("sesame, Open", false), ("short", false), ("rd_sesame, open", false), ("", false)]
        {
            assert_eq!(verify(&verifier, password, "::1", Some(&hash)).await.unwrap(), is_right, "{password}");
            assert_eq!(verifier.verify_own(password, hash.clone()).await.unwrap(), is_right, "{password}");
        }
        assert!(!verify(&verifier, "sesame, open", "::1", None).await.unwrap());
        let damaged = verify(&verifier, "sesame, open", "::1", Some(&PasswordHash("?".into()))).await;
        assert!(matches!(damaged, Err(AuthError::Password(PasswordError::Failed(_)))), "{damaged:?}");
    }

    #[tokio::test]
    async fn one_of_many_alike_is_verified_and_of_many_others_no_more_than_allowed() {
        let verifier = Verifier::new(Budget::unlimited());
        let hash = verifier.hash("sesame, open").await.unwrap();
        let right = join_all((0..32).map(|_| verify(&verifier, "sesame, open", "10.0.0.1", Some(&hash)))).await;
        assert_eq!(count(&right, |one| matches!(one, Ok(true))), 32);
        let guesses: Vec<String> = (0..32).map(|n| format!("sesame, {n}")).collect();
        for (address, stored) in [("10.0.0.1", Some(&hash)), ("10.0.0.2", None)] {
            let wrong = join_all(guesses.iter().map(|guess| verify(&verifier, guess, address, stored))).await;
            assert_eq!(count(&wrong, |one| matches!(one, Ok(false))), 10, "{wrong:?}");
            assert_eq!(count(&wrong, |one| matches!(one, Err(AuthError::Slowed(59..=60)))), 22, "{wrong:?}");
        }
        assert!(verify(&verifier, "sesame, open", "10.0.0.1", Some(&hash)).await.unwrap(), "it is remembered here");
        let slowed = verify(&verifier, "sesame, open", "10.0.0.2", Some(&hash)).await;
        assert!(matches!(slowed, Err(AuthError::Slowed(_))), "a guess from elsewhere: {slowed:?}");
        let changed = verifier.hash("sesame, open").await.unwrap();
        let slowed = verify(&verifier, "sesame, open", "10.0.0.1", Some(&changed)).await;
        assert!(matches!(slowed, Err(AuthError::Slowed(_))), "it is not remembered for another hash: {slowed:?}");
    }

    #[tokio::test]
    async fn who_leaves_while_he_waits_has_guessed_nothing_and_later_he_has() {
        let verifier = Verifier::new(Budget::new(HASH_BYTES));
        let guesses: Vec<String> = (0..10).map(|n| format!("guess no. {n}")).collect();
        let send = |guess| Box::pin(verify(&verifier, guess, "10.0.0.1", None));
        for _ in 0..3 {
            let mut sent: Vec<_> = guesses.iter().take(8).map(|guess| send(guess)).collect();
            assert!(sent.iter_mut().all(|one| one.now_or_never().is_none()), "the first is hashed, the others wait");
            drop(sent);
            // Until the first one is done.
            let _after = verifier.verify_own("sesame, open", PasswordHash("?".into())).await;
        }
        let verified = join_all(guesses.iter().map(|guess| send(guess))).await;
        assert_eq!(count(&verified, |one| matches!(one, Ok(false))), 7, "three were hashed: {verified:?}");
    }

    #[tokio::test]
    async fn a_full_queue_is_no_wrong_password() {
        let verifier = Verifier::new(Budget::new(HASH_BYTES));
        let others: Vec<_> = std::iter::from_fn(|| verifier.0.queue.enter(None).ok()).collect();
        for n in 0..20 {
            let busy = verify(&verifier, &format!("guess no. {n}"), "10.0.0.1", None).await;
            assert!(matches!(busy, Err(AuthError::Password(PasswordError::Busy))), "{busy:?}");
        }
        assert!(matches!(verifier.hash("sesame, open").await, Err(PasswordError::Busy)));
        drop(others);
        assert!(!verify(&verifier, "guess again", "10.0.0.1", None).await.unwrap());
        let sender = Sender::new("tom", [10, 0, 0, 1].into());
        let later = Instant::now() + Duration::from_secs(1);
        let begun: Vec<_> = std::iter::from_fn(|| verifier.0.slowdown.begin(sender, later).ok()).collect();
        assert_eq!(begun.len(), 9);
    }
}
