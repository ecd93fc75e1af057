//! Refusals of changes that tell what is there.
//!
//! A plan is guarded by the rights on which it was decided, but a refusal has no plan. Its rights and the rows that it
//! tells of are read one after the other: without more, who has lost a right in between would learn what came after
//! that.

use super::error::{DriveError, Result};
use super::namespace::Namespace;
use super::rights::{Look, Rights};
use super::settings::TRIES;
use crate::auth::{Permission, Requester};
use crate::schema::DrivePath;

/// What `decide` decides for a requester. If it refuses, the refusal is of an instant: his rights on these paths, and
/// the directories of them, were the same all the time. Otherwise it is decided again.
///
/// Errors: also [`DriveError::Contended`] if they change all the time.
pub async fn settled<T, F>(
    ns: &Namespace,
    requester: &Requester,
    paths: &[&DrivePath],
    decide: impl Fn() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let first = decide().await;
    // IMPORTANT: after the decision. Who may do everything now might do so before: there are no users yet.
    if !is_told(&first) || Rights::read(ns, requester).await?.access().is_unrestricted() {
        return first;
    }
    for attempt in 0..TRIES {
        let mut looks = Vec::with_capacity(paths.len());
        for path in paths {
            let look = Look::at(ns, requester, path, attempt).await?;
            looks.push((look.permission_to_write().await?, look));
        }
        let decided = decide().await;
        if !is_told(&decided) || hold(&looks).await? {
            return decided;
        }
    }
    Err(DriveError::Contended)
}

/// Whether the looks still hold, and he may write in the same of their directories.
async fn hold(looks: &[(Option<Permission>, Look<'_>)]) -> Result<bool> {
    for (permission, look) in looks {
        if !look.holds().await? || look.permission_to_write().await? != *permission {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_told<T>(decided: &Result<T>) -> bool {
    decided.as_ref().is_err_and(tells_of_the_tree)
}

/// Whether an error depends on what is stored at some path, or on who may see that.
pub fn tells_of_the_tree(error: &DriveError) -> bool {
    matches!(
        error,
        DriveError::NotFound
            | DriveError::Forbidden
            | DriveError::ParentMissing
            | DriveError::ParentIsFile
            | DriveError::IsDirectory
            | DriveError::IsFile
            | DriveError::Exists
            | DriveError::NotEmpty
            | DriveError::Precondition
    )
}
