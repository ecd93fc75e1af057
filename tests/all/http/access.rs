//! Who reaches which route, by what he sends, on a drive with users.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rowdrive::auth::{Credential, NewToken, NewUser, UserChange};
use rowdrive::http::{Callers, routes};
use rowdrive::schema::account::Quota;
use rowdrive::schema::rights::Right;
use rowdrive::schema::secret::Scope;
use rowdrive::schema::{DirId, Timestamp};
use serde_json::json;

use super::test_app::{TestApp, TestResponse};

const PASSWORD: &str = "correct horse";
const ADMIN: &str = "Eve@example.org";

/// A drive with an admin, a user who has nothing, a disabled user and a removed one.
struct World {
    app: TestApp,
    admin: Credential,
    /// What each caller sends as `Authorization` or as `Cookie`.
    callers: BTreeMap<&'static str, (&'static str, String)>,
}

fn new_user(name: &str) -> NewUser {
    let (name, password) = (name.to_owned(), PASSWORD.to_owned());
    NewUser { name, password, display: String::new(), admin: false, quota: Quota::default() }
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

fn cookie(session: &str) -> (&'static str, String) {
    ("cookie", format!("theme=dark; rowdrive={session}"))
}

/// Without its id, two refusals for the same reason are the same bytes.
fn comparable(answer: &TestResponse) -> (u16, Vec<(String, String)>, String) {
    let own = ["x-request-id", "content-length"];
    let headers = answer.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let headers = headers.filter(|(name, _)| !own.contains(&name.as_str())).collect();
    (answer.status, headers, answer.text().replace(answer.header("x-request-id").unwrap(), ""))
}

impl World {
    async fn new() -> Self {
        let app = TestApp::new().await;
        app.put("/v1/fs/d/f", "x").await.is(201);
        app.auth.make_first_user(new_user(ADMIN)).await.unwrap();
        let admin = app.auth.log_in(ADMIN, PASSWORD).await.unwrap();
        for name in ["tom", "off", "gone"] {
            app.auth.add_user(&admin, new_user(name)).await.unwrap();
        }
        let mut world = Self { app, admin, callers: BTreeMap::new() };
        world.add_tokens().await;
        world.add_sessions().await;
        let auth = &world.app.auth;
        let off = UserChange { disabled: Some(true), ..UserChange::default() };
        auth.change_user(&world.admin, "off", off).await.unwrap();
        auth.remove_user(&world.admin, "gone").await.unwrap();
        let authorization = [
            ("wrong password", basic("tom", "incorrect horse")),
            ("unknown name", basic("nobody", PASSWORD)),
            ("disabled", basic("off", PASSWORD)),
            ("removed", basic("gone", PASSWORD)),
            ("no name", basic("", PASSWORD)),
            ("malformed", "Basic ?".to_owned()),
            ("other scheme", "Digest rowdrive".to_owned()),
            ("password of a user", basic("tom", PASSWORD)),
            ("password of an admin", basic(ADMIN, PASSWORD)),
        ];
        world.callers.extend(authorization.map(|(name, value)| (name, ("authorization", value))));
        world
    }

    async fn add_tokens(&mut self) {
        let auth = &self.app.auth;
        let tom = auth.log_in("tom", PASSWORD).await.unwrap();
        let scope = Some(Scope { dir: DirId::ROOT, rights: [Right::Read, Right::Write].into_iter().collect() });
        let past = Some(Timestamp::from_ms(1));
        let token = async |by: &Credential, new: NewToken| auth.make_token(by, new).await.unwrap();
        let of_user = token(&tom, NewToken::default()).await.text;
        let of_admin = token(&self.admin, NewToken::default()).await.text;
        let for_directory = token(&self.admin, NewToken { scope, ..NewToken::default() }).await.text;
        let expired = token(&self.admin, NewToken { expires: past, ..NewToken::default() }).await.text;
        let ended = token(&self.admin, NewToken::default()).await;
        let owner = ended.credential.secret().unwrap();
        auth.end_secret(&self.admin, &owner.user, owner.kind, owner.id).await.unwrap();
        let bearer = |text: &str| ("authorization", format!("Bearer {text}"));
        let sent = [
            ("token of a user", bearer(&of_user)),
            ("token of an admin", bearer(&of_admin)),
            ("token for a directory", bearer(&for_directory)),
            ("expired token", bearer(&expired)),
            ("ended token", bearer(&ended.text)),
            ("token by name", ("authorization", basic("eve@EXAMPLE.org", &of_admin))),
            ("token without name", ("authorization", basic("", &of_admin))),
            ("token by another name", ("authorization", basic("tom", &of_admin))),
            ("token as cookie", cookie(&of_admin)),
        ];
        self.callers.extend(sent);
    }

    async fn add_sessions(&mut self) {
        let auth = &self.app.auth;
        let tom = auth.log_in("tom", PASSWORD).await.unwrap();
        let off = auth.log_in("off", PASSWORD).await.unwrap();
        let session = async |by: &Credential| auth.make_session(by).await.unwrap().text;
        let (of_user, of_admin, of_disabled) = (session(&tom).await, session(&self.admin).await, session(&off).await);
        let sent = [
            ("session of a user", cookie(&of_user)),
            ("session of an admin", cookie(&of_admin)),
            ("session of a disabled user", cookie(&of_disabled)),
            ("session as token", ("authorization", format!("Bearer {of_admin}"))),
            ("session under the name for TLS", ("cookie", format!("__Host-rowdrive={of_admin}"))),
            ("two sessions", ("cookie", format!("rowdrive={of_user}; rowdrive={of_admin}"))),
        ];
        self.callers.extend(sent);
    }

    async fn send(&self, caller: &str, method: &str, target: &str, headers: &[(&str, &str)]) -> TestResponse {
        let sent = self.callers.get(caller).map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<_> = headers.iter().copied().chain(sent).collect();
        self.app.send(method, target, &headers, "").await
    }
}

const OWN: (&str, &str) = ("origin", "http://localhost:8080");

/// Method, pattern, a target, and who may call it.
const ROUTES: [(&str, &str, &str, Callers); 19] = [
    ("GET", "/v1/fs", "/v1/fs", Callers::Admins),
    ("GET", "/v1/fs/", "/v1/fs/", Callers::Admins),
    ("PUT", "/v1/fs/", "/v1/fs/", Callers::Admins),
    ("DELETE", "/v1/fs/", "/v1/fs/", Callers::Admins),
    ("GET", "/v1/fs/{*path}", "/v1/fs/d/f", Callers::Admins),
    ("PUT", "/v1/fs/{*path}", "/v1/fs/d/g", Callers::Admins),
    ("DELETE", "/v1/fs/{*path}", "/v1/fs/d/none", Callers::Admins),
    ("GET", "/v1/stat/", "/v1/stat/", Callers::Admins),
    ("GET", "/v1/stat/{*path}", "/v1/stat/d/f", Callers::Admins),
    ("GET", "/v1/files", "/v1/files", Callers::Admins),
    ("GET", "/v1/find", "/v1/find?name=f", Callers::Admins),
    ("POST", "/v1/move", "/v1/move", Callers::Admins),
    ("POST", "/v1/copy", "/v1/copy", Callers::Admins),
    ("GET", "/healthz", "/healthz", Callers::Everyone),
    ("GET", "/readyz", "/readyz", Callers::Everyone),
    ("GET", "/metrics", "/metrics", Callers::Admins),
    ("GET", "/openapi.json", "/openapi.json", Callers::Users),
    ("GET", "/docs", "/docs", Callers::Users),
    ("GET", "/docs/", "/docs/", Callers::Users),
];

/// Callers of whom each route has to be tested; `true` for those who have an admin's rights.
const VALID: [(&str, bool); 8] = [
    ("token of a user", false),
    ("token of an admin", true),
    ("token for a directory", false),
    ("token by name", true),
    ("token without name", true),
    ("session of a user", false),
    ("session of an admin", true),
    ("password of an admin", true),
];
/// Callers who have proved nothing. Those with a password are slow to refuse, as they must be.
const INVALID: [&str; 16] = [
    "nobody",
    "no name",
    "malformed",
    "other scheme",
    "expired token",
    "ended token",
    "token by another name",
    "token as cookie",
    "session of a disabled user",
    "session as token",
    "session under the name for TLS",
    "two sessions",
    "wrong password",
    "unknown name",
    "disabled",
    "removed",
];

#[tokio::test]
async fn every_route_is_for_its_callers_alone() {
    let world = World::new().await;
    let mut rows: BTreeSet<_> = ROUTES.iter().map(|(method, pattern, ..)| (method.to_string(), *pattern)).collect();
    rows.insert(("GET".to_owned(), "/docs/{name}"));
    let found: BTreeSet<_> = routes().iter().map(|(pattern, method, _)| (method.to_string(), *pattern)).collect();
    assert_eq!(rows, found, "each route has a row");
    let asset = ("GET", "/docs/{name}", "/docs/none.js", Callers::Users);
    for (method, _, target, callers) in ROUTES.into_iter().chain([asset]) {
        for caller in INVALID {
            let status = world.send(caller, method, target, &[OWN]).await.status;
            assert_eq!(status == 401, callers != Callers::Everyone, "{caller}: {method} {target}: {status}");
        }
        for (caller, is_admin) in VALID {
            let status = world.send(caller, method, target, &[OWN]).await.status;
            let is_refused = callers == Callers::Admins && !is_admin;
            assert_eq!(status == 403, is_refused, "{caller}: {method} {target}: {status}");
            assert_ne!(status, 401, "{caller}: {method} {target}");
        }
    }
}

#[tokio::test]
async fn strangers_learn_nothing_from_a_refusal() {
    let world = World::new().await;
    let expected = world.app.get("/v1/fs/d/f").await.problem(401, "unauthorized");
    assert_eq!(expected.header("www-authenticate"), Some(r#"Basic realm="Rowdrive", charset="UTF-8""#));
    let expected = comparable(&expected);
    for caller in INVALID {
        assert_eq!(comparable(&world.send(caller, "GET", "/v1/fs/d/f", &[]).await), expected, "{caller}");
    }
    for target in ["/v1/fs/none", "/v1/fs/%00", "/v1/none", "/none", "/v1/fs/d/f?token=x", "/", "/docs/none.js"] {
        assert_eq!(comparable(&world.app.get(target).await), expected, "{target}");
    }
    for method in ["PATCH", "OPTIONS", "DELETE", "TRACE"] {
        assert_eq!(comparable(&world.app.send(method, "/v1/fs/d/f", &[], "").await), expected, "{method}");
    }
    world.send("token of a user", "HEAD", "/v1/fs/d/f", &[]).await.is(403);
    world.app.send("HEAD", "/healthz", &[], "").await.is(200);
    world.send("token of an admin", "PATCH", "/v1/fs/d/f", &[]).await.is(405);
    world.send("token of a user", "GET", "/v1/none", &[]).await.problem(404, "no-such-route");
    world.send("token of a user", "GET", "/v1/fs/none", &[]).await.problem(403, "forbidden");
    // A browser shows no window for a request of a script.
    let script = world.app.send("GET", "/v1/fs/d/f", &[("sec-fetch-mode", "cors")], "").await.is(401);
    assert_eq!(script.header("www-authenticate"), Some(r#"Session realm="Rowdrive""#));
    let link = world.app.send("GET", "/v1/fs/d/f", &[("sec-fetch-mode", "navigate")], "").await.is(401);
    assert!(link.header("www-authenticate").unwrap().starts_with("Basic "));
}

#[tokio::test]
async fn authorization_goes_before_the_cookie_and_secrets_are_not_read_from_targets() {
    let world = World::new().await;
    let (_, session) = &world.callers["session of an admin"];
    let (_, token) = &world.callers["token of an admin"];
    for wrong in ["expired token", "wrong password", "other scheme"] {
        world.send(wrong, "GET", "/v1/fs/d/f", &[("cookie", session)]).await.is(401);
    }
    let text = token.strip_prefix("Bearer ").unwrap();
    for target in [format!("/v1/fs/d/f?access_token={text}"), format!("/v1/fs/d/f?token={text}")] {
        world.app.get(&target).await.is(401);
        world.app.send("GET", &format!("http://u:{text}@localhost:8080/v1/fs/d/f"), &[], "").await.is(400);
    }
    let twice = [("authorization", token.as_str()), ("authorization", token.as_str())];
    world.app.send("GET", "/v1/fs/d/f", &twice, "").await.is(401);
    world.app.send("GET", "/v1/fs/d/f", &twice[..1], "").await.is(200);
}

#[tokio::test]
async fn a_change_by_cookie_names_its_origin() {
    let world = World::new().await;
    let put = async |caller: &'static str, origin: Option<&str>| {
        let headers: Vec<_> = origin.map(|origin| ("origin", origin)).into_iter().collect();
        world.send(caller, "PUT", "/v1/fs/d/new", &headers).await.status
    };
    let foreign = ["null", "http://localhost:8081", "http://127.0.0.1:8080", "http://evil.example"];
    for caller in ["session of an admin", "token of an admin"] {
        for origin in foreign {
            assert_eq!(put(caller, Some(origin)).await, 403, "{caller} {origin}");
        }
        assert!(matches!(put(caller, Some(OWN.1)).await, 200 | 201), "{caller}");
    }
    assert_eq!(put("session of an admin", None).await, 403);
    assert_eq!(put("session of a disabled user", None).await, 403, "before the credential");
    assert_eq!(put("token of an admin", None).await, 200);
    world.send("session of an admin", "GET", "/v1/fs/d/f", &[]).await.is(200);
}

#[tokio::test]
async fn pages_of_other_sites_are_refused_but_their_links_are_not() {
    let world = World::new().await;
    let (site, navigate) = ("sec-fetch-site", ("sec-fetch-mode", "navigate"));
    let (page, frame) = (("sec-fetch-dest", "document"), ("sec-fetch-dest", "iframe"));
    for caller in ["password of an admin", "session of an admin", "nobody"] {
        let passed = if caller == "nobody" { 401 } else { 200 };
        for from in ["cross-site", "same-site"] {
            let send = async |method: &str, headers: &[(&str, &str)]| {
                let headers: Vec<_> = headers.iter().copied().chain([(site, from), OWN]).collect();
                world.send(caller, method, "/v1/fs/d/f", &headers).await
            };
            send("GET", &[]).await.problem(403, "foreign-origin");
            send("GET", &[navigate, frame]).await.problem(403, "foreign-origin");
            send("GET", &[page]).await.problem(403, "foreign-origin");
            send("DELETE", &[navigate, page]).await.problem(403, "foreign-origin");
            send("GET", &[navigate, page]).await.is(passed);
        }
        for own in ["same-origin", "none"] {
            world.send(caller, "GET", "/v1/fs/d/f", &[(site, own)]).await.is(passed);
        }
    }
    world.app.send("GET", "/healthz", &[(site, "cross-site")], "").await.problem(403, "foreign-origin");
}

#[tokio::test]
async fn the_first_user_ends_the_mode_without_users() {
    let app = TestApp::new().await;
    let tom = basic("tom", "whatever");
    let put = async |name: &str| app.send("PUT", &format!("/v1/fs/{name}"), &[("authorization", &tom)], "x").await;
    // Without users the name is believed, and other sites are kept off by their origin alone.
    assert_eq!(put("before").await.is(201).json()["creator"], "tom");
    app.send("GET", "/v1/fs/before", &[("sec-fetch-site", "cross-site")], "").await.is(200);
    app.send("GET", "/v1/fs/before", &[("authorization", "Bearer rd_none")], "").await.is(200);
    app.auth.make_first_user(new_user(ADMIN)).await.unwrap();
    put("after").await.is(401);
    app.get("/v1/fs/before").await.is(401);
    let admin = basic("EVE@example.org", PASSWORD);
    let made = app.send("PUT", "/v1/fs/after", &[("authorization", &admin)], "x").await.is(201).json();
    assert_eq!(made["creator"], ADMIN, "as the name was given");
    let copy = json!({"from": "/before", "to": "/copy"}).to_string();
    let headers = [("authorization", admin.as_str()), ("content-type", "application/json")];
    let copied = app.send("POST", "/v1/copy", &headers, copy).await.is(201).json();
    assert_eq!(copied["creator"], ADMIN);
}

/// After a change of a user is answered, no request uses the old state.
#[tokio::test]
async fn what_has_ended_is_not_used_again() {
    let world = World::new().await;
    let auth = &world.app.auth;
    let passes = async |caller: &'static str| world.send(caller, "GET", "/openapi.json", &[]).await.status;
    let all = ["session of a user", "token of a user", "password of a user"];
    for caller in all {
        assert_eq!(passes(caller).await, 200, "{caller}");
    }
    let disabled = |disabled| UserChange { disabled: Some(disabled), ..UserChange::default() };
    auth.change_user(&world.admin, "tom", disabled(true)).await.unwrap();
    for caller in all {
        assert_eq!(passes(caller).await, 401, "{caller}");
    }
    auth.change_user(&world.admin, "tom", disabled(false)).await.unwrap();
    assert_eq!([passes(all[0]).await, passes(all[1]).await, passes(all[2]).await], [401, 200, 200]);
    let password = UserChange { password: Some("another horse".into()), ..UserChange::default() };
    auth.change_user(&world.admin, "tom", password).await.unwrap();
    assert_eq!([passes(all[1]).await, passes(all[2]).await], [200, 401]);
}
