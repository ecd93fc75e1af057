//! Names of headers that RFC 9110 does not define, in lower case.

/// The id under which the server logs a request.
pub const REQUEST_ID: &str = "x-request-id";
/// The SHA-256 of a file's content (RFC 9530).
pub const REPR_DIGEST: &str = "repr-digest";
/// The SHA-256 of a body (RFC 9530). Bodies have no coding here, so it is the same as [`REPR_DIGEST`].
pub const CONTENT_DIGEST: &str = "content-digest";
/// The modified time of an upload in unix seconds, as ownCloud and rclone send it.
pub const OC_MTIME: &str = "x-oc-mtime";
