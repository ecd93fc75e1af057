//! The JSON of users and rights, and the problems of what was refused about them.

use crate::api::account::{QuotaJson, UsageJson, UserJson};
use crate::api::problem::ProblemKind;
use crate::api::rights::RightJson;
use crate::auth::password::PasswordError;
use crate::auth::{AuthError, User};
use crate::drive::DriveError;
use crate::http::response::problem::Problem;
use crate::schema::account::{Quota, Usage};
use crate::schema::rights::{Right, Rights};

pub fn user_json(user: &User) -> UserJson {
    UserJson {
        name: user.name.as_str().to_owned(),
        display: user.profile.display.clone(),
        admin: user.profile.admin,
        disabled: user.profile.disabled,
        quota: quota_json(user.profile.quota),
        usage: usage_json(user.usage),
        created: user.profile.created.rfc3339(),
    }
}

pub fn quota_json(Quota { bytes, files }: Quota) -> QuotaJson {
    QuotaJson { bytes, files }
}

/// A counter is never below zero.
pub fn usage_json(usage: Usage) -> UsageJson {
    UsageJson { bytes: usage.bytes.unsigned_abs(), files: usage.files.unsigned_abs() }
}

pub fn rights_json(rights: Rights) -> Vec<RightJson> {
    let json = |right| match right {
        Right::Read => RightJson::Read,
        Right::Write => RightJson::Write,
        Right::Share => RightJson::Share,
    };
    rights.iter().map(json).collect()
}

/// An error of users and rights.
impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unauthorized => Self::unauthorized(),
            AuthError::Forbidden => Self::forbidden()
                .with_detail("You have no right to this: ask an admin, or who has the right to share there."),
            AuthError::WrongPassword => Self::forbidden().with_detail("The old password is wrong."),
            AuthError::Store(error) => DriveError::from(error).into(),
            AuthError::Value(_) => Self::damaged(&error),
            AuthError::NoUser => {
                Self::new(ProblemKind::NotFound, "There is no such user: check how the name is written.")
            }
            AuthError::NoGrant => Self::new(
                ProblemKind::NotFound,
                "There is no such grant: list those on this directory. A user takes back what he has given himself.",
            ),
            AuthError::NoSecret(kind) => Self::new(
                ProblemKind::NotFound,
                format!(
                    "There is no such {kind}: list those of its user. An admin names another user by `user` (the \
                     commands: --of)."
                ),
            ),
            // Another one was the first to be made: from now on nobody does anything without a credential.
            AuthError::UsersExist => Self::unauthorized(),
            AuthError::NameTaken => Self::new(
                ProblemKind::NameTaken,
                "This name, or one that looks the same, was given before, perhaps to a user who was removed: choose another.",
            ),
            AuthError::LastAdmin => {
                Self::new(ProblemKind::LastAdmin, "Make another user an admin first: without one nobody manages users.")
            }
            AuthError::TooManyGrants(_) => Self::new(ProblemKind::TooManyGrants, format!("Nothing is given: {error}.")),
            AuthError::TooManyTokens(_) => Self::new(ProblemKind::TooManyTokens, format!("Nothing is made: {error}.")),
            AuthError::TooManyShares(_) => Self::new(ProblemKind::TooManyShares, format!("Nothing is made: {error}.")),
            AuthError::Outlives => Self::forbidden().with_detail(
                "A token makes no token and no share that expires after it: leave `expires` out, or give an earlier one.",
            ),
            AuthError::Contended => Self::new(ProblemKind::Busy, "Others are changing the same users: try again."),
            AuthError::Slowed(seconds) => Self::slowed(seconds),
            AuthError::Password(PasswordError::Busy) => {
                Self::new(ProblemKind::Busy, "Passwords wait for each other, or for memory that uploads use: try again, or use a token.")
            }
            AuthError::Password(PasswordError::Failed(_) | PasswordError::Random(_)) | AuthError::Random(_) => {
                Self::internal(&error)
            }
            AuthError::Name(_) | AuthError::Password(_) => Self::malformed(format!("Nothing is changed: {error}.")),
        }
    }
}
