//! Grants: given, listed, taken back.

use serde_json::{Value, json};

use super::{ADMIN, Api, walk};

async fn give(api: &Api, by: &str, path: &str, user: &str, rights: &[&str]) -> (u16, Value) {
    let answer = api.by(by, "PUT", "/v1/grants", json!({"path": path, "user": user, "rights": rights})).await;
    (answer.status, answer.json())
}

async fn take_back(api: &Api, by: &str, path: &str, user: &str) -> u16 {
    api.status(by, "DELETE", &format!("/v1/grants?path={path}&user={user}")).await
}

/// Two directories, and a user Max.
async fn api() -> Api {
    let api = Api::with_users().await;
    api.add_user("max").await;
    for dir in ["/v1/fs/a/b/", "/v1/fs/c/"] {
        api.by(ADMIN, "PUT", dir, Value::Null).await.is(201);
    }
    api.by(ADMIN, "PUT", "/v1/fs/a/f", json!({})).await.is(201);
    api
}

#[tokio::test]
async fn a_grant_is_given_replaced_and_taken_back() {
    let api = api().await;
    assert_eq!(api.status("tom", "GET", "/v1/stat/a/f").await, 404);
    let given = json!({"path": "/a", "user": "tom", "rights": ["read", "write"], "by": null});
    assert_eq!(give(&api, ADMIN, "/a/", "TOM", &["write"]).await, (201, given));
    assert_eq!(api.status("tom", "GET", "/v1/stat/a/f").await, 200);
    assert_eq!(api.status("tom", "PUT", "/v1/fs/a/new/").await, 201);
    assert_eq!(give(&api, ADMIN, "/a", "tom", &["read"]).await.0, 200, "in place of the other");
    assert_eq!(api.status("tom", "PUT", "/v1/fs/a/other/").await, 403);
    let session = api.by("tom", "GET", "/v1/session", Value::Null).await.json();
    assert_eq!(session["rights"][0], json!({"path": "/a", "rights": ["read"]}));
    assert_eq!(take_back(&api, ADMIN, "/a", "tom").await, 204);
    assert_eq!(take_back(&api, ADMIN, "/a", "tom").await, 404);
    assert_eq!(api.status("tom", "GET", "/v1/stat/a/f").await, 404);
    // It moves with its directory.
    give(&api, ADMIN, "/a", "tom", &["read"]).await;
    api.by(ADMIN, "POST", "/v1/move", json!({"from": "/a", "to": "/moved"})).await.is(201);
    assert_eq!(
        [api.status("tom", "GET", "/v1/stat/a/f").await, api.status("tom", "GET", "/v1/stat/moved/f").await],
        [404, 200]
    );
    assert_eq!(walk(&api, ADMIN, "/v1/grants?user=tom&path=/moved", "grants").await[0]["path"], "/moved");
}

#[tokio::test]
async fn who_may_share_gives_what_he_has() {
    let api = api().await;
    assert_eq!(give(&api, ADMIN, "/a", "tom", &["read", "share"]).await.0, 201);
    let (status, given) = give(&api, "tom", "/a/b", "max", &["read"]).await;
    assert_eq!((status, &given["by"]), (201, &json!("tom")));
    assert_eq!(api.status("max", "GET", "/v1/stat/a/b").await, 200);
    assert_eq!(give(&api, "tom", "/a/b", "max", &["write"]).await.0, 403, "he has not");
    assert_eq!(give(&api, "tom", "/a/b", "max", &["share"]).await.0, 403, "only admins give it");
    assert_eq!(give(&api, "tom", "/a/b", "*", &["read"]).await.0, 403, "only admins give to everyone");
    assert_eq!(give(&api, "tom", "/c", "max", &["read"]).await.0, 404, "he does not see it");
    assert_eq!(give(&api, "max", "/a/b", "eve", &["read"]).await.0, 403);
    // A way is no directory to give rights on.
    assert_eq!(give(&api, "max", "/a", "eve", &["read"]).await.0, 403);
    let on_b = walk(&api, "tom", "/v1/grants?path=/a/b", "grants").await;
    assert_eq!(on_b, [json!({"path": "/a/b", "user": "max", "rights": ["read"], "by": "tom"})]);
    assert_eq!(walk(&api, "tom", "/v1/grants?limit=1", "grants").await, on_b, "what he has given");
    assert_eq!(api.status("max", "GET", "/v1/grants?path=/a/b").await, 403);
    let all = walk(&api, ADMIN, "/v1/grants?limit=2", "grants").await;
    assert!(all.contains(&on_b[0]) && all.len() == 5, "an admin sees those of all givers: {all:?}");
    // It counts as long as its giver may share.
    assert_eq!(take_back(&api, ADMIN, "/a", "tom").await, 204);
    assert_eq!(api.status("max", "GET", "/v1/stat/a/b").await, 404);
    assert_eq!(
        walk(&api, "tom", "/v1/grants?limit=1", "grants").await,
        [] as [Value; 0],
        "where it is, he does not see"
    );
    assert_eq!(take_back(&api, ADMIN, "/a/b", "max").await, 204, "an admin takes every giver's");
}

