//! PUT: what is stored, and what is not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rowdrive::http::Options;
use sha2::{Digest, Sha256};

use super::site::{Site, broken, bytes, watched};

fn digest(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(bytes)))
}

#[tokio::test]
async fn an_upload_is_an_entry_with_its_headers() {
    let site = Site::new().await;
    let made = site.put("/v1/fs/a/b.jpg?modified=2026-01-02T03:04:05.6789Z", "hello").await.is(201);
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
    assert_eq!(site.get("/v1/stat/a/b.jpg").await.json(), entry);
    assert_eq!(site.get("/v1/fs/a/").await.json()["entries"][0], entry);

    // The same bytes again are a new version all the same.
    let again = site.put("/v1/fs/a/b.jpg", "hello").await.is(200).json();
    assert_ne!(again["id"], entry["id"]);
    assert_eq!(again["modified"], again["added"]);
    assert_eq!(site.get("/v1/fs/a/b.jpg").await.text(), "hello");

    let parent = site.get("/v1/stat/a").await.is(200);
    let members: Vec<_> = parent.json().as_object().unwrap().keys().cloned().collect();
    assert_eq!(members, ["added", "creator", "id", "kind", "modified", "name", "path"]);
    assert_eq!(parent.json()["modified"], parent.json()["added"]);
}

#[tokio::test]
async fn locations_are_encoded() {
    let site = Site::new().await;
    let made = site.put("/v1/fs/a%20b/%E7%85%A7%23%3F.jpg", "x").await.is(201);
    assert_eq!(made.header("location"), Some("/v1/fs/a%20b/%E7%85%A7%23%3F.jpg"));
    assert_eq!(made.json()["path"], "/a b/照#?.jpg");
    assert_eq!(site.put("/v1/fs/d%3Fir/", "").await.header("location"), Some("/v1/fs/d%3Fir/"));
}

#[tokio::test]
async fn content_of_any_size_comes_back() {
    let site = Site::new().await;
    for size in [0, 1, 262_143, 262_144, 262_145, 3_000_000] {
        let sent = bytes(size);
        let pieces = futures_util::stream::iter(
            sent.chunks(70_000).map(|c| Ok::<_, std::io::Error>(c.to_vec())).collect::<Vec<_>>(),
        );
        site.send("PUT", "/v1/fs/f", &[("repr-digest", &digest(&sent))], Body::from_stream(pieces)).await;
        let got = site.get("/v1/fs/f").await.is(200);
        assert!(!got.cut && got.body == sent, "{size}");
        assert_eq!(got.header("content-length"), Some(size.to_string().as_str()));
        assert_eq!(got.header("repr-digest"), Some(digest(&sent).as_str()));
    }
    site.put("/v1/fs/f", "small").await.is(200);
    assert_eq!(site.content_files(0).await.len(), 0);
}

#[tokio::test]
async fn missing_parents_are_made_unless_refused() {
    let site = Site::new().await;
    for target in ["/v1/fs/a/b/f?parents=false", "/v1/fs/a/b/?parents=false"] {
        site.put(target, "").await.problem(409, "parent-missing");
    }
    assert!(site.names("/v1/fs/").await.is_empty());
    site.put("/v1/fs/a/?parents=false", "").await.is(201);
    site.put("/v1/fs/a/f?parents=false", "x").await.is(201);
    site.put("/v1/fs/a/b/c/f?parents=true", "x").await.is(201);
    assert_eq!(site.names("/v1/fs/a/").await, ["b/", "f"]);
    for bad in ["?parents=no", "?parents=", "?parent=false", "?parents=false&parents=false", "?limit=1", "?download=1"]
    {
        site.put(&format!("/v1/fs/a/g{bad}"), "x").await.problem(400, "malformed");
    }
    site.put("/v1/fs/x/?modified=2026-01-01T00:00:00Z", "").await.problem(400, "malformed");
}

