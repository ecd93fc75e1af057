//! Who imports: users, the part of the tree that each of them stores, and whose turn it is.

use std::iter::Enumerate;
use std::ops::Range;
use std::slice::Iter;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Files of a new user.
const FEW: usize = 8;

/// Someone who stores a part of the tree.
#[derive(Clone, Debug)]
pub struct User {
    pub name: String,
    /// Has a home: the first directory of the tree is then `/home/<user>`.
    has_home: bool,
    /// Of the tree.
    files: Range<usize>,
}

impl User {
    /// The one user of a tree that stays where it is.
    pub fn whole(files: usize) -> Self {
        Self { name: "loadtest".to_owned(), has_home: false, files: 0..files }
    }

    /// The directory in which this user's first one is made.
    pub fn top(&self) -> &'static str {
        if self.has_home { "/home" } else { "/" }
    }

    /// Where a directory of the tree lies for this user.
    pub fn path(&self, dir: &str) -> String {
        if !self.has_home {
            return dir.to_owned();
        }
        let below = dir.trim_start_matches('/').split_once('/').map(|(_, below)| below);
        match below {
            Some(below) => format!("/home/{}/{below}", self.name),
            None => format!("/home/{}", self.name),
        }
    }

    fn with_home(number: usize, files: Range<usize>) -> Self {
        Self { name: format!("user{number:06}"), has_home: true, files }
    }
}

/// So many users with about as many files each.
pub fn parts(files: usize, users: usize) -> Vec<User> {
    let part = |n: usize| n * files / users.max(1);
    (0..users).map(|n| User::with_home(n + 1, part(n)..part(n + 1))).collect()
}

/// Users with a few files each.
pub fn newcomers(files: usize) -> Vec<User> {
    let starts = (0..files).step_by(FEW);
    starts.enumerate().map(|(n, from)| User::with_home(n + 1, from..(from + FEW).min(files))).collect()
}

/// Users and files in the order in which they come, as positions: so many users at a time, the next of them by chance;
/// who is done makes room for another.
pub struct Turns<'a> {
    waiting: Enumerate<Iter<'a, User>>,
    /// Users whose turn it is, with the files that they have yet to store.
    active: Vec<(usize, Range<usize>)>,
    random: StdRng,
}

impl<'a> Turns<'a> {
    pub fn new(users: &'a [User], at_a_time: usize, seed: u64) -> Self {
        let mut waiting = users.iter().enumerate();
        let active = waiting.by_ref().take(at_a_time).map(|(at, user)| (at, user.files.clone())).collect();
        Self { waiting, active, random: StdRng::seed_from_u64(seed) }
    }
}

impl Iterator for Turns<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.active.is_empty() {
            let turn = self.random.random_range(0..self.active.len());
            let (user, files) = self.active.get_mut(turn)?;
            if let Some(file) = files.next() {
                return Some((*user, file));
            }
            match self.waiting.next() {
                Some((next, waited)) => (*user, *files) = (next, waited.files.clone()),
                None => drop(self.active.swap_remove(turn)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_share_the_files_of_a_tree() {
        let ranges: Vec<Range<usize>> = parts(10, 4).into_iter().map(|user| user.files).collect();
        assert_eq!(ranges, [0..2, 2..5, 5..7, 7..10]);
        let ranges: Vec<Range<usize>> = newcomers(18).into_iter().map(|user| user.files).collect();
        assert_eq!(ranges, [0..8, 8..16, 16..18]);
    }

    #[test]
    fn the_first_directory_of_a_tree_becomes_a_home() {
        let user = &newcomers(1)[0];
        assert_eq!(user.path("/home"), "/home/user000001");
        assert_eq!(user.path("/home/photos/2000"), "/home/user000001/photos/2000");
        assert_eq!(User::whole(1).path("/home/photos"), "/home/photos");
    }

    #[test]
    fn as_many_users_as_asked_for_are_active_and_each_file_comes_once() {
        let users = newcomers(8 * 20);
        let mut files: Vec<usize> = Turns::new(&users, 3, 1).map(|(_, file)| file).collect();
        files.sort_unstable();
        assert!(files.into_iter().eq(0..8 * 20));
        let order: Vec<usize> = Turns::new(&users, 1, 1).map(|(user, _)| user).collect();
        assert!(order.is_sorted());
        let turns: Vec<usize> = Turns::new(&users, 3, 1).map(|(user, _)| user).collect();
        let last = |user: usize| turns.iter().rposition(|u| *u == user).unwrap();
        let first = |user: usize| turns.iter().position(|u| *u == user).unwrap();
        for now in 0..turns.len() {
            let active = (0..20).filter(|user| first(*user) <= now && now <= last(*user)).count();
            assert!(active <= 3, "{active} at {now}");
        }
        assert_eq!(Turns::new(&[], 3, 1).count(), 0);
    }
}
