//! JSON answers.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LINK};
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::Serialize;

use super::entry::{Entries, Page};
use super::problem::{Problem, Result};
use super::{App, headers, memory};
use crate::budget::Permit;
use crate::drive::{Found, Node};
use crate::schema::DrivePath;

/// About how many bytes an entry has, but for its path.
const ENTRY: usize = 400;
/// Bytes of a page, about: one that would be longer ends early, with a `next`.
const PAGE: usize = 8 << 20;
/// Bytes of a usual path.
const PATH: usize = 100;

pub fn json(value: &impl Serialize) -> Result<Response> {
    json_of(value, ENTRY, None)
}

/// About how many bytes an entry takes; its path is there whole, and its last name once more.
const fn bytes_of(path: usize) -> usize {
    ENTRY + 2 * path
}

/// Bytes of memory for a page of so many entries.
pub fn bytes(entries: usize) -> usize {
    entries.saturating_mul(bytes_of(PATH)).min(PAGE)
}

/// Memory for a page of so many entries.
pub async fn permit(app: &App, entries: usize) -> Result<Permit> {
    memory::take(app, bytes(entries)).await
}

/// How many entries of this directory a page has room for.
pub fn most_below(path: &DrivePath) -> usize {
    (PAGE / bytes_of(path.as_str().len() + PATH / 2)).max(1)
}

/// How many of these entries a page has room for: one at least.
fn fitting(nodes: &[Node]) -> usize {
    let mut bytes = 0;
    let fits = |node: &&Node| {
        bytes += bytes_of(node.path().as_str().len());
        bytes <= PAGE
    };
    nodes.iter().take_while(fits).count().max(1)
}

/// What a page has room for. Cut short, it goes on behind the place of the last one shown.
pub fn cut<K>(mut found: Found<K>, place: impl Fn(&Node) -> Option<K>) -> Found<K> {
    let fits = fitting(&found.nodes);
    if fits < found.nodes.len() {
        found.nodes.truncate(fits);
        found.next = found.nodes.last().and_then(place).or(found.next);
    }
    found
}

/// A page of entries; `path` is the directory's, if it lists one. `uri` asked for it, and `permit` is for it.
pub fn page(
    path: Option<&DrivePath>,
    nodes: &[Node],
    next: Option<String>,
    uri: &Uri,
    permit: Permit,
) -> Result<Response> {
    let link = next.as_ref().map(|cursor| headers::value(next_link(uri, cursor))).transpose()?;
    let bytes: usize = nodes.iter().map(|node| bytes_of(node.path().as_str().len())).sum();
    let page = Page { path: path.map(DrivePath::as_str), entries: Entries(nodes), next };
    let mut response = json_of(&page, ENTRY + bytes, Some(permit))?;
    if let Some(link) = link {
        response.headers_mut().insert(LINK, link);
    }
    Ok(response)
}

/// What would end a target in a `Link` early, or is no part of a URI at all.
const LINKED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');

/// Where the next page is (RFC 8288): this request, path-absolute, with another cursor.
fn next_link(uri: &Uri, cursor: &str) -> String {
    let is_cursor = |part: &&str| percent_decode_str(part.split('=').next().unwrap_or_default()).eq(*b"cursor");
    let kept = uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty() && !is_cursor(part));
    let cursor = ["cursor=", cursor].concat();
    let query = kept.chain([cursor.as_str()]).collect::<Vec<_>>().join("&");
    let [path, query] = [uri.path(), &query].map(|part| utf8_percent_encode(part, LINKED));
    format!("<{path}?{query}>; rel=\"next\"")
}

/// `bytes` is about how long it gets: a buffer that grows is copied again and again.
fn json_of(value: &impl Serialize, bytes: usize, permit: Option<Permit>) -> Result<Response> {
    let mut body = Vec::with_capacity(bytes);
    serde_json::to_writer(&mut body, value).map_err(|e| Problem::internal(&e))?;
    let body = match permit {
        Some(mut permit) => {
            permit.shrink(body.len());
            permit.hold(body.into())
        }
        None => body.into(),
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::DirId;
    use crate::schema::Timestamp;
    use crate::schema::dir;

    #[test]
    fn a_page_is_bounded_in_bytes() {
        let node = |len: usize| {
            let names = "/".to_owned() + &vec!["x".repeat(200); len / 200].join("/");
            let entry = dir::DirEntry { id: DirId::ROOT, creator: String::new(), created: Timestamp::from_ms(0) };
            Node::Directory { path: DrivePath::parse(&names).unwrap(), entry }
        };
        let short = vec![node(200); 9_000];
        assert_eq!(fitting(&short), short.len());
        let long = vec![node(4_000); 3_000];
        let fits = fitting(&long);
        assert!((500..1_500).contains(&fits), "{fits}");
        assert_eq!(most_below(&DrivePath::root()), PAGE / (ENTRY + PATH + 2));
        assert!(most_below(long[0].path()) < 1_100);
    }

    #[test]
    fn a_page_that_is_cut_goes_on_behind_its_last_entry() {
        let node = |n: usize| {
            let name = format!("/{n:04}{}", "/x".repeat(100).replace("x", &"y".repeat(30)));
            let entry = dir::DirEntry { id: DirId::ROOT, creator: String::new(), created: Timestamp::from_ms(0) };
            Node::Directory { path: DrivePath::parse(&name).unwrap(), entry }
        };
        let nodes: Vec<_> = (0..3_000).map(node).collect();
        let last = |found: &Found<String>| found.nodes.last().unwrap().path().to_string();
        let place = |node: &Node| Some(node.path().to_string());
        let whole = cut(Found { nodes: nodes[..10].to_vec(), next: Some("after".to_owned()) }, place);
        assert_eq!((whole.nodes.len(), whole.next.as_deref()), (10, Some("after")));
        let short = cut(Found { nodes: nodes.clone(), next: None }, place);
        assert!(short.nodes.len() < nodes.len() && short.next == Some(last(&short)));
    }

    #[test]
    fn the_link_is_this_request_with_another_cursor() {
        for (asked, link) in [
            ("/v1/files", "</v1/files?cursor=N>; rel=\"next\""),
            ("/v1/files?", "</v1/files?cursor=N>; rel=\"next\""),
            ("/v1/files?cursor=old&limit=2", "</v1/files?limit=2&cursor=N>; rel=\"next\""),
            (
                "/v1/fs/%C3%BC%3E/?limit=2&c%75rsor=old&&kind=file",
                "</v1/fs/%C3%BC%3E/?limit=2&kind=file&cursor=N>; rel=\"next\"",
            ),
            ("http://localhost/v1/find?name=a%26cursor", "</v1/find?name=a%26cursor&cursor=N>; rel=\"next\""),
        ] {
            assert_eq!(next_link(&asked.parse().unwrap(), "N"), link, "{asked}");
        }
    }
}
