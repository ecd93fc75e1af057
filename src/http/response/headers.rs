//! The headers of a file's content.

use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LAST_MODIFIED,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::http_date::HttpDate;
use super::problem::{Problem, Result};
use crate::api::{digest, etag, header};
use crate::http::media_type;
use crate::schema::dir::FileEntry;

const REPR_DIGEST: HeaderName = HeaderName::from_static(header::REPR_DIGEST);

/// The headers for caches. A 304 has only these.
pub fn validators(entry: &FileEntry, modified: HttpDate) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(ETAG, value(etag::format(entry.id))?);
    headers.insert(LAST_MODIFIED, value(modified.print())?);
    // Caches may store the content, but have to revalidate it: a name can get other content at any time.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(headers)
}

/// All headers of a file's content except its length.
pub fn content(entry: &FileEntry, modified: HttpDate, name: &str, download: bool) -> Result<HeaderMap> {
    let mut headers = validators(entry, modified)?;
    let mime = &entry.attributes.mime;
    headers.insert(CONTENT_TYPE, value(mime.clone())?);
    headers.insert(REPR_DIGEST, value(digest::format(&entry.attributes.digest))?);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let in_browser = InBrowser::of(mime);
    headers.insert(CONTENT_DISPOSITION, value(disposition(name, download || in_browser == InBrowser::Saved))?);
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(in_browser.policy()));
    Ok(headers)
}

pub fn value(text: String) -> Result<HeaderValue> {
    HeaderValue::try_from(text).map_err(|e| Problem::internal(&e))
}

/// What a browser does with a file that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InBrowser {
    Saved,
    Shown,
    Played,
}

impl InBrowser {
    /// Pictures, but no SVG, are shown, and PDF and plain text. Audio and video are played.
    fn of(mime: &str) -> Self {
        // Older versions accepted types that a browser could parse as several types, and it would use the last one.
        let essence = media_type::essence(mime).unwrap_or_default().to_ascii_lowercase();
        match essence.split_once('/') {
            Some(("image", subtype)) if !subtype.contains("svg") && !subtype.contains("xml") => Self::Shown,
            Some(("audio" | "video", subtype)) if !subtype.contains("xml") => Self::Played,
            Some(("application", "pdf") | ("text", "plain")) => Self::Shown,
            _ => Self::Saved,
        }
    }

    /// Uploaded content must never run with the rights of this server's pages, however a browser opens it. A browser plays
    /// audio and video only if the page that it makes for them may load them from here. No script runs in any of them.
    fn policy(self) -> &'static str {
        match self {
            Self::Saved | Self::Shown => "sandbox; default-src 'none'",
            Self::Played => "sandbox allow-same-origin; default-src 'none'; media-src 'self'",
        }
    }
}

/// The characters that need no encoding in a value (RFC 8187 section 3.2.1).
const ATTR: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// RFC 6266: the name in ASCII for old clients, and in UTF-8. In the ASCII name `_` replaces characters that need escaping
/// in quotes, and `%`, which some clients decode.
fn disposition(name: &str, attachment: bool) -> String {
    let ascii: String =
        name.chars().map(|c| if matches!(c, ' '..='~') && !matches!(c, '"' | '\\' | '%') { c } else { '_' }).collect();
    let kind = if attachment { "attachment" } else { "inline" };
    format!("{kind}; filename=\"{ascii}\"; filename*=UTF-8''{}", utf8_percent_encode(name, ATTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inline_list_is_short() {
        for shown in
            ["image/png", "IMAGE/JPEG", "application/pdf", "text/plain; charset=utf-8", "audio/ogg", "video/mp4"]
        {
            assert_ne!(InBrowser::of(shown), InBrowser::Saved, "{shown}");
        }
        for sent in [
            "image/svg+xml",
            "image/svg",
            "image/SVG+xml;x=y",
            "text/html",
            "application/xhtml+xml",
            "text/xml",
            "application/octet-stream",
            "text/javascript",
            "text/plainx",
            "video/x+xml",
            "audio/xml",
            "image/png;, text/html",
            "image",
            "",
        ] {
            assert_eq!(InBrowser::of(sent), InBrowser::Saved, "{sent}");
        }
    }

    #[test]
    fn only_what_is_played_has_the_origin_of_the_server() {
        for mime in ["audio/ogg", "VIDEO/mp4", "video/mp4; codecs=x"] {
            assert!(
                InBrowser::of(mime).policy().contains("allow-same-origin; default-src 'none'; media-src 'self'"),
                "{mime}"
            );
        }
        for mime in ["image/png", "text/html", "application/pdf", "audio", "", "audio/ogg;, text/html", "video/x+xml"] {
            assert_eq!(InBrowser::of(mime).policy(), "sandbox; default-src 'none'", "{mime}");
        }
    }

    #[test]
    fn names_are_written_twice() {
        assert_eq!(disposition("a.jpg", false), "inline; filename=\"a.jpg\"; filename*=UTF-8''a.jpg");
        assert_eq!(
            disposition("照\"\\%;'a b", true),
            "attachment; filename=\"____;'a b\"; filename*=UTF-8''%E7%85%A7%22%5C%25%3B%27a%20b"
        );
    }
}
