//! Links of shares to read: what a stranger gets by them, and when they end.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::shares::{make, put, read, with_files};
use super::{ADMIN, Api, walk};
use crate::http::access::world::{PASSWORD, basic};
use crate::http::test_app::TestResponse;

#[tokio::test]
async fn a_share_shows_a_directory_from_its_top() {
    let api = with_files().await;
    let (url, made) = read(&api, "/home/tom/a").await;
    let members: BTreeSet<_> = made.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        members,
        ["bytes", "created", "downloads", "expires", "id", "mode", "password", "path", "url", "user"].into()
    );
    let list = api.stranger(&format!("{url}fs/")).await.is(200);
    assert_eq!((list.names(), list.json()["path"].as_str()), (vec!["b".to_owned(), "f".to_owned()], Some("/")));
    let paths =
        |list: &TestResponse| list.json()["entries"].as_array().unwrap().iter().map(|e| e["path"].clone()).collect();
    let found: Vec<Value> = paths(&list);
    assert_eq!(found, ["/b", "/f"]);
    assert!(!list.text().contains("tom") && !list.text().contains("creator"), "{}", list.text());
    let below: Vec<Value> = paths(&api.stranger(&format!("{url}fs/b/")).await.is(200));
    assert_eq!(below, ["/b/g"]);
    // As under `/v1/fs/`.
    let file = api.stranger(&format!("{url}fs/f")).await.is(200);
    assert_eq!((file.text(), file.header("accept-ranges")), ("x", Some("bytes")));
    let etag = file.header("etag").unwrap();
    let send = async |method: &str, path: &str, headers: &[(&str, &str)]| {
        api.app.send(method, &[&url, path].concat(), headers, "").await
    };
    send("HEAD", "fs/f", &[]).await.is(200);
    send("GET", "fs/f", &[("if-none-match", etag)]).await.is(304);
    send("GET", "fs/f", &[("range", "bytes=0-0")]).await.is(206);
    send("GET", "fs/f", &[("range", "bytes=9-")]).await.problem(416, "range");
    send("GET", "fs/f?download=true", &[]).await.is(200);
    let to = send("GET", "fs/b?x=1", &[]).await.is(308);
    assert_eq!(to.header("location").unwrap(), format!("{url}fs/b/?x=1"));
    let to = api.stranger(url.trim_end_matches('/')).await.is(308);
    assert_eq!(to.header("location").unwrap(), url);
    let lines = send("GET", "fs/", &[("accept", "application/x-ndjson")]).await.is(200);
    assert!(!lines.text().contains("creator") && lines.text().lines().count() == 3, "{}", lines.text());
    for path in ["fs/none", "fs/none/", "fs/b/none", "fs/f/x", "fs/x"] {
        send("GET", path, &[]).await.problem(404, "not-found");
    }
    send("GET", "fs/../x", &[]).await.problem(400, "malformed");
    send("GET", "fs/%2E%2E/x", &[]).await.problem(400, "malformed");
    for method in ["PUT", "POST", "DELETE", "PATCH"] {
        // Whoever sends a file to the page is told where files go, whether there is such a link or not.
        for path in ["", "fs/", "fs/f"].into_iter().filter(|path| method != "PUT" || !path.is_empty()) {
            assert_eq!(send(method, path, &[]).await.is(405).header("allow"), Some("GET, HEAD"), "{method} {path}");
        }
    }
    // A path that is too long only below the directory.
    let long = vec!["x".repeat(255); 16].join("/");
    send("GET", &format!("fs/{long}"), &[]).await.problem(404, "not-found");
}

#[tokio::test]
async fn nobodys_other_credential_counts_at_a_link() {
    let api = with_files().await;
    let (url, _) = read(&api, "/home/tom/a").await;
    let admin = basic(ADMIN, PASSWORD);
    for authorization in [&admin, "Basic ?", "Bearer rd_none", &basic("tom", "incorrect horse")] {
        let headers = [("authorization", authorization)];
        api.app.send("GET", &format!("{url}fs/f"), &headers, "").await.is(200);
        api.app.send("GET", &format!("{url}fs/x"), &headers, "").await.is(404);
    }
    // Links are followed from other sites.
    let foreign = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
    let picture = api.app.send("GET", &format!("{url}fs/f"), &foreign, "").await.is(200);
    assert_eq!(picture.header("cross-origin-resource-policy"), Some("cross-origin"));
    // A secret of one kind is none of another.
    let secret = url.split('/').nth(2).unwrap();
    api.send(&format!("Bearer {secret}"), "GET", "/v1/session", Value::Null).await.is(401);
    api.app.send("GET", "/v1/session", &[("cookie", &format!("rowdrive={secret}"))], "").await.is(401);
    api.app.send("GET", "/v1/session", &[("authorization", &basic("", secret))], "").await.is(401);
    let token = api.by("tom", "POST", "/v1/tokens", json!({"name": "t"})).await.is(201).json();
    api.is_nothing(&format!("/s/{}/", token["secret"].as_str().unwrap())).await;
    api.is_nothing(&url.replace(secret, &secret.to_lowercase())).await;
}

