//! Shares to upload by: files come in, and nothing comes out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::shares::{make, put, with_files};
use super::{ADMIN, Api, walk};
use crate::http::access::world::{PASSWORD, basic, comparable};
use crate::http::openapi::{fits, schema};
use crate::http::test_app::{TestResponse, watched};

/// A link to add files to `/home/tom/a`.
async fn upload(api: &Api) -> (String, Value) {
    make(api, "tom", json!({"path": "/home/tom/a", "mode": "upload"})).await
}

impl Api {
    /// Sends a file without a credential.
    async fn add(&self, url: &str, name: &str, body: impl Into<Body>) -> TestResponse {
        self.add_with(url, name, &[], body).await
    }

    async fn add_with(&self, url: &str, name: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> TestResponse {
        let answer = self.app.send("PUT", &format!("{url}fs/{name}"), headers, body).await;
        let is_put = |of: &&(String, String, Value)| (of.0.as_str(), of.1.as_str()) == ("PUT", "/s/{secret}/fs/{path}");
        let (_, _, operation) = self.operations.iter().find(is_put).unwrap();
        let schema = schema(operation, &answer).unwrap_or_else(|why| panic!("{why}: {answer:?}")).unwrap();
        fits(&self.description, schema, &answer.json()).unwrap_or_else(|why| panic!("{why}: {answer:?}"));
        answer
    }

    async fn toms(&self, path: &str) -> TestResponse {
        self.by("tom", "GET", &format!("/v1/fs/home/tom/{path}"), Value::Null).await
    }

    async fn usage_of_tom(&self) -> Value {
        self.by("tom", "GET", "/v1/session", Value::Null).await.is(200).json()["usage"].clone()
    }

    /// The bytes that are left of the only share.
    async fn left(&self) -> Value {
        walk(self, "tom", "/v1/shares?limit=1", "shares").await[0]["bytes"].clone()
    }
}

#[tokio::test]
async fn a_share_to_upload_takes_files_and_shows_nothing() {
    let api = with_files().await;
    let (url, made) = upload(&api).await;
    let told = ["mode", "bytes", "downloads"].map(|member| made[member].clone());
    assert_eq!(json!(told), json!(["upload", 10u64 << 30, null]));
    let before = api.usage_of_tom().await;
    let answer = api.add_with(&url, "new.jpg", &[("x-oc-mtime", "1700000000")], "picture").await.is(201);
    assert_eq!(answer.json(), json!({"name": "new.jpg", "size": 7}));
    for header in ["location", "etag", "last-modified", "set-cookie"] {
        assert!(answer.header(header).is_none(), "{answer:?}");
    }
    let stat = api.by("tom", "GET", "/v1/stat/home/tom/a/new.jpg", Value::Null).await.is(200).json();
    let stored = ["creator", "type", "modified", "size"].map(|member| stat[member].clone());
    assert_eq!(json!(stored), json!(["tom", "image/jpeg", "2023-11-14T22:13:20.000Z", 7]));
    assert_eq!(api.left().await, (10u64 << 30) - 7);
    let usage = api.usage_of_tom().await;
    let grown = |member: &str| usage[member].as_u64().unwrap() - before[member].as_u64().unwrap();
    assert_eq!((grown("bytes"), grown("files")), (7, 1));
    // Nothing of it is shown, neither what was there nor what was sent: the same bytes as for a wrong link.
    let of_nobody = ["/s/", &"A".repeat(27), "/"].concat();
    for (method, path) in [
        ("GET", "fs/"),
        ("GET", "fs"),
        ("GET", "fs/f"),
        ("HEAD", "fs/f"),
        ("GET", "fs/new.jpg"),
        ("GET", "fs/b/"),
        ("GET", "fs/none"),
        ("DELETE", "fs/new.jpg"),
        ("POST", "fs/new.jpg"),
        ("PATCH", ""),
        ("GET", "none"),
        ("GET", "login"),
    ] {
        let [wrong, shown] = [&of_nobody, &url].map(|link| [link.as_str(), path].concat());
        let wrong = comparable(&api.app.send(method, &wrong, &[], "").await.is(404));
        assert_eq!(comparable(&api.app.send(method, &shown, &[], "").await), wrong, "{method} {path}");
    }
    let page = api.stranger(&url).await.is(200);
    for hidden in ["new.jpg", "fs/f", "tom", "//", &url] {
        assert!(!page.text().contains(hidden), "{hidden}: {}", page.text());
    }
    api.stranger(&format!("{url}?path=/b")).await.problem(400, "malformed");
    let to = api.stranger(url.trim_end_matches('/')).await.is(308);
    assert_eq!(to.header("location"), Some(url.as_str()));
    // The policy of the page lets this script run, and no other.
    let script = page.text().split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains(&format!("script-src '{}'", sha256(script))), "{policy}");
    assert!(policy.contains("connect-src 'self'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.text().matches("<script").count(), 1);
}

fn sha256(text: &str) -> String {
    use base64::Engine;
    use sha2::Digest;
    format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(text)))
}

