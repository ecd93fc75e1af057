//! PUT: which uploads are stored, and which are refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rowdrive::http::Options;
use sha2::{Digest, Sha256};

use super::test_app::{TestApp, broken, bytes, watched};

fn digest(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(bytes)))
}

#[tokio::test]
async fn an_upload_creates_an_entry_with_its_headers() {
    let app = TestApp::new().await;
    let made = app.put("/v1/fs/a/b.jpg?modified=2026-01-02T03:04:05.6789Z", "hello").await.is(201);
    let entry = made.json();
    let text = made.text();
    let members = ["path", "name", "kind", "id", "size", "type", "creator", "modified", "added", "etag", "digest"];
    let at: Vec<_> = members.iter().map(|m| text.find(&format!("\"{m}\":")).unwrap()).collect();
    assert!(at.is_sorted(), "{text}");
    assert_eq!(entry.as_object().unwrap().len(), members.len());
    assert_eq!((&entry["path"], &entry["name"], &entry["kind"]), (&"/a/b.jpg".into(), &"b.jpg".into(), &"file".into()));
    assert_eq!((&entry["size"], &entry["type"]), (&5.into(), &"image/jpeg".into()));
    assert_eq!((&entry["creator"], &entry["modified"]), (&"anonymous".into(), &"2026-01-02T03:04:05.678Z".into()));
    assert_eq!(entry["etag"], format!("\"{}\"", entry["id"].as_str().unwrap()));
    assert_eq!(entry["digest"], digest(b"hello"));
    assert_eq!(made.header("etag"), entry["etag"].as_str());
    assert_eq!(made.header("location"), Some("/v1/fs/a/b.jpg"));
    assert_eq!(made.header("content-type"), Some("application/json"));
    assert_eq!(made.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(app.get("/v1/stat/a/b.jpg").await.json(), entry);
    assert_eq!(app.get("/v1/fs/a/").await.json()["entries"][0], entry);

    // An upload of the same bytes still creates a new version.
    let again = app.put("/v1/fs/a/b.jpg", "hello").await.is(200).json();
    assert_ne!(again["id"], entry["id"]);
    assert_eq!(again["modified"], again["added"]);
    assert_eq!(app.get("/v1/fs/a/b.jpg").await.text(), "hello");

    let parent = app.get("/v1/stat/a").await.is(200);
    let members: Vec<_> = parent.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["added", "creator", "id", "kind", "modified", "name", "path"]);
    assert_eq!(parent.json()["modified"], parent.json()["added"]);
}

#[tokio::test]
async fn location_headers_are_percent_encoded() {
    let app = TestApp::new().await;
    let made = app.put("/v1/fs/a%20b/%E7%85%A7%23%3F.jpg", "x").await.is(201);
    assert_eq!(made.header("location"), Some("/v1/fs/a%20b/%E7%85%A7%23%3F.jpg"));
    assert_eq!(made.json()["path"], "/a b/照#?.jpg");
    assert_eq!(app.put("/v1/fs/d%3Fir/", "").await.header("location"), Some("/v1/fs/d%3Fir/"));
}

#[tokio::test]
async fn content_of_any_size_is_downloaded_unchanged() {
    let app = TestApp::new().await;
    for size in [0, 1, 262_143, 262_144, 262_145, 3_000_000] {
        let sent = bytes(size);
        let pieces = futures_util::stream::iter(
            sent.chunks(70_000).map(|c| Ok::<_, std::io::Error>(c.to_vec())).collect::<Vec<_>>(),
        );
        app.send("PUT", "/v1/fs/f", &[("repr-digest", &digest(&sent))], Body::from_stream(pieces)).await;
        let got = app.get("/v1/fs/f").await.is(200);
        assert!(!got.cut && got.body == sent, "{size}");
        assert_eq!(got.header("content-length"), Some(size.to_string().as_str()));
        assert_eq!(got.header("repr-digest"), Some(digest(&sent).as_str()));
    }
    app.put("/v1/fs/f", "small").await.is(200);
    assert_eq!(app.content_files(0).await.len(), 0);
}

