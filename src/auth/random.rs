//! Random bytes for secrets and salts, from the system.

/// The system gave no random bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random bytes: {0}")]
pub struct RandomError(String);

impl RandomError {
    pub(super) fn new(error: impl ToString) -> Self {
        Self(error.to_string())
    }
}

/// So many random bytes.
pub fn random<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(RandomError::new)?;
    Ok(bytes)
}
