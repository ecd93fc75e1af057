//! Directories: creation, listings, redirects and deletion.

use rowdrive::drive::{PutOptions, whole_body};
use rowdrive::schema::DrivePath;
use serde_json::Value;

use super::test_app::{TestApp, watched};

#[tokio::test]
async fn creating_a_directory_twice_is_idempotent() {
    let app = TestApp::new().await;
    let made = app.put("/v1/fs/a/b/", "").await.is(201);
    assert_eq!((made.header("location"), made.header("etag")), (Some("/v1/fs/a/b/"), None));
    assert_eq!((&made.json()["path"], &made.json()["kind"]), (&"/a/b".into(), &"directory".into()));
    let again = app.put("/v1/fs/a/b/", "").await.is(200);
    assert_eq!(again.json(), made.json());
    app.put("/v1/fs/", "").await.is(200);
    let any = [("if-none-match", "*")];
    app.send("PUT", "/v1/fs/a/", &any, "").await.problem(412, "precondition-failed");
    app.send("PUT", "/v1/fs/c/", &any, "").await.is(201);
    app.send("PUT", "/v1/fs/d/", &[("if-match", "*")], "").await.problem(412, "precondition-failed");
    app.send("PUT", "/v1/fs/c/", &[("if-match", "*")], "").await.is(200);
    assert_eq!(app.names("/v1/fs/").await, ["a/", "c/"]);
}

#[tokio::test]
async fn exactly_one_of_many_concurrent_mkdirs_creates_the_directory() {
    let app = TestApp::new().await;
    let puts = (0..20).map(|_| app.send("PUT", "/v1/fs/d/", &[("if-none-match", "*")], ""));
    let statuses: Vec<_> = futures_util::future::join_all(puts).await.iter().map(|a| a.status).collect();
    assert_eq!(statuses.iter().filter(|s| **s == 201).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|s| matches!(s, 201 | 412)), "{statuses:?}");
}

#[tokio::test]
async fn mkdir_refuses_a_body() {
    let app = TestApp::new().await;
    app.put("/v1/fs/a/", "content").await.problem(400, "malformed");
    let (body, read) = watched(b"content");
    app.send("PUT", "/v1/fs/a/", &[("content-length", "7")], body).await.problem(400, "malformed");
    assert!(!read.load(std::sync::atomic::Ordering::Relaxed));
    let (chunked, _) = watched(b"content");
    app.send("PUT", "/v1/fs/a/", &[("transfer-encoding", "chunked")], chunked).await.problem(400, "malformed");
    assert!(app.names("/v1/fs/").await.is_empty());
    let (empty, _) = watched(b"");
    app.send("PUT", "/v1/fs/a/", &[("transfer-encoding", "chunked")], empty).await.is(201);
}

#[tokio::test]
async fn only_empty_directories_are_deleted_without_recursive() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/a/f", "/v1/fs/g"]).await;
    app.delete("/v1/fs/a/").await.problem(409, "not-empty");
    app.delete("/v1/fs/a").await.problem(409, "is-directory");
    app.delete("/v1/fs/g/").await.problem(404, "not-found");
    app.delete("/v1/fs/g/x").await.problem(409, "parent-is-file");
    app.delete("/v1/fs/nothing").await.problem(404, "not-found");
    app.delete("/v1/fs/nothing/").await.problem(404, "not-found");
    app.delete("/v1/fs/no/thing").await.problem(404, "not-found");
    for target in ["/v1/fs/", "/v1/fs/?recursive=true"] {
        let root = app.delete(target).await.problem(405, "method-not-allowed");
        assert_eq!(root.header("allow"), Some("GET, HEAD, PUT"));
    }
    app.delete("/v1/fs/a/?recursive=yes").await.problem(400, "malformed");
    app.delete("/v1/fs/a/f?recursive=true").await.problem(400, "malformed");
    app.delete("/v1/fs/nothing/?recursive=true").await.problem(404, "not-found");
    app.delete("/v1/fs/g/?recursive=true").await.problem(404, "not-found");
    let gone = app.delete("/v1/fs/a/f").await.is(204);
    assert!(gone.body.is_empty());
    app.delete("/v1/fs/a/?recursive=false").await.is(204);
    assert_eq!(app.names("/v1/fs/").await, ["g"]);
}

