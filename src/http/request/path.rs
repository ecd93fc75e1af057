//! Which file or directory a request names.

use std::borrow::Cow;

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::http::response::problem::{Problem, Result};
use crate::schema::path::{PATH_BYTES, nfc};
use crate::schema::{DrivePath, Name, PathError};

/// The path of the drive, or of a share, that a request names: in `/v1/fs/a/b.jpg` it is `/a/b.jpg`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath {
    pub path: DrivePath,
    /// The path ended with a slash, which means a directory.
    pub directory: bool,
}

impl<S: Sync> FromRequestParts<S> for RequestPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Self::of(&parts.uri)
    }
}

impl RequestPath {
    /// That of a request below `/v1/fs/`, or another resource of two names.
    pub fn of(uri: &Uri) -> Result<Self> {
        // "/v1/fs/a/b" -> "", "v1", "fs", "a/b"
        Self::parse(uri.path().splitn(4, '/').nth(3).unwrap_or_default())
    }

    /// That of a request by a share: `/s/<secret>/fs/a/b`.
    pub fn of_share(uri: &Uri) -> Result<Self> {
        Self::parse(uri.path().splitn(5, '/').nth(4).unwrap_or_default())
    }

    /// Parses the raw path after the resource's slash. It is split first, then each segment is decoded once, so that an
    /// encoded slash never separates names.
    fn parse(raw: &str) -> Result<Self> {
        if raw.is_empty() {
            return Ok(Self { path: DrivePath::root(), directory: true });
        }
        let (raw, directory) = raw.strip_suffix('/').map_or((raw, false), |r| (r, true));
        if !(raw.is_empty() || raw.ends_with('/') || raw.contains('%'))
            && let Ok(path) = DrivePath::parse(&["/", raw].concat())
        {
            // Most of them: without a text for each name.
            return Ok(Self { path, directory });
        }
        let texts: Vec<Cow<'_, str>> = raw.split('/').map(decode).collect::<Result<_>>()?;
        let names: std::result::Result<Vec<Name>, PathError> = texts.iter().map(|t| Name::parse(t)).collect();
        let path = names.and_then(|names| DrivePath::from_names(&names));
        Ok(Self { path: path.map_err(|e| longest(e, &texts.join("/"), 1))?, directory })
    }
}

/// A path in a parameter or a JSON member. `what` names it in errors.
pub fn parse_text(what: &str, text: &str) -> Result<DrivePath> {
    DrivePath::parse(text).map_err(|error| match longest(error, text, 0) {
        too_long @ PathError::TooLong(_) => too_long.into(),
        other => Problem::malformed(format!("`{what}` is not a path: {other}.")),
    })
}

/// The error of a path: too long, if the whole path is, whatever else is wrong with its names.
fn longest(error: PathError, text: &str, slashes: usize) -> PathError {
    let bytes = nfc(text).len() + slashes;
    if bytes > PATH_BYTES { PathError::TooLong(bytes) } else { error }
}

/// Percent-decodes strictly: a percent sign starts two hexadecimal digits, and the result is UTF-8.
pub fn decode(raw: &str) -> Result<Cow<'_, str>> {
    let escaped = |part: &str| part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !raw.split('%').skip(1).all(escaped) {
        return Err(Problem::malformed(
            "A percent sign is not followed by two hexadecimal digits: write %25 for the sign itself.",
        ));
    }
    percent_decode_str(raw).decode_utf8().map_err(|_| Problem::malformed("A path or parameter is not UTF-8."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api;
    use crate::api::problem::ProblemKind;

    fn parsed(raw: &str) -> std::result::Result<(String, bool), ProblemKind> {
        RequestPath::parse(raw).map(|t| (t.path.to_string(), t.directory)).map_err(|p| p.kind())
    }

    #[test]
    fn segments_are_split_then_decoded_once() {
        for (raw, path, directory) in [
            ("", "/", true),
            ("a", "/a", false),
            ("a/b/", "/a/b", true),
            ("a%20b/%C3%BC", "/a b/ü", false),
            ("%252F", "/%2F", false),
            ("a%5Cb", "/a\\b", false),
            ("e%CC%81", "/é", false),
            ("照片.jpg", "/照片.jpg", false),
            ("a+b", "/a+b", false),
            ("...", "/...", false),
        ] {
            assert_eq!(parsed(raw), Ok((path.to_owned(), directory)), "{raw}");
        }
        for raw in [
            "/", "a//b", "/a", "a//", ".", "..", "a/../b", "%2e%2E/a", "a%2Fb", "%00", "%0a", "%", "%2", "%zz", "%+1",
            "%ff", "%C0%AF",
        ] {
            assert_eq!(parsed(raw), Err(ProblemKind::Malformed), "{raw}");
        }
    }

    #[test]
    fn length_comes_first_and_counts_after_nfc() {
        let deep = |n: usize| vec!["a"; n].join("/");
        assert!(parsed(&deep(128)).is_ok());
        assert_eq!(parsed(&deep(129)), Err(ProblemKind::Malformed));
        assert_eq!(parsed(&"x".repeat(256)), Err(ProblemKind::Malformed));
        assert_eq!(parsed(&"x".repeat(5000)), Err(ProblemKind::TargetTooLong));
        let full = vec!["x".repeat(255); 16].join("/");
        assert_eq!(parsed(&full).map(|(p, _)| p.len()), Ok(4096));
        assert_eq!(parsed(&format!("{full}/y")), Err(ProblemKind::TargetTooLong));
        // 3 bytes each, 2 after normalisation
        let ohms = vec!["\u{2126}".repeat(127); 16].join("/");
        assert!(ohms.len() > 4096 && parsed(&ohms).is_ok());
        assert_eq!(
            parse_text("from", &format!("/{}", "x".repeat(5000))).unwrap_err().kind(),
            ProblemKind::TargetTooLong
        );
    }

    #[test]
    fn a_location_parses_to_its_path() {
        for text in ["/", "/a b/ü?#%.jpg", "/-._~/;x", "/😀\\\"'"] {
            let path = DrivePath::parse(text).unwrap();
            let location = api::path::below(api::path::FS, &path, false);
            assert!(location.is_ascii());
            let target = RequestPath::parse(location.strip_prefix("/v1/fs").unwrap().trim_start_matches('/')).unwrap();
            assert_eq!(target.path, path);
        }
    }
}
