//! Makes a user, and his home at the same instant.

use std::sync::Arc;

use super::{Committer, Decision};
use crate::auth::{PreparedUser, Requester, User};
use crate::drive::attempts::Caller;
use crate::drive::error::{DriveError, Result};
use crate::drive::namespace::resolve::resolve_parent;
use crate::schema::DrivePath;
use crate::schema::usage::UsageChange;
use crate::table::Plan;

/// The directory on which a new user gets all rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// None.
    Nowhere,
    /// A new one: [`DriveError::Exists`] if anything is there.
    New(DrivePath),
    /// The one that is there, or a new one.
    At(DrivePath),
}

/// Makes a user and his home, with the directories above it. The requester is an admin, or nobody for the first user.
pub async fn make_user(
    committer: &Arc<Committer>,
    requester: &Requester,
    user: PreparedUser,
    home: Home,
) -> Result<User> {
    let (this, requester) = (committer.clone(), requester.clone());
    let make = |caller| async move { make(&this, &requester, &user, &home, &caller).await };
    committer.gate.run_to_end(make).await
}

async fn make(
    committer: &Committer,
    requester: &Requester,
    user: &PreparedUser,
    home: &Home,
    caller: &Caller,
) -> Result<User> {
    committer.until_committed(caller, |_| decide(committer, requester, user, home)).await
}

async fn decide(
    committer: &Committer,
    requester: &Requester,
    user: &PreparedUser,
    home: &Home,
) -> Result<Decision<'static, User>> {
    let planned = plan(committer, requester, user, home).await;
    if planned.is_err() {
        // IMPORTANT: after all reads. Who is no admin any more does not learn what is there.
        requester.check_maker().await?;
    }
    let (plan, made) = planned?;
    Ok(Decision::Commit { plan, change: None, content: None, answer: made })
}

async fn plan(committer: &Committer, requester: &Requester, user: &PreparedUser, home: &Home) -> Result<(Plan, User)> {
    let (mut plan, mut usage) = (Plan::default(), UsageChange::default());
    let dir = match home {
        Home::Nowhere => None,
        Home::New(path) | Home::At(path) => {
            let creator = requester.user().unwrap_or(user.name()).as_str();
            let resolved = resolve_parent(&committer.namespace, path, creator, committer.clock).await?;
            if resolved.missing.is_empty() && matches!(home, Home::New(_)) {
                // A name that is taken is the reason, and not its home.
                requester.plan_user(&mut Plan::default(), user, None).await?;
                return Err(DriveError::Exists);
            }
            resolved.add_to(&mut plan, Vec::new(), Vec::new());
            resolved.count(&mut usage);
            Some(resolved.id())
        }
    };
    let made = requester.plan_user(&mut plan, user, dir).await?;
    requester.access().await?.count(&mut plan, &usage);
    let made = User { usage: made.usage.plus(usage.of(user.name())), ..made };
    Ok((plan, made))
}
