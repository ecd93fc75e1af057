//! The web page of a share: HTML without scripts, and nothing that is loaded from elsewhere.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::html::escaped;
use super::problem::Result;
use super::{html, memory, password_form};
use crate::api::path::{below, encode};
use crate::budget::{Budget, Permit};
use crate::drive::{EntryRef, NodeRef};
use crate::schema::DrivePath;
use crate::schema::path::NAME_BYTES;

/// The title of the page of every share.
pub const TITLE: &str = "Shared files";

/// Entries on a page, at most.
const ENTRIES: usize = 200;
/// Bytes of a page, at most: if its path is long it has fewer entries.
const PAGE: usize = 640 << 10;
/// Bytes of it without the lines of the entries and without its path, at most: most are of the cursor and the style.
const AROUND: usize = 12 << 10;
/// Bytes of a line without its texts, at most.
const LINE: usize = 100;
/// Bytes of a byte that is percent-encoded.
const ENCODED: usize = 3;
/// Bytes of a byte of a text in HTML, at most.
const ESCAPED: usize = 6;

/// How many entries of a directory a page has, at most, with this memory.
pub fn entries(path: &DrivePath, memory: &Budget) -> usize {
    (page_bytes(memory).saturating_sub(around_bytes(path)) / line_bytes(path)).clamp(1, ENTRIES)
}

/// Bytes of a page, at most: three have room.
fn page_bytes(memory: &Budget) -> usize {
    PAGE.min(memory.largest() / 2)
}

/// Bytes of a page of this directory, at most: one entry is on it, however long it is.
fn most_bytes(path: &DrivePath, memory: &Budget) -> usize {
    page_bytes(memory).max(around_bytes(path) + line_bytes(path))
}

/// Bytes of a page without the lines of the entries, at most.
fn around_bytes(path: &DrivePath) -> usize {
    AROUND + ESCAPED * path.last().len() + 2 * ENCODED * path.as_str().len()
}

/// Bytes of the line of an entry of a directory, at most.
fn line_bytes(path: &DrivePath) -> usize {
    LINE + ENCODED * (path.as_str().len() + 1 + NAME_BYTES) + ESCAPED * NAME_BYTES
}

/// Memory for a page: for what is read, for the lines, and for the page with a copy of them.
pub async fn permit(path: &DrivePath, memory: &Budget) -> Result<Permit> {
    memory::take(memory, 3 * most_bytes(path, memory)).await
}

/// Links to the entries of a directory. `next`: the cursor of the next page. `permit`: for its memory.
pub fn listing(path: &DrivePath, nodes: &[NodeRef<'_>], next: Option<&str>, mut permit: Permit) -> Response {
    let html = html::document(TITLE, &lines(path, nodes, next));
    permit.shrink(html.capacity());
    html::response(permit.attach(html.into()), html::policy())
}

/// What stands on the page.
fn lines(path: &DrivePath, nodes: &[NodeRef<'_>], next: Option<&str>) -> String {
    // It does not grow, which would copy it.
    let mut body = String::with_capacity(around_bytes(path) + nodes.len() * line_bytes(path));
    let title = escaped(if path.is_root() { TITLE } else { path.last() });
    let _ = write!(body, "<h1>{title}</h1>\n<ul>\n");
    if let Some((parent, _)) = path.split() {
        line(&mut body, &["?path=", &encode(parent.as_str())].concat(), "..", "");
    }
    for node in nodes {
        let at = [node.before_slash, "/", &node.name].concat();
        match &node.entry {
            EntryRef::Directory(_) => {
                line(&mut body, &["?path=", &encode(&at)].concat(), &[&node.name, "/"].concat(), "");
            }
            EntryRef::File(entry) => {
                // Relative to the page, so that its own address is not in it.
                let target = DrivePath::parse(&at).map(|at| below("fs", &at, false)).unwrap_or_default();
                line(&mut body, &target, &node.name, &size(entry.attributes.size));
            }
        }
    }
    body.push_str("</ul>\n");
    if let Some(next) = next {
        let path = encode(path.as_str());
        // Neither needs to be escaped.
        let _ = writeln!(body, "<p><a href=\"?path={path}&amp;cursor={next}\">More</a></p>");
    }
    body
}

/// The page where nothing is: the same for a wrong link, for that of a share that has ended, in whatever way, and for a file
/// that is missing.
pub fn nothing() -> Response {
    let body = "<h1>There is nothing here</h1>\n<p>The link is wrong, or it has ended, or the file is gone. \
        Ask whoever sent it for a new one.</p>\n";
    (StatusCode::NOT_FOUND, page(body)).into_response()
}

/// The form for the password, with what was wrong. It tells nothing of the share.
pub fn password_form(status: StatusCode, wrong: &str) -> Response {
    let wrong = password_form::alert(wrong);
    // The target is relative, so that the address of the page is not in it.
    let body = format!(
        "<h1>This link has a password</h1>\n{wrong}<form method=\"post\" action=\"login\">\n\
         <p><label>Password <input name=\"password\" type=\"password\" required autofocus></label></p>\n\
         <p><button>Open</button></p>\n</form>\n"
    );
    password_form::with_status(status, page(&body))
}

fn line(body: &mut String, target: &str, name: &str, note: &str) {
    let (target, name) = (escaped(target), escaped(name));
    let _ = writeln!(body, "<li><a href=\"{target}\">{name}</a> <span>{note}</span></li>");
}

fn page(body: &str) -> Response {
    html::page(TITLE, body, html::policy())
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let power = bytes.ilog10() / 3;
    let unit = units.get(power as usize - 1).copied().unwrap_or_default();
    format!("{:.1} {unit}", bytes as f64 / 1_000f64.powi(power as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_net::ClientNet;
    use crate::drive::Node;
    use crate::http::response::json::tests::file;
    use crate::schema::path::PATH_BYTES;

    #[test]
    fn a_page_needs_no_more_than_its_bound() {
        for (byte, depth) in [("\"", 0), ("\u{ad}", 1), ("照", 15), ("\"", 15)] {
            let name = byte.repeat(NAME_BYTES / byte.len());
            let path = DrivePath::parse(&["/", &vec![name.as_str(); depth].join("/")].concat()).unwrap();
            assert!(path.as_str().len() < PATH_BYTES);
            let at = [path.before_slash(), "/", &name].concat();
            for memory in [Budget::unlimited(), Budget::new(16 << 20), Budget::new(8 << 20)] {
                let memory = memory.of_stranger(ClientNet::NONE);
                let nodes: Vec<Node> = (0..entries(&path, &memory)).map(|_| file(&at, "text/plain")).collect();
                let nodes: Vec<NodeRef<'_>> = nodes.iter().map(Into::into).collect();
                let body = lines(&path, &nodes, Some(&"x".repeat(4 << 10)));
                let page = html::document(TITLE, &body);
                let most = most_bytes(&path, &memory);
                for bytes in [body.capacity(), page.capacity()] {
                    assert!(bytes <= most, "{bytes} of {most} for {} lines of {at:?}", nodes.len());
                }
            }
        }
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 999, 1_000, 1_234_567, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "1.2 MB", "18.4 EB"]);
    }
}
