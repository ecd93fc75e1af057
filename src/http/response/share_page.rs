//! The web page of a share: HTML without scripts, and nothing that is loaded from elsewhere.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::html::escaped;
use super::{html, password_form};
use crate::api::path::{below, encode};
use crate::drive::{EntryRef, NodeRef};
use crate::schema::DrivePath;

/// The title of the page of every share.
pub const TITLE: &str = "Shared files";

/// Links to the entries of a directory. `next`: the cursor of the next page.
pub fn listing(path: &DrivePath, nodes: &[NodeRef<'_>], next: Option<&str>) -> Response {
    let mut body = format!("<h1>{}</h1>\n<ul>\n", escaped(if path.is_root() { TITLE } else { path.last() }));
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
    page(&body)
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

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 999, 1_000, 1_234_567, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "1.2 MB", "18.4 EB"]);
    }
}
