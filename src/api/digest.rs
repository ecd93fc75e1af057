//! The text of a SHA-256 digest: a dictionary of structured fields with one member (RFC 9530, RFC 9651).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::schema::file::Digest;

/// Formats a digest for `Repr-Digest` and for the JSON of an entry: `sha-256=:<base64>:`.
pub fn format(digest: &Digest) -> String {
    const START: &str = "sha-256=:";
    // 32 bytes are 44 characters.
    let mut text = String::with_capacity(START.len() + 44 + 1);
    text.push_str(START);
    STANDARD.encode_string(digest.0, &mut text);
    text.push(':');
    text
}