/// What the form of the page sends: each file with its name.
fn form(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, content) in files {
        body.extend(
            format!("--limit\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{name}\"\r\n").bytes(),
        );
        body.extend([b"Content-Type: image/jpeg\r\n\r\n", *content, b"\r\n"].concat());
    }
    body.extend(b"--limit--\r\n");
    body
}

const FORM: [(&str, &str); 2] =
    [("origin", "http://localhost:8080"), ("content-type", "multipart/form-data; boundary=limit")];

#[tokio::test]
async fn the_form_of_a_share_works_without_its_script() {
    let api = with_files().await;
    let (url, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "upload", "bytes": 300_010})).await;
    let page = api.stranger(&url).await.is(200).text().to_owned();
    assert!(page.contains("<form method=\"post\" enctype=\"multipart/form-data\">"), "{page}");
    assert!(page.contains("<input name=\"files\" type=\"file\" multiple required>"), "{page}");
    let send = async |files: &[(&str, &[u8])]| api.app.send("POST", &url, &FORM, form(files)).await;
    let large = vec![b'\r'; 300_000];
    let sent = send(&[("f", b"one"), ("<b>&.jpg", &large), ("", b""), ("f", b"two")]).await.is(201);
    assert!(sent.text().contains("<li>f: sent</li>\n<li>&lt;b&gt;&amp;.jpg: sent</li>\n<li>f: sent</li>"), "{sent:?}");
    assert_eq!(sent.header("content-security-policy"), api.stranger(&url).await.header("content-security-policy"));
    assert_eq!(api.toms("a/").await.is(200).names(), ["b", "<b>&.jpg", "f", "f (2)", "f (3)"]);
    assert_eq!(api.toms("a/f%20(3)").await.is(200).text(), "two");
    assert_eq!(api.toms("a/%3Cb%3E%26.jpg").await.is(200).body.len(), large.len());
    let stat = api.by("tom", "GET", "/v1/stat/home/tom/a/f%20(2)", Value::Null).await.is(200).json();
    assert_eq!(stat["creator"], "tom");
    // What cannot be stored is told of, and the others are stored.
    let partly = send(&[("..", b"x"), ("five", b"12345"), ("last", b"4444")]).await.is(400);
    assert!(partly.text().contains("<li>..: not sent. "), "{partly:?}");
    assert!(partly.text().contains("<li>five: not sent. By this link"), "{partly:?}");
    assert!(partly.text().contains("<li>last: sent</li>"), "{partly:?}");
    assert_eq!(send(&[("five", b"12345")]).await.is(507).text().matches("<li>").count(), 1);
    assert_eq!(api.left().await, 0);
    // Nothing is chosen, no form, and one of another page.
    send(&[("", b"")]).await.problem(400, "malformed");
    api.app.send("POST", &url, &FORM[..1], "x").await.problem(415, "media-type");
    api.app.send("POST", &url, &FORM[1..], form(&[("g", b"")])).await.problem(403, "foreign-origin");
    let foreign = [("origin", "http://evil.example"), FORM[1]];
    api.app.send("POST", &url, &foreign, form(&[("g", b"")])).await.problem(403, "foreign-origin");
    let cut = form(&[("cut", b"")]);
    api.app.send("POST", &url, &FORM, cut[..cut.len() - 5].to_vec()).await.problem(400, "body-cut");
    let (part, cut) =
        (form(&[("whole", b""), ("cut", b"")]), "<li>The others: not sent. The form was not sent whole.</li>");
    let part = api.app.send("POST", &url, &FORM, part[..part.len() - 5].to_vec()).await.is(400);
    assert!(part.text().contains(&format!("<li>whole: sent</li>\n{cut}")), "{part:?}");
    let many: Vec<(&str, &[u8])> =
        std::iter::once(("more", &b""[..])).chain(std::iter::repeat_n(("", &b""[..]), 1_000)).collect();
    let many = send(&many).await.is(400);
    assert!(
        many.text().contains("<li>more: sent</li>\n<li>The others: not sent. A form has at most 1,000"),
        "{many:?}"
    );
    api.app.send("POST", &[&url, "?x=1"].concat(), &FORM, form(&[("g", b"")])).await.problem(400, "malformed");
    assert_eq!(api.toms("a/").await.is(200).names().len(), 8);
    // A share to read has no such form.
    let (read, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "read"})).await;
    let refused = api.app.send("POST", &read, &FORM, form(&[("g", b"")])).await.problem(405, "method-not-allowed");
    assert_eq!(refused.header("allow"), Some("GET, HEAD"));
}

