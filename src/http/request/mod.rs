//! The parts of a request, parsed once, here, into types that carry their invariants.
//!
//! - [`path`]: which file or directory a request names
//! - [`query`]: its parameters; an unknown or repeated name is an error, so that a typo never widens a query
//! - [`condition`]: its preconditions (RFC 9110 section 13)
//! - [`digest`]: the client's digest of a body (RFC 9530); [`media_type`](crate::http::media_type): media types
//! - [`client`]: the client that it comes from, perhaps through a proxy; [`host`]: the host that it names
//! - [`requester`]: who asks, and the drive as he sees it; [`identity`]: the creator of what it makes
//! - [`account`]: users and rights; [`audit`]: the log of what is done with them
//! - [`body`]: JSON bodies and uploads; [`watched`]: uploads whose requester may store them no more
//! - [`tar`]: a body that is a tar

pub mod account;
pub mod audit;
pub mod body;
pub mod client;
pub mod condition;
pub mod digest;
pub mod form_data;
pub mod host;
pub mod identity;
pub mod path;
pub mod query;
pub mod range;
pub mod requester;
pub mod tar;
pub mod watched;

pub use condition::Preconditions;
pub use identity::Creator;
pub use path::RequestPath;
pub use query::Params;
pub use requester::drive_of;

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName};

use crate::http::response::problem::{Problem, Result};

/// Whether a browser asks, for a page.
pub fn accepts_html(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).and_then(|accepts| accepts.to_str().ok()).is_some_and(|accepts| accepts.contains("text/html"))
}

/// The ASCII value of a header that may be sent once at most.
pub fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Problem::malformed(format!("Send {name} once.")));
    }
    value
        .map(|v| v.to_str().map_err(|_| Problem::malformed(format!("{name} holds characters that are not ASCII."))))
        .transpose()
}