#[tokio::test]
async fn missing_parents_are_created_unless_the_request_says_no() {
    let app = TestApp::new().await;
    for target in ["/v1/fs/a/b/f?parents=false", "/v1/fs/a/b/?parents=false"] {
        app.put(target, "").await.problem(409, "parent-missing");
    }
    assert!(app.names("/v1/fs/").await.is_empty());
    app.put("/v1/fs/a/?parents=false", "").await.is(201);
    app.put("/v1/fs/a/f?parents=false", "x").await.is(201);
    app.put("/v1/fs/a/b/c/f?parents=true", "x").await.is(201);
    assert_eq!(app.names("/v1/fs/a/").await, ["b/", "f"]);
    for bad in ["?parents=no", "?parents=", "?parent=false", "?parents=false&parents=false", "?limit=1", "?download=1"]
    {
        app.put(&format!("/v1/fs/a/g{bad}"), "x").await.problem(400, "malformed");
    }
    app.put("/v1/fs/x/?modified=2026-01-01T00:00:00Z", "").await.problem(400, "malformed");
}

#[tokio::test]
async fn file_times_are_set_by_the_client() {
    let app = TestApp::new().await;
    for (target, header, modified) in [
        ("/v1/fs/t", Some("1767323045"), "2026-01-02T03:04:05.000Z"),
        ("/v1/fs/t", Some("1767323045.6789"), "2026-01-02T03:04:05.678Z"),
        ("/v1/fs/t", Some("-1"), "1969-12-31T23:59:59.000Z"),
        ("/v1/fs/t?modified=2026-01-02T04:04:05%2B01:00", None, "2026-01-02T03:04:05.000Z"),
        ("/v1/fs/t?modified=2026-01-02T04:04:05+01:00", None, "2026-01-02T03:04:05.000Z"),
        ("/v1/fs/t?modified=1901-01-01T00:00:00Z", None, "1901-01-01T00:00:00.000Z"),
        ("/v1/fs/t?modified=9999-12-31T23:59:59.9999Z", None, "9999-12-31T23:59:59.999Z"),
        ("/v1/fs/t?modified=2001-01-01T00:00:00Z", Some("1767323045"), "2001-01-01T00:00:00.000Z"),
    ] {
        let headers: Vec<_> = header.map(|h| ("x-oc-mtime", h)).into_iter().collect();
        let made = app.send("PUT", target, &headers, "x").await;
        assert_eq!(made.json()["modified"], modified, "{target} {header:?}");
        let accepted = header.is_some() && !target.contains("modified");
        assert_eq!(made.header("x-oc-mtime"), accepted.then_some("accepted"), "{target} {header:?}");
    }
    for bad in ["", "1e9", "now", "0x10", "99999999999999", "1767323045,5", "+1", "-99999999999"] {
        app.send("PUT", "/v1/fs/t", &[("x-oc-mtime", bad)], "x").await.problem(400, "malformed");
    }
    app.send("PUT", "/v1/fs/t", &[("x-oc-mtime", "1"), ("x-oc-mtime", "2")], "x").await.problem(400, "malformed");
    for bad in ["", "2026-01-02", "2026-01-02T03:04:05", "1900-12-31T23:59:59Z", "1767323045", "2026-02-30T00:00:00Z"] {
        app.put(&format!("/v1/fs/t?modified={bad}"), "x").await.problem(400, "malformed");
    }
}

#[tokio::test]
async fn media_types_are_stored_or_guessed() {
    let app = TestApp::new().await;
    for (name, sent, stored) in [
        ("a.png", None, "image/png"),
        ("a.png", Some("application/octet-stream"), "image/png"),
        ("a.png", Some("image/*"), "image/png"),
        ("a.png", Some("image/j*;q=1"), "image/png"),
        ("a.md", Some("application/x-www-form-urlencoded"), "text/markdown"),
        ("a.png", Some("text/x-odd; a=b"), "text/x-odd; a=b"),
        ("none", None, "application/octet-stream"),
    ] {
        let headers: Vec<_> = sent.map(|s| ("content-type", s)).into_iter().collect();
        let made = app.send("PUT", &format!("/v1/fs/{name}"), &headers, "x").await;
        assert_eq!(made.json()["type"], stored, "{name} {sent:?}");
        assert_eq!(app.get(&format!("/v1/fs/{name}")).await.header("content-type"), Some(stored));
    }
    for bad in ["jpeg", "image/png;, text/html", "image/png, text/html", "image/png; a=\"b"] {
        app.send("PUT", "/v1/fs/a", &[("content-type", bad)], "x").await.problem(400, "malformed");
        let posted = app.send("POST", "/v1/copy", &[("content-type", bad)], "{}").await;
        posted.problem(415, "media-type");
    }
    let list = "application/json;, text/html";
    app.send("POST", "/v1/copy", &[("content-type", list)], "{}").await.problem(415, "media-type");
    app.get("/v1/fs/a").await.is(404);
}