#[tokio::test]
async fn a_share_follows_a_move_and_ends_with_its_directory() {
    let api = with_files().await;
    let (url, made) = read(&api, "/home/tom/a").await;
    let file = format!("{url}fs/f");
    let post = async |target: &str, from: &str, to: &str| {
        api.by("tom", "POST", target, json!({"from": from, "to": to})).await.is(201);
    };
    post("/v1/move", "/home/tom/a", "/home/tom/c").await;
    assert_eq!(api.stranger(&file).await.is(200).text(), "x");
    assert_eq!(walk(&api, "tom", "/v1/shares?limit=1", "shares").await[0]["path"], "/home/tom/c");
    // Another one at the old path, also one that the share was of in another life.
    put(&api, "/v1/fs/home/tom/a/f", "other").await;
    assert_eq!(api.stranger(&file).await.is(200).text(), "x");
    post("/v1/move", "/home/tom/c/b", "/home/tom/a/b").await;
    api.stranger(&format!("{url}fs/b/g")).await.is(404);
    api.by("tom", "DELETE", "/v1/fs/home/tom/c/?recursive=true", Value::Null).await.is(204);
    api.is_nothing(&url).await;
    post("/v1/move", "/home/tom/a", "/home/tom/c").await;
    api.is_nothing(&url).await;
    // It can still be revoked.
    assert_eq!(walk(&api, "tom", "/v1/shares?limit=1", "shares").await[0]["path"], Value::Null);
    let id = made["id"].as_str().unwrap();
    api.by("tom", "DELETE", &format!("/v1/shares/{id}"), Value::Null).await.is(204);
    assert_eq!(walk(&api, "tom", "/v1/shares?limit=1", "shares").await.len(), 0);
}

#[tokio::test]
async fn a_share_of_a_file_has_it_alone_and_ends_when_it_is_replaced() {
    let api = with_files().await;
    put(&api, "/v1/fs/home/tom/a/large", &"y".repeat(300 << 10)).await;
    let (url, _) = read(&api, "/home/tom/a/f").await;
    let (large, _) = read(&api, "/home/tom/a/large").await;
    assert_eq!(api.stranger(&format!("{large}fs/large")).await.is(200).body.len(), 300 << 10);
    let list = api.stranger(&format!("{url}fs/")).await.is(200);
    assert_eq!((list.names(), list.next()), (vec!["f".to_owned()], None));
    assert!(!list.text().contains("creator") && list.json()["entries"][0]["path"] == "/f", "{}", list.text());
    for (query, names) in [("prefix=f", 1), ("prefix=g", 0), ("kind=file", 1), ("kind=directory", 0), ("limit=1", 1)] {
        let page = api.stranger(&format!("{url}fs/?{query}")).await.is(200);
        assert_eq!((page.names().len(), page.next()), (names, None), "{query}");
    }
    assert_eq!(api.stranger(&format!("{url}fs/f")).await.is(200).text(), "x");
    assert!(api.stranger(&url).await.is(200).text().contains("fs/f"));
    for path in ["fs/large", "fs/b/", "fs/b/g", "fs/f/", "fs/a/f"] {
        api.stranger(&[&url, path].concat()).await.problem(404, "not-found");
    }
    let moved = json!({"from": "/home/tom/a/f", "to": "/home/tom/renamed"});
    api.by("tom", "POST", "/v1/move", moved).await.is(201);
    put(&api, "/v1/fs/home/tom/a/f", "another").await;
    assert_eq!(api.stranger(&format!("{url}fs/renamed")).await.is(200).text(), "x");
    api.stranger(&format!("{url}fs/f")).await.problem(404, "not-found");
    assert_eq!(walk(&api, "tom", "/v1/shares?path=/home/tom/renamed&limit=1", "shares").await.len(), 1);
    put(&api, "/v1/fs/home/tom/renamed", "new").await;
    for path in ["fs/", "fs/renamed", "fs/f"] {
        api.stranger(&[&url, path].concat()).await.problem(404, "not-found");
    }
    api.by("tom", "DELETE", "/v1/fs/home/tom/a/?recursive=true", Value::Null).await.is(204);
    api.stranger(&format!("{large}fs/large")).await.problem(404, "not-found");
}

