//! Conditional requests (RFC 9110 section 13).
//!
//! By hand and not by `headers`: its types skip malformed tags, and do not give out the list of tags, which the drive
//! compares again at the commit.

use axum::extract::FromRequestParts;
use axum::http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};

use crate::api::etag;
use crate::drive::{Condition, DriveError, Node, UserDrive, Versions};
use crate::http::response::http_date::HttpDate;
use crate::http::response::problem::{Problem, Result};
use crate::schema::{DrivePath, Timestamp};

/// The preconditions of a request. A date is ignored if the request has the corresponding header with entity tags, or if
/// it is malformed (sections 13.1.3 and 13.1.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub versions: Condition,
    pub unmodified_since: Option<HttpDate>,
    pub modified_since: Option<HttpDate>,
}

impl<S: Sync> FromRequestParts<S> for Preconditions {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Self::parse(&parts.headers)
    }
}

impl Preconditions {
    /// The preconditions in these headers.
    pub fn parse(headers: &HeaderMap) -> Result<Self> {
        let if_match = tags(headers, &IF_MATCH, false)?;
        let if_none_match = tags(headers, &IF_NONE_MATCH, true)?;
        let date = |name: &HeaderName, beside: bool| {
            let value = headers.get(name).filter(|_| !beside)?;
            HttpDate::parse(value.to_str().ok()?)
        };
        Ok(Self {
            unmodified_since: date(&IF_UNMODIFIED_SINCE, if_match.is_some()),
            modified_since: date(&IF_MODIFIED_SINCE, if_none_match.is_some()),
            versions: Condition { if_match, if_none_match },
        })
    }

    /// Whether the preconditions hold for a directory. It has no versions, so only `*` can match it. Its date does not
    /// change with its content, so no `If-Unmodified-Since` holds for a directory that exists.
    pub fn hold_for_directory(&self, there: bool) -> bool {
        let matches = |v: &Versions| there && *v == Versions::Any;
        self.versions.if_match.as_ref().is_none_or(matches)
            && self.versions.if_none_match.as_ref().is_none_or(|v| !matches(v))
            && (self.unmodified_since.is_none() || !there)
    }
}

/// The condition of a commit. `If-Unmodified-Since` names a version by its date, and dates are too coarse for a commit.
/// So a date that holds now is replaced by the version that the file has now, or by the condition that no file exists.
pub async fn resolve_condition(drive: &UserDrive, path: &DrivePath, asked: Preconditions) -> Result<Condition> {
    let mut condition = asked.versions;
    let Some(date) = asked.unmodified_since else {
        return Ok(condition);
    };
    match drive.stat(path).await {
        Ok(Node::File { entry, .. }) => {
            if HttpDate::last_modified(entry.attributes.modified, Timestamp::now()) > date {
                return Err(Problem::precondition());
            }
            condition.if_match = Some(Versions::These(vec![entry.id]));
            Ok(condition)
        }
        // A missing file has no date, so the condition is ignored (RFC 9110 section 13.1.4). But a file that another
        // request makes meanwhile would be newer than any date of the client.
        Ok(Node::Directory { .. })
        | Err(DriveError::NotFound | DriveError::ParentMissing | DriveError::ParentIsFile) => {
            condition.if_none_match = Some(Versions::Any);
            Ok(condition)
        }
        Err(error) => Err(error.into()),
    }
}

/// Parses `*` or a list of entity tags. A tag that the drive did not make matches nothing. Weak tags match if the
/// comparison is weak (`If-None-Match`), else never.
fn tags(headers: &HeaderMap, name: &HeaderName, weak: bool) -> Result<Option<Versions>> {
    let mut ids = Vec::new();
    let mut any = false;
    let mut count = 0;
    for value in headers.get_all(name) {
        let mut rest = value.as_bytes();
        loop {
            rest = skip(rest, |b| matches!(b, b' ' | b'\t' | b','));
            if rest.is_empty() {
                break;
            }
            count += 1;
            let tag = tag(rest).ok_or_else(|| malformed(name))?;
            match tag {
                TagToken::Any => any = true,
                TagToken::Entity { is_weak, opaque, .. } => {
                    ids.extend(etag::parse_opaque(opaque).filter(|_| weak || !is_weak))
                }
            }
            rest = skip(tag.rest(rest), |b| matches!(b, b' ' | b'\t'));
            if !matches!(rest.first(), None | Some(b',')) {
                return Err(malformed(name));
            }
        }
    }
    match (headers.contains_key(name), any, count) {
        (false, ..) => Ok(None),
        (_, true, 1) => Ok(Some(Versions::Any)),
        (_, false, 1..) => Ok(Some(Versions::These(ids))),
        _ => Err(malformed(name)),
    }
}

