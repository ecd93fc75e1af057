//! What a process knows of whether there are users, so that requests on a drive without users cost no read.

use std::sync::atomic::{AtomicU8, Ordering};

const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
/// The first user may be committed at any instant: only a read tells.
const BEGUN: u8 = 2;
/// Once there was a user, that holds for good.
const SOME: u8 = 3;

/// Whether there are users, as far as this process knows.
#[derive(Debug, Default)]
pub struct KnownUsers(AtomicU8);

impl KnownUsers {
    /// None: only a read tells.
    pub fn get(&self) -> Option<bool> {
        match self.0.load(Ordering::SeqCst) {
            NONE => Some(false),
            SOME => Some(true),
            _ => None,
        }
    }

    /// Notes what was read. That there is none is not noted once the first user is being made, since it may be old.
    pub fn found(&self, users: bool) {
        if users {
            self.0.store(SOME, Ordering::SeqCst);
        } else {
            let _known_since = self.0.compare_exchange(UNKNOWN, NONE, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// The first user is about to be committed.
    pub fn begin_first(&self) {
        let keep_some = |known| (known != SOME).then_some(BEGUN);
        let _known_before = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, keep_some);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_from_before_the_first_user_is_not_believed_after() {
        let known = KnownUsers::default();
        assert_eq!(known.get(), None);
        known.found(false);
        assert_eq!(known.get(), Some(false));
        known.begin_first();
        assert_eq!(known.get(), None);
        known.found(false);
        assert_eq!(known.get(), None);
        known.found(true);
        known.found(false);
        known.begin_first();
        assert_eq!(known.get(), Some(true));
    }
}
