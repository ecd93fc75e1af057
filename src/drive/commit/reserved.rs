//! What uploads of users with a quota have under way: content that no committed plan has counted yet.
//!
//! It refuses an upload that would pass the quota before its body, or while it comes in. The commit decides exactly: what is
//! here only saves clients and disks the work. A reservation is given back before its plan is sent. So the usage that is
//! read and the reservations never have the same content both.
//!
//! Memory: an entry for each user with an upload under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::{Access, Limited};
use crate::drive::error::{DriveError, Result};
use crate::drive::settings::TRIES;
use crate::schema::account::Usage;
use crate::schema::usage::{UsageChange, number};
use crate::schema::user_name::UserName;

/// Bytes of a body after which its user's account is read again.
const REREAD: i64 = 16 << 20;

/// The sums of all reservations of each user. No entry: none.
#[derive(Debug, Default)]
pub struct UnderWay(Mutex<HashMap<UserName, Usage>>);

/// What one upload has reserved, if its user has a quota. Dropping it gives that back.
#[derive(Default)]
pub struct Reserved(Option<Reservation>);

struct Reservation {
    under_way: Arc<UnderWay>,
    access: Access,
    limited: Limited,
    sum: Usage,
    /// Bytes of the body that reserve nothing: of the length that was told, and of his own file that is replaced.
    free: i64,
    /// Bytes of the body since the account was read.
    unread: i64,
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
        let Some(limited) = access.limited() else { return Ok(Self::default()) };
        let Usage { bytes: more, files } = change.of(&limited.user);
        let free = number(length.unwrap_or(0)).saturating_add(more.saturating_neg().max(0));
        let (under_way, access, sum) = (under_way.clone(), access.clone(), Usage::default());
        let mut reserved = Self(Some(Reservation { under_way, access, limited, sum, free, unread: 0 }));
        reserved.add(Usage { bytes: more.max(0), files: files.max(0) }).await?;
        Ok(reserved)
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
            Some(Reservation { limited, sum, .. }) if !limited.fits(Usage::default(), *sum) => Err(DriveError::Quota),
            _ => Ok(()),
        }
    }

    /// Refuses by a usage that was the same before and after the reservations were read: it may be older than they are.
    async fn add(&mut self, more: Usage) -> Result<()> {
        for _ in 0..TRIES {
            let Some(reservation) = &mut self.0 else { return Ok(()) };
            if reservation.try_add(more) {
                return Ok(());
            }
            let refused = reservation.limited.clone();
            self.read_again().await?;
            if self.0.as_ref().is_some_and(|reservation| reservation.limited == refused) {
                break;
            }
        }
        if self.0.is_none() { Ok(()) } else { Err(DriveError::Quota) }
    }

    /// Reads usage and quota again. Without a quota nothing is reserved any more.
    async fn read_again(&mut self) -> Result<()> {
        let Some(reservation) = &mut self.0 else { return Ok(()) };
        reservation.unread = 0;
        match reservation.access.again().await?.limited() {
            Some(limited) => reservation.limited = limited,
            None => self.0 = None,
        }
        Ok(())
    }
}

impl Reservation {
    fn try_add(&mut self, more: Usage) -> bool {
        let mut sums = self.under_way.sums();
        let sum = sums.entry(self.limited.user.clone()).or_default();
        let fits = self.limited.fits(*sum, more);
        if fits {
            *sum = sum.plus(more);
            self.sum = self.sum.plus(more);
        }
        if *sum == Usage::default() {
            sums.remove(&self.limited.user);
        }
        fits
    }
}

impl UnderWay {
    fn sums(&self) -> MutexGuard<'_, HashMap<UserName, Usage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut sums = self.under_way.sums();
        let Some(sum) = sums.get_mut(&self.limited.user) else { return };
        let Usage { bytes, files } = self.sum;
        *sum = sum.plus(Usage { bytes: -bytes, files: -files });
        if *sum == Usage::default() {
            sums.remove(&self.limited.user);
        }
    }
}
