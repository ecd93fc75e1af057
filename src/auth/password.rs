//! Passwords: which ones are allowed, and their hashes (Argon2id, RFC 9106, 64 MiB).

use std::sync::Arc;

use argon2::password_hash::{self, PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::random::{RandomError, random};
use crate::schema::account::PasswordHash;
use crate::schema::path::nfc;

/// Characters of the shortest password.
const SHORTEST: usize = 8;
/// Bytes of the longest password, after normalisation.
const LONGEST: usize = 1_024;
/// Tokens start with it, so no password does.
pub const TOKEN_PREFIX: &str = "rd_";
/// Hashes that are computed at a time: each takes 64 MiB and a core.
const AT_A_TIME: usize = 2;

/// The second recommended choice of RFC 9106: 64 MiB, 3 passes, 4 lanes.
const MEMORY_KIB: u32 = 64 << 10;
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
    #[error("a password could not be hashed: {0}")]
    Failed(String),
    #[error(transparent)]
    Random(#[from] RandomError),
}

type Result<T> = std::result::Result<T, PasswordError>;

/// Hashes passwords and verifies them, two at a time. Cheap to clone.
#[derive(Clone)]
pub(super) struct Passwords {
    permits: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(AT_A_TIME)) }
    }
}

impl Passwords {
    /// The hash of a new password.
    pub async fn hash(&self, password: &str) -> Result<PasswordHash> {
        let password = allowed(password)?;
        let salt = random::<16>()?;
        self.run(move || {
            let hash = argon2()?.hash_password_with_salt(password.as_bytes(), &salt).map_err(failed)?;
            Ok(PasswordHash(hash.to_string()))
        })
        .await
    }

    /// Whether the password is the right one. `hash`: none if the user does not exist; that takes as long.
    pub async fn verify(&self, password: &str, hash: Option<PasswordHash>) -> Result<bool> {
        // No such password was ever set, and nobody can make the server hash a longer one.
        let Ok(password) = allowed(password) else { return Ok(false) };
        self.run(move || {
            let Some(PasswordHash(hash)) = hash else {
                let mut unused = [0; 32];
                argon2()?.hash_password_into(password.as_bytes(), &[0; 16], &mut unused).map_err(failed)?;
                return Ok(false);
            };
            match argon2()?.verify_password(password.as_bytes(), hash.as_str()) {
                Ok(()) => Ok(true),
                Err(password_hash::Error::PasswordInvalid) => Ok(false),
                Err(error) => Err(failed(error)),
            }
        })
        .await
    }

    async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T> + Send + 'static,
    {
        // The permit goes along: the work runs to its end although its caller has left.
        let permit = self.permits.clone().acquire_owned().await.map_err(failed)?;
        let done = spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(failed)?
    }
}

/// The password in the form that is hashed.
fn allowed(password: &str) -> Result<String> {
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

    #[tokio::test]
    async fn only_the_right_password_is_verified() {
        let passwords = Passwords::default();
        let hash = passwords.hash("sesame, open").await.unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=65536,t=3,p=4$"), "{}", hash.0);
        assert_ne!(hash, passwords.hash("sesame, open").await.unwrap(), "the salt is random");
        assert!(passwords.verify("sesame, open", Some(hash.clone())).await.unwrap());
        for wrong in ["sesame, Open", "short", "rd_sesame, open", &"a".repeat(5_000)] {
            assert!(!passwords.verify(wrong, Some(hash.clone())).await.unwrap(), "{wrong}");
        }
        assert!(!passwords.verify("sesame, open", None).await.unwrap());
        assert!(passwords.verify("sesame, open", Some(PasswordHash("?".into()))).await.is_err());
    }
}
