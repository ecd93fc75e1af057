//! Why a request was not allowed, or a change of accounts did not happen. Each variant is named by what the caller can
//! do.

use crate::schema::ValueError;
use crate::schema::secret::SecretKind;
use crate::schema::user_name::UserNameError;
use crate::table::StoreError;

use super::password::PasswordError;
use super::random::RandomError;

/// Why a request was not allowed, or a change of accounts did not happen.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("log in first: the name, the password, the session or the token is not valid")]
    Unauthorized,
    /// Nothing was verified.
    #[error("too many wrong passwords: try again in {0} s")]
    Slowed(u64),
    #[error("you have no right to this")]
    Forbidden,
    #[error("the old password is wrong")]
    WrongPassword,
    #[error("there is no such user")]
    NoUser,
    #[error("there is no such grant")]
    NoGrant,
    #[error("there is no such {0}")]
    NoSecret(SecretKind),
    #[error("there is a user already: only an admin adds others")]
    UsersExist,
    #[error("this name, or one that looks the same, was given before: choose another one")]
    NameTaken,
    #[error("this is the last admin: make another user an admin first")]
    LastAdmin,
    #[error("a user has at most {0} grants: take some back first")]
    TooManyGrants(usize),
    #[error("a user has at most {0} tokens: revoke some first")]
    TooManyTokens(usize),
    #[error("a user has at most {0} shares: revoke some first")]
    TooManyShares(usize),
    #[error("a token makes no token that expires after it: give an earlier time")]
    Outlives,
    #[error(transparent)]
    Name(#[from] UserNameError),
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// Other requests changed the same accounts too often; nothing happened.
    #[error("others are changing the same users: try again")]
    Contended,
    /// The change may have happened if the store says [`StoreError::Unknown`]; otherwise nothing happened.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// The result of a call of [`Auth`](super::Auth).
pub type Result<T> = std::result::Result<T, AuthError>;
