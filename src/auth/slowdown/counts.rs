//! When wrong passwords came, for each name or address, in bounded memory.
//!
//! Each key has the times of its newest wrong passwords. If the table is full, the key with the fewest is dropped, and
//! its times are merged into those of *others*, with which each new key begins.
//!
//! - No count is forgotten: a key that comes back begins with at least what it had.
//! - A flood of keys does not refuse new ones: others have one more only after every key of a full table has one more.
//!   So it takes as many wrong passwords as the table has keys, for each one that new keys begin with. Tests compare
//!   both with a list of all.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The most that may be in any time of this length.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// How many.
    pub most: usize,
    /// Milliseconds.
    pub window: u64,
}

/// The oldest first.
type Times = VecDeque<u64>;

/// The times of each key, in milliseconds.
#[derive(Debug)]
pub struct Counts<K> {
    rate: Rate,
    keys: usize,
    /// Times that are kept of a key.
    kept: usize,
    times: HashMap<K, Times>,
    others: Times,
}

impl<K: Copy + Eq + Hash> Counts<K> {
    /// `keys`: what the table holds. `removable`: times that are removed again may be so many at once; so many more are
    /// kept of a key, so that what was before them still counts.
    pub fn new(rate: Rate, keys: usize, removable: usize) -> Self {
        let kept = rate.most.saturating_add(removable);
        Self { rate, keys, kept, times: HashMap::new(), others: Times::new() }
    }

    /// Milliseconds until a key may have one more.
    pub fn wait(&self, key: &K, now: u64) -> u64 {
        let times = self.times.get(key).unwrap_or(&self.others);
        // The time that has to pass, so that one less than the most are left.
        let first = times.len().checked_sub(self.rate.most).and_then(|at| times.get(at));
        first.map_or(0, |first| self.end(*first).saturating_sub(now))
    }

    /// Counts one more. `now` is not before the time of an earlier call.
    pub fn add(&mut self, key: &K, now: u64) {
        if !self.times.contains_key(key) {
            self.make_room(now);
            self.times.insert(*key, self.others.clone());
        }
        if let Some(times) = self.times.get_mut(key) {
            times.push_back(now);
            if times.len() > self.kept {
                times.pop_front();
            }
        }
    }

    /// Removes one that was counted at this time. If the key was dropped meanwhile, the time stays with the others.
    pub fn remove(&mut self, key: &K, time: u64) {
        let Some(times) = self.times.get_mut(key) else { return };
        if let Some(at) = times.iter().rposition(|counted| *counted == time) {
            times.remove(at);
        }
        if times.is_empty() {
            self.times.remove(key);
        }
    }

    /// Keys in the table.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    fn end(&self, time: u64) -> u64 {
        time.saturating_add(self.rate.window)
    }

    /// How many of these still count.
    fn count(&self, times: &Times, now: u64) -> usize {
        times.len() - times.partition_point(|time| self.end(*time) <= now)
    }

    /// Makes room for one more key.
    fn make_room(&mut self, now: u64) {
        if self.times.len() < self.keys {
            return;
        }
        let window = self.rate.window;
        self.times.retain(|_, times| times.back().is_some_and(|time| time.saturating_add(window) > now));
        while self.times.len() >= self.keys {
            let fewest = self.times.iter().min_by_key(|(_, times)| (self.count(times, now), times.back().copied()));
            let Some(dropped) = fewest.map(|(key, _)| *key) else { return };
            let times = self.times.remove(&dropped).unwrap_or_default();
            self.others = newest_of(&self.others, &times);
        }
        let old = self.others.len() - self.count(&self.others, now);
        self.others.drain(..old);
    }
}

/// At each position, from the newest, the later one of both.
fn newest_of(one: &Times, other: &Times) -> Times {
    let positions = 0..one.len().max(other.len());
    let from_newest = |times: &Times, at: usize| times.iter().rev().nth(at).copied();
    positions.rev().filter_map(|at| from_newest(one, at).max(from_newest(other, at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { most: 3, window: 100 };

    #[test]
    fn no_more_than_the_most_are_in_any_window() {
        let mut counts = Counts::new(RATE, 8, 0);
        for (now, wait) in [(0, 0), (10, 0), (10, 0), (10, 90), (99, 1), (100, 0), (100, 10), (110, 0), (111, 0)] {
            assert_eq!(counts.wait(&1, now), wait, "{now}");
            if wait == 0 {
                counts.add(&1, now);
            }
        }
        assert_eq!((counts.wait(&1, 111), counts.wait(&2, 111)), (89, 0));
        counts.remove(&1, 110);
        assert_eq!(counts.wait(&1, 111), 0);
    }

    #[test]
    fn what_is_removed_uncovers_what_was_before() {
        let mut counts = Counts::new(RATE, 8, 2);
        [1, 2, 3, 4, 5].into_iter().for_each(|time| counts.add(&1, time));
        [4, 5].into_iter().for_each(|time| counts.remove(&1, time));
        assert_eq!(counts.wait(&1, 5), 96);
        [1, 2, 3].into_iter().for_each(|time| counts.remove(&1, time));
        assert_eq!(counts.times.len(), 0);
    }

    #[test]
    fn a_flood_of_keys_takes_no_memory_and_hides_nothing() {
        let mut counts = Counts::new(RATE, 8, 0);
        [0, 0, 0].into_iter().for_each(|now| counts.add(&0, now));
        (1..12).for_each(|key| counts.add(&key, 1));
        assert_eq!((counts.times.len(), counts.wait(&0, 1)), (8, 99), "the one with the most is kept");
        assert_eq!(counts.wait(&99, 1), 0, "a new key is not refused");
        counts.add(&1, 1);
        assert_eq!(counts.times[&1], [1, 1], "it had one, also if it was dropped");
        (100..200).for_each(|key| counts.add(&key, 2));
        assert_eq!((counts.times.len(), counts.others.len()), (8, 3));
        assert_eq!(counts.wait(&99, 2), 100, "the table holds no more");
        assert_eq!((counts.wait(&99, 102), counts.wait(&0, 102)), (0, 0), "all is over after the window");
        counts.add(&99, 102);
        assert_eq!((counts.times.len(), counts.others.len()), (1, 0));
    }

    #[test]
    fn the_later_times_are_merged_from_the_newest() {
        let merged = |one: &[u64], other: &[u64]| {
            Vec::from(newest_of(&one.iter().copied().collect(), &other.iter().copied().collect()))
        };
        assert_eq!(merged(&[], &[]), [0; 0]);
        assert_eq!(merged(&[1, 5, 9], &[7, 8]), [1, 7, 9]);
        assert_eq!(merged(&[3], &[1, 2]), [1, 3]);
    }
}
