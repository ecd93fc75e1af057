//! Users: the first one, others, changed, removed.

use std::net::{IpAddr, Ipv4Addr};

use rowdrive::http::{FirstUserSecret, Options};
use serde_json::{Value, json};

use super::super::access::world::{PASSWORD, basic};
use super::{ADMIN, Api, walk};

fn first() -> Value {
    json!({"name": ADMIN, "password": PASSWORD, "display": "Eve E."})
}

#[tokio::test]
async fn the_first_user_is_made_on_the_machine_of_the_server_alone() {
    let hosts = vec!["drive.example".to_owned()];
    let mut api = Api::with(Options { hosts, ..Options::default() }).await;
    for header in [
        ("host", "drive.example"),
        ("forwarded", "for=127.0.0.1"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("via", "1.1 proxy"),
    ] {
        api.send_with(&[header], "POST", "/v1/users", first()).await.problem(403, "forbidden");
    }
    api.app.peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    api.send("", "POST", "/v1/users", first()).await.problem(403, "forbidden");
    api.app.peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let no_admin = json!({"name": ADMIN, "password": PASSWORD, "admin": false});
    api.send("", "POST", "/v1/users", no_admin).await.problem(400, "malformed");
    assert!(!api.app.auth.has_users().await.unwrap());
    let made = api.send("", "POST", "/v1/users", first()).await.is(201);
    assert_eq!(made.header("location"), Some("/v1/users/eve"));
    let made = made.json();
    assert_eq!((&made["name"], &made["display"], &made["admin"]), (&json!(ADMIN), &json!("Eve E."), &json!(true)));
    assert_eq!(api.by(ADMIN, "GET", "/v1/users/EVE", Value::Null).await.is(200).json(), made);
    let home = api.by(ADMIN, "GET", "/v1/stat/home/eve", Value::Null).await.is(200).json();
    assert_eq!((&home["kind"], &home["creator"]), (&json!("directory"), &json!(ADMIN)));
    // From then on nobody does anything.
    api.send("", "POST", "/v1/users", json!({"name": "max", "password": PASSWORD})).await.problem(401, "unauthorized");
    api.send("", "GET", "/v1/session", Value::Null).await.problem(401, "unauthorized");
}

/// A proxy or a tunnel on the machine makes strangers local.
#[tokio::test]
async fn the_first_user_needs_the_secret_of_the_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("first-user-secret");
    let first_user = Some(FirstUserSecret::make(&file).unwrap());
    let api = Api::with(Options { first_user, ..Options::default() }).await;
    let line = std::fs::read_to_string(&file).unwrap();
    let (name, secret) = line.trim_end().split_once(": ").unwrap();
    for headers in [&[][..], &[(name, "")], &[(name, &secret[1..])], &[(name, secret), (name, secret)]] {
        let refused = api.send_with(headers, "POST", "/v1/users", first()).await.problem(403, "forbidden");
        assert!(
            refused.text().contains("first-user-secret") && refused.text().contains("rowdrive user add"),
            "{refused:?}"
        );
    }
    assert!(!api.app.auth.has_users().await.unwrap() && file.exists());
    api.send_with(&[(name, secret), ("via", "1.1 proxy")], "POST", "/v1/users", first())
        .await
        .problem(403, "forbidden");
    api.send_with(&[(name, secret)], "POST", "/v1/users", first()).await.is(201);
    assert!(!file.exists());
    api.send_with(&[(name, secret)], "POST", "/v1/users", first()).await.problem(401, "unauthorized");
    // Others need none.
    api.add_user("tom").await;
}

#[tokio::test]
async fn of_two_first_users_at_once_one_is_unauthorized() {
    let api = Api::new().await;
    let make =
        async |name: &str| api.send("", "POST", "/v1/users", json!({"name": name, "password": PASSWORD})).await.status;
    let (one, other) = tokio::join!(make("eve"), make("max"));
    let mut statuses = [one, other];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 401]);
    let made = if one == 201 { "eve" } else { "max" };
    assert_eq!(walk(&api, made, "/v1/users?limit=1", "users").await.len(), 1);
    let homes = api.by(made, "GET", "/v1/fs/home/", Value::Null).await.is(200).names();
    assert_eq!(homes, [made], "the other one has no home");
}

