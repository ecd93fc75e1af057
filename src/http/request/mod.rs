//! What is read from a request: parsed once, here, into types that carry their invariants.
//!
//! - [`path`]: which file or directory a request names
//! - [`query`]: its parameters; an unknown or repeated name is an error, so that a typo never widens a query
//! - [`condition`]: what must hold (RFC 9110 section 13)
//! - [`digest`]: what the bytes of a body are said to be (RFC 9530); [`media_type`] what is said to be a type
//! - [`identity`]: who it is
//! - [`body`]: JSON bodies and uploads

pub mod body;
pub mod condition;
pub mod digest;
pub mod identity;
pub mod media_type;
pub mod path;
pub mod query;

pub use condition::Preconditions;
pub use identity::Creator;
pub use path::Target;
pub use query::Params;

use axum::http::{HeaderMap, HeaderName};

use super::problem::{Problem, Result};

/// The value of a header that is sent at most once, in ASCII.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Problem::malformed(format!("Send {name} once.")));
    }
    value
        .map(|v| v.to_str().map_err(|_| Problem::malformed(format!("{name} holds characters that are not ASCII."))))
        .transpose()
}