#[tokio::test]
async fn nothing_is_replaced_and_a_name_that_is_taken_gets_a_number() {
    let api = with_files().await;
    let (url, _) = upload(&api).await;
    for (name, told, stored) in [
        ("f", "f", "f (2)"),
        ("f", "f", "f (3)"),
        ("b", "b", "b (2)"),
        ("cat.jpg", "cat.jpg", "cat.jpg"),
        ("cat.jpg", "cat.jpg", "cat (2).jpg"),
        ("cat%20(2).jpg", "cat (2).jpg", "cat (2) (2).jpg"),
        ("e%CC%81", "e\u{301}", "\u{e9}"),
        ("%C3%A9", "\u{e9}", "\u{e9} (2)"),
    ] {
        let answer = api.add(&url, name, stored).await.is(201).json();
        assert_eq!(answer["name"], told, "as it was sent");
        let path = rowdrive::api::path::encode(stored);
        assert_eq!(api.toms(&format!("a/{path}")).await.is(200).text(), stored, "{name}");
    }
    assert_eq!(api.toms("a/f").await.is(200).text(), "x");
    assert_eq!(api.toms("a/b/g").await.is(200).text(), "x");
}

#[tokio::test]
async fn an_upload_by_a_share_is_one_file_without_conditions() {
    let api = with_files().await;
    let (url, _) = upload(&api).await;
    for name in
        ["", "b/", "b/new", "new/", "%00", "..%2Fx", "%2E%2E", "new?parents=true", "new?modified=x", "new?unpack=tar"]
    {
        api.app.send("PUT", &format!("{url}fs/{name}"), &[], "x").await.problem(400, "malformed");
    }
    for header in ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"] {
        api.add_with(&url, "new", &[(header, "*")], "x").await.problem(400, "malformed");
    }
    api.add_with(&url, "new", &[("content-range", "bytes 0-0/1")], "x").await.problem(400, "malformed");
    api.add_with(&url, "new", &[("content-encoding", "gzip")], "x").await.problem(415, "media-type");
    api.add_with(&url, "new", &[("content-type", "none")], "x").await.problem(400, "malformed");
    let other = [("repr-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:")];
    api.add_with(&url, "new", &other, "x").await.problem(400, "digest-mismatch");
    api.add_with(&url, "new", &other, "").await.is(201);
    api.add(&url, "cut", super::super::test_app::broken(vec![7; 1_000])).await.problem(400, "body-cut");
    assert_eq!(api.toms("a/").await.is(200).names(), ["b", "f", "new"]);
    // Other sites cannot send files for someone, unless they know the link: then they could send them themselves.
    let foreign = [("origin", "http://evil.example")];
    api.add_with(&url, "new", &foreign, "x").await.problem(403, "foreign-origin");
    api.add_with(&url, "new", &[("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")], "x")
        .await
        .is(201);
    // No other credential is read.
    api.add_with(&url, "new", &[("authorization", &basic("eve", "wrong password"))], "x").await.is(201);
}

