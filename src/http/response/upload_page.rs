//! The page of a share to upload by: a form, which works without a script. With its script it sends each file by itself,
//! says at once what became of it, and keeps its time.

use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::html::escaped;
use super::share_page::{hash, made_policy, page_with};

/// What became of a file.
pub struct SentFile {
    pub name: String,
    /// Why it is not stored.
    pub refused: Option<String>,
}

/// Sends each file that is chosen, one after the other. What it shows of an answer is text, and no markup.
const SCRIPT: &str = r#"
const form = document.querySelector("form");
form.addEventListener("submit", async event => {
  event.preventDefault();
  const files = Array.from(form.elements.files.files);
  form.reset();
  for (const file of files) {
    const line = document.getElementById("sent").appendChild(document.createElement("li"));
    const say = text => { line.textContent = file.name + ": " + text; };
    say("is being sent");
    try {
      const modified = encodeURIComponent(new Date(file.lastModified).toISOString());
      const target = "fs/" + encodeURIComponent(file.name) + "?modified=" + modified;
      const answer = await fetch(target, { method: "PUT", body: file });
      const problem = answer.ok ? {} : await answer.json().catch(() => ({}));
      say(answer.ok ? "sent" : "not sent. " + (problem.detail || "Open the link again."));
    } catch {
      say("not sent: the connection is lost");
    }
  }
});
"#;

/// The form, and what became of the files that were sent by it. It tells nothing of what is there.
pub fn upload(status: StatusCode, sent: &[SentFile]) -> Response {
    let mut lines = String::new();
    for SentFile { name, refused } in sent {
        let (name, refused) = (escaped(name), refused.as_deref().map(escaped));
        let told = refused.map_or("sent".to_owned(), |detail| format!("not sent. {detail}"));
        let _ = writeln!(lines, "<li>{name}: {told}</li>");
    }
    // The target is the page itself, so that its address is not in it.
    let body = format!(
        "<h1>Send files</h1>\n<form method=\"post\" enctype=\"multipart/form-data\">\n\
         <p><label>Files <input name=\"files\" type=\"file\" multiple required></label></p>\n\
         <p><button>Send</button></p>\n</form>\n<ul id=\"sent\">\n{lines}</ul>\n<script>{SCRIPT}</script>\n"
    );
    (status, page_with(&body, policy())).into_response()
}

/// The policy of the page, with its script by its hash, which sends to this server alone.
fn policy() -> HeaderValue {
    static POLICY: OnceLock<HeaderValue> = OnceLock::new();
    let more = || format!("script-src '{}'; connect-src 'self'; ", hash(SCRIPT));
    POLICY.get_or_init(|| made_policy(&more())).clone()
}
