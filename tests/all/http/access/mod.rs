//! Who reaches which route, by what he sends, on a drive with users.
//!
//! - `world`: a drive with users, and what each caller sends
//! - `table`: route, caller, object: what each one gets

mod table;
pub mod world;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use rowdrive::auth::UserChange;
use rowdrive::drive::DriveError;
use rowdrive::schema::DrivePath;
use rowdrive::schema::rights::Right;
use serde_json::json;

use super::test_app::TestApp;
use world::{ADMIN, PASSWORD, World, basic, comparable, new_user};

const OWN: (&str, &str) = ("origin", "http://localhost:8080");

/// Callers who have proved nothing. Those with a password are slow to refuse, as they must be.
const NO_CREDENTIALS: [&str; 8] = [
    "nobody",
    "no name",
    "malformed",
    "ended token",
    "session of a disabled user",
    "wrong password",
    "unknown name",
    "disabled",
];

#[tokio::test]
async fn strangers_learn_nothing_from_a_refusal() {
    let world = World::new().await;
    let expected = world.app.get("/v1/fs/d/f").await.problem(401, "unauthorized");
    assert_eq!(expected.header("www-authenticate"), Some(r#"Basic realm="Rowdrive", charset="UTF-8""#));
    let expected = comparable(&expected);
    for caller in NO_CREDENTIALS {
        assert_eq!(comparable(&world.send(caller, "GET", "/v1/fs/d/f", &[]).await), expected, "{caller}");
    }
    for target in ["/v1/fs/none", "/v1/fs/%00", "/v1/none", "/none", "/v1/fs/d/f?token=x", "/", "/docs/none.js"] {
        assert_eq!(comparable(&world.app.get(target).await), expected, "{target}");
    }
    for method in ["PATCH", "OPTIONS", "DELETE", "TRACE"] {
        assert_eq!(comparable(&world.app.send(method, "/v1/fs/d/f", &[], "").await), expected, "{method}");
    }
    world.app.send("HEAD", "/healthz", &[], "").await.is(200);
    world.send("token of an admin", "PATCH", "/v1/fs/d/f", &[]).await.is(405);
    world.send("token of a user", "GET", "/v1/none", &[]).await.problem(404, "no-such-route");
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

/// A cache would give the answer to another user, or to the same one after he got the right.
#[tokio::test]
async fn no_cache_keeps_a_refusal() {
    let world = World::new().await;
    for (caller, target, status) in [
        ("nobody", "/v1/fs/d/f", 401),
        ("wrong password", "/v1/fs/d/f", 401),
        ("password of a user", "/v1/fs/h/f", 404),
        ("password of a user", "/none", 404),
        ("password of a user", "/metrics", 403),
        ("token for a directory", "/v1/sessions", 403),
    ] {
        let refused = world.send(caller, "GET", target, &[]).await.is(status);
        assert_eq!(refused.header("cache-control"), Some("no-store"), "{caller} {target}");
    }
    let without_users = TestApp::new().await.get("/v1/fs/none").await.is(404);
    assert_eq!(without_users.header("cache-control"), None);
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

/// A listing that is streamed asks again with each page.
#[tokio::test]
async fn a_listing_breaks_off_when_its_right_ends() {
    let world = World::new().await;
    for n in 0..1_001 {
        let made = world.app.drive.unrestricted();
        made.mkdir(&DrivePath::parse(&format!("/d/{n}")).unwrap(), ADMIN, false).await.unwrap();
    }
    let (name, token) = &world.callers["token of a user"];
    for accept in ["application/x-ndjson", "text/plain"] {
        let begin = async || {
            let headers = [(*name, token.as_str()), ("accept", accept)];
            let response = world.app.begin("GET", "/v1/fs/d/", &headers, "").await;
            assert_eq!(response.status(), 200);
            let mut pages = response.into_body().into_data_stream();
            assert!(pages.next().await.unwrap().is_ok_and(|page| !page.is_empty()));
            pages
        };
        let (mut whole, mut broken) = (begin().await, begin().await);
        assert!(whole.next().await.unwrap().is_ok(), "there is another page");
        let (tom, chain) = (world.app.auth.grantee("tom").await.unwrap(), world.chain("/d").await);
        world.app.auth.delete_grant(&world.admin, &chain, &tom).await.unwrap();
        assert!(broken.next().await.unwrap().is_err(), "{accept}");
        let rights = [Right::Write].into_iter().collect();
        world.app.auth.put_grant(&world.admin, &chain, &tom, rights).await.unwrap();
    }
}

/// The first user is made while its body comes in.
#[tokio::test]
async fn an_upload_that_began_before_the_first_user_stores_nothing() {
    let app = TestApp::new().await;
    app.put("/v1/fs/old", "x").await.is(201);
    let auth = app.auth.clone();
    let body = stream::once(async move {
        auth.make_first_user(new_user(ADMIN)).await.unwrap();
        Ok::<_, std::io::Error>(Bytes::from_static(b"new"))
    });
    let refused = app.put("/v1/fs/new", Body::from_stream(body)).await.problem(401, "unauthorized");
    assert!(refused.header("www-authenticate").unwrap().starts_with("Basic "));
    let found = app.drive.unrestricted().stat(&DrivePath::parse("/new").unwrap()).await;
    assert!(matches!(found, Err(DriveError::NotFound)), "{found:?}");
}
