//! Verifies the passwords that clients send: remembered ones at once, wrong ones slowly, a few at a time.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Mutex;

use super::error::{AuthError, Result};
use super::hash_queue::{HashQueue, PasswordOf, QUEUED};
use super::password::{self, PasswordError};
use super::remembered::{LoginDigest, Remembered, SentDigest};
use super::sender::{Sender, SentName};
use super::slowdown::Slowdown;
use crate::budget::Budget;
use crate::schema::account::PasswordHash;
use crate::schema::user_name::UserName;

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

    /// Takes the memory that hashing needs, for good.
    pub async fn take_lane(&self) {
        self.0.queue.take_lane().await;
    }

    /// The keyed hash of a name, a password and an address exactly as they were sent.
    pub fn login_digest(&self, name: &str, password: &str, address: IpAddr) -> HashResult<LoginDigest> {
        Ok(self.0.remembered.login_digest(name, password, address)?)
    }

    /// The hash of a new password. `by`: who sets it; none for the first user.
    pub async fn hash(&self, password: &str, by: Option<&UserName>) -> HashResult<PasswordHash> {
        let password = password::allowed(password)?;
        self.0.queue.enter(by_user(by))?.run(move || password::hash(&password)).await?
    }

    /// Whether a password is a user's. `by`: the user who is logged in, and sends it.
    pub async fn verify_own(&self, password: &str, stored: PasswordHash, by: &UserName) -> HashResult<bool> {
        let password = password::allowed(password).ok();
        let queued = self.0.queue.enter(by_user(Some(by)))?;
        queued.run(move || password::is_right(password.as_deref(), Some(&stored))).await?
    }

    /// The user whose password a client has sent; none if it is wrong, or if the name has none, which takes as long.
    ///
    /// `read`: the user of the name with the hash that is stored of him. IMPORTANT: it is read only for a password that
    /// is remembered or will be hashed. So the time of a refusal tells nothing of what is stored.
    ///
    /// Errors: [`AuthError::Slowed`] after too many wrong ones, [`PasswordError::Busy`] if too many are sent.
    pub async fn verify_sent<T, F>(&self, sent: SentPassword<'_>, read: impl Fn() -> F) -> Result<Option<T>>
    where
        F: Future<Output = Result<Option<(T, PasswordHash)>>>,
    {
        let Inner { queue, slowdown, remembered, alike } = &*self.0;
        let SentPassword { password, sender, now } = sent;
        let password = password::allowed(password).ok();
        let digest = remembered.digest(&sender, password.as_deref().unwrap_or(""))?;
        if let Some(user) = self.find_remembered(&digest, &sent, &read).await? {
            return Ok(Some(user));
        }
        // A client sends many requests at once: the first one is verified, and the others find it remembered. Otherwise
        // they would slow each other.
        let _alone = match alike.get(digest.number(LOCKS)) {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        if let Some(user) = self.find_remembered(&digest, &sent, &read).await? {
            return Ok(Some(user));
        }
        let by_unknown = PasswordOf::Unknown(sender.net);
        let by = if slowdown.is_spared(&sender, now) { PasswordOf::User(sender.name) } else { by_unknown };
        // IMPORTANT: a password that finds the queue full was never counted.
        let queued = queue.enter(by).map_err(PasswordError::from)?;
        let pending = slowdown.begin(sender, now).map_err(|wait| AuthError::Slowed(wait.as_secs()))?;
        let (user, stored) = read().await?.unzip();
        let remembered = remembered.clone();
        let verified = queued.run(move || -> HashResult<bool> {
            // On this thread, since the caller may leave before it is done: he would not have sent a wrong password
            // then.
            let is_right = password::is_right(password.as_deref(), stored.as_ref())?;
            match stored.filter(|_| is_right) {
                Some(stored) => {
                    pending.right();
                    remembered.note(digest, &stored, now)?;
                }
                None => pending.wrong(),
            }
            Ok(is_right)
        });
        let is_right = verified.await.map_err(PasswordError::from)??;
        Ok(user.filter(|_| is_right))
    }

    /// The user whose password this is, if it is remembered. Then his name is spared at his address for a day again.
    async fn find_remembered<T, F>(
        &self,
        digest: &SentDigest,
        sent: &SentPassword<'_>,
        read: &impl Fn() -> F,
    ) -> Result<Option<T>>
    where
        F: Future<Output = Result<Option<(T, PasswordHash)>>>,
    {
        let Inner { remembered, slowdown, .. } = &*self.0;
        if !remembered.is_known(digest, sent.now) {
            return Ok(None);
        }
        let Some((user, stored)) = read().await? else { return Ok(None) };
        let is_right = remembered.is_right(digest, &stored, sent.now)?;
        if is_right {
            slowdown.renew(&sent.sender, sent.now);
        }
        Ok(Some(user).filter(|_| is_right))
    }
}

/// A password of a user who is logged in; or of nobody, on a drive without users.
fn by_user(name: Option<&UserName>) -> PasswordOf {
    PasswordOf::User(SentName::new(name.map_or("", UserName::as_str)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::super::hash_queue::HASH_BYTES;
    use super::*;

    async fn verify(verifier: &Verifier, password: &str, address: &str, stored: Option<&PasswordHash>) -> Result<bool> {
        let sender = Sender::new("tom", address.parse().unwrap());
        let sent = SentPassword { password, sender, now: Instant::now() };
        let read = || async { Ok(stored.map(|stored| ((), stored.clone()))) };
        Ok(verifier.verify_sent(sent, read).await?.is_some())
    }

    fn tom() -> UserName {
        UserName::parse("tom").unwrap()
    }

    fn count(verified: &[Result<bool>], is: impl Fn(&Result<bool>) -> bool) -> usize {
        verified.iter().filter(|one| is(one)).count()
    }

    #[tokio::test]
    async fn only_the_right_password_is_verified() {
        let verifier = Verifier::new(Budget::unlimited());
        let hash = verifier.hash("sesame, open", Some(&tom())).await.unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=65536,t=3,p=4$"), "{}", hash.0);
        assert_ne!(hash, verifier.hash("sesame, open", Some(&tom())).await.unwrap(), "the salt is random");
        for (password, is_right) in
            [("sesame, open", true), ("sesame, Open", false), ("short", false), ("rd_sesame, open", false), ("", false)]
        {
            assert_eq!(verify(&verifier, password, "::1", Some(&hash)).await.unwrap(), is_right, "{password}");
            assert_eq!(verifier.verify_own(password, hash.clone(), &tom()).await.unwrap(), is_right, "{password}");
        }
        assert!(!verify(&verifier, "sesame, open", "::1", None).await.unwrap());
        let damaged = verify(&verifier, "sesame, open", "::1", Some(&PasswordHash("?".into()))).await;
        assert!(matches!(damaged, Err(AuthError::Password(PasswordError::Failed(_)))), "{damaged:?}");
    }

    #[tokio::test]
    async fn one_of_many_alike_is_verified_and_of_many_others_no_more_than_allowed() {
        let verifier = Verifier::new(Budget::unlimited());
        let hash = verifier.hash("sesame, open", Some(&tom())).await.unwrap();
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
        let changed = verifier.hash("sesame, open", Some(&tom())).await.unwrap();
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
            let _after = verifier.verify_own("sesame, open", PasswordHash("?".into()), &tom()).await;
        }
        let verified = join_all(guesses.iter().map(|guess| send(guess))).await;
        assert_eq!(count(&verified, |one| matches!(one, Ok(false))), 7, "three were hashed: {verified:?}");
    }

    /// Otherwise the time of the refusal would tell how much is stored of the name.
    #[tokio::test]
    async fn nothing_is_read_for_a_password_that_is_not_verified() {
        let verifier = Verifier::new(Budget::unlimited());
        let reads = AtomicUsize::new(0);
        let send = async |guess: &str| {
            let sent =
                SentPassword { password: guess, sender: Sender::new("tom", [10, 0, 0, 1].into()), now: Instant::now() };
            let read = || async {
                reads.fetch_add(1, Ordering::SeqCst);
                Ok(None::<((), PasswordHash)>)
            };
            verifier.verify_sent(sent, read).await
        };
        for n in 0..10 {
            assert!(send(&format!("guess no. {n}")).await.unwrap().is_none());
        }
        for n in 0..10 {
            let slowed = send(&format!("guess no. {n}")).await;
            assert!(matches!(slowed, Err(AuthError::Slowed(_))), "{slowed:?}");
        }
        assert_eq!(reads.into_inner(), 10);
    }

    #[tokio::test]
    async fn a_remembered_password_spares_its_name_for_another_day() {
        let verifier = Verifier::new(Budget::unlimited());
        let hash = verifier.hash("sesame, open", Some(&tom())).await.unwrap();
        let (start, sender) = (Instant::now(), Sender::new("tom", [10, 0, 0, 1].into()));
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let day = 24 * 60 * 60;
        // Once a minute, so that it is hashed once.
        for minute in 0..60 {
            let sent = SentPassword { password: "sesame, open", sender, now: after(59 * minute) };
            let found = verifier.verify_sent(sent, || async { Ok(Some(((), hash.clone()))) }).await.unwrap();
            assert!(found.is_some());
        }
        let last = 59 * 59;
        assert!(verifier.0.slowdown.is_spared(&sender, after(last + day - 1)));
        assert!(!verifier.0.slowdown.is_spared(&sender, after(last + day + 1)));
    }

    #[tokio::test]
    async fn a_full_queue_is_no_wrong_password() {
        let verifier = Verifier::new(Budget::new(HASH_BYTES));
        let places =
            (0..).map_while(|n| verifier.0.queue.enter(by_user(UserName::parse(&format!("u{n}")).ok().as_ref())).ok());
        let others: Vec<_> = places.collect();
        for n in 0..20 {
            let busy = verify(&verifier, &format!("guess no. {n}"), "10.0.0.1", None).await;
            assert!(matches!(busy, Err(AuthError::Password(PasswordError::Busy))), "{busy:?}");
        }
        assert!(matches!(verifier.hash("sesame, open", Some(&tom())).await, Err(PasswordError::Busy)));
        drop(others);
        assert!(!verify(&verifier, "guess again", "10.0.0.1", None).await.unwrap());
        let sender = Sender::new("tom", [10, 0, 0, 1].into());
        let later = Instant::now() + Duration::from_secs(1);
        let begun: Vec<_> = std::iter::from_fn(|| verifier.0.slowdown.begin(sender, later).ok()).collect();
        assert_eq!(begun.len(), 9);
    }
}