#[tokio::test]
async fn bytes_bound_what_is_uploaded_by_a_share() {
    let api = with_files().await;
    let (url, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "upload", "bytes": 10})).await;
    // By the length that is told, before the body is read; and while it comes.
    let (body, is_read) = watched(b"eleven bytes");
    let refused = api.add_with(&url, "f", &[("content-length", "12")], body).await.problem(507, "share-full");
    assert!(!is_read.load(std::sync::atomic::Ordering::Relaxed));
    for of_users in ["quota", "Your", "session", "user"] {
        assert!(!refused.text().contains(of_users), "{of_users}: {}", refused.text());
    }
    let pieces = stream::iter([6, 6, 1 << 20]).map(|size| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; size])));
    api.add(&url, "f", Body::from_stream(pieces)).await.problem(507, "share-full");
    assert_eq!(api.left().await, 10);
    api.add(&url, "f", "six by").await.is(201);
    assert_eq!(api.left().await, 4);
    api.add(&url, "f", "five.").await.problem(507, "share-full");
    api.add(&url, "f", "four").await.is(201);
    assert_eq!(api.left().await, 0);
    api.add(&url, "f", "1").await.problem(507, "share-full");
    // What is deleted was uploaded all the same.
    api.by("tom", "DELETE", "/v1/fs/home/tom/a/f%20(2)", Value::Null).await.is(204);
    api.add(&url, "f", "1").await.problem(507, "share-full");
    api.add(&url, "empty", "").await.is(201);
    api.stranger(&url).await.is(200);
    // His quota bounds it too, and a stranger does not learn which of both.
    let (url, _) = upload(&api).await;
    api.by(ADMIN, "PATCH", "/v1/users/tom", json!({"quota": {"files": 8}})).await.is(200);
    api.add(&url, "last", "x").await.is(201);
    let quota = api.add(&url, "more", "").await.problem(507, "share-full");
    assert_eq!(quota.json()["detail"], refused.json()["detail"]);
}

/// What is sent before it is found out, larger than content in a row.
const BEGIN: usize = 300_000;

/// What an upload answers that has not come in whole when `end` is done, some seconds later. `begin`: what its body begins
/// with, before [`BEGIN`] bytes.
async fn ended_while_sent<F: Future<Output = TestResponse>>(
    begin: &'static str,
    send: impl FnOnce(Body) -> F,
    end: impl Future<Output = TestResponse>,
) -> TestResponse {
    let (reached, ended) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (here, over) = (reached.clone(), ended.clone());
    let first = [begin.as_bytes(), &vec![b'x'; BEGIN]].concat();
    let pieces = stream::once(async { Ok::<_, std::io::Error>(Bytes::from(first)) }).chain(stream::once(async move {
        here.notify_one();
        // A client that goes on to send, slowly.
        while !over.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        std::future::pending().await
    }));
    let ending = async {
        reached.notified().await;
        let answer = end.await;
        assert!(answer.status < 300, "{answer:?}");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(6)).await;
        tokio::time::resume();
        ended.store(true, Ordering::SeqCst);
    };
    let both = async { tokio::join!(send(Body::from_stream(pieces)), ending) };
    tokio::time::timeout(Duration::from_secs(60), both).await.expect("it goes on").0
}

#[tokio::test]
async fn an_upload_breaks_off_within_seconds_of_the_end_of_its_link() {
    let api = with_files().await;
    let wrong = format!("/s/{}/fs/f", "A".repeat(27));
    let wrong = comparable(&api.app.send("PUT", &wrong, &[], "x").await.is(404));
    let field = "--limit\r\nContent-Disposition: form-data; name=\"files\"; filename=\"f\"\r\n\r\n";
    let disabled = |disabled: bool| api.by(ADMIN, "PATCH", "/v1/users/tom", json!({"disabled": disabled}));
    for by_form in [false, true] {
        for way in ["ended", "disabled", "unshared"] {
            let (url, made) = upload(&api).await;
            let (target, begin) = if by_form { (url.clone(), field) } else { (format!("{url}fs/f"), "") };
            let (method, headers) = if by_form { ("POST", &FORM[..]) } else { ("PUT", &[][..]) };
            let end = async {
                match way {
                    "ended" => {
                        api.by("tom", "DELETE", &format!("/v1/shares/{}", made["id"].as_str().unwrap()), Value::Null)
                            .await
                    }
                    "disabled" => disabled(true).await,
                    _ => api.by(ADMIN, "DELETE", "/v1/grants?path=/home/tom&user=tom", Value::Null).await,
                }
            };
            let answer = ended_while_sent(begin, |body| api.app.send(method, &target, headers, body), end).await;
            assert_eq!(comparable(&answer), wrong, "{way} {by_form}");
            // Nothing is held, and nothing is there.
            disabled(false).await.is(200);
            let rights = json!({"path": "/home/tom", "user": "tom", "rights": ["write", "share"]});
            api.by(ADMIN, "PUT", "/v1/grants", rights).await;
            assert_eq!(api.app.content_files(0).await.len(), 0, "{way} {by_form}");
            assert_eq!(api.toms("a/").await.is(200).names(), ["b", "f"]);
            let (url, _) = make(&api, "tom", json!({"path": "/home/tom/a/b", "mode": "upload", "bytes": 1})).await;
            api.add(&url, way, "x").await.is(201);
        }
    }
}