#[tokio::test]
async fn a_share_lasts_as_long_as_the_rights_of_its_maker() {
    let api = with_files().await;
    let (url, made) = read(&api, "/home/tom/a").await;
    let (of_file, _) = read(&api, "/home/tom/a/f").await;
    let shown = async || {
        let links = [&url, &of_file].map(|url| format!("{url}fs/f"));
        [api.stranger(&links[0]).await.status, api.stranger(&links[1]).await.status]
    };
    let give = async |rights: Value| {
        let grant = json!({"path": "/home/tom", "user": "tom", "rights": rights});
        api.by(ADMIN, "PUT", "/v1/grants", grant).await.is(200);
    };
    assert_eq!(shown().await, [200, 200]);
    for rights in [json!(["read"]), json!(["write"])] {
        give(rights).await;
        assert_eq!(shown().await, [404, 404]);
        let asked = json!({"path": "/home/tom/a", "mode": "read"});
        api.by("tom", "POST", "/v1/shares", asked).await.problem(403, "forbidden");
    }
    give(json!(["share"])).await;
    assert_eq!(shown().await, [200, 200]);
    let disable = async |disabled: bool| {
        api.by(ADMIN, "PATCH", "/v1/users/tom", json!({"disabled": disabled})).await.is(200);
    };
    disable(true).await;
    api.is_nothing(&url).await;
    disable(false).await;
    assert_eq!(shown().await, [200, 200]);
    // A new password of his does not end it.
    api.by(ADMIN, "PATCH", "/v1/users/tom", json!({"password": "another horse"})).await.is(200);
    assert_eq!(shown().await, [200, 200]);
    let id = made["id"].as_str().unwrap();
    api.by(ADMIN, "DELETE", &format!("/v1/shares/{id}"), Value::Null).await.problem(404, "not-found");
    api.by(ADMIN, "DELETE", &format!("/v1/shares/{id}?user=tom"), Value::Null).await.is(204);
    assert_eq!(shown().await, [404, 200]);
    api.is_nothing(&url).await;
    api.by(ADMIN, "DELETE", "/v1/users/tom", Value::Null).await.is(204);
    api.is_nothing(&of_file).await;
}

#[tokio::test]
async fn a_cursor_of_a_share_is_of_use_to_it_alone() {
    let api = with_files().await;
    let (url, _) = read(&api, "/home/tom/a").await;
    let (other, _) = read(&api, "/home/tom/a").await;
    let first = api.stranger(&format!("{url}fs/?limit=1")).await.is(200);
    let cursor = first.next().unwrap();
    assert_eq!(first.names(), ["b"]);
    let target = |url: &str| format!("{url}fs/?limit=1&cursor={cursor}");
    assert_eq!(first.header("link").unwrap(), format!("<{}>; rel=\"next\"", target(&url)));
    let second = api.stranger(&target(&url)).await.is(200);
    assert_eq!((second.names(), second.next()), (vec!["f".to_owned()], None));
    api.stranger(&target(&other)).await.problem(400, "malformed");
    let of_maker = api.by("tom", "GET", &format!("/v1/fs/home/tom/a/?limit=1&cursor={cursor}"), Value::Null).await;
    of_maker.problem(400, "malformed");
}