#[tokio::test]
async fn a_user_is_made_with_his_home() {
    let api = Api::with_users().await;
    let put = async |user: &str, target: &str| api.by(user, "PUT", target, Value::Null).await.status;
    assert_eq!([put("tom", "/v1/fs/home/tom/d/").await, put("tom", "/v1/fs/home/eve/d/").await], [201, 403]);
    let own = json!([{"path": "/home/tom", "rights": ["read", "write", "share"]}]);
    let session = api.by("tom", "GET", "/v1/session", Value::Null).await.is(200).json();
    let (quota, usage) = (json!({"bytes": null, "files": null}), json!({"bytes": 0, "files": 1}));
    assert_eq!(session, json!({"user": "tom", "admin": false, "rights": own, "quota": quota, "usage": usage}));
    // Something is at the place of his home: no user is made, and his name is free.
    api.by(ADMIN, "PUT", "/v1/fs/home/max/", Value::Null).await.is(201);
    let mut max = json!({"name": "max", "password": PASSWORD});
    api.by(ADMIN, "POST", "/v1/users", max.clone()).await.problem(409, "exists");
    api.by(ADMIN, "GET", "/v1/users/max", Value::Null).await.is(404);
    // A path is taken as it is.
    max["home"] = json!("/home/max");
    max["admin"] = json!(true);
    api.by(ADMIN, "POST", "/v1/users", max).await.is(201);
    let guest = json!({"name": "guest", "password": PASSWORD, "home": null});
    api.by(ADMIN, "POST", "/v1/users", guest).await.is(201);
    assert_eq!(api.status("guest", "GET", "/v1/fs/home/").await, 404);
    assert_eq!(api.by("guest", "GET", "/v1/session", Value::Null).await.json()["rights"], json!([]));
    let deep = json!({"name": "deep", "password": PASSWORD, "home": "/w/x/y"});
    api.by(ADMIN, "POST", "/v1/users", deep).await.is(201);
    assert_eq!(put("deep", "/v1/fs/w/x/y/d/").await, 201);
    let names: Vec<_> = walk(&api, ADMIN, "/v1/users?limit=2", "users").await;
    let names: Vec<_> = names.iter().map(|user| user["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["deep", "eve", "guest", "max", "tom"]);
    for (name, password, problem) in [
        ("TOM", PASSWORD, (409, "name-taken")),
        ("a b", PASSWORD, (400, "malformed")),
        ("anonymous", PASSWORD, (400, "malformed")),
        ("new", "short", (400, "malformed")),
        ("new", "rd_123456789", (400, "malformed")),
    ] {
        let refused = api.by(ADMIN, "POST", "/v1/users", json!({"name": name, "password": password})).await;
        refused.problem(problem.0, problem.1);
    }
    api.by("tom", "POST", "/v1/users", json!({"name": "new", "password": PASSWORD})).await.problem(403, "forbidden");
}

/// Who has stolen a session guesses no faster with it than by logins.
#[tokio::test]
async fn wrong_old_passwords_are_slowed() {
    let api = Api::with_users().await;
    let guess = async |n: usize| {
        let change = json!({"password": "another horse", "old": format!("guess no. {n}")});
        api.by("tom", "PATCH", "/v1/users/tom", change).await
    };
    for n in 0..10 {
        guess(n).await.problem(403, "forbidden");
    }
    guess(10).await.problem(429, "too-many-attempts");
}

#[tokio::test]
async fn what_a_proxy_has_sent_on_is_refused_once_there_are_users() {
    let api = Api::with_users().await;
    let admin = basic(ADMIN, PASSWORD);
    for header in [("forwarded", "for=192.0.2.1"), ("x-forwarded-for", "192.0.2.1"), ("via", "1.1 proxy")] {
        let sent = [header, ("authorization", admin.as_str())];
        api.send_with(&sent, "GET", "/v1/stat/home", Value::Null).await.problem(403, "forbidden");
        let login = json!({"user": ADMIN, "password": PASSWORD});
        api.send_with(&[header], "POST", "/v1/session", login).await.problem(403, "forbidden");
        api.send_with(&[header], "GET", "/healthz", Value::Null).await.is(200);
    }
    api.send_with(&[("authorization", &admin)], "GET", "/v1/stat/home", Value::Null).await.is(200);
}

#[tokio::test]
async fn users_are_changed_by_admins_and_within_limits_by_themselves() {
    let api = Api::with_users().await;
    let change =
        async |by: &str, name: &str, change: Value| api.by(by, "PATCH", &format!("/v1/users/{name}"), change).await;
    assert_eq!(change("tom", "tom", json!({"display": "Tom T."})).await.is(200).json()["display"], "Tom T.");
    assert_eq!(change("tom", "tom", json!({"display": null})).await.is(200).json()["display"], "");
    assert_eq!(change("tom", "tom", json!({})).await.is(200).json()["display"], "");
    change("tom", "tom", json!({"display": "a\nb"})).await.problem(400, "malformed");
    change("tom", "tom", json!({"admin": true})).await.problem(403, "forbidden");
    change("tom", "eve", json!({"display": "x"})).await.problem(403, "forbidden");
    let new = "another horse";
    change("tom", "tom", json!({"password": new})).await.problem(403, "forbidden");
    change("tom", "tom", json!({"password": new, "old": "wrong horse"})).await.problem(403, "forbidden");
    change("tom", "tom", json!({"password": new, "old": PASSWORD})).await.is(200);
    assert_eq!(api.status("tom", "GET", "/v1/session").await, 401);
    let by_new = api.send(&basic("tom", new), "GET", "/v1/session", Value::Null).await;
    assert_eq!(by_new.is(200).json()["user"], "tom");
    change(ADMIN, "tom", json!({"password": PASSWORD})).await.is(200);
    assert_eq!(change(ADMIN, "tom", json!({"disabled": true})).await.is(200).json()["disabled"], true);
    assert_eq!(api.status("tom", "GET", "/v1/session").await, 401);
    change(ADMIN, "tom", json!({"disabled": false})).await.is(200);
    assert_eq!(api.status("tom", "GET", "/v1/session").await, 200);
    for last in [json!({"admin": false}), json!({"disabled": true})] {
        change(ADMIN, ADMIN, last).await.problem(409, "last-admin");
    }
    change(ADMIN, "none", json!({})).await.problem(404, "not-found");
}

#[tokio::test]
async fn a_removed_user_leaves_his_files_and_his_name() {
    let api = Api::with_users().await;
    api.by("tom", "PUT", "/v1/fs/home/tom/d/", Value::Null).await.is(201);
    let remove = async |name: &str| api.by(ADMIN, "DELETE", &format!("/v1/users/{name}"), Value::Null).await;
    remove(ADMIN).await.problem(409, "last-admin");
    remove("tom").await.is(204);
    remove("tom").await.problem(404, "not-found");
    assert_eq!(api.status("tom", "GET", "/v1/session").await, 401);
    let kept = api.by(ADMIN, "GET", "/v1/stat/home/tom/d", Value::Null).await.is(200).json();
    assert_eq!(kept["creator"], "tom");
    let again = json!({"name": "tom", "password": PASSWORD, "home": null});
    api.by(ADMIN, "POST", "/v1/users", again).await.problem(409, "name-taken");
}
