//! Ways to the server, and names of it, that are for drives with users.

use std::net::IpAddr;

use rowdrive::http::Options;

use super::access::world::{PASSWORD, basic, new_user};
use super::test_app::TestApp;

const ADMIN: &str = "eve";

async fn with_users(options: Options, peer: &str) -> TestApp {
    let mut app = TestApp::with(options).await;
    app.auth.make_first_user(new_user(ADMIN)).await.unwrap();
    app.peer = peer.parse::<IpAddr>().unwrap();
    app
}

#[tokio::test]
async fn what_users_send_comes_by_tls_or_from_this_machine() {
    let authorization = basic(ADMIN, PASSWORD);
    let admin = ("authorization", authorization.as_str());
    let insecure = Options { insecure_http: true, ..Options::default() };
    for (options, peer, allowed) in [
        (Options::default(), "127.0.0.1", true),
        (Options::default(), "127.0.0.9", true),
        (Options::default(), "::1", true),
        (Options::default(), "192.0.2.1", false),
        (Options::default(), "2001:db8::1", false),
        (Options::default(), "10.0.0.1", false),
        (insecure.clone(), "192.0.2.1", true),
    ] {
        let app = with_users(options, peer).await;
        for (method, target, headers, status) in [
            ("GET", "/v1/stat/", &[admin][..], 200),
            ("GET", "/v1/stat/", &[], 401),
            ("POST", "/v1/session", &[], 415),
            ("GET", "/login", &[], 200),
            ("GET", "/s/none/", &[], 404),
            ("GET", "/docs/", &[], 303),
            ("GET", "/nothing", &[], 401),
        ] {
            let answer = app.send(method, target, headers, "").await;
            if allowed {
                answer.is(status);
            } else {
                answer.problem(403, "tls-required");
            }
        }
        // A probe is no client of a proxy.
        app.get("/healthz").await.is(200);
        app.get("/readyz").await.is(200);
    }
    // Without users nothing is secret.
    let mut app = TestApp::new().await;
    app.peer = "192.0.2.1".parse().unwrap();
    app.get("/v1/stat/").await.is(200);
}

#[tokio::test]
async fn the_way_is_checked_after_the_host_and_before_the_origin() {
    let app = with_users(Options::default(), "192.0.2.1").await;
    let foreign = ("origin", "http://evil.example");
    app.send("PUT", "/v1/fs/f", &[foreign, ("host", "evil.example")], "x").await.problem(421, "unknown-host");
    app.send("PUT", "/v1/fs/f", &[foreign], "x").await.problem(403, "tls-required");
    let near = with_users(Options::default(), "127.0.0.1").await;
    near.send("PUT", "/v1/fs/f", &[foreign], "x").await.problem(403, "foreign-origin");
}

#[tokio::test]
async fn addresses_and_any_name_are_hosts_of_a_drive_with_users() {
    let any = || Options { hosts: vec!["*".into()], ..Options::default() };
    for (options, host, without, with) in [
        (Options::default(), "192.0.2.1:8080", 421, 401),
        (Options::default(), "[2001:db8::1]", 421, 401),
        (Options::default(), "drive.example", 421, 421),
        (Options::default(), "192.0.2.1.example", 421, 421),
        (any(), "drive.example", 421, 401),
        (any(), "192.0.2.1", 421, 401),
        (any(), "localhost", 200, 401),
        (any(), "", 421, 421),
    ] {
        let app = TestApp::with(options).await;
        let status = async || app.send("GET", "/v1/stat/", &[("host", host)], "").await.status;
        assert_eq!(status().await, without, "{host}");
        app.auth.make_first_user(new_user(ADMIN)).await.unwrap();
        assert_eq!(status().await, with, "{host}");
    }
}

#[tokio::test]
async fn no_other_server_learns_what_is_here() {
    let app = with_users(Options::default(), "127.0.0.1").await;
    let authorization = basic(ADMIN, PASSWORD);
    for (target, headers) in [
        ("/v1/stat/", &[("authorization", authorization.as_str())][..]),
        ("/v1/stat/none", &[("authorization", authorization.as_str())]),
        ("/v1/stat/", &[]),
        ("/v1/stat/", &[("host", "evil.example")]),
        ("/login", &[]),
        ("/docs/", &[]),
        ("/healthz", &[]),
        ("/nothing", &[]),
    ] {
        let answer = app.send("GET", target, headers, "").await;
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"), "{target}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{target}");
    }
    // A page elsewhere may show what a link is of, and learns no more than its own visitors.
    let answer = app.get("/s/none/fs/f").await.is(404);
    assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
    assert_eq!(answer.header("cross-origin-resource-policy"), Some("cross-origin"));
}
