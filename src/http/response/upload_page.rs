//! The page of an upload share: a form, which works without a script. With its script it sends each file by itself,
//! says how much of it is sent and then what became of it, and keeps its time.

use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::html::{self, escaped, hash, made_policy};
use super::share_page::TITLE;

/// Bytes of the lines that say what became of files: those of further files are counted.
const LINES: usize = 16 << 10;
/// Bytes of a name that is shown: no name in the drive has more.
const SHOWN: usize = 255;

/// What became of the files of a form.
///
/// Memory: some 20 KiB, however many files it has.
#[derive(Default)]
pub struct SentFiles {
    /// HTML.
    lines: String,
    pub count: usize,
    /// Without a line: those that were sent.
    more_sent: usize,
    /// Without a line: those that were refused.
    more_refused: usize,
}

impl SentFiles {
    /// `refused`: why it is not stored.
    pub fn add(&mut self, name: &str, refused: Option<&str>) {
        self.count += 1;
        if self.lines.len() >= LINES {
            *(if refused.is_some() { &mut self.more_refused } else { &mut self.more_sent }) += 1;
            return;
        }
        let shown = escaped(name.get(..name.floor_char_boundary(SHOWN)).unwrap_or_default());
        let told = refused.map_or("sent".to_owned(), |detail| format!("not sent. {}", escaped(detail)));
        let _ = writeln!(self.lines, "<li>{shown}: {told}</li>");
    }

    /// All lines. `rest`: why the files that come after these are not stored.
    fn lines(&self, rest: Option<&str>) -> String {
        let mut lines = self.lines.clone();
        for (count, told) in [(self.more_sent, "sent"), (self.more_refused, "not sent")] {
            if count > 0 {
                let _ = writeln!(lines, "<li>{count} more: {told}</li>");
            }
        }
        if let Some(detail) = rest {
            let _ = writeln!(lines, "<li>The others: not sent. {}</li>", escaped(detail));
        }
        lines
    }
}

/// Sends each file that is chosen, one after the other, and says how much of it is sent: `fetch` would not tell. What
/// it shows of an answer is text, and no markup. A file whose time the server would refuse gets that of the upload.
const SCRIPT: &str = r#"
const form = document.querySelector("form");
const send = (target, file, say) => new Promise(done => {
  const request = new XMLHttpRequest();
  request.upload.onprogress = event => {
    if (event.lengthComputable && event.total > 0) {
      say("is being sent, " + Math.floor(100 * event.loaded / event.total) + " %");
    }
  };
  request.onload = () => done(request);
  request.onerror = request.onabort = () => done(null);
  request.open("PUT", target);
  request.send(file);
});
const refused = answer => {
  if (answer.status === 401) {
    return "The link asks for its password again: reload the page, then send the file again.";
  }
  try {
    return JSON.parse(answer.responseText).detail || "Open the link again.";
  } catch {
    return "Open the link again.";
  }
};
form.addEventListener("submit", async event => {
  event.preventDefault();
  const files = Array.from(form.elements.files.files);
  form.reset();
  for (const file of files) {
    const line = document.getElementById("sent").appendChild(document.createElement("li"));
    const say = text => { line.textContent = file.name + ": " + text; };
    say("is being sent");
    const time = new Date(file.lastModified);
    const isKnown = time.getUTCFullYear() >= 1901 && time.getUTCFullYear() <= 9999;
    const modified = isKnown ? "?modified=" + encodeURIComponent(time.toISOString()) : "";
    const target = "fs/" + encodeURIComponent(file.name) + modified;
    const answer = await send(target, file, say);
    if (answer === null) {
      say("not sent: the connection is lost");
    } else if (answer.status >= 200 && answer.status < 300) {
      say("sent");
    } else {
      say("not sent. " + refused(answer));
    }
  }
});
"#;

/// The form, and what became of the files that were sent by it. It tells nothing of what is there. `rest`: as in
/// [`SentFiles::lines`].
pub fn upload(status: StatusCode, sent: &SentFiles, rest: Option<&str>) -> Response {
    let lines = sent.lines(rest);
    // The target is the page itself, so that its address is not in it.
    let body = format!(
        "<h1>Send files</h1>\n<form method=\"post\" enctype=\"multipart/form-data\">\n\
         <p><label>Files <input name=\"files\" type=\"file\" multiple required></label></p>\n\
         <p><button>Send</button></p>\n</form>\n<ul id=\"sent\">\n{lines}</ul>\n<script>{SCRIPT}</script>\n"
    );
    (status, html::page(TITLE, &body, policy())).into_response()
}

/// The policy of the page, with its script by its hash, which sends to this server alone.
fn policy() -> HeaderValue {
    static POLICY: OnceLock<HeaderValue> = OnceLock::new();
    let more = || format!("script-src '{}'; connect-src 'self'; ", hash(SCRIPT));
    POLICY.get_or_init(|| made_policy(&more())).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_many_files_are_bounded() {
        let mut sent = SentFiles::default();
        for at in 0..1_000 {
            sent.add(&"&".repeat(8_000), (at % 2 == 0).then_some("it is full"));
        }
        let lines = sent.lines(Some("too many"));
        assert!(lines.len() < 20 << 10, "{}", lines.len());
        let listed = lines.matches("&amp;: ").count();
        let told =
            |text: &str| lines.rsplit_once(text).unwrap().0.rsplit_once("<li>").unwrap().1.parse::<usize>().unwrap();
        assert_eq!(listed + told(" more: sent") + told(" more: not sent"), 1_000);
        assert!(lines.ends_with("<li>The others: not sent. too many</li>\n"));
    }
}
