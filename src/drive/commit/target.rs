//! The target path of a rename or copy.

use crate::drive::error::{DriveError, Result};
use crate::drive::namespace::Namespace;
use crate::drive::namespace::lookup::{LiveDir, NameLookup};
use crate::drive::namespace::resolve::no_parent;
use crate::schema::{DrivePath, Name};

/// The parent and name of the target, if the two paths allow a rename or copy at all.
pub fn split_target(from: &DrivePath, to: &DrivePath) -> Result<(DrivePath, Name)> {
    if from == to {
        return Err(DriveError::Exists);
    }
    if to.is_within(from) {
        return Err(DriveError::IntoItself);
    }
    to.split().ok_or(DriveError::Exists)
}

/// The parent directory of the target, if the entry that exists at the target allows the rename or copy.
pub async fn check_target<'a>(
    ns: &Namespace,
    target: &'a NameLookup,
    parent: &DrivePath,
    overwrite: bool,
) -> Result<&'a LiveDir> {
    let Some(live) = &target.parent else {
        return Err(no_parent(ns, parent).await);
    };
    if target.directory.is_some() || (target.file.is_some() && !overwrite) {
        return Err(DriveError::Exists);
    }
    Ok(live)
}