#[tokio::test]
async fn preconditions_are_checked_for_delete() {
    let app = TestApp::new().await;
    let made = app.put("/v1/fs/f", "1").await;
    let tag = made.header("etag").unwrap().to_owned();
    app.put("/v1/fs/d/", "").await.is(201);
    for (target, name, value, status) in [
        ("/v1/fs/f", "if-match", "\"other\"", 412),
        ("/v1/fs/f", "if-none-match", "*", 412),
        ("/v1/fs/f", "if-none-match", &tag, 412),
        ("/v1/fs/nothing", "if-match", "*", 412),
        ("/v1/fs/nothing", "if-none-match", "*", 404),
        ("/v1/fs/no/thing", "if-match", &tag, 412),
        ("/v1/fs/f/below", "if-match", "*", 409),
        ("/v1/fs/d/", "if-match", &tag, 412),
        ("/v1/fs/d/", "if-none-match", "*", 412),
        ("/v1/fs/nothing/", "if-match", "*", 412),
        ("/v1/fs/nothing/", "if-none-match", "*", 404),
        ("/v1/fs/f", "if-match", &tag, 204),
        ("/v1/fs/d/", "if-match", "*", 204),
    ] {
        app.send("DELETE", target, &[(name, value)], "").await.is(status);
    }
}

#[tokio::test]
async fn listings_are_ordered_and_filtered() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/a/z/f", "/v1/fs/a/b", "/v1/fs/a/B", "/v1/fs/a/ba", "/v1/fs/a/%C3%A9", "/v1/fs/a/b0/f"]).await;
    let all = ["b0", "z", "B", "b", "ba", "é"];
    let page = app.get("/v1/fs/a/").await.is(200);
    assert_eq!(page.names(), all);
    assert_eq!((page.json()["path"].as_str(), page.next(), page.header("vary")), (Some("/a"), None, Some("Accept")));
    assert_eq!(page.json().as_object().unwrap().len(), 3);
    assert_eq!(page.json()["entries"][0], app.get("/v1/stat/a/b0").await.json());
    for (query, names) in [
        ("?kind=file", &all[2..]),
        ("?kind=directory", &all[..2]),
        ("?prefix=b", &["b0", "b", "ba"]),
        ("?prefix=b&kind=file", &["b", "ba"]),
        ("?prefix=e%CC%81", &["é"]),
        ("?prefix=", &all),
        ("?prefix=nothing", &[]),
        ("?limit=2", &all[..2]),
        ("?limit=6", &all),
        ("?limit=10000", &all),
    ] {
        assert_eq!(app.get(&format!("/v1/fs/a/{query}")).await.is(200).names(), names, "{query}");
    }
    for bad in [
        "?limit=0",
        "?limit=10001",
        "?limit=-1",
        "?limit=x",
        "?limit=",
        "?kind=link",
        "?kind=",
        "?prefix=a/b",
        "?prefix=%00",
        "?cursor=",
        "?cursor=AAAA",
        "?recursive=true",
        "?limit=1&limit=1",
        "?Limit=1",
    ] {
        app.get(&format!("/v1/fs/a/{bad}")).await.problem(400, "malformed");
    }
    let head = app.send("HEAD", "/v1/fs/a/", &[], "").await.is(200);
    assert_eq!((head.body.len(), head.header("content-length")), (0, Some(page.body.len().to_string().as_str())));
    assert_eq!(app.get("/v1/fs/").await.json()["path"], "/");
    let empty = app.put("/v1/fs/e/", "").await;
    assert_eq!(empty.status, 201);
    assert_eq!(app.get("/v1/fs/e/").await.text(), r#"{"path":"/e","entries":[],"next":null}"#);
}

