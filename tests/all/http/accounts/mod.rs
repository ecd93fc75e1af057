//! Users, sessions, grants, tokens and shares over HTTP. Each answer has to match the API's description.

mod grants;
mod quota_kills;
mod quotas;
mod sessions;
mod share_ends;
mod share_kills;
mod share_links;
mod share_passwords;
mod share_uploads;
mod shares;
mod stranger_memory;
mod stranger_uploads;
mod tokens;
mod upload_script;
mod users;

use rowdrive::http::Options;
use serde_json::{Value, json};

use super::access::world::{PASSWORD, basic};
use super::openapi::{description, fits, operations, schema};
use super::test_app::{TestApp, TestResponse};

const ADMIN: &str = "eve";

/// A drive, and what its API is said to be.
struct Api {
    app: TestApp,
    description: Value,
    operations: Vec<(String, String, Value)>,
}

/// The described path of a target.
fn described(target: &str) -> String {
    let path = target.split('?').next().unwrap();
    for (start, name) in
        [("/v1/users/", "{name}"), ("/v1/sessions/", "{id}"), ("/v1/tokens/", "{id}"), ("/v1/shares/", "{id}")]
    {
        if path.starts_with(start) {
            return [start, name].concat();
        }
    }
    path.to_owned()
}

impl Api {
    async fn new() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let app = TestApp::with(options).await;
        let description = description(&app).await;
        let operations = operations(&description);
        Self { app, description, operations }
    }

    /// With an admin, Eve, and a user, Tom.
    async fn with_users() -> Self {
        let api = Self::new().await;
        api.send("", "POST", "/v1/users", json!({"name": ADMIN, "password": PASSWORD})).await.is(201);
        api.add_user("tom").await;
        api
    }

    async fn add_user(&self, name: &str) {
        self.by(ADMIN, "POST", "/v1/users", json!({"name": name, "password": PASSWORD})).await.is(201);
    }

    /// Sends a request with the password of this user.
    async fn by(&self, user: &str, method: &str, target: &str, body: Value) -> TestResponse {
        self.send(&basic(user, PASSWORD), method, target, body).await
    }

    /// Sends a request with this `Authorization`, and none if it is empty. `body`: null for none.
    async fn send(&self, authorization: &str, method: &str, target: &str, body: Value) -> TestResponse {
        let headers: Vec<_> =
            Some(("authorization", authorization)).filter(|_| !authorization.is_empty()).into_iter().collect();
        self.send_with(&headers, method, target, body).await
    }

    async fn send_with(&self, headers: &[(&str, &str)], method: &str, target: &str, body: Value) -> TestResponse {
        let json = Some(("content-type", "application/json")).filter(|_| !body.is_null());
        let headers: Vec<_> = headers.iter().copied().chain(json).collect();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.app.send(method, target, &headers, body).await;
        if let Err(why) = self.check(method, target, &answer) {
            panic!("{method} {target}: {why}: {answer:?}");
        }
        answer
    }

    fn check(&self, method: &str, target: &str, answer: &TestResponse) -> Result<(), String> {
        let path = described(target);
        let Some((_, _, operation)) = self.operations.iter().find(|(m, p, _)| m == method && *p == path) else {
            return Ok(());
        };
        match schema(operation, answer)? {
            Some(schema) if answer.header("content-type").is_some_and(|kind| kind.ends_with("json")) => {
                fits(&self.description, schema, &answer.json())
            }
            _ => Ok(()),
        }
    }

    async fn status(&self, user: &str, method: &str, target: &str) -> u16 {
        self.by(user, method, target, Value::Null).await.status
    }
}

/// All of a list, page by page.
async fn walk(api: &Api, user: &str, target: &str, member: &str) -> Vec<Value> {
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let page = api.by(user, "GET", &format!("{target}{next}"), Value::Null).await.is(200);
        let json = page.json();
        found.extend(json[member].as_array().unwrap().iter().cloned());
        let Some(cursor) = json["next"].as_str() else { return found };
        assert!(page.header("link").unwrap().contains(cursor), "{page:?}");
        next = format!("&cursor={cursor}");
    }
}

#[tokio::test]
async fn a_drive_without_users_has_none_of_it() {
    let api = Api::new().await;
    let session = api.send("", "GET", "/v1/session", Value::Null).await.is(200).json();
    let all = json!(["read", "write", "share"]);
    let rights = json!([{"path": "/", "rights": all}]);
    let (quota, usage) = (json!({"bytes": null, "files": null}), json!({"bytes": 0, "files": 0}));
    assert_eq!(session, json!({"user": null, "admin": true, "rights": rights, "quota": quota, "usage": usage}));
    let login = json!({"user": "tom", "password": PASSWORD});
    for (method, target, body) in [
        ("POST", "/v1/session", login),
        ("DELETE", "/v1/session", Value::Null),
        ("GET", "/v1/sessions", Value::Null),
        ("DELETE", "/v1/sessions", Value::Null),
        ("DELETE", "/v1/sessions/x", Value::Null),
        ("GET", "/v1/users", Value::Null),
        ("GET", "/v1/users/tom", Value::Null),
        ("PATCH", "/v1/users/tom", json!({})),
        ("DELETE", "/v1/users/tom", Value::Null),
        ("GET", "/v1/grants", Value::Null),
        ("PUT", "/v1/grants", json!({"path": "/", "user": "tom", "rights": ["read"]})),
        ("DELETE", "/v1/grants?path=/&user=tom", Value::Null),
        ("GET", "/v1/tokens", Value::Null),
        ("POST", "/v1/tokens", json!({"name": "x"})),
        ("DELETE", "/v1/tokens/x", Value::Null),
        ("GET", "/v1/shares", Value::Null),
        ("POST", "/v1/shares", json!({"path": "/", "mode": "read"})),
        ("DELETE", "/v1/shares/x", Value::Null),
    ] {
        api.send("", method, target, body).await.problem(409, "no-users");
    }
}

