//! Argon2 for one or two passwords at a time, since each takes 64 MiB and a core for a while. The others wait in a
//! queue with an end.
//!
//! Nobody without a password keeps others waiting:
//!
//! - The memory is a lane of its own. It is taken from that of requests for good: with the start if the drive has
//!   users, or else with the first password. So a drive without users has all of it for uploads, and no upload holds up
//!   a login.
//! - Passwords of unknown senders wait in a line of their own, of which only the first waits for a turn. The users of
//!   the drive come next, however many of the others wait.
//! - The queue has room for users that no unknown sender can take, and each address and each user has a bound.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::sender::SentName;
use crate::budget::{Budget, Permit};
use crate::client_net::ClientNet;

/// Bytes that Argon2 takes for one password.
pub const HASH_BYTES: usize = 64 << 20;
/// Passwords that are hashed at a time, if there is memory for them.
const AT_A_TIME: usize = 2;
/// The lane for passwords is at most the memory of requests divided by this.
const LANE_PART: usize = 4;

/// Passwords that wait.
const WAITING: usize = 64;
/// Passwords in the queue, at most.
pub const QUEUED: usize = WAITING + AT_A_TIME;
/// Passwords of unknown senders in the queue, so that there is room for users.
const OF_UNKNOWN: usize = 40;
/// Passwords of one address in the queue, so that it leaves room for others.
const OF_ADDRESS: usize = 16;
/// Passwords of one user in the queue.
const OF_USER: usize = 12;
/// How long one waits. Tests share the cores with others.
const WAIT: Duration = Duration::from_secs(if cfg!(test) { 120 } else { 10 });

/// Why a password was not hashed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    #[error("the queue is full")]
    Full,
    #[error("the thread failed: {0}")]
    Failed(String),
}

type Result<T> = std::result::Result<T, QueueError>;

/// Whose password is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PasswordOf {
    /// That of an unknown sender: the name was not right at this address for a day.
    Unknown(ClientNet),
    /// A user's, who is logged in or was here within a day.
    User(SentName),
}

impl PasswordOf {
    /// How many such passwords may be in the queue.
    fn bound(&self) -> usize {
        match self {
            Self::Unknown(_) => OF_ADDRESS,
            Self::User(_) => OF_USER,
        }
    }
}

/// The queue. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct HashQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    turns: Arc<Semaphore>,
    /// The first unknown sender of the line has it while he waits for a turn.
    first_unknown: Semaphore,
    memory: Budget,
    /// Of the memory, once it is taken.
    lane: OnceCell<Permit>,
    /// Passwords that wait, and those that have their turn.
    all: Arc<Semaphore>,
    of_unknown: Arc<Semaphore>,
    of_senders: Mutex<HashMap<PasswordOf, usize>>,
}

