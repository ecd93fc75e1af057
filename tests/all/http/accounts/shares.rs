//! `/v1/shares`: shares made, listed and revoked by users.

use serde_json::{Value, json};

use super::{ADMIN, Api, walk};
use crate::http::access::world::{PASSWORD, basic, comparable};
use crate::http::test_app::TestResponse;

/// With Tom's files: `/home/tom/a/f`, `/home/tom/a/b/g`, `/home/tom/x`, each with the byte `x`.
pub async fn with_files() -> Api {
    let api = Api::with_users().await;
    for target in ["/v1/fs/home/tom/a/f", "/v1/fs/home/tom/a/b/g", "/v1/fs/home/tom/x"] {
        put(&api, target, "x").await;
    }
    api
}

pub async fn put(api: &Api, target: &str, body: &str) {
    let headers = [("authorization", basic("tom", PASSWORD))];
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = api.app.send("PUT", target, &headers, body.to_owned()).await;
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
}

/// The link of a new share, and its JSON.
pub async fn make(api: &Api, by: &str, asked: Value) -> (String, Value) {
    let made = api.by(by, "POST", "/v1/shares", asked).await.is(201).json();
    let url = made["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("/s/") && url.ends_with('/') && url.len() == 3 + 27 + 1, "{url}");
    (url, made)
}

/// As [`make`], of a share of Tom's to read.
pub async fn read(api: &Api, path: &str) -> (String, Value) {
    make(api, "tom", json!({"path": path, "mode": "read"})).await
}

impl Api {
    /// Sends a request without a credential.
    pub async fn stranger(&self, target: &str) -> TestResponse {
        self.app.get(target).await
    }

    /// What a stranger finds no more: the same bytes as for a wrong link.
    pub async fn is_nothing(&self, url: &str) {
        let of_nobody = ["/s/", &"A".repeat(27), "/"].concat();
        for (method, rest) in [
            ("GET", ""),
            ("GET", "fs/"),
            ("GET", "fs/f"),
            ("GET", "fs/b/g"),
            ("GET", "fs"),
            ("GET", "none"),
            ("HEAD", "fs/f"),
            ("PUT", "fs/f"),
            ("PUT", "none"),
            ("POST", "login"),
        ] {
            let [wrong, ended] = [&of_nobody, url].map(|link| [link, rest].concat());
            let wrong = comparable(&self.app.send(method, &wrong, &[], "").await.is(404));
            let ended = comparable(&self.app.send(method, &ended, &[], "").await);
            assert_eq!(ended, wrong, "{method} {url}{rest}");
        }
        // People get a page.
        let pages = [&of_nobody, url].map(|link| self.app.send("GET", link, &[("accept", "text/html,*/*;q=0.8")], ""));
        let [wrong, ended] = pages;
        let (wrong, ended) = (wrong.await.is(404), ended.await);
        assert_eq!(wrong.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(comparable(&ended), comparable(&wrong), "{url}");
    }
}

#[tokio::test]
async fn shares_are_listed_by_their_maker_and_by_who_may_share_there() {
    let api = with_files().await;
    api.add_user("max").await;
    api.by(ADMIN, "PUT", "/v1/grants", json!({"path": "/home/tom/a", "user": "max", "rights": ["share"]}))
        .await
        .is(201);
    let (_, of_tom) = read(&api, "/home/tom/a").await;
    let expires = json!({"path": "/home/tom/a", "mode": "read", "expires": "2100-01-01T00:00:00Z", "downloads": 3});
    let (_, of_max) = make(&api, "max", expires).await;
    let found = ["path", "user", "mode", "expires", "downloads"].map(|member| of_max[member].clone());
    assert_eq!(json!(found), json!(["/home/tom/a", "max", "read", "2100-01-01T00:00:00.000Z", 3]));
    read(&api, "/home/tom/x").await;
    for (user, target, count) in [
        ("tom", "/v1/shares?limit=1", 2),
        ("max", "/v1/shares?limit=1", 1),
        (ADMIN, "/v1/shares?limit=1", 0),
        (ADMIN, "/v1/shares?user=tom&limit=1", 2),
        ("tom", "/v1/shares?path=/home/tom/a&limit=1", 2),
        ("max", "/v1/shares?path=/home/tom/a&limit=1", 2),
        (ADMIN, "/v1/shares?path=/home/tom/a&user=max&limit=1", 1),
        ("tom", "/v1/shares?path=/home/tom/x&limit=1", 1),
        ("tom", "/v1/shares?path=/home/tom&limit=1", 0),
    ] {
        let listed = walk(&api, user, target, "shares").await;
        assert_eq!(listed.len(), count, "{user} {target}: {listed:?}");
        assert!(listed.iter().all(|share| share.get("url").is_none()), "{listed:?}");
    }
    for (user, target, status) in [
        ("max", "/v1/shares?path=/home/tom/x", 404),
        ("max", "/v1/shares?path=/home/tom", 403),
        ("max", "/v1/shares?user=tom", 403),
        ("tom", "/v1/shares?path=/none", 404),
        (ADMIN, "/v1/shares?user=none", 404),
    ] {
        assert_eq!(api.status(user, "GET", target).await, status, "{user} {target}");
    }
    // Each ends his own, though both may share there.
    let id = of_tom["id"].as_str().unwrap();
    assert_eq!(api.status("max", "DELETE", &format!("/v1/shares/{id}")).await, 404);
    assert_eq!(api.status("max", "DELETE", &format!("/v1/shares/{id}?user=tom")).await, 403);
    assert_eq!(api.status("tom", "DELETE", &format!("/v1/shares/{id}")).await, 204);
    assert_eq!(api.status("tom", "DELETE", &format!("/v1/shares/{id}")).await, 404);
}

#[tokio::test]
async fn a_token_makes_shares_where_it_may_share() {
    let api = with_files().await;
    let token = async |rights: Value| {
        let asked = json!({"name": "t", "path": "/home/tom/a", "rights": rights});
        let made = api.by("tom", "POST", "/v1/tokens", asked).await.is(201).json();
        format!("Bearer {}", made["secret"].as_str().unwrap())
    };
    let (may, may_not) = (token(json!(["share"])).await, token(json!(["write"])).await);
    let share = async |token: &str, path: &str| {
        api.send(token, "POST", "/v1/shares", json!({"path": path, "mode": "read"})).await
    };
    share(&may_not, "/home/tom/a").await.problem(403, "forbidden");
    for target in ["/v1/shares", "/v1/shares?path=/home/tom/a"] {
        api.send(&may_not, "GET", target, Value::Null).await.problem(403, "forbidden");
    }
    share(&may, "/home/tom").await.problem(404, "not-found");
    share(&may, "/home/tom/x").await.problem(404, "not-found");
    let made = share(&may, "/home/tom/a/b").await.is(201).json();
    api.stranger(&format!("{}fs/g", made["url"].as_str().unwrap())).await.is(200);
    // It sees and ends what is in its directory, and nothing else of its user's.
    let (_, above) = read(&api, "/home/tom").await;
    let listed = api.send(&may, "GET", "/v1/shares", Value::Null).await.is(200).json();
    assert_eq!(listed["shares"].as_array().unwrap().len(), 1, "{listed}");
    let target = |share: &Value| format!("/v1/shares/{}", share["id"].as_str().unwrap());
    api.send(&may, "DELETE", &target(&above), Value::Null).await.problem(404, "not-found");
    api.send(&may_not, "DELETE", &target(&made), Value::Null).await.problem(403, "forbidden");
    api.send(&may, "DELETE", &target(&made), Value::Null).await.is(204);
}

#[tokio::test]
async fn malformed_shares_are_refused() {
    let api = with_files().await;
    for asked in [
        json!({"path": "/home/tom/a"}),
        json!({"path": "/home/tom/a", "mode": "write"}),
        json!({"path": "home", "mode": "read"}),
        json!({"path": "/home/tom/a", "mode": "read", "expires": "2020-01-01T00:00:00Z"}),
        json!({"path": "/home/tom/a", "mode": "read", "downloads": 0}),
        json!({"path": "/home/tom/a", "mode": "read", "downloads": -1}),
        json!({"path": "/home/tom/a", "mode": "read", "downloads": u64::MAX}),
        json!({"path": "/home/tom/a", "mode": "read", "user": "eve"}),
        json!({"path": "/home/tom/a", "mode": "read", "bytes": 1}),
        json!({"path": "/home/tom/a", "mode": "upload", "downloads": 1}),
        json!({"path": "/home/tom/a", "mode": "upload", "bytes": 0}),
        json!({"path": "/home/tom/a", "mode": "upload", "bytes": u64::MAX}),
        json!({"path": "/home/tom/a/f", "mode": "upload"}),
    ] {
        api.by("tom", "POST", "/v1/shares", asked).await.problem(400, "malformed");
    }
    for (path, status) in [("/none", 404), ("/home/tom/none", 404), ("/home/eve", 404), ("/home", 403), ("/", 403)] {
        let asked = json!({"path": path, "mode": "read"});
        assert_eq!(api.by("tom", "POST", "/v1/shares", asked).await.status, status, "{path}");
    }
    assert_eq!(walk(&api, "tom", "/v1/shares?limit=1", "shares").await.len(), 0);
}
