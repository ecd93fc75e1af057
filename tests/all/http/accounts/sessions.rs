//! Logins.

use serde_json::{Value, json};

use super::super::access::world::PASSWORD;
use super::{ADMIN, Api, walk};
use crate::http::test_app::TestResponse;

const OWN: (&str, &str) = ("origin", "http://localhost:8080");

async fn log_in(api: &Api, user: &str) -> String {
    let answer = api.send("", "POST", "/v1/session", json!({"user": user, "password": PASSWORD})).await.is(204);
    cookie(&answer)
}

/// What a browser would send back.
fn cookie(answer: &TestResponse) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

async fn with(api: &Api, cookie: &str, method: &str, target: &str) -> TestResponse {
    api.send_with(&[OWN, ("cookie", cookie)], method, target, Value::Null).await
}

#[tokio::test]
async fn a_login_gives_a_cookie_that_scripts_do_not_read() {
    let api = Api::with_users().await;
    let answer = api.send("", "POST", "/v1/session", json!({"user": "TOM", "password": PASSWORD})).await.is(204);
    let set = answer.header("set-cookie").unwrap();
    assert!(set.starts_with("rowdrive=") && set.len() > 60, "{set}");
    assert!(set.ends_with("; Path=/; Max-Age=7776000; HttpOnly; SameSite=Lax"), "{set}");
    let session = with(&api, &cookie(&answer), "GET", "/v1/session").await.is(200).json();
    assert_eq!((&session["user"], &session["admin"]), (&json!("tom"), &json!(false)));
    assert_ne!(log_in(&api, "tom").await, cookie(&answer), "each login is a new session");
    for (user, password) in [("tom", "wrong password"), ("none", PASSWORD), ("", "")] {
        let refused = api.send("", "POST", "/v1/session", json!({"user": user, "password": password})).await;
        let refused = refused.problem(401, "unauthorized");
        assert!(refused.header("set-cookie").is_none());
    }
    // A page of another site logs nobody in.
    let login = json!({"user": "tom", "password": PASSWORD});
    let foreign = [("origin", "http://elsewhere.example")];
    api.send_with(&foreign, "POST", "/v1/session", login).await.problem(403, "foreign-origin");
}

#[tokio::test]
async fn a_logout_ends_its_session_alone() {
    let api = Api::with_users().await;
    let (one, other) = (log_in(&api, "tom").await, log_in(&api, "tom").await);
    let answer = with(&api, &one, "DELETE", "/v1/session").await.is(204);
    assert_eq!(answer.header("set-cookie"), Some("rowdrive=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"));
    assert_eq!(with(&api, &one, "GET", "/v1/session").await.status, 401);
    assert_eq!(with(&api, &other, "GET", "/v1/session").await.status, 200);
    api.by("tom", "DELETE", "/v1/session", Value::Null).await.is(204);
    assert_eq!(with(&api, &other, "GET", "/v1/session").await.status, 200, "a password is no session");
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let api = Api::with_users().await;
    let (one, other) = (log_in(&api, "tom").await, log_in(&api, "tom").await);
    let eve = log_in(&api, ADMIN).await;
    let listed = walk(&api, "tom", "/v1/sessions?limit=1", "sessions").await;
    assert_eq!(listed.len(), 2);
    let by_one = with(&api, &one, "GET", "/v1/sessions").await.is(200).json();
    let sessions = by_one["sessions"].as_array().unwrap();
    let current: Vec<_> = sessions.iter().filter(|session| session["current"] == true).collect();
    assert_eq!((sessions.len(), current.len()), (2, 1));
    let id = current[0]["id"].as_str().unwrap();
    assert_eq!(with(&api, &eve, "DELETE", &format!("/v1/sessions/{id}")).await.status, 404, "not hers");
    assert_eq!(with(&api, &other, "DELETE", &format!("/v1/sessions/{id}")).await.status, 204);
    assert_eq!(with(&api, &one, "GET", "/v1/session").await.status, 401);
    // An admin sees and ends those of others.
    assert_eq!(walk(&api, ADMIN, "/v1/sessions?user=tom", "sessions").await.len(), 1);
    assert_eq!(api.status("tom", "GET", "/v1/sessions?user=eve").await, 403);
    assert_eq!(api.status("tom", "DELETE", "/v1/sessions?user=eve").await, 403);
    api.by(ADMIN, "DELETE", "/v1/sessions?user=tom", Value::Null).await.is(204);
    assert_eq!(with(&api, &other, "GET", "/v1/session").await.status, 401);
    assert_eq!(with(&api, &eve, "GET", "/v1/session").await.status, 200);
    with(&api, &eve, "DELETE", "/v1/sessions").await.is(204);
    assert_eq!(with(&api, &eve, "GET", "/v1/session").await.status, 401);
}