/// Otherwise every user could try which others there are.
#[tokio::test]
async fn only_who_may_share_learns_which_users_there_are() {
    let api = api().await;
    give(&api, ADMIN, "/a", "tom", &["read"]).await;
    for user in ["max", "none", "*", "not / a name"] {
        let asked = json!({"path": "/a", "user": user, "rights": ["read"]});
        api.by("tom", "PUT", "/v1/grants", asked).await.problem(403, "forbidden");
        let user = user.replace(' ', "%20");
        let target = format!("/v1/grants?path=/a&user={user}");
        api.by("tom", "DELETE", &target, Value::Null).await.problem(403, "forbidden");
        api.by("tom", "GET", &target, Value::Null).await.problem(403, "forbidden");
        let given = api.by("tom", "GET", &format!("/v1/grants?user={user}"), Value::Null).await.is(200).json();
        assert_eq!(given, json!({"grants": [], "next": null}));
    }
    give(&api, ADMIN, "/a", "tom", &["share"]).await;
    assert_eq!(give(&api, "tom", "/a", "none", &["read"]).await.0, 404);
}

#[tokio::test]
async fn lists_have_pages_and_refusals_are_named() {
    let api = api().await;
    for (path, user) in [("/a", "tom"), ("/a", "max"), ("/a/b", "*"), ("/c", "tom"), ("/", "max")] {
        assert_eq!(give(&api, ADMIN, path, user, &["read"]).await.0, 201);
    }
    let all = walk(&api, ADMIN, "/v1/grants?limit=2", "grants").await;
    let places: Vec<_> = all.iter().map(|grant| format!("{} {}", grant["path"], grant["user"])).collect();
    // With the homes of three users.
    assert_eq!(places.len(), 8, "{places:?}");
    assert!(places.is_sorted_by(|a, b| a != b), "{places:?}");
    assert_eq!(walk(&api, ADMIN, "/v1/grants?user=tom&limit=1", "grants").await.len(), 3);
    assert_eq!(walk(&api, ADMIN, "/v1/grants?path=/a&limit=1", "grants").await.len(), 2, "of this directory alone");
    assert_eq!(give(&api, ADMIN, "/a", "none", &["read"]).await.0, 404);
    assert_eq!(give(&api, ADMIN, "/none", "tom", &["read"]).await.0, 404);
    assert_eq!(give(&api, ADMIN, "/a/f", "tom", &["read"]).await.0, 400);
    for (target, status) in [
        ("/v1/grants?path=/a/f", 400),
        ("/v1/grants?path=/none", 404),
        ("/v1/grants?user=none", 404),
        ("/v1/grants?limit=0", 400),
        ("/v1/grants?cursor=x", 400),
    ] {
        assert_eq!(api.status(ADMIN, "GET", target).await, status, "{target}");
    }
    assert_eq!(api.status(ADMIN, "DELETE", "/v1/grants?path=/a").await, 400);
}
