//! What uploads of users with a quota, and those by upload shares, have under way: content that no committed plan has
//! counted yet.
//!
//! It refuses an upload that would pass a limit before its body, or while it comes in. The commit decides exactly: what is
//! here only saves clients and disks the work. A reservation is given back before its plan is sent. So the usage that is
//! read and the reservations never have the same content both.
//!
//! Memory: an entry for each user or share with an upload under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::{Access, LimitOf, Limited};
use crate::drive::error::{DriveError, Result};
use crate::drive::settings::TRIES;
use crate::schema::account::Usage;
use crate::schema::usage::{UsageChange, number};

/// Bytes of a body after which its user's account is read again.
const REREAD: i64 = 16 << 20;

/// The sums of all reservations of each user or share. No entry: none.
#[derive(Debug, Default)]
pub struct UnderWay(Mutex<HashMap<LimitOf, Usage>>);

/// What one upload has reserved, if anything limits it. Dropping it gives that back.
#[derive(Default)]
pub struct Reserved(Option<Reservation>);

struct Reservation {
    access: Access,
    /// One for each limit.
    holds: Vec<Hold>,
    /// Bytes of the body that reserve nothing: of the length that was told, and of his own file that is replaced.
    free: i64,
    /// Bytes of the body since the account was read.
    unread: i64,
}

/// What is reserved of one limit.
struct Hold {
    under_way: Arc<UnderWay>,
    limited: Limited,
    sum: Usage,
}

impl Reserved {
    /// Reserves what an upload adds. `change`: as its plan will change the usage, with content of `length`, or none if that
    /// is not known.
    ///
    /// Errors: [`DriveError::Quota`].
    pub async fn new(
        under_way: &Arc<UnderWay>,
        access: &Access,
        change: &UsageChange,
        length: Option<u64>,
    ) -> Result<Self> {
        let (limits, Some(user)) = (access.limits(), access.user()) else { return Ok(Self::default()) };
        if limits.is_empty() {
            return Ok(Self::default());
        }
        let Usage { bytes: more, files } = change.of(user);
        let free = number(length.unwrap_or(0)).saturating_add(more.saturating_neg().max(0));
        let hold = |limited| Hold { under_way: under_way.clone(), limited, sum: Usage::default() };
        let holds = limits.into_iter().map(hold).collect();
        let mut reserved = Self(Some(Reservation { access: access.clone(), holds, free, unread: 0 }));
        reserved.add(Usage { bytes: more.max(0), files: files.max(0) }).await?;
        Ok(reserved)
    }

    /// Whether a file of so many bytes has room now; nothing is reserved for it.
    ///
    /// Errors: [`DriveError::Quota`].
    pub async fn check_room(&mut self, bytes: u64) -> Result<()> {
        let more = Usage { bytes: number(bytes), files: 1 };
        self.refuse_by(|reservation| reservation.full(more)).await
    }

    /// Reserves for the next bytes of the body, before they are stored.
    ///
    /// Errors: [`DriveError::Quota`].
    pub async fn grow(&mut self, length: usize) -> Result<()> {
        let Some(reservation) = &mut self.0 else { return Ok(()) };
        let length = number(length as u64);
        let free = length.min(reservation.free);
        reservation.free -= free;
        reservation.unread = reservation.unread.saturating_add(length);
        let must_read = reservation.unread >= REREAD;
        if length > free {
            self.add(Usage { bytes: length - free, files: 0 }).await?;
        }
        if !must_read {
            return Ok(());
        }
        self.read_again().await?;
        // It cannot be committed, even if all others of his end.
        match &self.0 {
            Some(reservation) if !reservation.holds.iter().all(Hold::fits_alone) => Err(DriveError::Quota),
            _ => Ok(()),
        }
    }

    async fn add(&mut self, more: Usage) -> Result<()> {
        self.refuse_by(|reservation| reservation.try_add(more)).await
    }

    /// Refuses by a usage that was the same before and after the reservations were read: it may be older than they are.
    /// `passed`: the limit that would be passed.
    async fn refuse_by(&mut self, passed: impl Fn(&mut Reservation) -> Option<Limited>) -> Result<()> {
        for _ in 0..TRIES {
            let Some(reservation) = &mut self.0 else { return Ok(()) };
            let Some(refused) = passed(reservation) else { return Ok(()) };
            self.read_again().await?;
            if self.0.as_ref().is_some_and(|reservation| reservation.holds.iter().any(|hold| hold.limited == refused)) {
                break;
            }
        }
        if self.0.is_none() { Ok(()) } else { Err(DriveError::Quota) }
    }

    /// Reads usage and quota again. Without any limit nothing is reserved any more.
    async fn read_again(&mut self) -> Result<()> {
        let Some(reservation) = &mut self.0 else { return Ok(()) };
        reservation.unread = 0;
        let limits = reservation.access.again().await?.limits();
        reservation.holds.retain_mut(|hold| match limits.iter().find(|limited| limited.of == hold.limited.of) {
            Some(limited) => {
                hold.limited = limited.clone();
                true
            }
            None => false,
        });
        if reservation.holds.is_empty() {
            self.0 = None;
        }
        Ok(())
    }
}

impl Reservation {
    /// A limit that has no room for so much.
    fn full(&self, more: Usage) -> Option<Limited> {
        self.holds.iter().find(|hold| !hold.has_room(more)).map(|hold| hold.limited.clone())
    }

    /// Reserves of all limits, or of none: then the one that it would pass.
    fn try_add(&mut self, more: Usage) -> Option<Limited> {
        for at in 0..self.holds.len() {
            let (before, rest) = self.holds.split_at_mut(at);
            let Some(hold) = rest.first_mut() else { break };
            if !hold.try_add(more) {
                before.iter_mut().for_each(|hold| hold.take_back(more));
                return Some(hold.limited.clone());
            }
        }
        None
    }
}

impl Hold {
    fn has_room(&self, more: Usage) -> bool {
        self.under_way.change(&self.limited.of, |sum| self.limited.fits(*sum, more))
    }

    fn fits_alone(&self) -> bool {
        self.limited.fits(Usage::default(), self.sum)
    }

    fn try_add(&mut self, more: Usage) -> bool {
        let fits = self.under_way.change(&self.limited.of, |sum| {
            let fits = self.limited.fits(*sum, more);
            if fits {
                *sum = sum.plus(more);
            }
            fits
        });
        if fits {
            self.sum = self.sum.plus(more);
        }
        fits
    }

    fn take_back(&mut self, Usage { bytes, files }: Usage) {
        let less = Usage { bytes: -bytes, files: -files };
        self.under_way.change(&self.limited.of, |sum| *sum = sum.plus(less));
        self.sum = self.sum.plus(less);
    }
}

impl UnderWay {
    fn change<T>(&self, of: &LimitOf, change: impl FnOnce(&mut Usage) -> T) -> T {
        let mut sums: MutexGuard<'_, HashMap<LimitOf, Usage>> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = sums.entry(of.clone()).or_default();
        let answer = change(sum);
        if *sum == Usage::default() {
            sums.remove(of);
        }
        answer
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.take_back(self.sum);
    }
}