#[tokio::test]
async fn what_is_missing_is_named_and_what_others_have_is_as_if_it_were_missing() {
    let api = Api::with_users().await;
    let missing = "00000000-0000-4000-8000-000000000000";
    let [session, token, share] = ["sessions", "tokens", "shares"].map(|of| format!("/v1/{of}/{missing}"));
    let detail = async |user: &str, method: &str, target: &str| {
        let answer = api.by(user, method, target, Value::Null).await.problem(404, "not-found").json();
        answer["detail"].as_str().unwrap().to_owned()
    };
    for (method, target, what) in [
        ("GET", "/v1/users/none", "user"),
        ("DELETE", "/v1/users/none", "user"),
        ("GET", "/v1/tokens?user=none", "user"),
        ("GET", "/v1/grants?user=none", "user"),
        ("DELETE", "/v1/grants?path=/&user=tom", "grant"),
        ("DELETE", session.as_str(), "session"),
        ("DELETE", token.as_str(), "token"),
        ("DELETE", share.as_str(), "share"),
    ] {
        let told = detail(ADMIN, method, target).await;
        assert!(told.starts_with(&format!("There is no such {what}: ")), "{method} {target}: {told}");
    }
    let token = api.by(ADMIN, "POST", "/v1/tokens", json!({"name": "x"})).await.is(201).json();
    let share = api.by(ADMIN, "POST", "/v1/shares", json!({"path": "/home", "mode": "read"})).await.is(201).json();
    for (resource, made) in [("tokens", token), ("shares", share)] {
        let of = async |id: &str| detail("tom", "DELETE", &format!("/v1/{resource}/{id}")).await;
        let none = of(missing).await;
        assert_eq!([of(made["id"].as_str().unwrap()).await, of("none").await], [none.clone(), none]);
    }
    // Tom may share his home.
    let of = async |user: &str| detail("tom", "DELETE", &format!("/v1/grants?path=/home/tom&user={user}")).await;
    assert_eq!(of("none").await, of(ADMIN).await);
}

#[tokio::test]
async fn bodies_are_small_and_have_known_members_only() {
    let api = Api::with_users().await;
    let long = "x".repeat(17 << 10);
    for (method, target, body) in [
        ("POST", "/v1/session", json!({"user": "tom", "password": long})),
        ("POST", "/v1/users", json!({"name": "x", "password": long})),
        ("PATCH", "/v1/users/tom", json!({"display": long})),
        ("PUT", "/v1/grants", json!({"path": "/", "user": long, "rights": ["read"]})),
        ("POST", "/v1/tokens", json!({"name": long})),
        ("POST", "/v1/shares", json!({"path": long, "mode": "read"})),
        ("POST", "/v1/shares", json!({"path": "/", "mode": "read", "password": long})),
    ] {
        api.by(ADMIN, method, target, body).await.problem(413, "body-too-large");
    }
    for (method, target, body) in [
        ("POST", "/v1/session", json!({"user": "tom", "password": PASSWORD, "remember": true})),
        ("POST", "/v1/users", json!({"name": "x", "password": PASSWORD, "quota": {"bytes": -1}})),
        ("POST", "/v1/users", json!({"name": "x"})),
        ("PATCH", "/v1/users/tom", json!({"quota": null})),
        ("PATCH", "/v1/users/tom", json!({"quota": {"bytes": 1.5}})),
        ("PATCH", "/v1/users/tom", json!({"quota": {"byte": 1}})),
        ("PATCH", "/v1/users/tom", json!({"password": null})),
        ("PUT", "/v1/grants", json!({"path": "/", "user": "tom", "rights": ["own"]})),
        ("PUT", "/v1/grants", json!({"path": "/", "user": "tom", "rights": []})),
        ("PUT", "/v1/grants", json!({"path": "d", "user": "tom", "rights": ["read"]})),
        ("POST", "/v1/tokens", json!({"name": "x", "scope": "/"})),
    ] {
        api.by(ADMIN, method, target, body).await.problem(400, "malformed");
    }
    // What is wrong is said in words of JSON, not in types of the program.
    for (method, target, body) in [
        ("POST", "/v1/users", json!({"name": "x", "password": PASSWORD, "quota": 5})),
        ("PATCH", "/v1/users/tom", json!({"quota": null})),
        ("PATCH", "/v1/users/tom", json!({"quota": {"bytes": -1}})),
    ] {
        let refused = api.by(ADMIN, method, target, body).await.problem(400, "malformed");
        let leaks = ["Json", "struct", "u64"].iter().any(|word| refused.text().contains(word));
        assert!(!leaks, "{}", refused.text());
    }
    let headers = [("authorization", basic(ADMIN, PASSWORD))];
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    api.app.send("POST", "/v1/tokens", &headers, r#"{"name":"x"}"#).await.problem(415, "media-type");
}
