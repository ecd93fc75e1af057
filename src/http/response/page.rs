//! Pages of entries: as many as fit into the memory of a page.

use std::ops::ControlFlow;

use axum::http::Uri;
use axum::http::header::LINK;
use axum::response::Response;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::entry::EntryWriter;
use super::headers;
use super::json::{self, ENTRY, bytes_of, most_bytes_of};
use super::problem::Result;
use crate::budget::Permit;
use crate::drive::{DriveError, NodeRef};
use crate::schema::DrivePath;

/// Bytes of a page after its entries, at most.
const END: usize = 1 << 10;
/// Bytes of a page before its entries, without the path of the directory.
const START: usize = 64;

/// Appends an entry and what separates it from the next one.
pub type WriteEntry = fn(&mut EntryWriter, &NodeRef<'_>);

/// Writes entries while they fit.
pub struct PageWriter {
    page: EntryWriter,
    write: WriteEntry,
    /// Bytes of all entries, and of what is before them.
    most: usize,
    count: usize,
}

impl PageWriter {
    /// A page of so many bytes at most: [`json::bytes`].
    pub fn new(bytes: usize, write: WriteEntry) -> Self {
        Self::with_start(bytes, write, 0)
    }

    /// As [`new`](Self::new), with so many bytes allocated for what is before the entries.
    fn with_start(bytes: usize, write: WriteEntry, start: usize) -> Self {
        let most = bytes.saturating_sub(END);
        Self { page: EntryWriter::with_capacity(start), write, most, count: 0 }
    }

    /// A [`ListPage`](crate::api::entry::ListPage). `path`: the path of the directory, if the page lists one.
    pub fn json(bytes: usize, path: Option<&DrivePath>) -> Self {
        let write: WriteEntry = |page, node| {
            page.entry(node);
            page.raw(b",");
        };
        let mut writer = Self::with_start(bytes, write, START + path.map_or(0, |path| path.as_str().len()));
        let page = &mut writer.page;
        page.raw(b"{");
        if let Some(path) = path {
            page.raw(br#""path":"#);
            page.text(path.as_str());
            page.raw(b",");
        }
        page.raw(br#""entries":["#);
        writer
    }

    /// The same page as a share shows it.
    pub fn shared(self) -> Self {
        let write: WriteEntry = |page, node| {
            page.shared_entry(node);
            page.raw(b",");
        };
        Self { write, ..self }
    }

    /// How many entries it has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many more entries of this directory fit, at most.
    pub fn most_below(&self, path: &DrivePath) -> usize {
        (self.most.saturating_sub(self.page.json.len()) / (ENTRY + path.as_str().len())).max(1)
    }

    /// Adds an entry, and returns whether it fits: the first one always does. `more`: how many are to follow.
    pub fn add(&mut self, node: &NodeRef<'_>, more: usize) -> bool {
        let json = &mut self.page.json;
        let room = self.most.saturating_sub(json.len());
        // The bytes of the end stay free: without them the end of the page would double the buffer.
        let free = json.capacity().saturating_sub(json.len() + END);
        // The exact number takes a look at each character, so first the larger one is compared.
        if self.count == 0 || most_bytes_of(node) > room.min(free) {
            let bytes = bytes_of(node);
            if self.count > 0 && bytes > room {
                return false;
            }
            if self.count == 0 || bytes > free {
                // Entries of a page are of about the same length, so the buffer hardly ever grows. That copies it, so it
                // then has at least twice its bytes, within those that a page may have; only the first entry may exceed those.
                let wanted = bytes.saturating_mul(more + 1).max(json.len()).min(room).max(bytes);
                json.reserve_exact(wanted + END);
            }
        }
        (self.write)(&mut self.page, node);
        self.count += 1;
        true
    }

    /// Adds what fits of these entries. Breaks if some do not fit, with the place of the last one that does; none if none
    /// of them does.
    pub fn add_all<'a, K>(
        &mut self,
        nodes: impl ExactSizeIterator<Item = std::result::Result<NodeRef<'a>, DriveError>>,
        place: impl Fn(&NodeRef<'a>) -> Option<K>,
    ) -> std::result::Result<ControlFlow<Option<K>>, DriveError> {
        let (all, mut last) = (nodes.len(), None);
        for (at, node) in nodes.enumerate() {
            let node = node?;
            if !self.add(&node, all - at - 1) {
                return Ok(ControlFlow::Break(last.as_ref().and_then(place)));
            }
            last = Some(node);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What was written.
    pub fn done(self) -> Vec<u8> {
        self.page.json
    }

    /// The response with a page that [`json`](Self::json) began. `uri`: the target of the request; `permit`: for the memory
    /// of the page.
    pub fn response(self, next: Option<String>, uri: &Uri, permit: Permit) -> Result<Response> {
        let Self { mut page, count, .. } = self;
        let link = next.as_ref().map(|cursor| headers::value(next_link(uri, cursor))).transpose()?;
        if count > 0 {
            // The comma after the last entry.
            page.json.pop();
        }
        page.raw(br#"],"next":"#);
        match next {
            Some(next) => page.text(&next),
            None => page.raw(b"null"),
        }
        page.raw(b"}");
        let mut response = json::response(page.json, Some(permit));
        if let Some(link) = link {
            response.headers_mut().insert(LINK, link);
        }
        Ok(response)
    }
}

/// Characters that would end a target in a `Link` early, or that a URI cannot have.
const LINKED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');

/// The link to the next page (RFC 8288): this request, path-absolute, with another cursor.
pub(super) fn next_link(uri: &Uri, cursor: &str) -> String {
    let is_cursor = |part: &&str| percent_decode_str(part.split('=').next().unwrap_or_default()).eq(*b"cursor");
    let kept = uri.query().unwrap_or_default().split('&').filter(|part| !part.is_empty() && !is_cursor(part));
    let cursor = ["cursor=", cursor].concat();
    let query = kept.chain([cursor.as_str()]).collect::<Vec<_>>().join("&");
    let [path, query] = [uri.path(), &query].map(|part| utf8_percent_encode(part, LINKED));
    format!("<{path}?{query}>; rel=\"next\"")
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::FutureExt;

    use super::super::entry::entry_json;
    use super::super::json::bytes;
    use super::super::json::tests::file;
    use super::*;
    use crate::api::entry::ListPage;
    use crate::budget::Budget;
    use crate::drive::Node;
    use crate::schema::dir::DirEntry;
    use crate::schema::{DirId, Timestamp};

    fn unlimited(entries: usize) -> usize {
        bytes(&Budget::unlimited(), entries)
    }

    #[test]
    fn a_page_is_the_json_of_its_entries() {
        let all = ["/a\"/b.jpg", "/a\"/c"].map(|path| file(path, "t"));
        for (path, next, nodes) in [(Some("/a\""), Some("N\""), &all[..]), (None, None, &all[..]), (None, None, &[])] {
            let entries: Vec<_> = nodes.iter().map(entry_json).collect();
            let page = ListPage { path: path.map(Into::into), entries, next: next.map(str::to_owned) };
            let expected = serde_json::to_string(&page).unwrap();
            let path = path.map(|path| DrivePath::parse(path).unwrap());
            let permit = Budget::unlimited().try_take(1 << 20).unwrap();
            let mut page = PageWriter::json(unlimited(100), path.as_ref());
            assert!(nodes.iter().all(|node| page.add(&node.into(), 0)));
            let response = page.response(next.map(str::to_owned), &"/".parse().unwrap(), permit);
            let body = to_bytes(response.unwrap().into_body(), usize::MAX).now_or_never().unwrap().unwrap();
            assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
        }
    }

    #[test]
    fn a_page_is_bounded_in_bytes() {
        let filled = |entries: usize, node: Node| {
            let mut page = PageWriter::json(unlimited(entries), None);
            let fits = (0..entries).take_while(|at| page.add(&(&node).into(), entries - at - 1)).count();
            let capacity = page.page.json.capacity();
            assert!(capacity <= unlimited(entries), "{capacity}");
            assert_eq!((page.count(), page.done().len() <= unlimited(entries) - END), (fits, true));
            fits
        };
        assert_eq!(filled(1, file("/a", "")), 1);
        assert_eq!(filled(5_000, file(&format!("/{}", "a".repeat(200)), "image/jpeg")), 5_000);
        let long = file(&format!("/{}", "a".repeat(200)), &"\"".repeat(255));
        assert!((500..1_000).contains(&filled(1_000, long.clone())));
        assert!(filled(10_000, long.clone()) < 10_000);
        // The first entry is on the page, however long it is.
        let mut page = PageWriter::json(unlimited(1), None);
        page.most = 100;
        assert!(page.add(&(&long).into(), 0) && !page.add(&(&long).into(), 0));
        assert_eq!((page.count(), page.most_below(&DrivePath::root())), (1, 1));
    }

    #[test]
    fn a_page_grows_seldom_and_only_up_to_its_bound() {
        let length_of = |at: usize, last: usize| [1, 20 + at % 5, 1 + at, if at == last { 255 } else { 1 }];
        for (kind, most_growths) in [(0, 1), (1, 2), (2, 4), (3, 2)] {
            for texts in ["", "image/jpeg", &"\"".repeat(120)] {
                let mut page = PageWriter::json(unlimited(100), None);
                let (mut capacity, mut growths) = (page.page.json.capacity(), 0);
                for at in 0..100 {
                    let node = file(&format!("/{}", "a".repeat(length_of(at, 99)[kind])), texts);
                    if !page.add(&(&node).into(), 99 - at) {
                        break;
                    }
                    let grown = page.page.json.capacity();
                    growths += usize::from(grown > capacity);
                    capacity = grown;
                    assert!(capacity - page.page.json.len() >= END, "{kind} {texts}: the end finds no room");
                }
                assert!(growths <= most_growths, "{kind} {texts}: {growths}");
                assert!(capacity <= unlimited(100), "{kind} {texts}: {capacity}");
                // What it has is nearly all used.
                let used = page.done().len();
                assert!(capacity <= 2 * used + 2 * END, "{kind} {texts}: {capacity} of {used}");
            }
        }
        // A short entry, and then long ones, which would double the buffer beyond the bound.
        let mut page = PageWriter::json(unlimited(100), None);
        assert!(page.add(&(&file("/a", "")).into(), 99));
        let long = file(&format!("/{}", "a".repeat(250)), &"t".repeat(50));
        assert!((0..99).all(|at| page.add(&(&long).into(), 98 - at)));
        assert!(page.page.json.capacity() <= unlimited(100), "{}", page.page.json.capacity());
    }

    #[test]
    fn a_cut_page_continues_after_its_last_entry() {
        let node = |n: usize| {
            let name = format!("/{n:04}{}", "/x".repeat(100).replace("x", &"y".repeat(30)));
            let entry = DirEntry { id: DirId::ROOT, creator: String::new(), created: Timestamp::from_ms(0) };
            Node::Directory { path: DrivePath::parse(&name).unwrap(), entry }
        };
        let nodes: Vec<_> = (0..3_000).map(node).collect();
        let place = |node: &NodeRef<'_>| Some(format!("{}/{}", node.before_slash, node.name));
        let add = |page: &mut PageWriter, nodes: &[Node]| {
            page.add_all(nodes.iter().map(|node| Ok(node.into())), place).unwrap()
        };
        assert_eq!(add(&mut PageWriter::json(unlimited(100), None), &nodes[..10]), ControlFlow::Continue(()));
        let mut page = PageWriter::json(unlimited(3_000), None);
        let added = add(&mut page, &nodes);
        assert!(page.count() < 3_000);
        assert_eq!(added, ControlFlow::Break(Some(nodes[page.count() - 1].path().to_string())));
        assert_eq!(add(&mut page, &nodes), ControlFlow::Break(None));
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
