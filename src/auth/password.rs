//! Passwords: which ones are allowed, and their hashes (Argon2id, RFC 9106, 64 MiB).

use argon2::password_hash::{self, PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};

use super::hash_queue::{HASH_BYTES, QueueError};
use super::random::{RandomError, random};
use crate::schema::account::PasswordHash;
use crate::schema::path::nfc;

/// Characters of the shortest password.
const SHORTEST: usize = 8;
/// Bytes of the longest password, after normalisation.
const LONGEST: usize = 1_024;
/// Tokens start with it, so no password does.
pub const TOKEN_PREFIX: &str = "rd_";

/// The second recommended choice of RFC 9106: 64 MiB, 3 passes, 4 lanes.
const MEMORY_KIB: u32 = (HASH_BYTES >> 10) as u32;
const PASSES: u32 = 3;
const LANES: u32 = 4;

/// Why a password is not allowed, or could not be checked.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error("a password has at least {SHORTEST} characters")]
    TooShort,
    #[error("a password has at most {LONGEST} bytes in UTF-8, this one has {0}")]
    TooLong(usize),
    #[error("a password does not start with {TOKEN_PREFIX}: tokens do")]
    Token,
    #[error("too many passwords are being verified, or uploads use the memory for it: try again in a few seconds")]
    Busy,
    #[error("a password could not be hashed: {0}")]
    Failed(String),
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl From<QueueError> for PasswordError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Full => Self::Busy,
            QueueError::Failed(cause) => Self::Failed(cause),
        }
    }
}

type Result<T> = std::result::Result<T, PasswordError>;

/// The hash of an [allowed] password, with a random salt.
pub(super) fn hash(password: &str) -> Result<PasswordHash> {
    let salt = random::<16>()?;
    let hash = argon2()?.hash_password_with_salt(password.as_bytes(), &salt).map_err(failed)?;
    Ok(PasswordHash(hash.to_string()))
}

/// Whether an [allowed] password is the right one. Without a password, since what was sent is not allowed, or without a
/// stored hash it takes as long.
pub(super) fn is_right(password: Option<&str>, stored: Option<&PasswordHash>) -> Result<bool> {
    let (Some(password), Some(PasswordHash(stored))) = (password, stored) else {
        let mut unused = [0; 32];
        argon2()?.hash_password_into(password.unwrap_or("").as_bytes(), &[0; 16], &mut unused).map_err(failed)?;
        return Ok(false);
    };
    match argon2()?.verify_password(password.as_bytes(), stored.as_str()) {
        Ok(()) => Ok(true),
        Err(password_hash::Error::PasswordInvalid) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Whether a password may be set.
pub fn check(password: &str) -> Result<()> {
    allowed(password).map(|_| ())
}

/// The password in the form that is hashed. No other one was ever set, and nobody can make the server hash a longer
/// one.
pub(super) fn allowed(password: &str) -> Result<String> {
    // Normalisation takes time with the length: at most 3 bytes become 1.
    if password.len() > 3 * LONGEST {
        return Err(PasswordError::TooLong(password.len()));
    }
    let password = nfc(password);
    if password.len() > LONGEST {
        return Err(PasswordError::TooLong(password.len()));
    }
    if password.starts_with(TOKEN_PREFIX) {
        return Err(PasswordError::Token);
    }
    if password.chars().count() < SHORTEST {
        return Err(PasswordError::TooShort);
    }
    Ok(password.into_owned())
}

fn argon2() -> Result<Argon2<'static>> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(failed)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn failed(error: impl std::fmt::Display) -> PasswordError {
    PasswordError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_composed_and_have_bounds() {
        assert_eq!(allowed("e\u{301}1234567").as_deref(), Ok("é1234567"));
        assert_eq!(allowed("e\u{301}123456"), Err(PasswordError::TooShort));
        assert_eq!(allowed(&"a".repeat(1_025)), Err(PasswordError::TooLong(1_025)));
        assert_eq!(allowed(&"e\u{301}".repeat(1_025)), Err(PasswordError::TooLong(3_075)));
        assert!(allowed(&"a".repeat(1_024)).is_ok());
        assert_eq!(allowed("rd_1234567890"), Err(PasswordError::Token));
    }
}