#[tokio::test]
async fn times_are_the_clients() {
    let site = Site::new().await;
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
        let made = site.send("PUT", target, &headers, "x").await;
        assert_eq!(made.json()["modified"], modified, "{target} {header:?}");
        let accepted = header.is_some() && !target.contains("modified");
        assert_eq!(made.header("x-oc-mtime"), accepted.then_some("accepted"), "{target} {header:?}");
    }
    for bad in ["", "1e9", "now", "0x10", "99999999999999", "1767323045,5", "+1", "-99999999999"] {
        site.send("PUT", "/v1/fs/t", &[("x-oc-mtime", bad)], "x").await.problem(400, "malformed");
    }
    site.send("PUT", "/v1/fs/t", &[("x-oc-mtime", "1"), ("x-oc-mtime", "2")], "x").await.problem(400, "malformed");
    for bad in ["", "2026-01-02", "2026-01-02T03:04:05", "1900-12-31T23:59:59Z", "1767323045", "2026-02-30T00:00:00Z"] {
        site.put(&format!("/v1/fs/t?modified={bad}"), "x").await.problem(400, "malformed");
    }
}

#[tokio::test]
async fn types_are_kept_or_guessed() {
    let site = Site::new().await;
    for (name, sent, stored) in [
        ("a.png", None, "image/png"),
        ("a.png", Some("application/octet-stream"), "image/png"),
        ("a.md", Some("application/x-www-form-urlencoded"), "text/markdown"),
        ("a.png", Some("text/x-odd; a=b"), "text/x-odd; a=b"),
        ("none", None, "application/octet-stream"),
    ] {
        let headers: Vec<_> = sent.map(|s| ("content-type", s)).into_iter().collect();
        let made = site.send("PUT", &format!("/v1/fs/{name}"), &headers, "x").await;
        assert_eq!(made.json()["type"], stored, "{name} {sent:?}");
        assert_eq!(site.get(&format!("/v1/fs/{name}")).await.header("content-type"), Some(stored));
    }
    for bad in ["jpeg", "image/png;, text/html", "image/png, text/html", "image/png; a=\"b"] {
        site.send("PUT", "/v1/fs/a", &[("content-type", bad)], "x").await.problem(400, "malformed");
        let posted = site.send("POST", "/v1/copy", &[("content-type", bad)], "{}").await;
        posted.problem(415, "media-type");
    }
    let list = "application/json;, text/html";
    site.send("POST", "/v1/copy", &[("content-type", list)], "{}").await.problem(415, "media-type");
    site.get("/v1/fs/a").await.is(404);
}

