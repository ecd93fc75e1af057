//! GET and HEAD of a file.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::test_app::{TestApp, TestResponse, bytes};

async fn with(app: &TestApp, method: &str, headers: &[(&str, &str)]) -> TestResponse {
    app.send(method, "/v1/fs/f.txt", headers, "").await
}

#[tokio::test]
async fn head_returns_the_headers_of_get() {
    let app = TestApp::new().await;
    app.put("/v1/fs/f.txt?modified=2026-01-02T03:04:05.678Z", "hello").await.is(201);
    let get = app.get("/v1/fs/f.txt").await.is(200);
    let head = app.send("HEAD", "/v1/fs/f.txt", &[], "").await.is(200);
    assert!(head.body.is_empty());
    let (mut a, mut b) = (get.headers.clone(), head.headers);
    a.remove("x-request-id");
    b.remove("x-request-id");
    assert_eq!(a, b);
    for (name, value) in [
        ("content-length", "5"),
        ("content-type", "text/plain"),
        ("last-modified", "Fri, 02 Jan 2026 03:04:05 GMT"),
        ("accept-ranges", "bytes"),
        ("repr-digest", "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:"),
        ("content-disposition", "inline; filename=\"f.txt\"; filename*=UTF-8''f.txt"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
        ("content-security-policy", "sandbox; default-src 'none'"),
    ] {
        assert_eq!(get.header(name), Some(value), "{name}");
    }
    assert!(get.header("access-control-allow-origin").is_none());
    for target in ["/v1/fs/nothing", "/v1/fs/f.txt/", "/v1/fs/f.txt/x", "/v1/stat/nothing", "/v1/fs/no/thing/"] {
        app.send("HEAD", target, &[], "").await.is(404);
        let missing = app.get(target).await.problem(404, "not-found");
        assert_eq!(missing.header("cross-origin-resource-policy"), Some("same-origin"));
    }
    app.get("/v1/fs/f.txt?limit=1").await.problem(400, "malformed");
    app.get("/v1/fs/f.txt?download=maybe").await.problem(400, "malformed");
}

#[tokio::test]
async fn conditions_are_evaluated_in_their_order() {
    let app = TestApp::new().await;
    let made = app.put("/v1/fs/f.txt?modified=2026-01-02T03:04:05.678Z", "hello").await;
    let tag = made.header("etag").unwrap().to_owned();
    let (weak, list) = (format!("W/{tag}"), format!("\"a\", {tag}"));
    let (before, same, after) =
        ("Fri, 02 Jan 2026 03:04:04 GMT", "Fri, 02 Jan 2026 03:04:05 GMT", "Fri, 02 Jan 2026 03:04:06 GMT");
    for (headers, status) in [
        (vec![("if-none-match", tag.as_str())], 304),
        (vec![("if-none-match", &weak)], 304),
        (vec![("if-none-match", &list)], 304),
        (vec![("if-none-match", "*")], 304),
        (vec![("if-none-match", "\"other\"")], 200),
        (vec![("if-none-match", "\"other\""), ("if-modified-since", after)], 200),
        (vec![("if-modified-since", same)], 304),
        (vec![("if-modified-since", after)], 304),
        (vec![("if-modified-since", before)], 200),
        (vec![("if-modified-since", "nonsense")], 200),
        (vec![("if-match", &tag)], 200),
        (vec![("if-match", "*")], 200),
        (vec![("if-match", &weak)], 412),
        (vec![("if-match", "\"other\"")], 412),
        (vec![("if-unmodified-since", before)], 412),
        (vec![("if-unmodified-since", same)], 200),
        (vec![("if-match", &tag), ("if-unmodified-since", before)], 200),
        (vec![("if-match", "\"other\""), ("if-none-match", &tag)], 412),
        (vec![("if-none-match", &tag), ("range", "bytes=99-")], 304),
        (vec![("if-none-match", "no quotes")], 400),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = with(&app, method, &headers).await.is(status);
            if status == 304 {
                assert_eq!((answer.header("etag"), answer.body.len()), (Some(tag.as_str()), 0));
                // Its length would be that of the file.
                assert!(["content-type", "content-length"].iter().all(|name| answer.header(name).is_none()));
            }
        }
    }
}