/// A password in the queue; it leaves when this is dropped.
#[derive(Debug)]
pub struct Queued {
    queue: HashQueue,
    of: PasswordOf,
    _places: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl HashQueue {
    /// `memory`: that of requests. With less than 512 MiB of it one password is hashed at a time, with less than 256
    /// MiB beyond that memory.
    pub fn new(memory: Budget) -> Self {
        let at_a_time = (lane(&memory) / HASH_BYTES).clamp(1, AT_A_TIME);
        let [turns, all, of_unknown] = [at_a_time, QUEUED, OF_UNKNOWN].map(|n| Arc::new(Semaphore::new(n)));
        let (first_unknown, lane, of_senders) = (Semaphore::new(1), OnceCell::new(), Mutex::default());
        Self(Arc::new(Inner { turns, first_unknown, memory, lane, all, of_unknown, of_senders }))
    }

    /// Takes the memory for passwords, for good. Before there are requests: they may hold it for hours.
    pub async fn take_lane(&self) {
        let memory = &self.0.memory;
        self.0.lane.get_or_init(|| memory.keep(lane(memory))).await;
    }

    /// Puts a password at the end of the queue.
    ///
    /// Errors: [`QueueError::Full`] if too many wait, or too many of this sender.
    pub fn enter(&self, of: PasswordOf) -> Result<Queued> {
        let place = |of: &Arc<Semaphore>| of.clone().try_acquire_owned().map_err(|_| QueueError::Full);
        let of_unknown = matches!(of, PasswordOf::Unknown(_)).then(|| place(&self.0.of_unknown)).transpose()?;
        let places = (place(&self.0.all)?, of_unknown);
        let mut of_senders = self.0.of_senders.lock().unwrap_or_else(PoisonError::into_inner);
        let queued = of_senders.entry(of).or_insert(0);
        if *queued >= of.bound() {
            return Err(QueueError::Full);
        }
        *queued += 1;
        drop(of_senders);
        Ok(Queued { queue: self.clone(), of, _places: places })
    }

    /// Waits for a turn, and for the memory if it is not taken yet.
    async fn turn(&self, of: PasswordOf) -> Result<OwnedSemaphorePermit> {
        let failed = |error: tokio::sync::AcquireError| QueueError::Failed(error.to_string());
        let _first = match of {
            PasswordOf::Unknown(_) => Some(self.0.first_unknown.acquire().await.map_err(failed)?),
            PasswordOf::User(_) => None,
        };
        let turn = self.0.turns.clone().acquire_owned().await.map_err(failed)?;
        self.take_lane().await;
        Ok(turn)
    }
}

/// Bytes of the lane.
fn lane(memory: &Budget) -> usize {
    (memory.bytes() / LANE_PART).min(AT_A_TIME * HASH_BYTES)
}

impl Queued {
    /// Waits for its turn, and does the work on a thread that may block. If the caller leaves before, the work is
    /// dropped; if he leaves later, it runs to its end.
    pub async fn run<T, F>(self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let turn = timeout(WAIT, self.queue.turn(self.of)).await.map_err(|_| QueueError::Full)??;
        let done = spawn_blocking(move || {
            let done = work();
            drop((turn, self));
            done
        });
        done.await.map_err(|error| QueueError::Failed(error.to_string()))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut of_senders = self.queue.0.of_senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queued) = of_senders.get_mut(&self.of) {
            *queued -= 1;
            if *queued == 0 {
                of_senders.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;
    use crate::auth::sender::Sender;

    fn sender(number: u32) -> Sender {
        Sender::new(&format!("tom{number}"), Ipv4Addr::from_bits(number).into())
    }

    fn unknown(net: u32) -> PasswordOf {
        PasswordOf::Unknown(sender(net).net)
    }

    fn user(name: u32) -> PasswordOf {
        PasswordOf::User(sender(name).name)
    }

    /// The lane is taken with the first password or before, and a hash waits for nothing else.
    #[tokio::test(start_paused = true)]
    async fn passwords_have_a_lane_of_their_own() {
        for (bytes, at_a_time) in [(HASH_BYTES / 4, 1), (4 * HASH_BYTES, 1), (8 * HASH_BYTES, 2), (64 * HASH_BYTES, 2)]
        {
            let memory = Budget::new(bytes);
            let queue = HashQueue::new(memory.clone());
            assert_eq!(queue.0.turns.available_permits(), at_a_time, "{bytes}");
            let large = bytes - bytes / 4;
            let all = memory.try_take(large).unwrap();
            assert_eq!(queue.enter(unknown(1)).unwrap().run(|| 1).await, Err(QueueError::Full), "no memory yet");
            drop(all);
            assert_eq!(queue.enter(unknown(1)).unwrap().run(|| 1).await, Ok(1));
            let rest = memory.try_take(large - lane(&memory)).unwrap();
            assert!(memory.try_take(1 << 20).is_none(), "the lane is taken for good");
            assert_eq!(queue.enter(user(1)).unwrap().run(|| 1).await, Ok(1), "uploads do not hold up a login");
            drop(rest);
        }
        let memory = Budget::new(8 * HASH_BYTES);
        let queue = HashQueue::new(memory.clone());
        queue.take_lane().await;
        let _rest = memory.try_take(4 * HASH_BYTES).unwrap();
        assert!(memory.try_take(1 << 20).is_none());
        assert_eq!(queue.enter(unknown(1)).unwrap().run(|| 1).await, Ok(1), "it was taken before");
    }

    #[tokio::test]
    async fn the_queue_has_an_end_and_each_sender_his_share() {
        let queue = HashQueue::new(Budget::unlimited());
        let full = |of| assert_eq!(queue.enter(of).err(), Some(QueueError::Full), "{of:?}");
        let mut queued: Vec<Queued> = (0..OF_ADDRESS).map(|_| queue.enter(unknown(1)).unwrap()).collect();
        full(unknown(1));
        assert_eq!(queue.0.all.available_permits(), QUEUED - OF_ADDRESS, "a refused one takes no place");
        queued.extend((OF_ADDRESS..OF_UNKNOWN).map(|n| queue.enter(unknown(n as u32 + 1)).unwrap()));
        full(unknown(0));
        // Unknown senders leave room for users, and each user for others.
        queued.extend((0..OF_USER).map(|_| queue.enter(user(1)).unwrap()));
        full(user(1));
        queued.extend((OF_UNKNOWN + OF_USER..QUEUED).map(|n| queue.enter(user(n as u32)).unwrap()));
        full(user(0));
        queued.remove(0);
        queue.enter(unknown(1)).unwrap();
        queued.clear();
        assert_eq!((queue.0.all.available_permits(), queue.0.of_unknown.available_permits()), (QUEUED, OF_UNKNOWN));
        assert!(queue.0.of_senders.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn two_run_at_once_and_who_leaves_is_not_run() {
        let queue = HashQueue::new(Budget::unlimited());
        let (ends, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (started, starts) = mpsc::channel();
        let run = |of: PasswordOf, n: u32| {
            let (started, wait) = (started.clone(), wait.clone());
            queue.enter(of).unwrap().run(move || {
                started.send(n).unwrap();
                wait.lock().unwrap().recv().unwrap();
                n
            })
        };
        let (first, second) = (tokio::spawn(run(unknown(1), 1)), tokio::spawn(run(unknown(2), 2)));
        let mut began: Vec<u32> = Vec::new();
        while began.len() < 2 {
            began.extend(starts.try_iter());
            tokio::task::yield_now().await;
        }
        let mut waiting: Vec<_> = [3, 4, 5].map(|n| Box::pin(run(unknown(n), n))).into();
        let mut last = Box::pin(run(user(6), 6));
        assert!(waiting.iter_mut().chain([&mut last]).all(|one| one.now_or_never().is_none()));
        drop(waiting.remove(0));
        assert_eq!(queue.0.all.available_permits(), QUEUED - 5);
        let others = waiting.into_iter().chain([last]).map(tokio::spawn).collect::<Vec<_>>();
        tokio::task::yield_now().await;
        for _ in 0..2 {
            ends.send(()).unwrap();
        }
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(1), Ok(2)));
        began.clear();
        while began.len() < 2 {
            began.extend(starts.try_iter());
            tokio::task::yield_now().await;
        }
        began.sort_unstable();
        assert_eq!(began, [4, 6], "the third has left, and the user waits for one unknown sender at most");
        for _ in 0..3 {
            ends.send(()).unwrap();
        }
        for (one, n) in others.into_iter().zip([4, 5, 6]) {
            assert_eq!(one.await.unwrap(), Ok(n));
        }
        starts.try_iter().for_each(drop);
        // The caller leaves while his password is hashed: the turn is taken until the end.
        let left = tokio::spawn(run(unknown(7), 7));
        while starts.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        left.abort();
        assert!(left.await.is_err());
        assert_eq!((queue.0.turns.available_permits(), queue.0.of_senders.lock().unwrap().len()), (1, 1));
        // Nobody waits forever.
        let _turns = queue.0.turns.clone().acquire_owned().await.unwrap();
        let waiting = tokio::spawn(run(unknown(8), 8));
        tokio::task::yield_now().await;
        tokio::time::advance(WAIT + Duration::from_millis(1)).await;
        assert_eq!(waiting.await.unwrap(), Err(QueueError::Full));
        ends.send(()).unwrap();
    }
}
