//! Range requests (RFC 9110 section 14).
//!
//! By hand and not by `headers`: its `Range` drops malformed parts, so several ranges or a malformed one look like one
//! good range.

use std::ops::Range;

use axum::http::HeaderMap;
use axum::http::header::{IF_RANGE, RANGE};

use crate::api::etag;
use crate::http::response::problem::{Problem, Result};
use crate::schema::FileId;

/// The requested range, or none for the whole file: if there is no `Range`, several ranges, another unit or a malformed
/// range, or if `If-Range` names another version.
pub fn requested(headers: &HeaderMap, size: u64, id: FileId) -> Result<Option<Range<u64>>> {
    let mut values = headers.get_all(RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Ok(None);
    };
    let spec = value.to_str().ok().and_then(parse);
    let Some(spec) = spec.filter(|_| is_same_version(headers, id)) else {
        return Ok(None);
    };
    let range = match spec {
        RangeSpec::From { first, last } => first..last.map_or(size, |l| l.saturating_add(1).min(size)),
        RangeSpec::Last(0) => return Err(Problem::range(size)),
        // The last bytes of an empty file are the whole file, and `Content-Range` cannot express an empty range.
        RangeSpec::Last(_) if size == 0 => return Ok(None),
        RangeSpec::Last(bytes) => size.saturating_sub(bytes)..size,
    };
    if range.start >= size { Err(Problem::range(size)) } else { Ok(Some(range)) }
}

#[derive(Debug, PartialEq, Eq)]
enum RangeSpec {
    From { first: u64, last: Option<u64> },
    Last(u64),
}

fn parse(text: &str) -> Option<RangeSpec> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim_matches([' ', '\t']).split_once('-')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    match (first, last) {
        ("", last) => Some(RangeSpec::Last(number(last)?)),
        (first, "") => Some(RangeSpec::From { first: number(first)?, last: None }),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(RangeSpec::From { first, last: Some(last) })
        }
    }
}

/// Parses digits. A number that is too large counts as the largest one.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// `If-Range`: the same strong entity tag. A date never matches. Clients set the dates of files, and two versions of one
/// second have the same date, so a date is a weak validator (RFC 9110 sections 8.8.2.2 and 13.1.5).
fn is_same_version(headers: &HeaderMap, id: FileId) -> bool {
    let mut values = headers.get_all(IF_RANGE).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return true,
        (Some(value), None) => value.as_bytes().trim_ascii(),
        _ => return false,
    };
    let opaque = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\""));
    opaque.is_some_and(|opaque| etag::parse_opaque(opaque) == Some(id))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use uuid::Uuid;

    use super::*;

    fn read(range: &str, if_range: Option<&str>, size: u64) -> std::result::Result<Option<Range<u64>>, ()> {
        let mut headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_str(range).unwrap())]);
        if let Some(value) = if_range {
            headers.insert(IF_RANGE, HeaderValue::from_str(value).unwrap());
        }
        requested(&headers, size, FileId(Uuid::nil())).map_err(|_| ())
    }

    #[test]
    fn one_range_is_cut_to_the_file() {
        for (text, range) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-5", 2..6),
            ("Bytes=2-", 2..10),
            ("bytes=-3", 7..10),
            ("bytes=-99", 0..10),
            ("bytes=9-99999999999999999999999", 9..10),
            ("bytes= 1-2 ", 1..3),
        ] {
            assert_eq!(read(text, None, 10), Ok(Some(range)), "{text}");
        }
        for text in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999-"] {
            assert_eq!(read(text, None, 10), Err(()), "{text}");
        }
        for text in [
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=5-2",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1-2-3",
            "bytes=--1",
        ] {
            assert_eq!(read(text, None, 10), Ok(None), "{text}");
        }
        assert_eq!(read("bytes=0-", None, 0), Err(()));
        assert_eq!(read("bytes=-5", None, 0), Ok(None));
    }

    #[test]
    fn if_range_is_strong_and_never_a_date() {
        let part = Ok(Some(0..1));
        let tag = format!("\"{}\"", Uuid::nil());
        assert_eq!(read("bytes=0-0", Some(&tag), 10), part);
        for other in [&format!("W/{tag}"), "\"x\"", "Sun, 06 Nov 1994 08:49:37 GMT", "*", ""] {
            assert_eq!(read("bytes=0-0", Some(other), 10), Ok(None), "{other}");
        }
        // A range of another version is no reason for 416.
        assert_eq!(read("bytes=99-", Some("\"x\""), 10), Ok(None));
    }
}
