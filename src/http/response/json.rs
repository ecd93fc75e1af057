//! JSON responses.

use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, LINK};
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::Serialize;

use super::entry::{EntryWriter, is_plain};
use super::headers;
use super::problem::{Problem, Result};
use crate::budget::Permit;
use crate::drive::{FilePage, Node};
use crate::http::app::App;
use crate::http::response::memory;
use crate::schema::DrivePath;

/// Bytes of an entry without its texts, at most.
const ENTRY: usize = 350;
/// Bytes of a page without its entries and its path, at most.
const FRAME: usize = 1 << 10;
/// Bytes of a page for each entry that was asked for: more than most entries need.
const USUAL: usize = 1 << 10;
/// Bytes of the smallest page: the longest entry fits.
const LEAST: usize = 20 << 10;
/// Bytes of the longest page.
const PAGE: usize = 8 << 20;

pub fn json(value: &impl Serialize) -> Result<Response> {
    let mut json = Vec::with_capacity(ENTRY);
    serde_json::to_writer(&mut json, value).map_err(|e| Problem::internal(&e))?;
    Ok(response(json, None))
}

/// Bytes of memory for a page of so many entries. A page that would need more ends early, with a `next`.
pub fn bytes(entries: usize) -> usize {
    entries.saturating_mul(USUAL).clamp(LEAST, PAGE)
}

/// Memory for a page of so many entries.
pub async fn permit(app: &App, entries: usize) -> Result<Permit> {
    memory::take(app, bytes(entries)).await
}

/// Bytes of a text in JSON, without its quotes.
fn escaped(text: &str) -> usize {
    if is_plain(text) {
        return text.len();
    }
    let escaped_byte = |byte| match byte {
        b'"' | b'\\' => 2,
        0..b' ' => 6,
        _ => 1,
    };
    text.bytes().map(escaped_byte).sum()
}

/// Bytes of an entry, at most.
fn bytes_of(node: &Node) -> usize {
    let (mime, creator) = match node {
        Node::File { entry, .. } => (entry.attributes.mime.as_str(), &entry.attributes.creator),
        Node::Directory { entry, .. } => ("", &entry.creator),
    };
    let path = node.path();
    ENTRY + [path.as_str(), path.last(), mime, creator].map(escaped).iter().sum::<usize>()
}

/// The bytes that are left for the entries of a page.
pub struct PageBudget {
    left: usize,
    empty: bool,
}

impl PageBudget {
    /// The budget of a page of so many entries; `path` is the path of the directory, if the page lists one.
    pub fn new(entries: usize, path: Option<&DrivePath>) -> Self {
        let frame = FRAME + path.map_or(0, |path| escaped(path.as_str()));
        Self { left: bytes(entries).saturating_sub(frame), empty: true }
    }

    /// How many entries of this directory fit, at most.
    pub fn most_below(&self, path: &DrivePath) -> usize {
        (self.left / (ENTRY + path.as_str().len())).max(1)
    }

    /// Adds entries while they fit, and returns how many did: at least one on an empty page.
    pub fn fill(&mut self, nodes: &[Node]) -> usize {
        let mut fits = 0;
        for node in nodes {
            let bytes = bytes_of(node);
            if bytes > self.left && !self.empty {
                break;
            }
            self.left = self.left.saturating_sub(bytes);
            self.empty = false;
            fits += 1;
        }
        fits
    }
}

/// Cuts a page to the entries that fit. The next page starts after the last of them.
pub fn cut<K>(mut found: FilePage<K>, entries: usize, place: impl Fn(&Node) -> Option<K>) -> FilePage<K> {
    let fits = PageBudget::new(entries, None).fill(&found.nodes);
    if fits < found.nodes.len() {
        found.nodes.truncate(fits);
        found.next = found.nodes.last().and_then(place).or(found.next);
    }
    found
}

