//! The text of a SHA-256 digest: a dictionary of structured fields with one member (RFC 9530, RFC 9651).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::schema::file::Digest;

const START: &str = "sha-256=:";
/// 32 bytes in base64.
const LENGTH: usize = 44;

/// Formats a digest for `Repr-Digest` and for the JSON of an entry: `sha-256=:<base64>:`.
pub fn format(digest: &Digest) -> String {
    let mut text = String::with_capacity(START.len() + LENGTH + 1);
    text.push_str(START);
    STANDARD.encode_string(digest.0, &mut text);
    text.push(':');
    text
}

/// Appends what [`format()`] returns.
pub fn write(to: &mut Vec<u8>, digest: &Digest) {
    let mut text = [0; LENGTH];
    // It has room for all of them.
    let written = STANDARD.encode_slice(digest.0, &mut text).unwrap_or_default();
    to.extend_from_slice(START.as_bytes());
    to.extend_from_slice(text.get(..written).unwrap_or_default());
    to.push(b':');
}