/// The same for users.
#[tokio::test]
async fn an_upload_of_a_user_breaks_off_within_seconds_of_the_end_of_his_right() {
    let api = with_files().await;
    let token = api.by("tom", "POST", "/v1/tokens", json!({"name": "x"})).await.is(201).json();
    let by_token = format!("Bearer {}", token["secret"].as_str().unwrap());
    let by_tom = basic("tom", PASSWORD);
    let end_token = format!("/v1/tokens/{}", token["id"].as_str().unwrap());
    let send =
        async |by: &str, target: &str, body: Body| api.app.send("PUT", target, &[("authorization", by)], body).await;
    let file = "/v1/fs/home/tom/a/new";
    let end = api.by("tom", "DELETE", &end_token, Value::Null);
    ended_while_sent("", |body| send(&by_token, file, body), end).await.problem(401, "unauthorized");
    let end = api.by(ADMIN, "DELETE", "/v1/grants?path=/home/tom&user=tom", Value::Null);
    ended_while_sent("", |body| send(&by_tom, file, body), end).await.problem(403, "forbidden");
    let rights = json!({"path": "/home/tom", "user": "tom", "rights": ["write", "share"]});
    api.by(ADMIN, "PUT", "/v1/grants", rights).await.is(201);
    // What is none of this goes on, also if its folder is made by it.
    send(&by_tom, "/v1/fs/home/tom/a/made/new", Body::from(vec![7; BEGIN])).await.is(201);
    let end = api.by(ADMIN, "PATCH", "/v1/users/tom", json!({"disabled": true}));
    ended_while_sent("", |body| send(&by_tom, file, body), end).await.problem(401, "unauthorized");
    assert_eq!(api.app.content_files(1).await.len(), 1);
}

/// curl adds the name of a file to an address that ends with a slash.
#[tokio::test]
async fn an_upload_beside_the_files_of_a_link_is_told_where_they_are() {
    let api = with_files().await;
    let (url, _) = upload(&api).await;
    let (read, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "read"})).await;
    let locked = json!({"path": "/home/tom/a", "mode": "upload", "password": PASSWORD});
    let (locked, _) = make(&api, "tom", locked).await;
    let (ended, made) = upload(&api).await;
    api.by("tom", "DELETE", &format!("/v1/shares/{}", made["id"].as_str().unwrap()), Value::Null).await.is(204);
    for path in ["photo.jpg", "", "fs", "a/b.jpg", "login"] {
        let wrong = api.app.send("PUT", &format!("/s/{}/{path}", "A".repeat(27)), &[], "x").await.is(404);
        assert!(wrong.json()["detail"].as_str().unwrap().contains("/s/<secret>/fs/<name>"), "{wrong:?}");
        for link in [&url, &read, &locked, &ended] {
            let answer = api.app.send("PUT", &format!("{link}{path}"), &[], "x").await;
            assert_eq!(comparable(&answer), comparable(&wrong), "{path}");
        }
    }
}

