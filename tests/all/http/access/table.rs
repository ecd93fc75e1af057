//! Route, caller, object: what each one gets.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rowdrive::http::{Callers, routes};

use super::OWN;
use super::world::{World, comparable};
use crate::drive::fixture::run;
use crate::drive::model::Op;

/// The callers of the columns: Eva, who has nothing; Tom, who may write in `/d`; Tom's token to read in `/d/c`; an admin.
const CALLERS: [&str; 4] = ["token of another user", "token of a user", "token for a directory", "token of an admin"];
/// Callers who have proved nothing.
const UNPROVED: [&str; 11] = [
    "nobody",
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
];

/// Method, pattern, target, body, and the status for each of the [`CALLERS`].
type Row = (&'static str, &'static str, &'static str, &'static str, [u16; 4]);

const FS: &str = "/v1/fs/{*path}";
const STAT: &str = "/v1/stat/{*path}";

const FILES: &[Row] = &[
    ("GET", "/v1/fs", "/v1/fs", "", [308; 4]),
    ("GET", "/v1/fs/", "/v1/fs/", "", [404, 200, 404, 200]),
    ("PUT", "/v1/fs/", "/v1/fs/", "", [403, 200, 403, 200]),
    ("DELETE", "/v1/fs/", "/v1/fs/", "", [405; 4]),
    ("GET", FS, "/v1/fs/d/f", "", [404, 200, 404, 200]),
    ("HEAD", FS, "/v1/fs/d/f", "", [404, 200, 404, 200]),
    ("GET", FS, "/v1/fs/d/", "", [404, 200, 404, 200]),
    ("GET", FS, "/v1/fs/d", "", [404, 308, 404, 308]),
    ("GET", FS, "/v1/fs/d/c/g", "", [404, 200, 200, 200]),
    ("GET", FS, "/v1/fs/d/c/", "", [404, 200, 200, 200]),
    ("GET", FS, "/v1/fs/h/f", "", [404, 404, 404, 200]),
    ("GET", FS, "/v1/fs/h/", "", [404, 404, 404, 200]),
    ("GET", FS, "/v1/fs/h", "", [404, 404, 404, 308]),
    ("PUT", FS, "/v1/fs/d/new", "x", [403, 201, 403, 201]),
    ("PUT", FS, "/v1/fs/d/f", "x", [403, 200, 403, 200]),
    ("PUT", FS, "/v1/fs/d/c/new", "x", [403, 201, 403, 201]),
    ("PUT", FS, "/v1/fs/d/made/", "", [403, 201, 403, 201]),
    ("PUT", FS, "/v1/fs/h/new", "x", [403, 403, 403, 201]),
    ("PUT", FS, "/v1/fs/h/f", "x", [403, 403, 403, 200]),
    ("PUT", FS, "/v1/fs/none/", "", [403, 403, 403, 201]),
    ("PUT", FS, "/v1/fs/h/?unpack=tar", "", [403, 403, 403, 400]),
    ("DELETE", FS, "/v1/fs/d/f", "", [404, 204, 404, 204]),
    ("DELETE", FS, "/v1/fs/h/f", "", [404, 404, 404, 204]),
    ("DELETE", FS, "/v1/fs/d/", "", [404, 403, 404, 409]),
    ("DELETE", FS, "/v1/fs/d/c/", "", [404, 409, 403, 409]),
    ("GET", "/v1/stat/", "/v1/stat/", "", [404, 200, 404, 200]),
    ("GET", STAT, "/v1/stat/d/f", "", [404, 200, 404, 200]),
    ("GET", STAT, "/v1/stat/d/c", "", [404, 200, 200, 200]),
    ("GET", STAT, "/v1/stat/h/f", "", [404, 404, 404, 200]),
    ("POST", "/v1/move", "/v1/move", r#"{"from":"/d/f","to":"/d/new"}"#, [404, 201, 404, 201]),
    ("POST", "/v1/move", "/v1/move", r#"{"from":"/d/f","to":"/h/new"}"#, [404, 403, 404, 201]),
    ("POST", "/v1/move", "/v1/move", r#"{"from":"/h/f","to":"/d/new"}"#, [404, 404, 404, 201]),
    ("POST", "/v1/move", "/v1/move", r#"{"from":"/d","to":"/d/c/new"}"#, [400; 4]),
    ("POST", "/v1/copy", "/v1/copy", r#"{"from":"/d/f","to":"/d/new"}"#, [404, 201, 404, 201]),
    ("POST", "/v1/copy", "/v1/copy", r#"{"from":"/d/c/g","to":"/h/new"}"#, [404, 403, 403, 201]),
    ("POST", "/v1/copy", "/v1/copy", r#"{"from":"/h/f","to":"/d/new"}"#, [404, 404, 404, 201]),
    ("GET", "/v1/files", "/v1/files", "", [200; 4]),
    ("GET", "/v1/files", "/v1/files?under=/d/c", "", [404, 200, 200, 200]),
    ("GET", "/v1/files", "/v1/files?under=/h", "", [404, 404, 404, 200]),
    ("GET", "/v1/find", "/v1/find?name=f", "", [200; 4]),
    ("GET", "/v1/find", "/v1/find?name=f&under=/h", "", [404, 404, 404, 200]),
];

const OPERATING: &[Row] = &[
    ("GET", "/", "/", "", [404; 4]),
    ("GET", "/login", "/login", "", [200; 4]),
    ("POST", "/login", "/login", "", [415; 4]),
    ("POST", "/logout", "/logout", "", [303, 303, 403, 303]),
    ("GET", "/healthz", "/healthz", "", [200; 4]),
    ("GET", "/readyz", "/readyz", "", [200; 4]),
    ("GET", "/metrics", "/metrics", "", [403, 403, 403, 200]),
    ("GET", "/openapi.json", "/openapi.json", "", [200; 4]),
    ("GET", "/docs", "/docs", "", [308; 4]),
    ("GET", "/docs/", "/docs/", "", [200; 4]),
    ("GET", "/docs/{name}", "/docs/none.js", "", [404; 4]),
];

const ACCOUNTS: &[Row] = &[
    ("GET", "/v1/session", "/v1/session", "", [200; 4]),
    ("POST", "/v1/session", "/v1/session", "{}", [400; 4]),
    ("DELETE", "/v1/session", "/v1/session", "", [204, 204, 403, 204]),
    ("GET", "/v1/sessions", "/v1/sessions", "", [200, 200, 403, 200]),
    ("GET", "/v1/sessions", "/v1/sessions?user=TOM", "", [403, 200, 403, 200]),
    ("GET", "/v1/sessions", "/v1/sessions?user=none", "", [403, 403, 403, 404]),
    ("DELETE", "/v1/sessions", "/v1/sessions?user=off", "", [403, 403, 403, 204]),
    ("DELETE", "/v1/sessions/{id}", "/v1/sessions/00000000-0000-4000-8000-000000000000", "", [404, 404, 403, 404]),
    ("GET", "/v1/users", "/v1/users", "", [403, 403, 403, 200]),
    ("POST", "/v1/users", "/v1/users", "{}", [403, 403, 403, 400]),
    ("GET", "/v1/users/{name}", "/v1/users/tom", "", [403, 200, 403, 200]),
    ("GET", "/v1/users/{name}", "/v1/users/none", "", [403, 403, 403, 404]),
    ("PATCH", "/v1/users/{name}", "/v1/users/tom", r#"{"display":"Tom"}"#, [403, 200, 403, 200]),
    ("PATCH", "/v1/users/{name}", "/v1/users/tom", r#"{"disabled":false}"#, [403, 403, 403, 200]),
    ("PATCH", "/v1/users/{name}", "/v1/users/none", r#"{"display":"None"}"#, [403, 403, 403, 404]),
    ("DELETE", "/v1/users/{name}", "/v1/users/none", "", [403, 403, 403, 404]),
    ("GET", "/v1/grants", "/v1/grants", "", [200, 200, 403, 200]),
    ("GET", "/v1/grants", "/v1/grants?path=/d", "", [404, 403, 403, 200]),
    ("GET", "/v1/grants", "/v1/grants?path=/d/f", "", [404, 400, 403, 400]),
    ("GET", "/v1/grants", "/v1/grants?path=/h", "", [404, 404, 403, 200]),
    ("PUT", "/v1/grants", "/v1/grants", r#"{"path":"/d","user":"gone","rights":["read"]}"#, [404, 403, 403, 404]),
    ("PUT", "/v1/grants", "/v1/grants", r#"{"path":"/h","user":"gone","rights":["read"]}"#, [404, 404, 403, 404]),
    ("DELETE", "/v1/grants", "/v1/grants?path=/d&user=eva", "", [404, 403, 403, 404]),
    ("DELETE", "/v1/grants", "/v1/grants?path=/h&user=eva", "", [404, 404, 403, 404]),
    ("GET", "/v1/tokens", "/v1/tokens", "", [200, 200, 403, 200]),
    ("GET", "/v1/tokens", "/v1/tokens?user=eva", "", [200, 403, 403, 200]),
    ("POST", "/v1/tokens", "/v1/tokens", r#"{"name":"x"}"#, [201, 201, 403, 201]),
    ("POST", "/v1/tokens", "/v1/tokens", r#"{"name":"x","path":"/d/c"}"#, [404, 201, 403, 201]),
    ("POST", "/v1/tokens", "/v1/tokens", r#"{"name":"x","path":"/d/f"}"#, [404, 400, 403, 400]),
    ("POST", "/v1/tokens", "/v1/tokens", r#"{"name":"x","path":"/h"}"#, [404, 404, 403, 201]),
    ("DELETE", "/v1/tokens/{id}", "/v1/tokens/no-id", "", [404; 4]),
];

/// What is answered without a credential, too. It is said here anew: a route that is opened by mistake answers its users
/// as before.
const OPEN: [(&str, &str); 5] =
    [("GET", "/login"), ("POST", "/login"), ("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/v1/session")];

/// What people open in a browser.
const PAGES: [&str; 3] = ["/docs", "/docs/", "/logout"];

/// `SHARE` is the secret of a share of `/d`, `LOCKED` that of one with a password, `UPLOAD` that of one to upload by, `ENDED`
/// that of one that has ended.
const SHARES: &[Row] = &[
    ("GET", "/v1/shares", "/v1/shares", "", [200, 200, 403, 200]),
    ("GET", "/v1/shares", "/v1/shares?user=eva", "", [200, 403, 403, 200]),
    ("GET", "/v1/shares", "/v1/shares?path=/d", "", [404, 403, 403, 200]),
    ("GET", "/v1/shares", "/v1/shares?path=/d/f", "", [404, 403, 403, 200]),
    ("GET", "/v1/shares", "/v1/shares?path=/h", "", [404, 404, 403, 200]),
    ("POST", "/v1/shares", "/v1/shares", r#"{"path":"/d","mode":"read"}"#, [404, 403, 403, 201]),
    ("POST", "/v1/shares", "/v1/shares", r#"{"path":"/d/f","mode":"read"}"#, [404, 403, 403, 201]),
    ("POST", "/v1/shares", "/v1/shares", r#"{"path":"/h","mode":"read"}"#, [404, 404, 403, 201]),
    ("POST", "/v1/shares", "/v1/shares", r#"{"path":"/d","mode":"upload"}"#, [404, 403, 403, 201]),
    ("POST", "/v1/shares", "/v1/shares", r#"{"path":"/d/f","mode":"upload"}"#, [404, 400, 403, 400]),
    ("POST", "/v1/shares", "/v1/shares", r#"{"path":"/h","mode":"upload"}"#, [404, 404, 403, 201]),
    ("DELETE", "/v1/shares/{id}", "/v1/shares/no-id", "", [404, 404, 403, 404]),
    ("GET", "/s/{secret}", "/s/SHARE", "", [308; 4]),
    ("GET", "/s/{secret}", "/s/LOCKED", "", [308; 4]),
    ("GET", "/s/{secret}", "/s/UPLOAD", "", [308; 4]),
    ("GET", "/s/{secret}", "/s/ENDED", "", [404; 4]),
    ("POST", "/s/{secret}/login", "/s/SHARE/login", "", [415; 4]),
    ("POST", "/s/{secret}/login", "/s/LOCKED/login", "", [415; 4]),
    ("POST", "/s/{secret}/login", "/s/ENDED/login", "", [404; 4]),
    ("GET", "/s/{secret}/", "/s/SHARE/", "", [200; 4]),
    ("GET", "/s/{secret}/", "/s/LOCKED/", "", [401; 4]),
    ("GET", "/s/{secret}/", "/s/UPLOAD/", "", [200; 4]),
    ("GET", "/s/{secret}/", "/s/ENDED/", "", [404; 4]),
    ("POST", "/s/{secret}/", "/s/SHARE/", "", [405; 4]),
    ("POST", "/s/{secret}/", "/s/LOCKED/", "", [401; 4]),
    ("POST", "/s/{secret}/", "/s/UPLOAD/", "", [415; 4]),
    ("POST", "/s/{secret}/", "/s/ENDED/", "", [404; 4]),
    ("GET", "/s/{secret}/fs", "/s/SHARE/fs", "", [308; 4]),
    ("GET", "/s/{secret}/fs", "/s/LOCKED/fs", "", [401; 4]),
    ("GET", "/s/{secret}/fs", "/s/UPLOAD/fs", "", [404; 4]),
    ("GET", "/s/{secret}/fs", "/s/ENDED/fs", "", [404; 4]),
    ("GET", "/s/{secret}/fs/", "/s/SHARE/fs/", "", [200; 4]),
    ("GET", "/s/{secret}/fs/", "/s/LOCKED/fs/", "", [401; 4]),
    ("GET", "/s/{secret}/fs/", "/s/UPLOAD/fs/", "", [404; 4]),
    ("GET", "/s/{secret}/fs/", "/s/ENDED/fs/", "", [404; 4]),
    ("PUT", "/s/{secret}/fs/", "/s/SHARE/fs/", "", [405; 4]),
    ("PUT", "/s/{secret}/fs/", "/s/LOCKED/fs/", "", [401; 4]),
    ("PUT", "/s/{secret}/fs/", "/s/UPLOAD/fs/", "", [400; 4]),
    ("PUT", "/s/{secret}/fs/", "/s/ENDED/fs/", "", [404; 4]),
    ("GET", "/s/{secret}/fs/{*path}", "/s/SHARE/fs/f", "", [200; 4]),
    ("GET", "/s/{secret}/fs/{*path}", "/s/SHARE/fs/h/f", "", [404; 4]),
    ("GET", "/s/{secret}/fs/{*path}", "/s/LOCKED/fs/f", "", [401; 4]),
    ("GET", "/s/{secret}/fs/{*path}", "/s/LOCKED/fs/none", "", [401; 4]),
    ("GET", "/s/{secret}/fs/{*path}", "/s/UPLOAD/fs/f", "", [404; 4]),
    ("GET", "/s/{secret}/fs/{*path}", "/s/ENDED/fs/f", "", [404; 4]),
    ("PUT", "/s/{secret}/fs/{*path}", "/s/SHARE/fs/new", "x", [405; 4]),
    ("PUT", "/s/{secret}/fs/{*path}", "/s/LOCKED/fs/new", "x", [401; 4]),
    ("PUT", "/s/{secret}/fs/{*path}", "/s/UPLOAD/fs/new", "x", [201; 4]),
    ("PUT", "/s/{secret}/fs/{*path}", "/s/UPLOAD/fs/c/new", "x", [400; 4]),
    ("PUT", "/s/{secret}/fs/{*path}", "/s/ENDED/fs/new", "x", [404; 4]),
];

const TABLES: [&[Row]; 4] = [FILES, ACCOUNTS, SHARES, OPERATING];

fn headers(body: &str) -> Vec<(&'static str, &'static str)> {
    let json = ("content-type", "application/json");
    if body.starts_with('{') { vec![OWN, json] } else { vec![OWN] }
}

#[tokio::test]
async fn every_route_answers_each_caller_by_his_rights() {
    let world = World::new().await;
    let rows: BTreeSet<_> =
        TABLES.concat().iter().map(|(method, pattern, ..)| (method.to_string(), *pattern)).collect();
    let routes = routes();
    let found: BTreeSet<_> = routes.iter().map(|(pattern, method, _)| (method.to_string(), *pattern)).collect();
    let heads = rows.iter().filter(|(method, _)| method == "HEAD").count();
    assert_eq!(found.difference(&rows).collect::<Vec<_>>(), Vec::<&(String, &str)>::new(), "routes without a row");
    assert_eq!(rows.difference(&found).count(), heads, "rows without a route: {rows:?}");
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for (method, pattern, target, body, expected) in TABLES.concat() {
        let (is_open, is_of_share) = (OPEN.contains(&(method, pattern)), pattern.starts_with("/s/"));
        let shares = [
            ("SHARE", &world.share),
            ("LOCKED", &world.locked_share),
            ("UPLOAD", &world.upload_share),
            ("ENDED", &world.ended_share),
        ];
        let target = &shares.into_iter().fold(target.to_owned(), |target, (of, secret)| target.replace(of, secret));
        for caller in UNPROVED {
            let status = world.send_body(caller, method, target, &headers(body), body).await.status;
            // A browser that is not logged in is sent to the login.
            let is_sent = PAGES.contains(&pattern) && !world.sends_authorization(caller);
            let is_right = match is_of_share {
                true => status == expected[0],
                false if is_sent => status == 303,
                false => (status == 401) != is_open,
            };
            if !is_right {
                wrong.push(format!("{caller}: {method} {target}: {status}"));
            }
        }
        asked += UNPROVED.len() + CALLERS.len();
        for (caller, expected) in CALLERS.into_iter().zip(expected) {
            world.renew().await;
            let answer = world.send_body(caller, method, target, &headers(body), body).await;
            if answer.status != expected {
                wrong.push(format!("{caller}: {method} {target} {body}: {expected} expected: {answer:?}"));
            }
        }
    }
    println!(
        "{} routes, {} rows with an object, {asked} requests, {} wrong",
        found.len(),
        TABLES.concat().len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn routes_of_admins_are_for_no_other_credential() {
    let world = World::new().await;
    let all = routes();
    let of_admins: Vec<_> = all.iter().filter(|(_, _, callers)| *callers == Callers::Admins).collect();
    assert!(!of_admins.is_empty());
    for (pattern, method, _) in of_admins {
        let row = *TABLES.concat().iter().find(|(m, p, ..)| m == method && p == pattern).unwrap();
        let (method, _, target, body, expected) = row;
        for (caller, is_admin) in [
            ("token for the root", false),
            ("session of a user", false),
            ("token by name", true),
            ("token without name", true),
            ("session of an admin", true),
            ("password of an admin", true),
        ] {
            let status = world.send_body(caller, method, target, &headers(body), body).await.status;
            assert_eq!(status, if is_admin { expected[3] } else { 403 }, "{caller}: {method} {target}");
        }
    }
}

/// What is hidden, and what is not there: method, target with `{}` for the directory, and body with it.
const SAME: &[(&str, &str, &str)] = &[
    ("GET", "/v1/fs{}/f", ""),
    ("HEAD", "/v1/fs{}/f", ""),
    ("GET", "/v1/fs{}/", ""),
    ("GET", "/v1/fs{}", ""),
    ("GET", "/v1/fs{}/f?download=x", ""),
    ("GET", "/v1/fs{}/?limit=0", ""),
    ("PUT", "/v1/fs{}/f", "x"),
    ("PUT", "/v1/fs{}/new", "x"),
    ("PUT", "/v1/fs{}/", ""),
    ("PUT", "/v1/fs{}/?unpack=tar", ""),
    ("PUT", "/v1/fs{}/f/x?parents=false", "x"),
    ("DELETE", "/v1/fs{}/f", ""),
    ("DELETE", "/v1/fs{}/", ""),
    ("DELETE", "/v1/fs{}/?recursive=true", ""),
    ("GET", "/v1/stat{}/f", ""),
    ("GET", "/v1/stat{}/", ""),
    ("GET", "/v1/files?under={}", ""),
    ("GET", "/v1/find?name=f&under={}", ""),
    ("POST", "/v1/move", r#"{"from":"{}/f","to":"/d/new"}"#),
    ("POST", "/v1/move", r#"{"from":"{}/f/","to":"/d/new/"}"#),
    ("POST", "/v1/move", r#"{"from":"{}","to":"/d/new"}"#),
    ("POST", "/v1/move", r#"{"from":"/d/f","to":"{}/f"}"#),
    ("POST", "/v1/copy", r#"{"from":"{}/f","to":"/d/new"}"#),
    ("POST", "/v1/copy", r#"{"from":"{}","to":"/d/new"}"#),
    ("POST", "/v1/copy", r#"{"from":"/d/c/g","to":"{}/f"}"#),
    ("GET", "/v1/grants?path={}", ""),
    ("GET", "/v1/grants?path={}/f", ""),
    ("PUT", "/v1/grants", r#"{"path":"{}","user":"eva","rights":["read"]}"#),
    ("DELETE", "/v1/grants?path={}&user=tom", ""),
    ("POST", "/v1/tokens", r#"{"name":"x","path":"{}"}"#),
    ("GET", "/v1/shares?path={}", ""),
    ("GET", "/v1/shares?path={}/f", ""),
    ("POST", "/v1/shares", r#"{"path":"{}","mode":"read"}"#),
    ("POST", "/v1/shares", r#"{"path":"{}/f","mode":"read"}"#),
];

#[tokio::test]
async fn what_is_hidden_is_answered_as_what_is_missing() {
    let world = World::new().await;
    let mut wrong = Vec::new();
    for (method, target, body) in SAME {
        for caller in &CALLERS[..3] {
            for more in [&[][..], &[("if-match", "*")], &[("if-none-match", "*")], &[("range", "bytes=9-")]] {
                let headers = [&headers(body), more].concat();
                let answers = ["/h", "/none"].map(|dir| (target.replace("{}", dir), body.replace("{}", dir)));
                let [hidden, missing] = answers.map(|(target, body)| {
                    let (world, headers) = (&world, &headers);
                    async move { comparable(&world.send_body(caller, method, &target, headers, body).await) }
                });
                let (hidden, missing) = (hidden.await, missing.await);
                if hidden != missing || hidden.0 < 400 {
                    wrong.push(format!("{caller}: {method} {target} {body} {more:?}: {hidden:?}, {missing:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // All is as it was.
    world.send("token of an admin", "GET", "/v1/fs/h/f", &[]).await.is(200);
    world.send("token of an admin", "GET", "/v1/fs/none/", &[]).await.is(404);
}

#[tokio::test]
async fn a_cursor_is_of_use_to_its_user_alone() {
    let world = World::new().await;
    run(&world.app.drive, Op::Put("/d/f2", 1)).await.unwrap();
    for target in ["/v1/files?limit=1", "/v1/find?name=f*&limit=1", "/v1/fs/d/?limit=1"] {
        let page = async |caller: &str, target: &str| world.send(caller, "GET", target, &[]).await;
        let next = async |caller: &str| page(caller, target).await.json()["next"].as_str().unwrap().to_owned();
        let (tom, admin) = (next("token of a user").await, next("token of an admin").await);
        for (caller, cursor, expected) in [
            ("token of a user", &tom, 200),
            ("password of a user", &tom, 200),
            ("token of an admin", &tom, 400),
            ("token of a user", &admin, 400),
            ("token of an admin", &admin, 200),
        ] {
            page(caller, &format!("{target}&cursor={cursor}")).await.is(expected);
        }
        // Of another query of his, or another resource, it is none.
        for other in ["/v1/files?under=/d", "/v1/find?name=f*&under=/d", "/v1/find?name=f2*", "/v1/fs/d/c/?limit=1"] {
            page("token of a user", &format!("{other}&cursor={tom}")).await.is(400);
        }
        // It is no text that shows a position.
        let bytes = URL_SAFE_NO_PAD.decode(&tom).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("f2"), "{bytes:?}");
        assert_ne!(tom, next("token of a user").await, "it is sealed anew each time");
    }
}
