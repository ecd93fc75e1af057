//! `PUT /v1/fs/<directory>/?unpack=tar`.

mod formats;
mod hostile;
mod kills;
mod order;
mod refusals;
pub(super) mod tar_of;
mod wire;

use serde_json::Value;

use super::test_app::{TestApp, TestResponse};
use rowdrive::http::Options;

/// The lines of an answer, without the last one, and the last one.
#[track_caller]
fn lines(text: &str) -> (Vec<Value>, Value) {
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.pop().unwrap();
    assert!(last.get("done").is_some() && lines.iter().all(|line| line.get("done").is_none()), "{text}");
    assert_eq!(last["count"], lines.len(), "{text}");
    let failed = lines.iter().filter(|line| line["status"].as_u64().unwrap() >= 400).count();
    assert_eq!(last["failed"], failed, "{text}");
    (lines, last)
}

/// Path and status of each line, sorted.
fn statuses(lines: &[Value]) -> Vec<(String, u64)> {
    let mut all: Vec<_> = lines
        .iter()
        .map(|line| (line["path"].as_str().unwrap().to_owned(), line["status"].as_u64().unwrap()))
        .collect();
    all.sort();
    all
}

/// The line of a path.
#[track_caller]
fn of<'a>(lines: &'a [Value], path: &str) -> &'a Value {
    lines.iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("{path}: {lines:#?}"))
}

/// Unpacks a tar that is good as a whole.
async fn unpack(app: &TestApp, target: &str, tar: Vec<u8>) -> Vec<Value> {
    let answer = app.send("PUT", &format!("{target}?unpack=tar"), &[], tar).await;
    let (lines, last) = answered(&answer);
    assert_eq!(last["done"], true, "{last}");
    lines
}

#[track_caller]
fn answered(answer: &TestResponse) -> (Vec<Value>, Value) {
    assert_eq!(answer.status, 200, "{}: {:?}", answer.what, answer.body);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    assert!(!answer.cut);
    lines(answer.text())
}

async fn limited(max_body: u64) -> TestApp {
    TestApp::with(Options { max_body: Some(max_body), ..Options::default() }).await
}