#[tokio::test]
async fn digests_are_verified_before_anything_is_made() {
    let site = Site::new().await;
    let good = digest(b"hello");
    for ok in [good.clone(), format!("md5=:AAAA:, {good}"), "sha-512=:AAAA:".to_owned()] {
        site.send("PUT", "/v1/fs/f", &[("repr-digest", &ok)], "hello").await;
        assert_eq!(site.get("/v1/fs/f").await.text(), "hello", "{ok}");
    }
    site.send("PUT", "/v1/fs/p/q/f", &[("repr-digest", &good)], "other").await.problem(400, "digest-mismatch");
    site.send("PUT", "/v1/fs/f", &[("repr-digest", &good)], "other").await.problem(400, "digest-mismatch");
    for bad in ["", "sha-256", "sha-256=x", "sha-256=:AAAA:", "sha-256=:!:", "SHA-256=:AAAA:", &good[..20]] {
        let (body, read) = watched(b"hello");
        site.send("PUT", "/v1/fs/f", &[("repr-digest", bad)], body).await.problem(400, "malformed");
        assert!(!read.load(Ordering::Relaxed), "{bad}");
    }
    let large = bytes(400_000);
    for header in ["repr-digest", "content-digest"] {
        site.send("PUT", "/v1/fs/p/f", &[(header, &good)], large.clone()).await.problem(400, "digest-mismatch");
        site.send("PUT", "/v1/fs/f", &[(header, "sha-256=:AAAA:")], "hello").await.problem(400, "malformed");
        let json = [("content-type", "application/json"), (header, good.as_str())];
        let copy = site.send("POST", "/v1/copy", &json, r#"{"from":"/f","to":"/p"}"#).await;
        copy.problem(400, "digest-mismatch");
    }
    // Both are checked, whichever is right.
    let other = digest(b"other");
    for headers in
        [[("repr-digest", &good), ("content-digest", &other)], [("repr-digest", &other), ("content-digest", &good)]]
    {
        let headers = headers.map(|(name, value)| (name, value.as_str()));
        site.send("PUT", "/v1/fs/p/f", &headers, "hello").await.problem(400, "digest-mismatch");
    }
    site.send("PUT", "/v1/fs/f", &[("repr-digest", &good), ("content-digest", &good)], "hello").await.is(200);
    assert_eq!(site.names("/v1/fs/").await, ["f"]);
    assert_eq!(site.get("/v1/fs/f").await.text(), "hello");
    assert_eq!(site.content_files(0).await.len(), 0);
}

#[tokio::test]
async fn cut_bodies_leave_nothing() {
    let site = Site::new().await;
    site.put("/v1/fs/old", "old").await.is(201);
    for size in [0, 10, 300_000, 2_000_000] {
        for target in ["/v1/fs/p/q/f", "/v1/fs/old"] {
            site.send("PUT", target, &[], broken(bytes(size))).await.problem(400, "body-cut");
            let length = (size + 1).to_string();
            site.send("PUT", target, &[("content-length", &length)], bytes(size)).await.problem(400, "body-cut");
        }
    }
    site.send("PUT", "/v1/fs/f", &[("content-length", "3")], "hello").await.problem(400, "body-cut");
    assert_eq!(site.names("/v1/fs/").await, ["old"]);
    assert_eq!(site.get("/v1/fs/old").await.text(), "old");
    assert_eq!(site.content_files(0).await.len(), 0);
}

#[tokio::test]
async fn bodies_over_the_limit_leave_nothing() {
    let site = Site::with(Options { max_body: Some(1000), ..Options::default() }).await;
    site.put("/v1/fs/f", bytes(1000)).await.is(201);
    let (body, read) = watched(b"hello");
    site.send("PUT", "/v1/fs/p/g", &[("content-length", "1001")], body).await.problem(413, "body-too-large");
    assert!(!read.load(Ordering::Relaxed));
    let pieces = futures_util::stream::iter((0..11).map(|_| Ok::<_, std::io::Error>(bytes(100))));
    site.put("/v1/fs/p/g", Body::from_stream(pieces)).await.problem(413, "body-too-large");
    assert_eq!(site.names("/v1/fs/").await, ["f"]);
}

#[tokio::test]
async fn preconditions_hold_at_put() {
    let site = Site::new().await;
    let made = site.put("/v1/fs/f", "1").await;
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
        site.send("PUT", target, &headers, body).await.is(status);
        assert!(!read.load(Ordering::Relaxed), "{target} {headers:?}");
    }
    assert_eq!(site.names("/v1/fs/").await, ["f"]);
    let second = site.send("PUT", "/v1/fs/f", &[("if-match", &first)], "2").await.is(200);
    site.send("PUT", "/v1/fs/f", &[("if-match", &first)], "3").await.problem(412, "precondition-failed");
    let list = format!("\"x\", {}", second.header("etag").unwrap());
    site.send("PUT", "/v1/fs/f", &[("if-match", &list)], "3").await.is(200);
    site.send("PUT", "/v1/fs/f", &[("if-match", "*")], "4").await.is(200);
    site.send("PUT", "/v1/fs/f", &[("if-none-match", &first)], "5").await.is(200);
    site.send("PUT", "/v1/fs/a/g", &[("if-none-match", "*")], "x").await.is(201);
    assert_eq!(site.get("/v1/fs/f").await.text(), "5");
}

#[tokio::test]
async fn a_date_pins_the_version_that_has_it() {
    let site = Site::new().await;
    site.put("/v1/fs/f?modified=2026-01-02T03:04:05Z", "1").await.is(201);
    let since = |date| [("if-unmodified-since", date)];
    site.send("PUT", "/v1/fs/f", &since("Fri, 02 Jan 2026 03:04:04 GMT"), "2")
        .await
        .problem(412, "precondition-failed");
    site.send("DELETE", "/v1/fs/f", &since("Fri, 02 Jan 2026 03:04:04 GMT"), "")
        .await
        .problem(412, "precondition-failed");
    site.send("PUT", "/v1/fs/f?modified=2026-01-02T03:04:05Z", &since("Fri, 02 Jan 2026 03:04:05 GMT"), "2")
        .await
        .is(200);
    site.send("PUT", "/v1/fs/new", &since("Fri, 02 Jan 2026 03:04:05 GMT"), "2").await.is(201);
    site.send("DELETE", "/v1/fs/f", &since("Fri, 02 Jan 2026 03:04:05 GMT"), "").await.is(204);
}