#[tokio::test]
async fn listing_cursors_continue_and_are_bound_to_their_filters() {
    let app = TestApp::new().await;
    app.put("/v1/fs/other/", "").await.is(201);
    for i in 0..7 {
        app.files(&[&format!("/v1/fs/a/d{i}/f"), &format!("/v1/fs/a/f{i}")]).await;
    }
    let all = app.get("/v1/fs/a/").await.names();
    for limit in 1..=15 {
        let (mut seen, mut target) = (Vec::new(), format!("/v1/fs/a/?limit={limit}"));
        loop {
            let page = app.get(&target).await.is(200);
            assert!(page.names().len() <= limit + 1);
            seen.extend(page.names());
            let Some(next) = page.next() else { break };
            // The limit may change between pages.
            target = format!("/v1/fs/a/?limit={}&cursor={next}", limit + 1);
        }
        assert_eq!(seen, all, "{limit}");
    }
    let next = app.get("/v1/fs/a/?limit=3&prefix=d").await.next().unwrap();
    assert_eq!(app.get(&format!("/v1/fs/a/?prefix=d&cursor={next}")).await.names(), ["d3", "d4", "d5", "d6"]);
    for other in [
        format!("/v1/fs/a/?cursor={next}"),
        format!("/v1/fs/a/?prefix=f&cursor={next}"),
        format!("/v1/fs/a/?prefix=d&kind=directory&cursor={next}"),
        format!("/v1/fs/other/?prefix=d&cursor={next}"),
        format!("/v1/files?cursor={next}"),
        format!("/v1/find?name=d&cursor={next}"),
        format!("/v1/fs/a/?prefix=d&cursor={}", next.to_lowercase()),
        format!("/v1/fs/a/?prefix=d&cursor={next}A"),
        format!("/v1/fs/a/?prefix=d&cursor={}", &next[1..]),
    ] {
        app.get(&other).await.problem(400, "malformed");
    }
    // The entry of the cursor may be deleted meanwhile.
    app.delete("/v1/fs/a/d2/f").await.is(204);
    app.delete("/v1/fs/a/d2/").await.is(204);
    assert_eq!(app.get(&format!("/v1/fs/a/?prefix=d&cursor={next}")).await.names(), ["d3", "d4", "d5", "d6"]);
}