/// The response with a page of entries: a [`ListPage`](crate::api::entry::ListPage). `path`: the path of the directory, if
/// the page lists one; `uri`: the target of the request; `permit`: for the memory of the page.
pub fn page(
    path: Option<&DrivePath>,
    nodes: &[Node],
    next: Option<String>,
    uri: &Uri,
    permit: Permit,
) -> Result<Response> {
    let link = next.as_ref().map(|cursor| headers::value(next_link(uri, cursor))).transpose()?;
    // Entries of a page are of about the same length, so the buffer hardly ever grows, which copies it.
    let longest = [nodes.first(), nodes.last()].into_iter().flatten().map(bytes_of).max().unwrap_or_default();
    let frame = FRAME + path.map_or(0, |path| escaped(path.as_str()));
    let mut page = EntryWriter::with_capacity(frame + nodes.len() * longest);
    page.raw(b"{");
    if let Some(path) = path {
        page.raw(br#""path":"#);
        page.text(path.as_str());
        page.raw(b",");
    }
    page.raw(br#""entries":["#);
    for (at, node) in nodes.iter().enumerate() {
        if at > 0 {
            page.raw(b",");
        }
        page.entry(node);
    }
    page.raw(br#"],"next":"#);
    match next {
        Some(next) => page.text(&next),
        None => page.raw(b"null"),
    }
    page.raw(b"}");
    let mut response = response(page.json, Some(permit));
    if let Some(link) = link {
        response.headers_mut().insert(LINK, link);
    }
    Ok(response)
}

/// The response with one entry.
pub fn entry(node: &Node) -> Response {
    let mut entry = EntryWriter::with_capacity(bytes_of(node));
    entry.entry(node);
    response(entry.json, None)
}

/// Characters that would end a target in a `Link` early, or that a URI cannot have.
const LINKED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');

/// The link to the next page (RFC 8288): this request, path-absolute, with another cursor.
fn next_link(uri: &Uri, cursor: &str) -> String {
    let is_cursor = |part: &&str| percent_decode_str(part.split('=').next().unwrap_or_default()).eq(*b"cursor");
    let kept = uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty() && !is_cursor(part));
    let cursor = ["cursor=", cursor].concat();
    let query = kept.chain([cursor.as_str()]).collect::<Vec<_>>().join("&");
    let [path, query] = [uri.path(), &query].map(|part| utf8_percent_encode(part, LINKED));
    format!("<{path}?{query}>; rel=\"next\"")
}

fn response(json: Vec<u8>, permit: Option<Permit>) -> Response {
    let body: Bytes = match permit {
        Some(mut permit) => {
            permit.shrink(json.len());
            permit.attach(json.into())
        }
        None => json.into(),
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::FutureExt;

    use super::*;
    use crate::api::entry::ListPage;
    use crate::budget::Budget;
    use crate::schema::file::{Attributes, ContentLocation, Digest};
    use crate::schema::{DirId, FileId, StayId, Timestamp, dir};

    fn file(path: &str, text: &str) -> Node {
        let attributes = Attributes {
            size: u64::MAX,
            mime: text.to_owned(),
            creator: text.to_owned(),
            modified: Timestamp::from_ms(253_402_300_799_999),
            added: Timestamp::from_ms(-2_177_452_800_000),
            digest: Digest([255; 32]),
            location: ContentLocation::Inline,
        };
        let entry = dir::FileEntry { id: FileId::random(), stay: StayId::CREATED, attributes };
        Node::File { path: DrivePath::parse(path).unwrap(), entry }
    }

    #[test]
    fn an_entry_needs_no_more_than_its_bound() {
        let long = "/\"".to_owned() + &vec!["\\\"".repeat(127); 15].join("/");
        let texts = ["", "a", "\u{1}\t\"\\\u{7f}é照", &"\"".repeat(255)];
        for node in texts.iter().flat_map(|text| [file("/a", text), file(&long, text)]) {
            let json = serde_json::to_string(&super::super::entry::entry_json(&node)).unwrap();
            // A comma follows.
            assert!(json.len() < bytes_of(&node), "{} of {}: {json}", json.len(), bytes_of(&node));
            assert!(bytes_of(&node) + FRAME + escaped(&long) <= LEAST);
        }
    }

    #[test]
    fn a_page_is_the_json_of_its_entries() {
        let all = ["/a\"/b.jpg", "/a\"/c"].map(|path| file(path, "t"));
        for (path, next, nodes) in [(Some("/a\""), Some("N\""), &all[..]), (None, None, &all[..]), (None, None, &[])] {
            let entries: Vec<_> = nodes.iter().map(super::super::entry::entry_json).collect();
            let page = ListPage { path: path.map(Into::into), entries, next: next.map(str::to_owned) };
            let expected = serde_json::to_string(&page).unwrap();
            let path = path.map(|path| DrivePath::parse(path).unwrap());
            let permit = Budget::unlimited().try_take(1 << 20).unwrap();
            let response = super::page(path.as_ref(), nodes, next.map(str::to_owned), &"/".parse().unwrap(), permit);
            let body = to_bytes(response.unwrap().into_body(), usize::MAX).now_or_never().unwrap().unwrap();
            assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
        }
    }

    #[test]
    fn a_page_is_bounded_in_bytes() {
        let filled = |entries: usize, node: Node| PageBudget::new(entries, None).fill(&vec![node; entries]);
        assert_eq!(filled(1, file("/a", "")), 1);
        assert_eq!(filled(5_000, file(&format!("/{}", "a".repeat(200)), "image/jpeg")), 5_000);
        let long = file(&format!("/{}", "a".repeat(200)), &"\"".repeat(255));
        let many = filled(1_000, long.clone());
        assert!(many * bytes_of(&long) < bytes(1_000) && (400..1_000).contains(&many), "{many}");
        assert!(filled(10_000, long.clone()) * bytes_of(&long) < PAGE);
        let mut budget = PageBudget::new(1_000, Some(long.path()));
        let first = budget.fill(&vec![long.clone(); 300]);
        assert_eq!(first + budget.fill(&vec![long.clone(); 700]), many);
        assert_eq!((budget.fill(&[long]), budget.most_below(&DrivePath::root())), (0, 2));
    }

    #[test]
    fn a_cut_page_continues_after_its_last_entry() {
        let node = |n: usize| {
            let name = format!("/{n:04}{}", "/x".repeat(100).replace("x", &"y".repeat(30)));
            let entry = dir::DirEntry { id: DirId::ROOT, creator: String::new(), created: Timestamp::from_ms(0) };
            Node::Directory { path: DrivePath::parse(&name).unwrap(), entry }
        };
        let nodes: Vec<_> = (0..3_000).map(node).collect();
        let last = |found: &FilePage<String>| found.nodes.last().unwrap().path().to_string();
        let place = |node: &Node| Some(node.path().to_string());
        let whole = cut(FilePage { nodes: nodes[..10].to_vec(), next: Some("after".to_owned()) }, 100, place);
        assert_eq!((whole.nodes.len(), whole.next.as_deref()), (10, Some("after")));
        let short = cut(FilePage { nodes: nodes.clone(), next: None }, nodes.len(), place);
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
