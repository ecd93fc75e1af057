//! Responses that end when their user has lost his rights.

use axum::response::Response;

/// Marks a response during whose body the server asks again and again whether its user may still read or write. It ends early
/// if not.
#[derive(Clone, Copy, Debug)]
pub struct Watched;

impl Watched {
    pub fn mark(mut response: Response) -> Response {
        response.extensions_mut().insert(Self);
        response
    }

    pub fn is(response: &Response) -> bool {
        response.extensions().get::<Self>().is_some()
    }
}