/// A cursor is of its user and of its list: another one's is refused.
#[tokio::test]
async fn a_cursor_of_another_user_or_list_is_refused() {
    let api = Api::with_users().await;
    api.add_user("max").await;
    let (_, _) = (log_in(&api, "tom").await, log_in(&api, "tom").await);
    for _ in 0..2 {
        api.by("tom", "POST", "/v1/tokens", json!({"name": "x"})).await.is(201);
        api.by("tom", "POST", "/v1/shares", json!({"path": "/home/tom", "mode": "read"})).await.is(201);
    }
    for user in ["max", ADMIN] {
        let given = json!({"path": "/home/tom", "user": user, "rights": ["read"]});
        api.by("tom", "PUT", "/v1/grants", given).await.is(201);
    }
    let lists = ["/v1/sessions", "/v1/tokens", "/v1/shares", "/v1/grants"];
    for list in lists {
        let page = api.by("tom", "GET", &format!("{list}?limit=1"), Value::Null).await.is(200).json();
        let next = page["next"].as_str().unwrap();
        for (user, other) in lists.iter().flat_map(|other| [("tom", other), ("max", other), (ADMIN, other)]) {
            let is_own = user == "tom" && *other == list;
            let status = api.status(user, "GET", &format!("{other}?cursor={next}")).await;
            assert_eq!(status, if is_own { 200 } else { 400 }, "{list} of tom, {other} of {user}");
        }
    }
}

/// Wrong passwords are slowed; what was right before, tokens and other addresses are not.
#[tokio::test]
async fn wrong_passwords_are_slowed() {
    let mut api = Api::with_users().await;
    let session = log_in(&api, "tom").await;
    api.app.peer = [127, 0, 0, 2].into();
    let wrong = json!({"user": "tom", "password": "wrong password"});
    for _ in 0..10 {
        api.send("", "POST", "/v1/session", wrong.clone()).await.is(401);
    }
    let right = json!({"user": "tom", "password": PASSWORD});
    for (body, by) in [(wrong, ""), (right, "")] {
        let slowed = api.send(by, "POST", "/v1/session", body).await.problem(429, "too-many-attempts");
        let seconds: u64 = slowed.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
        assert!(slowed.header("set-cookie").is_none() && slowed.header("www-authenticate").is_none());
    }
    api.by("tom", "GET", "/v1/session", Value::Null).await.problem(429, "too-many-attempts");
    with(&api, &session, "GET", "/v1/session").await.is(200);
    api.by(ADMIN, "GET", "/v1/session", Value::Null).await.is(200);
    api.app.peer = [127, 0, 0, 3].into();
    api.by("tom", "GET", "/v1/session", Value::Null).await.is(200);
    let metrics = api.by(ADMIN, "GET", "/metrics", Value::Null).await.is(200);
    for (result, count) in [("right", 1), ("wrong", 10), ("slowed", 3)] {
        let line = format!("rowdrive_http_logins_total{{result=\"{result}\"}} {count}\n");
        assert!(metrics.text().contains(&line), "{line}");
    }
}
