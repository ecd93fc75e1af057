//! `Repr-Digest` and `Content-Digest` (RFC 9530): dictionaries of structured fields (RFC 9651) with byte sequences as
//! values. Bodies have no coding, so both digests are of the same bytes.
//!
//! This parser does not use the crate `sfv`, which accepts values that are not byte sequences, and an empty line. Both are
//! refused here.

use axum::http::{HeaderMap, HeaderName};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::api::header;
use crate::api::problem::ProblemKind;
use crate::http::response::problem::{Problem, Result};
use crate::schema::file::Digest;

const REPR_DIGEST: HeaderName = HeaderName::from_static(header::REPR_DIGEST);
const CONTENT_DIGEST: HeaderName = HeaderName::from_static(header::CONTENT_DIGEST);

/// Missing padding is accepted (RFC 9651 section 4.2.7).
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The client's digests of a body, from one header or both.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Digests([Option<Digest>; 2]);

impl Digests {
    /// The SHA-256 of each header. Other algorithms are ignored; a malformed header is refused.
    pub fn parse(headers: &HeaderMap) -> Result<Self> {
        Ok(Self([read(headers, &REPR_DIGEST)?, read(headers, &CONTENT_DIGEST)?]))
    }

    /// Whether there is no digest to check.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The digests that the body must have.
    pub fn values(&self) -> impl Iterator<Item = Digest> {
        self.0.iter().flatten().copied()
    }

    /// Errors: the body does not have one of these digests.
    pub fn check(&self, found: Digest) -> Result<()> {
        if self.values().all(|digest| digest == found) { Ok(()) } else { Err(self.mismatch(found)) }
    }

    /// The problem of a body with this digest, which differs from one of these.
    pub fn mismatch(&self, found: Digest) -> Problem {
        let Self([repr, _]) = self;
        let name = if repr.is_some_and(|digest| digest != found) { "Repr-Digest" } else { "Content-Digest" };
        Problem::new(
            ProblemKind::DigestMismatch,
            format!("The body has another SHA-256 than {name} says, so nothing was done: send it again."),
        )
    }
}

/// The SHA-256 of a text that is written as the value of `Repr-Digest`.
pub fn sha_256(text: &str) -> Option<Digest> {
    let (_, bytes) = dictionary(text)?.into_iter().rfind(|(key, _)| *key == "sha-256")?;
    Some(Digest(bytes.try_into().ok()?))
}

fn read(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Digest>> {
    let malformed =
        || Problem::malformed(format!("{name} is written sha-256=:<base64 of 32 bytes>: as RFC 9530 says."));
    let mut found = None;
    for value in headers.get_all(name) {
        let members = value.to_str().ok().and_then(dictionary);
        for (key, bytes) in members.ok_or_else(malformed)? {
            if key == "sha-256" {
                // If a key is repeated, the last one counts.
                found = Some(Digest(bytes.try_into().map_err(|_| malformed())?));
            }
        }
    }
    Ok(found)
}

/// The members of one field line. A line that is empty or ends with a comma is malformed.
fn dictionary(text: &str) -> Option<Vec<(&str, Vec<u8>)>> {
    let mut members = Vec::new();
    let mut rest = text.trim_matches(' ');
    loop {
        let key_end = rest.find('=')?;
        let (key, value) = (rest.get(..key_end)?, rest.get(key_end + 1..)?);
        let inner = value.strip_prefix(':')?;
        let end = inner.find(':')?;
        let bytes = BASE64.decode(inner.get(..end)?).ok()?;
        members.push((is_key(key).then_some(key)?, bytes));
        rest = parameters(inner.get(end + 1..)?)?.trim_start_matches([' ', '\t']);
        if rest.is_empty() {
            return Some(members);
        }
        rest = rest.strip_prefix(',')?.trim_start_matches([' ', '\t']);
    }
}

/// RFC 9651 section 3.1.2.
fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase() || c == '*')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(&b))
}

/// Skips parameters, which are all ignored; their values may be tokens, numbers or booleans.
fn parameters(mut text: &str) -> Option<&str> {
    while let Some(rest) = text.strip_prefix(';') {
        let rest = rest.trim_start_matches(' ');
        let end = rest.find([';', ',', ' ', '\t']).unwrap_or(rest.len());
        let (parameter, after) = rest.split_at_checked(end)?;
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, "1"));
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/?".contains(&b);
        if !is_key(key) || value.is_empty() || !value.bytes().all(plain) {
            return None;
        }
        text = after;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn read(lines: &[&str]) -> std::result::Result<Option<Digest>, ()> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(REPR_DIGEST, HeaderValue::from_str(line).unwrap());
        }
        super::read(&headers, &REPR_DIGEST).map_err(|_| ())
    }

    #[test]
    fn dictionaries_are_parsed_strictly() {
        let seven = Digest([7; 32]);
        let text = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
        let good = format!("sha-256=:{text}:");
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[&good]), Ok(Some(seven)));
        assert_eq!(read(&[&format!("md5=:AAAA:,\t{good};a=1;b , unixsum=:AA==:")]), Ok(Some(seven)));
        assert_eq!(read(&["md5=:AAAA:", &good]), Ok(Some(seven)));
        assert_eq!(read(&["sha-512=:AAAA:"]), Ok(None));
        assert_eq!(read(&[&format!("sha-256=:{}:", text.trim_end_matches('='))]), Ok(Some(seven)));
        for bad in [
            "",
            ",",
            "sha-256",
            "sha-256=",
            &format!("sha-256={text}"),
            "sha-256=:AAAA:",
            "sha-256=:!!!!:",
            &format!("{good},"),
            &format!("{good} {good}"),
            &format!("SHA-256=:{text}:"),
            "sha-256=:AAAA",
            "md5=1",
            &format!("{good};"),
            &format!("{good}x"),
        ] {
            assert_eq!(read(&[bad]), Err(()), "{bad}");
        }
    }
}