/// 32 strangers send at once, with room for five.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_uploads_by_a_share_at_once_none_passes_its_bytes() {
    let api = with_files().await;
    for (round, size) in [(0, 100), (1, 300 << 10)] {
        let bytes = size * 5 + size / 2;
        let target = json!({"path": "/home/tom/a", "mode": "upload", "bytes": bytes});
        let (url, made) = make(&api, "tom", target).await;
        let name = format!("{round}.jpg");
        let all = join_all((0..32).map(|_| api.add(&url, &name, vec![7; size]))).await;
        let stored = all.iter().filter(|answer| answer.status == 201).count();
        let refused = all.iter().filter(|answer| answer.status == 507).count();
        assert_eq!((stored, refused), (5, 27), "{all:?}");
        // All of one name, and all are there.
        let names = api.toms(&format!("a/?prefix={round}")).await.is(200).names();
        let expected: Vec<_> = (2..6).map(|n| format!("{round} ({n}).jpg")).chain([format!("{round}.jpg")]).collect();
        assert_eq!(names, expected);
        let listed = walk(&api, "tom", "/v1/shares?limit=1", "shares").await;
        let left = listed.iter().find(|share| share["id"] == made["id"]).unwrap()["bytes"].clone();
        assert_eq!(left, size / 2);
    }
}

#[tokio::test]
async fn a_share_to_upload_lasts_as_long_as_the_rights_of_its_maker() {
    let api = with_files().await;
    let (url, made) = upload(&api).await;
    let give = async |rights: Value| {
        let grant = json!({"path": "/home/tom", "user": "tom", "rights": rights});
        api.by(ADMIN, "PUT", "/v1/grants", grant).await.is(200);
    };
    let asked = json!({"path": "/home/tom/a", "mode": "upload"});
    for rights in [json!(["read"]), json!(["write"]), json!(["share"])] {
        give(rights).await;
        api.is_nothing(&url).await;
        api.by("tom", "POST", "/v1/shares", asked.clone()).await.problem(403, "forbidden");
    }
    give(json!(["share", "write"])).await;
    api.add(&url, "new", "x").await.is(201);
    // It follows its directory, and is not of another one at the path.
    let moved = json!({"from": "/home/tom/a", "to": "/home/tom/c"});
    api.by("tom", "POST", "/v1/move", moved).await.is(201);
    put(&api, "/v1/fs/home/tom/a/other", "x").await;
    api.add(&url, "new", "after the move").await.is(201);
    assert_eq!(api.toms("a/").await.names(), ["other"]);
    assert_eq!(api.toms("c/new%20(2)").await.is(200).text(), "after the move");
    for disabled in [true, false] {
        api.by(ADMIN, "PATCH", "/v1/users/tom", json!({"disabled": disabled})).await.is(200);
        api.add(&url, "x", "x").await.is(if disabled { 404 } else { 201 });
    }
    api.by("tom", "DELETE", "/v1/fs/home/tom/c/?recursive=true", Value::Null).await.is(204);
    api.is_nothing(&url).await;
    let id = made["id"].as_str().unwrap();
    api.by("tom", "DELETE", &format!("/v1/shares/{id}"), Value::Null).await.is(204);
    api.is_nothing(&url).await;
}

#[tokio::test]
async fn a_share_to_upload_with_a_password_takes_nothing_without_it() {
    let api = with_files().await;
    let password = "sesame, open";
    let asked = json!({"path": "/home/tom/a", "mode": "upload", "password": password});
    let (url, _) = make(&api, "tom", asked).await;
    let (body, is_read) = watched(b"x");
    api.add(&url, "new", body).await.problem(401, "unauthorized");
    assert!(!is_read.load(std::sync::atomic::Ordering::Relaxed));
    api.stranger(&format!("{url}fs/f")).await.is(401);
    api.add_with(&url, "new", &[("authorization", &basic("tom", PASSWORD))], "x").await.problem(401, "unauthorized");
    api.add_with(&url, "new", &[("authorization", &basic("tom", password))], "x").await.is(201);
    let own = ("origin", "http://localhost:8080");
    let form = [own, ("content-type", "application/x-www-form-urlencoded")];
    let done = api.app.send("POST", &format!("{url}login"), &form, "password=sesame%2C+open").await.is(303);
    let cookie = ("cookie", done.header("set-cookie").unwrap().split(';').next().unwrap());
    assert!(api.app.send("GET", &url, &[cookie], "").await.is(200).text().contains("<script>"));
    api.add_with(&url, "new", &[cookie, own], "x").await.is(201);
    api.add_with(&url, "new", &[cookie], "x").await.problem(403, "foreign-origin");
    api.app.send("GET", &format!("{url}fs/new"), &[cookie], "").await.problem(404, "not-found");
    assert_eq!(api.toms("a/").await.is(200).names(), ["b", "f", "new", "new (2)"]);
}