#[tokio::test]
async fn the_page_shows_the_files_without_scripts() {
    let api = with_files().await;
    put(&api, "/v1/fs/home/tom/a/%3Cb%3E%22%26'", "x").await;
    let (url, _) = read(&api, "/home/tom/a").await;
    let page = api.stranger(&url).await.is(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("referrer-policy"), Some("same-origin"));
    assert_eq!((page.header("cache-control"), page.header("x-frame-options")), (Some("no-store"), Some("DENY")));
    let html = page.text();
    for part in ["fs/f\"", "fs/%3Cb%3E%22%26%27\"", "&lt;b&gt;&quot;&amp;&#39;", "?path=%2Fb\""] {
        assert!(html.contains(part), "{part}: {html}");
    }
    for part in ["<b>", "tom", "script", "//", url.as_str()] {
        assert!(!html.contains(part), "{part}: {html}");
    }
    // A file that is gone.
    let none = api.app.send("GET", &format!("{url}fs/none"), &[("accept", "text/html,*/*;q=0.8")], "").await.is(404);
    assert!(none.text().contains("the file is gone"), "{}", none.text());
    let below = api.stranger(&format!("{url}?path=/b")).await.is(200);
    assert!(below.text().contains("fs/b/g\"") && below.text().contains("?path=%2F\""), "{}", below.text());
    api.stranger(&format!("{url}?path=/none")).await.problem(404, "not-found");
    api.stranger(&format!("{url}?path=b")).await.problem(400, "malformed");
    api.stranger(&format!("{url}?nonsense=1")).await.problem(400, "malformed");
    // More than fit on a page.
    for n in 0..201 {
        put(&api, &format!("/v1/fs/home/tom/many/{n:03}"), "x").await;
    }
    let (url, _) = read(&api, "/home/tom/many").await;
    let html = api.stranger(&url).await.is(200).text().to_owned();
    let next = html.split("<p><a href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    assert!(html.contains("fs/199\"") && !html.contains("fs/200\""), "{html}");
    let html = api.stranger(&[&url, next.as_str()].concat()).await.is(200);
    let cursor = next.split("cursor=").nth(1).unwrap();
    api.stranger(&format!("{url}?path=/other&cursor={cursor}")).await.problem(400, "malformed");
    assert!(html.text().contains("fs/200\"") && !html.text().contains("More"), "{}", html.text());
}

#[tokio::test]
async fn downloads_are_counted_before_their_first_byte() {
    let api = with_files().await;
    put(&api, "/v1/fs/home/tom/a/empty", "").await;
    let (url, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "read", "downloads": 3})).await;
    let left =
        async || walk(&api, "tom", "/v1/shares?path=/home/tom/a&limit=1", "shares").await[0]["downloads"].clone();
    let send = async |method: &str, path: &str, headers: &[(&str, &str)]| {
        api.app.send(method, &[&url, path].concat(), headers, "").await
    };
    let head = send("HEAD", "fs/f", &[]).await.is(200);
    let etag = head.header("etag").unwrap();
    send("GET", "", &[]).await.is(200);
    send("GET", "fs/", &[]).await.is(200);
    send("GET", "fs/f", &[("if-none-match", etag)]).await.is(304);
    send("GET", "fs/f", &[("if-match", "\"other\"")]).await.is(412);
    send("GET", "fs/none", &[]).await.is(404);
    assert_eq!(left().await, 3, "nothing of this is a download");
    // No part counts less than the whole.
    let whole = send("GET", "fs/f", &[("range", "bytes=0-0")]).await.is(200);
    assert_eq!((whole.text(), whole.header("accept-ranges")), ("x", Some("none")));
    assert_eq!(left().await, 2);
    send("GET", "fs/empty", &[]).await.is(200);
    assert_eq!(left().await, 1);
    send("GET", "fs/b/g", &[]).await.is(200);
    api.is_nothing(&url).await;
    assert_eq!(walk(&api, "tom", "/v1/shares?limit=1", "shares").await.len(), 0);
}

/// 32 clients are at the last downloads at once.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_download_is_served_once() {
    for limit in [1, 2, 31] {
        let api = with_files().await;
        let (url, _) = make(&api, "tom", json!({"path": "/home/tom/a/f", "mode": "read", "downloads": limit})).await;
        let link = format!("{url}fs/f");
        let all = futures_util::future::join_all((0..32).map(|_| api.stranger(&link))).await;
        let served = all.iter().filter(|answer| answer.status == 200).count();
        let refused = all.iter().filter(|answer| answer.status == 404).count();
        assert_eq!((served, refused), (limit, 32 - limit));
    }
}

#[tokio::test]
async fn a_share_expires_at_its_time() {
    let api = with_files().await;
    let soon = std::time::SystemTime::now() + std::time::Duration::from_millis(1_500);
    let ms = soon.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let expires = rowdrive::schema::Timestamp::from_ms(ms).rfc3339();
    let (url, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "read", "expires": expires})).await;
    api.stranger(&format!("{url}fs/f")).await.is(200);
    tokio::time::sleep(std::time::Duration::from_millis(1_600)).await;
    api.is_nothing(&url).await;
    assert_eq!(walk(&api, "tom", "/v1/shares?limit=1", "shares").await.len(), 0);
}

#[tokio::test]
async fn without_users_there_are_no_links() {
    let api = Api::new().await;
    api.is_nothing("/s/x/").await;
    for method in ["PUT", "POST", "DELETE"] {
        api.app.send(method, "/s/x/fs/f", &[], "").await.problem(404, "not-found");
    }
}
