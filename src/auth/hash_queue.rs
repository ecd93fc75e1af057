//! Argon2 for two passwords at a time, since each takes 64 MiB and a core for a while: of the memory of requests, and only
//! for that while. The others wait in a queue with an end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::sender::ClientNet;
use crate::budget::Budget;

/// Bytes that Argon2 takes for one password.
pub const HASH_BYTES: usize = 64 << 20;
/// Passwords that are hashed at a time, if there is memory for them.
const AT_A_TIME: usize = 2;

/// Passwords that wait.
const WAITING: usize = 64;
/// Passwords in the queue, at most.
pub const QUEUED: usize = WAITING + AT_A_TIME;
/// Passwords of one address in the queue, so that it leaves room for others.
const OF_ADDRESS: usize = 16;
/// How long one waits.
const WAIT: Duration = Duration::from_secs(10);

/// Why a password was not hashed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    #[error("the queue is full")]
    Full,
    #[error("the thread failed: {0}")]
    Failed(String),
}

type Result<T> = std::result::Result<T, QueueError>;

/// The queue. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct HashQueue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    turns: Arc<Semaphore>,
    memory: Budget,
    /// Passwords that wait, and those that have their turn.
    all: Arc<Semaphore>,
    of_addresses: Mutex<HashMap<ClientNet, usize>>,
}

/// A password in the queue; it leaves when this is dropped.
#[derive(Debug)]
pub struct Queued {
    queue: HashQueue,
    address: Option<ClientNet>,
    _place: OwnedSemaphorePermit,
}

impl HashQueue {
    /// `memory`: what it takes for each password. With less than 64 MiB one is hashed at a time, beyond that memory.
    pub fn new(memory: Budget) -> Self {
        let [turns, all] = [AT_A_TIME, QUEUED].map(|n| Arc::new(Semaphore::new(n)));
        Self(Arc::new(Inner { turns, memory, all, of_addresses: Mutex::default() }))
    }

    /// Puts a password at the end of the queue. `address`: none if it is no guess.
    ///
    /// Errors: [`QueueError::Full`] if too many wait, or too many of this address.
    pub fn enter(&self, address: Option<ClientNet>) -> Result<Queued> {
        let place = self.0.all.clone().try_acquire_owned().map_err(|_| QueueError::Full)?;
        if let Some(address) = address {
            let mut of_addresses = self.of_addresses();
            let queued = of_addresses.entry(address).or_insert(0);
            if *queued >= OF_ADDRESS {
                return Err(QueueError::Full);
            }
            *queued += 1;
        }
        Ok(Queued { queue: self.clone(), address, _place: place })
    }