/// `Last-Modified` never lies in the future (RFC 9110 section 8.8.2.1), so a date from there is soon outdated.
#[tokio::test]
async fn a_file_from_the_future_is_replaced_by_its_own_date_and_by_no_earlier_one() {
    let site = Site::new().await;
    let made = site.put("/v1/fs/f?modified=2199-12-31T00:00:00Z", "1").await.is(201);
    let told = site.get("/v1/fs/f").await.header("last-modified").unwrap().to_owned();
    assert!(!told.contains("2199"), "{told}");
    let since = |date| [("if-unmodified-since", date)];
    site.send("PUT", "/v1/fs/f", &since("Fri, 02 Jan 2026 03:04:05 GMT"), "2")
        .await
        .problem(412, "precondition-failed");
    let own = since("Tue, 31 Dec 2199 00:00:00 GMT");
    site.send("PUT", "/v1/fs/f?modified=2199-12-31T00:00:00Z", &own, "2").await.is(200);
    let old = [("if-match", made.header("etag").unwrap())];
    site.send("PUT", "/v1/fs/f", &old, "3").await.problem(412, "precondition-failed");
    assert_eq!(site.get("/v1/fs/f").await.text(), "2");
}

#[tokio::test]
async fn preconditions_hold_at_the_commit_whatever_comes_while_the_body_is_sent() {
    let date = "Fri, 02 Jan 2026 03:04:05 GMT";
    for condition in ["if-match", "if-unmodified-since", "if-none-match"] {
        let site = Arc::new(Site::new().await);
        let target = "/v1/fs/f?modified=2026-01-02T03:04:05Z";
        let value = match condition {
            "if-match" => site.put(target, "1").await.header("etag").unwrap().to_owned(),
            "if-unmodified-since" => {
                site.put(target, "1").await.is(201);
                date.to_owned()
            }
            _ => "*".to_owned(),
        };
        let rival = site.clone();
        let body = futures_util::stream::once(async move {
            assert!(matches!(rival.put(target, "2").await.status, 200 | 201));
            Ok::<_, std::io::Error>("3")
        });
        let answer = site.send("PUT", "/v1/fs/f", &[(condition, &value)], Body::from_stream(body)).await;
        answer.problem(412, "precondition-failed");
        assert_eq!(site.get("/v1/fs/f").await.text(), "2", "{condition}");
    }
}

