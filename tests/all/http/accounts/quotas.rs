//! Usage and quotas: as answers tell them, and 507 in each of the three instants.

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::super::access::world::{PASSWORD, basic};
use super::super::test_app::{TestResponse, watched};
use super::super::unpack::tar_of::{file, folder, tar};
use super::{ADMIN, Api, walk};

impl Api {
    async fn set_quota(&self, name: &str, quota: Value) -> TestResponse {
        self.by(ADMIN, "PATCH", &format!("/v1/users/{name}"), json!({"quota": quota})).await.is(200)
    }

    async fn tom_puts(&self, target: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> TestResponse {
        let credential = basic("tom", PASSWORD);
        let headers: Vec<_> = headers.iter().copied().chain([("authorization", credential.as_str())]).collect();
        self.app.send("PUT", target, &headers, body).await
    }

    async fn usage(&self, name: &str) -> Value {
        self.by(ADMIN, "GET", &format!("/v1/users/{name}"), Value::Null).await.is(200).json()["usage"].clone()
    }
}

fn sums(bytes: Value, files: Value) -> Value {
    json!({"bytes": bytes, "files": files})
}

#[tokio::test]
async fn a_quota_is_set_by_admins_and_told_with_the_usage() {
    let api = Api::with_users().await;
    let (none, nothing) = (sums(Value::Null, Value::Null), sums(json!(0), json!(0)));
    let session = async || api.by("tom", "GET", "/v1/session", Value::Null).await.is(200).json();
    let tom = session().await;
    assert_eq!((&tom["quota"], &tom["usage"]), (&none, &nothing), "his home is the admin's");
    assert_eq!(api.usage(ADMIN).await, sums(json!(0), json!(3)));
    let max = json!({"name": "max", "password": PASSWORD, "home": null, "quota": {"bytes": 5}});
    let max = api.by(ADMIN, "POST", "/v1/users", max).await.is(201).json();
    assert_eq!((&max["quota"], &max["usage"]), (&sums(json!(5), Value::Null), &nothing));
    // What is absent stays, and null takes the limit away.
    let quota = async |quota: Value| api.set_quota("tom", quota).await.json()["quota"].clone();
    let most = u64::MAX;
    assert_eq!(quota(json!({"bytes": 1000, "files": 3})).await, sums(json!(1000), json!(3)));
    assert_eq!(quota(json!({"files": most})).await, sums(json!(1000), json!(most)));
    assert_eq!(quota(json!({})).await, sums(json!(1000), json!(most)));
    assert_eq!(quota(json!({"bytes": null})).await, sums(Value::Null, json!(most)));
    assert_eq!(quota(json!({"bytes": 0, "files": 4})).await, sums(json!(0), json!(4)));
    let change = json!({"quota": {"bytes": null}});
    api.by("tom", "PATCH", "/v1/users/tom", change.clone()).await.problem(403, "forbidden");
    api.by("tom", "PATCH", "/v1/users/tom", json!({"quota": {}, "display": "Tom"})).await.is(200);
    api.by(ADMIN, "PATCH", "/v1/users/tom", change).await.is(200);
    api.tom_puts("/v1/fs/home/tom/d/f", &[], "twelve bytes").await.is(201);
    let tom = session().await;
    assert_eq!((&tom["quota"], &tom["usage"]), (&sums(Value::Null, json!(4)), &sums(json!(12), json!(2))));
    let users = walk(&api, ADMIN, "/v1/users?limit=1", "users").await;
    let found = users.iter().find(|user| user["name"] == "tom").unwrap();
    assert_eq!((&found["quota"], &found["usage"]), (&tom["quota"], &tom["usage"]));
}

#[tokio::test]
async fn what_would_pass_the_quota_is_507_before_the_body_while_it_comes_and_at_the_commit() {
    let api = Api::with_users().await;
    api.set_quota("tom", json!({"bytes": 10, "files": 3})).await;
    // Before the body, by the length that is told.
    let (body, is_read) = watched(b"eleven bytes");
    api.tom_puts("/v1/fs/home/tom/f", &[("content-length", "12")], body).await.problem(507, "quota");
    assert!(!is_read.load(std::sync::atomic::Ordering::Relaxed));
    // While it comes.
    let pieces = stream::iter([6, 6, 1 << 20]).map(|size| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; size])));
    api.tom_puts("/v1/fs/home/tom/f", &[], Body::from_stream(pieces)).await.problem(507, "quota");
    assert_eq!(api.usage("tom").await, sums(json!(0), json!(0)));
    // At the commit: what has no body, and what was told in less time than others have stored.
    api.tom_puts("/v1/fs/home/tom/a/b/c/d/", &[], "").await.problem(507, "quota");
    api.tom_puts("/v1/fs/home/tom/f", &[], "ten bytes.").await.is(201);
    api.tom_puts("/v1/fs/home/tom/g", &[], "").await.is(201);
    api.tom_puts("/v1/fs/home/tom/d/", &[], "").await.is(201);
    api.tom_puts("/v1/fs/home/tom/e/", &[], "").await.problem(507, "quota");
    let copy = json!({"from": "/home/tom/f", "to": "/home/tom/copy"});
    api.by("tom", "POST", "/v1/copy", copy).await.problem(507, "quota");
    // The order of refusals: state before quota.
    api.tom_puts("/v1/fs/home/tom/f", &[("if-none-match", "*")], "more than ten")
        .await
        .problem(412, "precondition-failed");
    api.tom_puts("/v1/fs/home/tom/d", &[], "more than ten").await.problem(409, "is-directory");
    api.tom_puts("/v1/fs/home/eve/f", &[], "more than ten").await.problem(403, "forbidden");
    // What does not add is done.
    api.tom_puts("/v1/fs/home/tom/f", &[], "ten again.").await.is(200);
    api.by("tom", "POST", "/v1/move", json!({"from": "/home/tom/f", "to": "/home/tom/d/f"})).await.is(201);
    api.by("tom", "DELETE", "/v1/fs/home/tom/d/?recursive=true", Value::Null).await.is(204);
    api.app.drive.idle().await;
    assert_eq!(api.usage("tom").await, sums(json!(0), json!(1)));
    // An admin has a quota only if one is set.
    let eve = basic(ADMIN, PASSWORD);
    api.app.send("PUT", "/v1/fs/home/eve/f", &[("authorization", &eve)], "more than ten").await.is(201);
}