    fn of_addresses(&self) -> MutexGuard<'_, HashMap<ClientNet, usize>> {
        self.0.of_addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queued {
    /// Waits for its turn, and does the work on a thread that may block. If the caller leaves before, the work is dropped;
    /// if he leaves later, it runs to its end.
    pub async fn run<T, F>(self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let turn = timeout(WAIT, self.queue.0.turns.clone().acquire_owned()).await.map_err(|_| QueueError::Full)?;
        let turn = turn.map_err(|error| QueueError::Failed(error.to_string()))?;
        let memory = timeout(WAIT, self.queue.0.memory.take(HASH_BYTES)).await.map_err(|_| QueueError::Full)?;
        let done = spawn_blocking(move || {
            let done = work();
            drop((turn, memory, self));
            done
        });
        done.await.map_err(|error| QueueError::Failed(error.to_string()))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut of_addresses = self.queue.of_addresses();
        if let Some(queued) = of_addresses.get_mut(&address) {
            *queued -= 1;
            if *queued == 0 {
                of_addresses.remove(&address);
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

    fn address(net: u32) -> Option<ClientNet> {
        Some(Sender::new("tom", Ipv4Addr::from_bits(net).into()).net)
    }

    /// With less memory than for two, the second waits for the first.
    #[tokio::test(start_paused = true)]
    async fn each_takes_its_memory() {
        for (memory, at_a_time) in [(HASH_BYTES / 4, 1), (2 * HASH_BYTES, 1), (4 * HASH_BYTES, 3)] {
            let memory = Budget::new(memory);
            let queue = HashQueue::new(memory.clone());
            let taken: Vec<_> = std::iter::from_fn(|| memory.try_take(HASH_BYTES)).collect();
            assert_eq!(taken.len(), at_a_time);
            let run = queue.enter(address(1)).unwrap().run(|| 1);
            assert_eq!(run.await, Err(QueueError::Full), "there is no memory for it");
            drop(taken);
            assert_eq!(queue.enter(address(1)).unwrap().run(|| 1).await, Ok(1));
            let taken: Vec<_> = std::iter::from_fn(|| memory.try_take(HASH_BYTES)).collect();
            assert_eq!(taken.len(), at_a_time);
        }
    }

    #[tokio::test]
    async fn the_queue_has_an_end_and_each_address_its_share() {
        let queue = HashQueue::new(Budget::unlimited());
        let mut queued: Vec<Queued> = (0..OF_ADDRESS).map(|_| queue.enter(address(1)).unwrap()).collect();
        assert_eq!(queue.enter(address(1)).err(), Some(QueueError::Full));
        assert_eq!(queue.0.all.available_permits(), QUEUED - OF_ADDRESS, "a refused one takes no place");
        queued.extend((OF_ADDRESS..QUEUED).map(|n| queue.enter(address(n as u32 + 1)).unwrap()));
        assert_eq!(
            (queue.enter(address(0)).err(), queue.enter(None).err()),
            (Some(QueueError::Full), Some(QueueError::Full))
        );
        queued.remove(0);
        queue.enter(address(1)).unwrap();
        queued.clear();
        assert_eq!((queue.0.all.available_permits(), queue.of_addresses().len()), (QUEUED, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn two_run_at_once_and_who_leaves_is_not_run() {
        let queue = HashQueue::new(Budget::unlimited());
        let (ends, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let (started, starts) = mpsc::channel();
        let run = |n: u32| {
            let (started, wait) = (started.clone(), wait.clone());
            queue.enter(address(n)).unwrap().run(move || {
                started.send(n).unwrap();
                wait.lock().unwrap().recv().unwrap();
                n
            })
        };
        let (first, second) = (tokio::spawn(run(1)), tokio::spawn(run(2)));
        let mut began: Vec<u32> = Vec::new();
        while began.len() < 2 {
            began.extend(starts.try_iter());
            tokio::task::yield_now().await;
        }
        let (mut third, mut fourth) = (Box::pin(run(3)), Box::pin(run(4)));
        assert!((&mut third).now_or_never().is_none() && (&mut fourth).now_or_never().is_none());
        drop(third);
        assert_eq!(queue.0.all.available_permits(), QUEUED - 3);
        ends.send(()).unwrap();
        ends.send(()).unwrap();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(1), Ok(2)));
        ends.send(()).unwrap();
        assert_eq!(fourth.await, Ok(4));
        assert_eq!(starts.try_iter().collect::<Vec<_>>(), [4], "the third has left");
        // The caller leaves while his password is hashed: the turn is taken until the end.
        let left = tokio::spawn(run(5));
        while starts.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        left.abort();
        assert!(left.await.is_err());
        assert_eq!((queue.0.turns.available_permits(), queue.of_addresses().len()), (1, 1));
        // Nobody waits forever.
        let _turns = queue.0.turns.clone().acquire_owned().await.unwrap();
        let waiting = tokio::spawn(run(6));
        tokio::task::yield_now().await;
        tokio::time::advance(WAIT + Duration::from_millis(1)).await;
        assert_eq!(waiting.await.unwrap(), Err(QueueError::Full));
        ends.send(()).unwrap();
    }
}