#[tokio::test]
async fn range_requests_return_exactly_their_bytes() {
    let app = TestApp::new().await;
    let content = bytes(900_000);
    let made = app.put("/v1/fs/f.txt?modified=2026-01-02T03:04:05Z", content.clone()).await;
    let tag = made.header("etag").unwrap().to_owned();
    let size = content.len();
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=0-", 0, size),
        ("bytes=-1", size - 1, size),
        ("bytes=-9999999", 0, size),
        ("bytes=262143-262144", 262_143, 262_145),
        ("bytes=262144-524287", 262_144, 524_288),
        ("bytes=100000-899999", 100_000, size),
        ("bytes=899999-99999999", size - 1, size),
    ] {
        let part = with(&app, "GET", &[("range", range)]).await.is(206);
        assert_eq!(part.header("content-range"), Some(format!("bytes {from}-{}/{size}", to - 1).as_str()));
        assert_eq!(part.header("content-length"), Some((to - from).to_string().as_str()));
        assert!(part.body == content[from..to], "{range}");
        assert_eq!(part.header("etag"), Some(tag.as_str()));
        assert!(part.header("repr-digest").is_some() && part.header("content-disposition").is_some());
        let head = with(&app, "HEAD", &[("range", range)]).await.is(200);
        assert_eq!(head.header("content-length"), Some(size.to_string().as_str()));
    }
    for range in ["bytes=900000-", "bytes=-0", "bytes=99999999999999999999-"] {
        let refused = with(&app, "GET", &[("range", range)]).await.problem(416, "range");
        assert_eq!(refused.header("content-range"), Some("bytes */900000"));
    }
    for range in ["bytes=0-1,5-6", "items=0-1", "bytes=5-4", "bytes=x"] {
        assert!(with(&app, "GET", &[("range", range)]).await.is(200).body == content, "{range}");
    }
    for (if_range, status) in [
        (tag.as_str(), 206),
        // The date of `Last-Modified`: two versions may have the same.
        ("Fri, 02 Jan 2026 03:04:05 GMT", 200),
        ("Fri, 02 Jan 2026 03:04:06 GMT", 200),
        ("\"other\"", 200),
        (&format!("W/{tag}"), 200),
    ] {
        with(&app, "GET", &[("range", "bytes=0-0"), ("if-range", if_range)]).await.is(status);
    }
    // A range of another version with the same second is never mixed in.
    let date = "Fri, 02 Jan 2026 03:04:05 GMT";
    app.put("/v1/fs/f.txt?modified=2026-01-02T03:04:05Z", "another version").await.is(200);
    let rest = with(&app, "GET", &[("range", "bytes=7-"), ("if-range", date)]).await.is(200);
    assert_eq!((rest.header("last-modified"), rest.text()), (Some(date), "another version"));
    app.put("/v1/fs/f.txt", "").await.is(200);
    with(&app, "GET", &[("range", "bytes=0-")]).await.problem(416, "range");
    with(&app, "GET", &[("range", "bytes=-5")]).await.is(200);
}

#[tokio::test]
async fn a_future_time_is_not_sent_as_last_modified() {
    let app = TestApp::new().await;
    app.put("/v1/fs/f.txt?modified=9999-01-01T00:00:00Z", "x").await.is(201);
    let got = app.get("/v1/fs/f.txt").await;
    assert!(!got.header("last-modified").unwrap().contains("9999"));
    app.put("/v1/fs/f.txt?modified=1955-11-05T06:15:00Z", "x").await.is(200);
    let got = app.get("/v1/fs/f.txt").await;
    assert_eq!(got.header("last-modified"), Some("Sat, 05 Nov 1955 06:15:00 GMT"));
    let since = [("if-modified-since", "Sat, 05 Nov 1955 06:15:00 GMT")];
    with(&app, "GET", &since).await.is(304);
}

