//! A proxy before the server: what it says of its clients counts if the operator has named it.

use rowdrive::http::Options;
use serde_json::{Value, json};

use super::access::world::{PASSWORD, basic, new_user};
use super::test_app::{TestApp, TestResponse};

const ADMIN: &str = "eve";
const HTTPS: (&str, &str) = ("x-forwarded-proto", "https");
const HOST: (&str, &str) = ("x-forwarded-host", "drive.example");

/// A drive with users behind the proxy 10.0.0.1, which calls it by a name of its own.
async fn behind_proxy() -> TestApp {
    let mut app = TestApp::with(options()).await;
    app.auth.make_first_user(new_user(ADMIN)).await.unwrap();
    app.peer = [10, 0, 0, 1].into();
    app
}

fn options() -> Options {
    let (hosts, proxies) = (vec!["drive.example".into()], vec!["10.0.0.0/8".parse().unwrap()]);
    Options { hosts, proxies, ..Options::default() }
}

/// Sends what the proxy sends on for the client at this address.
async fn from(app: &TestApp, address: &str, method: &str, target: &str, more: &[(&str, &str)]) -> TestResponse {
    send(app, address, method, target, more, Value::Null).await
}

async fn send(
    app: &TestApp,
    address: &str,
    method: &str,
    target: &str,
    more: &[(&str, &str)],
    body: Value,
) -> TestResponse {
    let sent =
        [("x-forwarded-for", address), ("host", "upstream:8080"), HTTPS, HOST, ("content-type", "application/json")];
    let named = |name: &str| more.iter().any(|(other, _)| *other == name);
    let headers: Vec<_> = sent.into_iter().filter(|(name, _)| !named(name)).chain(more.iter().copied()).collect();
    app.send(method, target, &headers, if body.is_null() { String::new() } else { body.to_string() }).await
}

fn login(password: &str) -> Value {
    json!({"user": ADMIN, "password": password})
}

#[tokio::test]
async fn wrong_passwords_are_those_of_the_client_before_the_proxy() {
    let app = behind_proxy().await;
    for _ in 0..10 {
        // What stands before the address that the proxy adds, every client can send.
        let sent = [("x-forwarded-for", "192.0.2.2, 192.0.2.1")];
        send(&app, "", "POST", "/v1/session", &sent, login("wrong password")).await.is(401);
    }
    for (address, status) in
        [("192.0.2.1", 429), ("192.0.2.2", 204), ("192.0.2.2, 10.9.9.9", 204), ("192.0.2.1, 10.9.9.9", 429)]
    {
        assert_eq!(send(&app, address, "POST", "/v1/session", &[], login(PASSWORD)).await.status, status, "{address}");
    }
}

#[tokio::test]
async fn a_session_through_the_proxy_is_as_secure_as_by_tls() {
    let app = behind_proxy().await;
    let made = send(&app, "192.0.2.1", "POST", "/v1/session", &[], login(PASSWORD)).await.is(204);
    let set = made.header("set-cookie").unwrap();
    assert!(set.starts_with("__Host-rowdrive=") && set.ends_with("; Secure"), "{set}");
    let cookie = ("cookie", set.split(';').next().unwrap());
    from(&app, "192.0.2.1", "GET", "/v1/session", &[cookie]).await.is(200);
    for (origin, status) in [
        (Some("https://drive.example"), 201),
        (Some("https://DRIVE.example:443"), 200),
        (Some("http://drive.example"), 403),
        (Some("https://drive.example:8443"), 403),
        (Some("https://upstream:8080"), 403),
        (Some("null"), 403),
        (None, 403),
    ] {
        let sent: Vec<_> = [cookie].into_iter().chain(origin.map(|origin| ("origin", origin))).collect();
        assert_eq!(from(&app, "192.0.2.1", "PUT", "/v1/fs/f", &sent).await.status, status, "{origin:?}");
    }
    // The host may have a port, which the origin has too.
    let port = [cookie, ("x-forwarded-host", "drive.example:8443"), ("origin", "https://drive.example:8443")];
    from(&app, "192.0.2.1", "PUT", "/v1/fs/f", &port).await.is(200);
}