#[tokio::test]
async fn digests_are_verified_before_anything_is_created() {
    let app = TestApp::new().await;
    let good = digest(b"hello");
    for ok in [good.clone(), format!("md5=:AAAA:, {good}"), "sha-512=:AAAA:".to_owned()] {
        app.send("PUT", "/v1/fs/f", &[("repr-digest", &ok)], "hello").await;
        assert_eq!(app.get("/v1/fs/f").await.text(), "hello", "{ok}");
    }
    app.send("PUT", "/v1/fs/p/q/f", &[("repr-digest", &good)], "other").await.problem(400, "digest-mismatch");
    app.send("PUT", "/v1/fs/f", &[("repr-digest", &good)], "other").await.problem(400, "digest-mismatch");
    for bad in ["", "sha-256", "sha-256=x", "sha-256=:AAAA:", "sha-256=:!:", "SHA-256=:AAAA:", &good[..20]] {
        let (body, read) = watched(b"hello");
        app.send("PUT", "/v1/fs/f", &[("repr-digest", bad)], body).await.problem(400, "malformed");
        assert!(!read.load(Ordering::Relaxed), "{bad}");
    }
    let large = bytes(400_000);
    for header in ["repr-digest", "content-digest"] {
        app.send("PUT", "/v1/fs/p/f", &[(header, &good)], large.clone()).await.problem(400, "digest-mismatch");
        app.send("PUT", "/v1/fs/f", &[(header, "sha-256=:AAAA:")], "hello").await.problem(400, "malformed");
        let json = [("content-type", "application/json"), (header, good.as_str())];
        let copy = app.send("POST", "/v1/copy", &json, r#"{"from":"/f","to":"/p"}"#).await;
        copy.problem(400, "digest-mismatch");
    }
    // Both digests are verified, even if one is right.
    let other = digest(b"other");
    for headers in
        [[("repr-digest", &good), ("content-digest", &other)], [("repr-digest", &other), ("content-digest", &good)]]
    {
        let headers = headers.map(|(name, value)| (name, value.as_str()));
        app.send("PUT", "/v1/fs/p/f", &headers, "hello").await.problem(400, "digest-mismatch");
    }
    app.send("PUT", "/v1/fs/f", &[("repr-digest", &good), ("content-digest", &good)], "hello").await.is(200);
    assert_eq!(app.names("/v1/fs/").await, ["f"]);
    assert_eq!(app.get("/v1/fs/f").await.text(), "hello");
    assert_eq!(app.content_files(0).await.len(), 0);
}

#[tokio::test]
async fn truncated_bodies_leave_nothing() {
    let app = TestApp::new().await;
    app.put("/v1/fs/old", "old").await.is(201);
    for size in [0, 10, 300_000, 2_000_000] {
        for target in ["/v1/fs/p/q/f", "/v1/fs/old"] {
            app.send("PUT", target, &[], broken(bytes(size))).await.problem(400, "body-cut");
            let length = (size + 1).to_string();
            app.send("PUT", target, &[("content-length", &length)], bytes(size)).await.problem(400, "body-cut");
        }
    }
    app.send("PUT", "/v1/fs/f", &[("content-length", "3")], "hello").await.problem(400, "body-cut");
    assert_eq!(app.names("/v1/fs/").await, ["old"]);
    assert_eq!(app.get("/v1/fs/old").await.text(), "old");
    assert_eq!(app.content_files(0).await.len(), 0);
}

#[tokio::test]
async fn bodies_over_the_limit_leave_nothing() {
    let app = TestApp::with(Options { max_body: Some(1000), ..Options::default() }).await;
    app.put("/v1/fs/f", bytes(1000)).await.is(201);
    let (body, read) = watched(b"hello");
    app.send("PUT", "/v1/fs/p/g", &[("content-length", "1001")], body).await.problem(413, "body-too-large");
    assert!(!read.load(Ordering::Relaxed));
    let pieces = futures_util::stream::iter((0..11).map(|_| Ok::<_, std::io::Error>(bytes(100))));
    app.put("/v1/fs/p/g", Body::from_stream(pieces)).await.problem(413, "body-too-large");
    assert_eq!(app.names("/v1/fs/").await, ["f"]);
}

/// Of a disk with room for it, too: a drive holds files of up to 1 TiB.
#[tokio::test]
async fn a_file_that_is_too_large_for_any_drive_is_refused_before_it_is_sent() {
    let app = TestApp::new().await;
    let (body, read) = watched(b"hello");
    let length = ((1_u64 << 40) + 1).to_string();
    app.send("PUT", "/v1/fs/p/g", &[("content-length", &length)], body).await.problem(413, "body-too-large");
    assert!(!read.load(Ordering::Relaxed));
    assert_eq!(app.names("/v1/fs/").await, [""; 0]);
}

#[tokio::test]
async fn preconditions_are_checked_for_put() {
    let app = TestApp::new().await;
    let made = app.put("/v1/fs/f", "1").await;
    let first = made.header("etag").unwrap().to_owned();
    let any = "*".to_owned();
    let weak = format!("W/{first}");
    let bare = first.trim_matches('"').to_owned();
    for (target, headers, status) in [
        ("/v1/fs/f", vec![("if-none-match", &any)], 412),
        ("/v1/fs/f", vec![("if-none-match", &first)], 412),
        ("/v1/fs/f", vec![("if-match", &weak)], 412),
        ("/v1/fs/f", vec![("if-match", &bare)], 400),
        ("/v1/fs/f", vec![("if-match", &first), ("if-none-match", &any)], 412),
        ("/v1/fs/new", vec![("if-match", &any)], 412),
        ("/v1/fs/new", vec![("if-match", &first)], 412),
        ("/v1/fs/p/q/new", vec![("if-match", &any)], 412),
        ("/v1/fs/p/q/new?parents=false", vec![("if-match", &first)], 412),
        ("/v1/fs/f/below", vec![("if-match", &any)], 409),
        ("/v1/fs/f/below", vec![("if-none-match", &any)], 409),
    ] {
        let headers: Vec<_> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let (body, read) = watched(b"2");
        app.send("PUT", target, &headers, body).await.is(status);
        assert!(!read.load(Ordering::Relaxed), "{target} {headers:?}");
    }
    assert_eq!(app.names("/v1/fs/").await, ["f"]);
    let second = app.send("PUT", "/v1/fs/f", &[("if-match", &first)], "2").await.is(200);
    app.send("PUT", "/v1/fs/f", &[("if-match", &first)], "3").await.problem(412, "precondition-failed");
    let list = format!("\"x\", {}", second.header("etag").unwrap());
    app.send("PUT", "/v1/fs/f", &[("if-match", &list)], "3").await.is(200);
    app.send("PUT", "/v1/fs/f", &[("if-match", "*")], "4").await.is(200);
    app.send("PUT", "/v1/fs/f", &[("if-none-match", &first)], "5").await.is(200);
    app.send("PUT", "/v1/fs/a/g", &[("if-none-match", "*")], "x").await.is(201);
    assert_eq!(app.get("/v1/fs/f").await.text(), "5");
}

#[tokio::test]
async fn if_unmodified_since_matches_only_the_version_with_that_date() {
    let app = TestApp::new().await;
    app.put("/v1/fs/f?modified=2026-01-02T03:04:05Z", "1").await.is(201);
    let since = |date| [("if-unmodified-since", date)];
    app.send("PUT", "/v1/fs/f", &since("Fri, 02 Jan 2026 03:04:04 GMT"), "2").await.problem(412, "precondition-failed");
    app.send("DELETE", "/v1/fs/f", &since("Fri, 02 Jan 2026 03:04:04 GMT"), "")
        .await
        .problem(412, "precondition-failed");
    app.send("PUT", "/v1/fs/f?modified=2026-01-02T03:04:05Z", &since("Fri, 02 Jan 2026 03:04:05 GMT"), "2")
        .await
        .is(200);
    app.send("PUT", "/v1/fs/new", &since("Fri, 02 Jan 2026 03:04:05 GMT"), "2").await.is(201);
    app.send("DELETE", "/v1/fs/f", &since("Fri, 02 Jan 2026 03:04:05 GMT"), "").await.is(204);
}

/// `Last-Modified` is never in the future (RFC 9110 section 8.8.2.1): for a file with a future date it is the current
/// time, which is soon outdated.
#[tokio::test]
async fn a_file_dated_in_the_future_is_replaced_with_its_own_date_and_no_earlier_one() {
    let app = TestApp::new().await;
    let made = app.put("/v1/fs/f?modified=2199-12-31T00:00:00Z", "1").await.is(201);
    let last_modified = app.get("/v1/fs/f").await.header("last-modified").unwrap().to_owned();
    assert!(!last_modified.contains("2199"), "{last_modified}");
    let since = |date| [("if-unmodified-since", date)];
    app.send("PUT", "/v1/fs/f", &since("Fri, 02 Jan 2026 03:04:05 GMT"), "2").await.problem(412, "precondition-failed");
    let own = since("Tue, 31 Dec 2199 00:00:00 GMT");
    app.send("PUT", "/v1/fs/f?modified=2199-12-31T00:00:00Z", &own, "2").await.is(200);
    let old = [("if-match", made.header("etag").unwrap())];
    app.send("PUT", "/v1/fs/f", &old, "3").await.problem(412, "precondition-failed");
    assert_eq!(app.get("/v1/fs/f").await.text(), "2");
}

#[tokio::test]
async fn preconditions_are_checked_at_the_commit_after_changes_during_the_upload() {
    let date = "Fri, 02 Jan 2026 03:04:05 GMT";
    for condition in ["if-match", "if-unmodified-since", "if-none-match"] {
        let app = Arc::new(TestApp::new().await);
        let target = "/v1/fs/f?modified=2026-01-02T03:04:05Z";
        let value = match condition {
            "if-match" => app.put(target, "1").await.header("etag").unwrap().to_owned(),
            "if-unmodified-since" => {
                app.put(target, "1").await.is(201);
                date.to_owned()
            }
            _ => "*".to_owned(),
        };
        let rival = app.clone();
        let body = futures_util::stream::once(async move {
            assert!(matches!(rival.put(target, "2").await.status, 200 | 201));
            Ok::<_, std::io::Error>("3")
        });
        let answer = app.send("PUT", "/v1/fs/f", &[(condition, &value)], Body::from_stream(body)).await;
        answer.problem(412, "precondition-failed");
        assert_eq!(app.get("/v1/fs/f").await.text(), "2", "{condition}");
    }
}

/// The date is older than any possible version.
#[tokio::test]
async fn a_date_condition_on_a_free_name_replaces_no_file_created_meanwhile() {
    let since = ("if-unmodified-since", "Thu, 01 Jan 2015 00:00:00 GMT");
    for more in [None, Some(("if-none-match", "\"other\""))] {
        let app = Arc::new(TestApp::new().await);
        let rival = app.clone();
        let body = futures_util::stream::once(async move {
            rival.put("/v1/fs/d/f", "the rival's").await.is(201);
            Ok::<_, std::io::Error>("mine")
        });
        let headers: Vec<_> = [since].into_iter().chain(more).collect();
        let answer = app.send("PUT", "/v1/fs/d/f", &headers, Body::from_stream(body)).await;
        answer.problem(412, "precondition-failed");
        assert_eq!(app.get("/v1/fs/d/f").await.text(), "the rival's");
        app.send("PUT", "/v1/fs/d/g", &headers, "x").await.is(201);
        // An obstacle is reported in the same way without a date.
        app.send("PUT", "/v1/fs/d", &headers, "x").await.problem(409, "is-directory");
        app.send("PUT", "/v1/fs/d/g/x", &headers, "x").await.problem(409, "parent-is-file");
        app.send("DELETE", "/v1/fs/d/none", &headers, "").await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn no_date_condition_is_true_for_a_directory() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/d/f", "/v1/fs/f"]).await;
    app.put("/v1/fs/empty/", "").await.is(201);
    for date in ["Thu, 01 Jan 2015 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"] {
        let since = [("if-unmodified-since", date)];
        for target in ["/v1/fs/d/", "/v1/fs/d/?recursive=true", "/v1/fs/empty/"] {
            app.send("DELETE", target, &since, "").await.problem(412, "precondition-failed");
        }
        app.send("PUT", "/v1/fs/d/", &since, "").await.problem(412, "precondition-failed");
        app.send("DELETE", "/v1/fs/none/?recursive=true", &since, "").await.problem(404, "not-found");
    }
    assert_eq!(app.names("/v1/fs/").await, ["d/", "empty/", "f"]);
    assert_eq!(app.names("/v1/fs/d/").await, ["f"]);
    app.send("PUT", "/v1/fs/new/", &[("if-unmodified-since", "Thu, 01 Jan 2015 00:00:00 GMT")], "").await.is(201);
}

#[tokio::test]
async fn exactly_one_of_many_concurrent_creates_wins() {
    let app = TestApp::new().await;
    let puts = (0..20).map(|_| app.send("PUT", "/v1/fs/d/f", &[("if-none-match", "*")], "x"));
    let statuses: Vec<_> = futures_util::future::join_all(puts).await.iter().map(|a| a.status).collect();
    assert_eq!(statuses.iter().filter(|s| **s == 201).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|s| matches!(s, 201 | 412)), "{statuses:?}");
}

#[tokio::test]
async fn a_file_never_replaces_a_directory_nor_a_directory_a_file() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f", "/v1/fs/d/f"]).await;
    for (target, problem) in [
        ("/v1/fs/d", "is-directory"),
        ("/v1/fs/f/", "is-file"),
        ("/v1/fs/f/x", "parent-is-file"),
        ("/v1/fs/f/x/", "parent-is-file"),
        ("/v1/fs/f/x/y?parents=false", "parent-is-file"),
    ] {
        app.put(target, "").await.problem(409, problem);
    }
    assert_eq!(app.names("/v1/fs/").await, ["d/", "f"]);
}