fn malformed(name: &HeaderName) -> Problem {
    Problem::malformed(format!("{name} is * or a list of entity tags in double quotes."))
}

enum TagToken<'a> {
    Any,
    Entity { is_weak: bool, opaque: &'a [u8], len: usize },
}

impl TagToken<'_> {
    fn rest<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let len = match self {
            Self::Any => 1,
            Self::Entity { len, .. } => *len,
        };
        text.get(len..).unwrap_or_default()
    }
}

/// The `*` or the entity tag at the start of the text (RFC 9110 section 8.8.3).
fn tag(text: &[u8]) -> Option<TagToken<'_>> {
    if text.starts_with(b"*") {
        return Some(TagToken::Any);
    }
    let (is_weak, quoted) = text.strip_prefix(b"W/").map_or((false, text), |t| (true, t));
    let inner = quoted.strip_prefix(b"\"")?;
    let end = inner.iter().position(|&b| b == b'"')?;
    let opaque = inner.get(..end).filter(|t| t.iter().all(|&b| b > b' ' && b != 0x7f))?;
    Some(TagToken::Entity { is_weak, opaque, len: usize::from(is_weak) * 2 + end + 2 })
}

fn skip(text: &[u8], blank: impl Fn(u8) -> bool) -> &[u8] {
    let start = text.iter().position(|&b| !blank(b)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use uuid::Uuid;

    use super::*;
    use crate::schema::FileId;

    const A: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn parse(values: &[&str], weak: bool) -> Option<Versions> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, HeaderValue::from_str(value).unwrap());
        }
        tags(&headers, &IF_MATCH, weak).unwrap_or_else(|_| Some(Versions::These(vec![FileId(Uuid::max())])))
    }

    #[test]
    fn lists_are_parsed_strictly() {
        let a = FileId(Uuid::try_parse(A).unwrap());
        let malformed = Some(Versions::These(vec![FileId(Uuid::max())]));
        assert_eq!(parse(&[], false), None);
        assert_eq!(parse(&[" * "], false), Some(Versions::Any));
        assert_eq!(parse(&[&format!("\"{A}\"")], false), Some(Versions::These(vec![a])));
        assert_eq!(parse(&[&format!("\"x,y\" , \"{A}\","), "\"\""], false), Some(Versions::These(vec![a])));
        assert_eq!(parse(&[&format!("W/\"{A}\"")], false), Some(Versions::These(vec![])));
        assert_eq!(parse(&[&format!("W/\"{A}\"")], true), Some(Versions::These(vec![a])));
        assert_eq!(parse(&[&format!("\"{}\"", A.to_uppercase())], false), Some(Versions::These(vec![])));
        for bad in ["", ",", A, "\"a", "a\"", "*, \"a\"", "**", "\"a\" \"b\"", "w/\"a\"", "\"a b\""] {
            assert_eq!(parse(&[bad], false), malformed, "{bad}");
        }
    }

    #[test]
    fn a_directory_has_no_versions() {
        let with = |m: Option<Versions>, n: Option<Versions>| Preconditions {
            versions: Condition { if_match: m, if_none_match: n },
            ..Preconditions::default()
        };
        let some = Some(Versions::These(vec![FileId(Uuid::nil())]));
        assert!(with(None, None).hold_for_directory(true) && with(None, None).hold_for_directory(false));
        assert!(with(Some(Versions::Any), None).hold_for_directory(true));
        assert!(!with(Some(Versions::Any), None).hold_for_directory(false));
        assert!(!with(some.clone(), None).hold_for_directory(true));
        assert!(!with(None, Some(Versions::Any)).hold_for_directory(true));
        assert!(with(None, Some(Versions::Any)).hold_for_directory(false));
        assert!(with(None, some).hold_for_directory(true));
    }
}
