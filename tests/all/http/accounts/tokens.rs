//! Tokens: made, used, revoked.

use serde_json::{Value, json};

use super::super::access::world::{PASSWORD, basic};
use super::{ADMIN, Api, walk};

async fn make(api: &Api, by: &str, token: Value) -> (String, Value) {
    make_by(api, &basic(by, PASSWORD), token).await
}

async fn make_by(api: &Api, authorization: &str, token: Value) -> (String, Value) {
    let made = api.send(authorization, "POST", "/v1/tokens", token).await.is(201).json();
    (format!("Bearer {}", made["secret"].as_str().unwrap()), made)
}

async fn status(api: &Api, token: &str, method: &str, target: &str) -> u16 {
    api.send(token, method, target, Value::Null).await.status
}

#[tokio::test]
async fn a_token_for_a_directory_does_no_more_than_it_says() {
    let api = Api::with_users().await;
    for dir in ["/v1/fs/home/tom/a/b/", "/v1/fs/home/tom/c/"] {
        api.by("tom", "PUT", dir, Value::Null).await.is(201);
    }
    let asked = json!({"name": "phone", "path": "/home/tom/a", "rights": ["read"], "expires": "2100-01-01T00:00:00Z"});
    let (token, made) = make(&api, "tom", asked).await;
    assert!(token.starts_with("Bearer rd_"));
    let expected = json!(["phone", "/home/tom/a", ["read"], "2100-01-01T00:00:00.000Z", false, null]);
    let found = ["name", "path", "rights", "expires", "account", "last_used"].map(|member| made[member].clone());
    assert_eq!(json!(found), expected);
    let seen = ["/v1/stat/home/tom/a/b", "/v1/stat/home/tom/c", "/v1/stat/home"]
        .map(|target| status(&api, &token, "GET", target));
    let [below, beside, above] = seen;
    assert_eq!([below.await, beside.await, above.await], [200, 404, 404]);
    assert_eq!(status(&api, &token, "PUT", "/v1/fs/home/tom/a/new/").await, 403);
    let session = api.send(&token, "GET", "/v1/session", Value::Null).await.is(200).json();
    let rights = json!([{"path": "/home/tom/a", "rights": ["read"]}]);
    let seen = ["user", "admin", "rights"].map(|member| session[member].clone());
    assert_eq!(seen, [json!("tom"), json!(false), rights]);
    // Nothing of accounts.
    for target in ["/v1/sessions", "/v1/tokens", "/v1/grants", "/v1/users/tom"] {
        assert_eq!(status(&api, &token, "GET", target).await, 403, "{target}");
    }
    api.send(&token, "POST", "/v1/tokens", json!({"name": "more"})).await.problem(403, "forbidden");
    let given = json!({"path": "/home/tom/a", "user": "eve", "rights": ["read"]});
    api.send(&token, "PUT", "/v1/grants", given).await.problem(403, "forbidden");
    // It moves with its directory, and is as good as its user's rights.
    api.by("tom", "POST", "/v1/move", json!({"from": "/home/tom/a", "to": "/home/tom/c/a"})).await.is(201);
    assert_eq!(status(&api, &token, "GET", "/v1/stat/home/tom/c/a/b").await, 200);
    assert_eq!(walk(&api, "tom", "/v1/tokens?limit=1", "tokens").await[0]["path"], "/home/tom/c/a");
    api.by(ADMIN, "DELETE", "/v1/grants?path=/home/tom&user=tom", Value::Null).await.is(204);
    assert_eq!(status(&api, &token, "GET", "/v1/stat/home/tom/c/a/b").await, 404);
    assert_eq!(walk(&api, "tom", "/v1/tokens?limit=1", "tokens").await[0]["path"], Value::Null);
}

#[tokio::test]
async fn a_token_for_the_account_does_all_that_its_user_may() {
    let api = Api::with_users().await;
    let (token, made) = make(&api, ADMIN, json!({"name": "all"})).await;
    assert_eq!((&made["account"], &made["path"]), (&json!(true), &Value::Null));
    assert_eq!(status(&api, &token, "GET", "/v1/users").await, 200);
    let (_, other) = make(&api, "tom", json!({"name": "other"})).await;
    let listed = walk(&api, "tom", "/v1/tokens?limit=1", "tokens").await;
    assert_eq!(listed.len(), 1);
    assert!(listed[0].get("secret").is_none() && listed[0]["name"] == "other", "{listed:?}");
    let id = other["id"].as_str().unwrap();
    assert_eq!(status(&api, &token, "DELETE", &format!("/v1/tokens/{id}")).await, 404, "not hers");
    assert_eq!(walk(&api, ADMIN, "/v1/tokens?user=tom&limit=1", "tokens").await.len(), 1);
    assert_eq!(status(&api, &token, "DELETE", &format!("/v1/tokens/{id}?user=tom")).await, 204);
    assert_eq!(walk(&api, "tom", "/v1/tokens?limit=1", "tokens").await.len(), 0);
    let own = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(
        [status(&api, &token, "DELETE", &own).await, status(&api, &token, "GET", "/v1/session").await],
        [204, 401]
    );
}

#[tokio::test]
async fn a_token_makes_none_that_ends_after_it() {
    let api = Api::with_users().await;
    let (token, _) = make(&api, "tom", json!({"name": "x", "expires": "2100-01-01T00:00:00Z"})).await;
    let (_, made) = make_by(&api, &token, json!({"name": "y"})).await;
    assert_eq!(made["expires"], "2100-01-01T00:00:00.000Z", "as long as the other");
    let longer = json!({"name": "y", "expires": "2100-01-01T00:00:01Z"});
    api.send(&token, "POST", "/v1/tokens", longer).await.problem(403, "forbidden");
}

#[tokio::test]
async fn a_user_has_a_hundred_tokens() {
    let api = Api::with_users().await;
    for _ in 0..100 {
        make(&api, "tom", json!({"name": "x"})).await;
    }
    let more = json!({"name": "x"});
    api.by("tom", "POST", "/v1/tokens", more.clone()).await.problem(409, "too-many-tokens");
    make(&api, ADMIN, more).await;
}

#[tokio::test]
async fn malformed_tokens_are_refused() {
    let api = Api::with_users().await;
    for asked in [
        json!({"name": "x", "expires": "2020-01-01T00:00:00Z"}),
        json!({"name": "x", "expires": "tomorrow"}),
        json!({"name": "x", "rights": ["read"]}),
        json!({"name": "x", "path": "/home/tom", "rights": []}),
        json!({"name": "x\n"}),
        json!({"name": "x", "path": "home"}),
        json!({}),
    ] {
        api.by("tom", "POST", "/v1/tokens", asked).await.problem(400, "malformed");
    }
    api.by("tom", "POST", "/v1/tokens", json!({"name": "x", "path": "/home/eve"})).await.problem(404, "not-found");
    assert_eq!(walk(&api, "tom", "/v1/tokens?limit=1", "tokens").await.len(), 0);
}