#[tokio::test]
async fn members_of_a_tar_that_would_pass_the_quota_have_lines_507() {
    let api = Api::with_users().await;
    api.set_quota("tom", json!({"bytes": 600_000, "files": 4})).await;
    let large = vec![b'x'; 300_000];
    let body = tar(&[
        folder("d"),
        file("d/large", &large),
        file("small", b"x"),
        file("larger", &[&large[..], b"more"].concat()),
        file("d/too-many", b""),
        file("one-more", b""),
    ]);
    let answer = api.tom_puts("/v1/fs/home/tom/?unpack=tar", &[], body).await.is(200);
    let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |path: &str| lines.iter().find(|line| line["path"] == path).unwrap_or_else(|| panic!("{path}: {lines:?}"));
    assert_eq!(of("/home/tom/d")["status"], 201, "{lines:?}");
    // Members are stored at the same time, so which ones find room differs.
    let members = ["d/large", "small", "larger", "d/too-many", "one-more"].map(|name| of(&format!("/home/tom/{name}")));
    let refused: Vec<_> = members.iter().filter(|member| member["status"] == 507).collect();
    assert!(refused.len() == 2 && refused.iter().all(|of| of["type"] == "/problems/quota"), "{lines:?}");
    let stored: usize = [300_000, 1, 300_004, 0, 0]
        .into_iter()
        .zip(members)
        .filter(|(_, of)| of["status"] == 201)
        .map(|(size, _)| size)
        .sum();
    assert_eq!((&lines.last().unwrap()["done"], &lines.last().unwrap()["failed"]), (&json!(true), &json!(2)));
    assert_eq!(api.usage("tom").await, sums(json!(stored), json!(4)));
}