#[tokio::test]
async fn a_streamed_listing_is_complete_and_marks_its_end() {
    let app = TestApp::new().await;
    let count = 2_345;
    app.put("/v1/fs/many/sub/", "").await.is(201);
    for i in 0..count {
        let path = DrivePath::parse(&format!("/many/{i:05}")).unwrap();
        let options = PutOptions { parents: false, ..PutOptions::new("text/plain", "tom") };
        app.drive.unrestricted().put(&path, options, whole_body("x")).await.unwrap();
    }
    let accept = |mime| [("accept", mime)];
    let lines = app.send("GET", "/v1/fs/many/", &accept("application/x-ndjson"), "").await.is(200);
    assert_eq!((lines.header("content-type"), lines.header("vary")), (Some("application/x-ndjson"), Some("Accept")));
    let parsed: Vec<Value> = lines.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(parsed.len(), count + 2);
    assert_eq!((&parsed[0]["path"], &parsed[1]["name"]), (&"/many/sub".into(), &"00000".into()));
    assert_eq!(lines.text().lines().last(), Some(r#"{"done":true,"count":2346}"#));
    assert!(lines.text().ends_with('\n'));

    let names = app.send("GET", "/v1/fs/many/", &accept("text/plain"), "").await.is(200);
    assert_eq!(
        (names.header("content-type"), names.header("vary")),
        (Some("text/plain; charset=utf-8"), Some("Accept"))
    );
    assert_eq!(names.text().lines().count(), count + 1);
    assert!(names.text().starts_with("sub/\n00000\n00001\n"));
    let few = app.send("GET", "/v1/fs/many/?prefix=0123&kind=file", &accept("text/plain"), "").await;
    assert_eq!(few.text().lines().count(), 10);
    let none = app.send("GET", "/v1/fs/many/?prefix=x", &accept("application/x-ndjson"), "").await;
    assert_eq!(none.text(), "{\"done\":true,\"count\":0}\n");
    for mime in ["application/x-ndjson", "text/plain"] {
        for query in ["limit=5", "cursor=x"] {
            app.send("GET", &format!("/v1/fs/many/?{query}"), &accept(mime), "").await.problem(400, "malformed");
        }
        app.send("GET", "/v1/fs/nothing/", &accept(mime), "").await.problem(404, "not-found");
        let head = app.send("HEAD", "/v1/fs/many/", &accept(mime), "").await.is(200);
        assert!(head.body.is_empty());
    }
    assert_eq!(app.get("/v1/fs/many/").await.names().len(), 1000);
}

#[tokio::test]
async fn a_directory_without_its_slash_is_redirected() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/a/%E7%85%A7%3F/f", "/v1/fs/evil.example/f"]).await;
    for (target, location) in [
        ("/v1/fs/a", "/v1/fs/a/"),
        ("/v1/fs/a/照%3f", "/v1/fs/a/%E7%85%A7%3F/"),
        ("/v1/fs/a?limit=5&prefix=%2541", "/v1/fs/a/?limit=5&prefix=%2541"),
        ("/v1/fs", "/v1/fs/"),
        ("/v1/fs?kind=file", "/v1/fs/?kind=file"),
        ("/v1/fs/evil.example", "/v1/fs/evil.example/"),
    ] {
        for method in ["GET", "HEAD"] {
            let redirect = app.send(method, target, &[], "").await.is(308);
            assert_eq!(redirect.header("location"), Some(location), "{target}");
            assert_eq!(redirect.header("cache-control"), Some("no-store"));
        }
        assert!(matches!(app.get(location).await.status, 200 | 400));
    }
    for target in ["/v1/fs//evil.example", "/v1/fs/%2Fevil.example", "/v1/fs/%2F%2Fevil.example/"] {
        let refused = app.get(target).await.problem(400, "malformed");
        assert!(refused.header("location").is_none());
    }
}

/// Names, creators and types have their largest length, and JSON escapes double it.
#[tokio::test]
async fn a_page_of_long_entries_ends_early_without_losing_any() {
    const MANY: usize = 60;
    let app = TestApp::new().await;
    let creator = format!("Basic {}IiI6", "IiIi".repeat(84));
    let mime = format!("text/{}", "x".repeat(250));
    let headers = [("authorization", creator.as_str()), ("content-type", mime.as_str())];
    for n in 0..MANY {
        let target = format!("/v1/fs/d/a{n:02}{}", "%5C".repeat(252));
        app.send("PUT", &target, &headers, "x").await.is(201);
    }
    let all = app.names("/v1/fs/d/").await;
    assert_eq!(all.len(), MANY);
    for base in ["/v1/fs/d/?", "/v1/files?order=asc&", "/v1/find?name=A*&"] {
        let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = app.get(&format!("{base}limit={MANY}{cursor}")).await.is(200);
            assert!(page.body.len() <= MANY << 10, "{base}: {} bytes", page.body.len());
            seen.extend(page.names());
            pages += 1;
            let Some(next) = page.next() else { break };
            cursor = format!("&cursor={next}");
        }
        seen.sort();
        assert_eq!((&seen, pages > 1), (&all, true), "{base}");
    }
    let lines = app.send("GET", "/v1/fs/d/", &[("accept", "application/x-ndjson")], "").await.is(200);
    assert_eq!(lines.text().lines().count(), MANY + 1);
}