/// The date is older than anything that could come.
#[tokio::test]
async fn a_date_on_a_free_name_replaces_nothing_that_comes_meanwhile() {
    let since = ("if-unmodified-since", "Thu, 01 Jan 2015 00:00:00 GMT");
    for more in [None, Some(("if-none-match", "\"other\""))] {
        let site = Arc::new(Site::new().await);
        let rival = site.clone();
        let body = futures_util::stream::once(async move {
            rival.put("/v1/fs/d/f", "the rival's").await.is(201);
            Ok::<_, std::io::Error>("mine")
        });
        let headers: Vec<_> = [since].into_iter().chain(more).collect();
        let answer = site.send("PUT", "/v1/fs/d/f", &headers, Body::from_stream(body)).await;
        answer.problem(412, "precondition-failed");
        assert_eq!(site.get("/v1/fs/d/f").await.text(), "the rival's");
        site.send("PUT", "/v1/fs/d/g", &headers, "x").await.is(201);
        // What is in the way is told as without a date.
        site.send("PUT", "/v1/fs/d", &headers, "x").await.problem(409, "is-directory");
        site.send("PUT", "/v1/fs/d/g/x", &headers, "x").await.problem(409, "parent-is-file");
        site.send("DELETE", "/v1/fs/d/none", &headers, "").await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn no_date_holds_for_a_directory() {
    let site = Site::new().await;
    site.files(&["/v1/fs/d/f", "/v1/fs/f"]).await;
    site.put("/v1/fs/empty/", "").await.is(201);
    for date in ["Thu, 01 Jan 2015 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"] {
        let since = [("if-unmodified-since", date)];
        for target in ["/v1/fs/d/", "/v1/fs/d/?recursive=true", "/v1/fs/empty/"] {
            site.send("DELETE", target, &since, "").await.problem(412, "precondition-failed");
        }
        site.send("PUT", "/v1/fs/d/", &since, "").await.problem(412, "precondition-failed");
        site.send("DELETE", "/v1/fs/none/?recursive=true", &since, "").await.problem(404, "not-found");
    }
    assert_eq!(site.names("/v1/fs/").await, ["d/", "empty/", "f"]);
    assert_eq!(site.names("/v1/fs/d/").await, ["f"]);
    site.send("PUT", "/v1/fs/new/", &[("if-unmodified-since", "Thu, 01 Jan 2015 00:00:00 GMT")], "").await.is(201);
}

#[tokio::test]
async fn of_many_creators_one_wins() {
    let site = Site::new().await;
    let puts = (0..20).map(|_| site.send("PUT", "/v1/fs/d/f", &[("if-none-match", "*")], "x"));
    let statuses: Vec<_> = futures_util::future::join_all(puts).await.iter().map(|a| a.status).collect();
    assert_eq!(statuses.iter().filter(|s| **s == 201).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|s| matches!(s, 201 | 412)), "{statuses:?}");
}

#[tokio::test]
async fn kinds_never_replace_each_other() {
    let site = Site::new().await;
    site.files(&["/v1/fs/f", "/v1/fs/d/f"]).await;
    for (target, problem) in [
        ("/v1/fs/d", "is-directory"),
        ("/v1/fs/f/", "is-file"),
        ("/v1/fs/f/x", "parent-is-file"),
        ("/v1/fs/f/x/", "parent-is-file"),
        ("/v1/fs/f/x/y?parents=false", "parent-is-file"),
    ] {
        site.put(target, "").await.problem(409, problem);
    }
    assert_eq!(site.names("/v1/fs/").await, ["d/", "f"]);
}

#[tokio::test]
async fn what_no_upload_has_is_refused_unread() {
    let site = Site::new().await;
    for (headers, status, problem) in [
        ([("content-range", "bytes 0-1/2")], 400, "malformed"),
        ([("content-encoding", "gzip")], 415, "media-type"),
        ([("authorization", "Basic !")], 400, "malformed"),
        ([("content-length", "many")], 400, "malformed"),
    ] {
        let (body, read) = watched(b"x");
        site.send("PUT", "/v1/fs/f", &headers, body).await.problem(status, problem);
        assert!(!read.load(Ordering::Relaxed), "{headers:?}");
    }
    site.send("PUT", "/v1/fs/f", &[("content-encoding", "identity")], "x").await.is(201);
}

#[tokio::test]
async fn creators_are_who_they_say() {
    let site = Site::new().await;
    let basic = |name: &str| format!("Basic {}", STANDARD.encode(format!("{name}:secret")));
    for (header, creator) in [
        (basic("tom"), "tom"),
        (basic("e\u{301}va"), "éva"),
        (basic(""), "anonymous"),
        ("Bearer x".to_owned(), "anonymous"),
        (basic(&"u".repeat(255)), &"u".repeat(255)),
    ] {
        let made = site.send("PUT", "/v1/fs/f", &[("authorization", &header)], "x").await;
        assert_eq!(made.json()["creator"], creator, "{header}");
    }
    for bad in ["Basic".to_owned(), "Basic ???".to_owned(), basic("a\u{7}"), basic(&"u".repeat(256))] {
        for (method, target) in [("PUT", "/v1/fs/f"), ("GET", "/v1/fs/f"), ("GET", "/v1/files"), ("POST", "/v1/copy")] {
            site.send(method, target, &[("authorization", &bad)], "x").await.problem(400, "malformed");
        }
    }
    let tom = basic("tom");
    let made = site.send("PUT", "/v1/fs/d/", &[("authorization", &tom)], "").await.is(201);
    assert_eq!(made.json()["creator"], "tom");
    let body = serde_json::json!({"from": "/f", "to": "/g"}).to_string();
    let headers = [("authorization", tom.as_str()), ("content-type", "application/json")];
    assert_eq!(site.send("POST", "/v1/copy", &headers, body).await.is(201).json()["creator"], "tom");
}