/// Both file names of a `Content-Disposition`, parsed by RFC 6266.
fn names(header: &str) -> (String, String) {
    let ascii = header.split("filename=\"").nth(1).unwrap().split('"').next().unwrap();
    let encoded = header.split("filename*=UTF-8''").nth(1).unwrap();
    assert!(encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&+-.^_`|~%".contains(&b)), "{header}");
    (ascii.to_owned(), percent_decode_str(encoded).decode_utf8().unwrap().into_owned())
}

#[tokio::test]
async fn unusual_names_are_downloaded_unchanged() {
    let app = TestApp::new().await;
    for name in [
        "a b.txt",
        "照片.jpg",
        "😀.png",
        "a\"b.txt",
        "a\\b",
        "a;b=c",
        "50%.txt",
        "%41",
        "l'été",
        "a\u{202e}gpj.exe",
        "x'y*z",
        "..a",
        "a,b",
        "~!@#$^&()_+`-={}|[]:;<>?.",
        " ",
    ] {
        let target = format!("/v1/fs/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
        app.put(&target, "x").await.is(201);
        let got = app.get(&format!("{target}?download=1")).await.is(200);
        let header = got.header("content-disposition").unwrap();
        assert!(header.starts_with("attachment; "), "{header}");
        let (ascii, utf8) = names(header);
        assert_eq!(utf8, name);
        assert_eq!(ascii.chars().count(), name.chars().count());
        assert!(ascii.chars().all(|c| matches!(c, ' '..='~') && !"\"\\%".contains(c)), "{ascii}");
    }
}

#[tokio::test]
async fn active_content_is_sent_as_an_attachment() {
    let app = TestApp::new().await;
    for (mime, shown) in [
        ("image/jpeg", true),
        ("application/pdf", true),
        ("text/plain; charset=utf-8", true),
        ("video/mp4", true),
        ("image/svg+xml", false),
        ("IMAGE/SVG+XML", false),
        ("text/html", false),
        ("application/xhtml+xml", false),
        ("application/javascript", false),
        ("text/css", false),
    ] {
        app.send("PUT", "/v1/fs/f.txt", &[("content-type", mime)], "x").await;
        for (target, inline) in
            [("/v1/fs/f.txt", shown), ("/v1/fs/f.txt?download=0", shown), ("/v1/fs/f.txt?download=1", false)]
        {
            let got = app.get(target).await.is(200);
            let starts = if inline { "inline; " } else { "attachment; " };
            assert!(got.header("content-disposition").unwrap().starts_with(starts), "{mime} {target}");
            let policy = got.header("content-security-policy").unwrap();
            let played = "sandbox allow-same-origin; default-src 'none'; media-src 'self'";
            assert_eq!(
                policy,
                if mime.starts_with("video/") { played } else { "sandbox; default-src 'none'" },
                "{mime}"
            );
        }
    }
}

#[tokio::test]
async fn damaged_content_is_never_sent() {
    let app = TestApp::new().await;
    let content = bytes(3_000_000);
    app.put("/v1/fs/f.txt", content.clone()).await.is(201);
    let file = app.content_files(1).await.pop().unwrap();
    let flip = |at: usize| {
        let mut stored = std::fs::read(&file).unwrap();
        stored[at] ^= 1;
        std::fs::write(&file, stored).unwrap();
    };
    // In a late block: the promised body breaks off, and no byte of the damaged block is sent.
    flip(2_900_000);
    let got = app.get("/v1/fs/f.txt").await.is(200);
    assert!(got.cut);
    let early = with(&app, "GET", &[("range", "bytes=0-99")]).await.is(206);
    assert!(early.body == content[..100]);
    with(&app, "GET", &[("range", "bytes=2899999-2900000")]).await.problem(500, "damaged");
    flip(2_900_000);
    assert!(app.get("/v1/fs/f.txt").await.is(200).body == content);
    // In the first block: nothing was promised yet.
    flip(5);
    let refused = app.get("/v1/fs/f.txt").await.problem(500, "damaged");
    assert!(!refused.text().contains("content") || !refused.text().contains("CRC"), "{}", refused.text());
    std::fs::remove_file(&file).unwrap();
    app.get("/v1/fs/f.txt").await.problem(500, "damaged");
}