#[tokio::test]
async fn the_proxy_says_by_which_host_and_scheme_it_was_called() {
    let app = behind_proxy().await;
    let authorization = basic(ADMIN, PASSWORD);
    let admin = ("authorization", authorization.as_str());
    for (host, status) in
        [("drive.example", 200), ("localhost", 200), ("192.0.2.9", 200), ("evil.example", 421), ("a b:", 421)]
    {
        let sent = [admin, ("x-forwarded-host", host)];
        assert_eq!(from(&app, "192.0.2.1", "GET", "/v1/stat/", &sent).await.status, status, "{host}");
    }
    for proto in ["http", "", "wss", "https, http"] {
        let sent = [admin, ("x-forwarded-proto", proto)];
        from(&app, "192.0.2.1", "GET", "/v1/stat/", &sent).await.problem(403, "tls-required");
    }
    from(&app, "nonsense", "GET", "/v1/stat/", &[admin]).await.problem(400, "malformed");
    // Without the host that was called, its own name for the server counts.
    let mut own = vec![admin, HTTPS, ("x-forwarded-for", "192.0.2.1"), ("host", "upstream:8080")];
    app.send("GET", "/v1/stat/", &own, "").await.problem(421, "unknown-host");
    own[3].1 = "drive.example";
    app.send("GET", "/v1/stat/", &own, "").await.is(200);
}

#[tokio::test]
async fn what_others_say_of_their_clients_never_counts() {
    let mut app = behind_proxy().await;
    let authorization = basic(ADMIN, PASSWORD);
    let admin = ("authorization", authorization.as_str());
    for peer in [[127, 0, 0, 1], [192, 0, 2, 9]] {
        app.peer = peer.into();
        for header in
            [HTTPS, ("x-forwarded-for", "127.0.0.1"), ("x-forwarded-host", "localhost"), ("forwarded", "proto=https")]
        {
            app.send("GET", "/v1/stat/", &[admin, header], "").await.problem(403, "forbidden");
            let login_headers = [header, ("content-type", "application/json")];
            app.send("POST", "/v1/session", &login_headers, login(PASSWORD).to_string())
                .await
                .problem(403, "forbidden");
        }
    }
    // Of a named one, `Forwarded` says nothing.
    app.peer = [10, 0, 0, 1].into();
    for header in [("forwarded", "for=127.0.0.1;proto=https;host=localhost"), ("via", "1.1 proxy")] {
        app.send("GET", "/v1/stat/", &[admin, header], "").await.problem(403, "tls-required");
        from(&app, "192.0.2.1", "GET", "/v1/stat/", &[admin, header]).await.is(200);
    }
}

/// Without users everyone who reaches the server may do everything.
#[tokio::test]
async fn a_named_proxy_lets_nobody_in_before_there_are_users() {
    let mut app = TestApp::with(options()).await;
    app.put("/v1/fs/f", "x").await.is(201);
    app.peer = [10, 0, 0, 1].into();
    for (method, target) in
        [("GET", "/v1/fs/f"), ("PUT", "/v1/fs/f"), ("GET", "/v1/session"), ("GET", "/docs/"), ("GET", "/metrics")]
    {
        from(&app, "192.0.2.1", method, target, &[]).await.problem(403, "forbidden");
    }
    let first = json!({"name": ADMIN, "password": PASSWORD});
    for address in ["192.0.2.1", "127.0.0.1"] {
        send(&app, address, "POST", "/v1/users", &[], first.clone()).await.problem(403, "forbidden");
    }
    from(&app, "192.0.2.1", "GET", "/healthz", &[]).await.is(200);
    assert!(!app.auth.has_users().await.unwrap());
}