#[tokio::test]
async fn uploads_with_unsupported_headers_are_refused_unread() {
    let app = TestApp::new().await;
    for (headers, status, problem) in [
        ([("content-range", "bytes 0-1/2")], 400, "malformed"),
        ([("content-encoding", "gzip")], 415, "media-type"),
        ([("authorization", "Basic !")], 400, "malformed"),
        ([("content-length", "many")], 400, "malformed"),
    ] {
        let (body, read) = watched(b"x");
        app.send("PUT", "/v1/fs/f", &headers, body).await.problem(status, problem);
        assert!(!read.load(Ordering::Relaxed), "{headers:?}");
    }
    app.send("PUT", "/v1/fs/f", &[("content-encoding", "identity")], "x").await.is(201);
}

#[tokio::test]
async fn the_creator_is_what_the_client_says() {
    let app = TestApp::new().await;
    let basic = |name: &str| format!("Basic {}", STANDARD.encode(format!("{name}:secret")));
    for (header, creator) in [
        (basic("tom"), "tom"),
        (basic("e\u{301}va"), "éva"),
        (basic(""), "anonymous"),
        ("Bearer x".to_owned(), "anonymous"),
        (basic(&"u".repeat(255)), &"u".repeat(255)),
    ] {
        let made = app.send("PUT", "/v1/fs/f", &[("authorization", &header)], "x").await;
        assert_eq!(made.json()["creator"], creator, "{header}");
    }
    for bad in ["Basic".to_owned(), "Basic ???".to_owned(), basic("a\u{7}"), basic(&"u".repeat(256))] {
        for (method, target) in [("PUT", "/v1/fs/f"), ("GET", "/v1/fs/f"), ("GET", "/v1/files"), ("POST", "/v1/copy")] {
            app.send(method, target, &[("authorization", &bad)], "x").await.problem(400, "malformed");
        }
    }
    let tom = basic("tom");
    let made = app.send("PUT", "/v1/fs/d/", &[("authorization", &tom)], "").await.is(201);
    assert_eq!(made.json()["creator"], "tom");
    let body = serde_json::json!({"from": "/f", "to": "/g"}).to_string();
    let headers = [("authorization", tom.as_str()), ("content-type", "application/json")];
    assert_eq!(app.send("POST", "/v1/copy", &headers, body).await.is(201).json()["creator"], "tom");
}
