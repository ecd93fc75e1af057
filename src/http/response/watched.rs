//! Responses that end when their user has lost his rights.

use axum::response::Response;

/// Marks a response before each piece of whose body the server asks again whether its user may still read it, after some
/// seconds. It ends early if not.
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
