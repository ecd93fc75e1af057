//! Every row of the error table for these routes, and which hosts and origins may send requests.

use rowdrive::http::Options;
use rowdrive::table::StoreError;
use serde_json::json;

use super::test_app::TestApp;

#[tokio::test]
async fn unknown_routes_and_methods_are_refused() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f"]).await;
    app.get("/").await.problem(404, "no-such-route");
    for target in [
        "/v1",
        "/v1/",
        "/v2/fs/",
        "/v1/fsx",
        "/v1/files/",
        "/v1/find/x",
        "/V1/fs/",
        "/v1/move/",
        "/healthz/",
        "/favicon.ico",
    ] {
        app.get(target).await.problem(404, "no-such-route");
        app.put(target, "x").await.problem(404, "no-such-route");
    }
    let listed = |allow: Option<&str>| {
        let mut methods: Vec<String> = allow.unwrap().split(',').map(|m| m.trim().to_owned()).collect();
        methods.sort();
        methods.join(" ")
    };
    for (methods, target, allow) in [
        (&["POST", "PATCH", "OPTIONS", "TRACE", "MOVE", "PROPFIND"][..], "/v1/fs/f", "DELETE GET HEAD PUT"),
        (&["POST"], "/v1/fs/", "DELETE GET HEAD PUT"),
        (&["PUT", "DELETE"], "/v1/fs", "GET HEAD"),
        (&["PUT", "DELETE", "POST"], "/v1/stat/f", "GET HEAD"),
        (&["POST", "PUT"], "/v1/files", "GET HEAD"),
        (&["POST", "DELETE"], "/v1/find", "GET HEAD"),
        (&["GET", "HEAD", "PUT", "DELETE"], "/v1/move", "POST"),
        (&["GET", "HEAD", "PUT"], "/v1/copy", "POST"),
        (&["POST"], "/healthz", "GET HEAD"),
        (&["PUT"], "/readyz", "GET HEAD"),
        (&["PUT", "POST"], "/", "GET HEAD"),
    ] {
        for method in methods {
            let refused = app.send(method, target, &[], "").await.problem(405, "method-not-allowed");
            assert_eq!(listed(refused.header("allow")), allow, "{method} {target}");
            let is_for_files = allow.contains("PUT");
            assert_eq!(refused.text().contains("curl -T"), is_for_files, "{method} {target}");
        }
    }
    assert_eq!(app.get("/v1/fs/f").await.is(200).text(), "x");
}

#[tokio::test]
async fn health_and_readiness_are_reported() {
    let app = TestApp::new().await;
    for target in ["/healthz", "/readyz"] {
        app.get(target).await.is(200);
        app.send("HEAD", target, &[], "").await.is(200);
    }
    *app.store.reads.lock().unwrap() = Some(|| StoreError::Failed("the disk is on fire".into()));
    app.get("/healthz").await.is(200);
    let not = app.get("/readyz").await.problem(503, "busy");
    assert!(not.header("retry-after").is_some() && !not.text().contains("fire"));
}

/// A request with the status that it must get.
type WriteCase = (&'static str, &'static str);

const WRITES: [WriteCase; 5] =
    [("PUT", "/v1/fs/g"), ("PUT", "/v1/fs/g/"), ("DELETE", "/v1/fs/f"), ("POST", "/v1/move"), ("POST", "/v1/copy")];

async fn write(app: &TestApp, (method, target): WriteCase) -> super::test_app::TestResponse {
    if method == "POST" {
        return app.post(target, &json!({"from": "/f", "to": "/h"})).await;
    }
    app.send(method, target, &[], "").await
}

#[tokio::test]
async fn each_store_error_has_its_status() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f"]).await;
    for (fault, status, problem) in [
        ((|| StoreError::Busy) as fn() -> StoreError, 503, "busy"),
        (|| StoreError::Unknown { cause: "sdb1 at 0xdead".into(), full: false }, 503, "outcome-unknown"),
        (|| StoreError::Unknown { cause: "sdb1 at 0xdead".into(), full: true }, 507, "disk-full"),
        (|| StoreError::Full("sdb1 at 0xdead".into()), 507, "disk-full"),
        (|| StoreError::Failed("sdb1 at 0xdead".into()), 500, "internal"),
        (|| StoreError::Damaged("sdb1 at 0xdead".into()), 500, "damaged"),
        (|| StoreError::BadCounter("sdb1 at 0xdead".into()), 500, "damaged"),
        (|| StoreError::Stopped("sdb1 at 0xdead".into()), 503, "writes-stopped"),
        (|| StoreError::ReadOnly, 503, "read-only"),
    ] {
        *app.store.commits.lock().unwrap() = Some(fault);
        for case in WRITES {
            let answer = write(&app, case).await.problem(status, problem);
            assert_eq!(answer.header("retry-after").is_some(), status == 503, "{case:?}");
            assert!(!answer.text().contains("0xdead"), "{}", answer.text());
        }
        assert_eq!(app.get("/v1/fs/f").await.is(200).text(), "x");
        *app.store.commits.lock().unwrap() = None;
    }
    *app.store.reads.lock().unwrap() = Some(|| StoreError::Damaged("sdb1 at 0xdead".into()));
    for target in ["/v1/fs/f", "/v1/fs/", "/v1/stat/f", "/v1/files?under=/d"] {
        let answer = app.get(target).await.problem(500, "damaged");
        assert!(!answer.text().contains("0xdead"));
    }
}

#[tokio::test]
async fn a_closed_drive_is_answered_503() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f"]).await;
    app.drive.close().await;
    for case in WRITES {
        let answer = write(&app, case).await.problem(503, "closing");
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(app.get("/v1/fs/f").await.is(200).text(), "x");
}

#[tokio::test]
async fn only_requests_to_own_hosts_are_served() {
    let app = TestApp::with(Options { hosts: vec!["Drive.example".into()], ..Options::default() }).await;
    for host in
        ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "[::1]:80", "drive.example", "DRIVE.example:443"]
    {
        app.send("GET", "/v1/fs/", &[("host", host)], "").await.is(200);
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.2",
        "0.0.0.0",
        "drive.example.evil",
        "evil@localhost",
        "[::2]",
    ] {
        for target in ["/v1/fs/", "/healthz", "/nothing"] {
            app.send("GET", target, &[("host", host)], "").await.problem(421, "unknown-host");
        }
        app.send("PUT", "/v1/fs/f", &[("host", host)], "x").await.problem(421, "unknown-host");
    }
    app.send("GET", "/v1/fs/", &[("host", "localhost"), ("host", "localhost")], "").await.problem(400, "malformed");
    app.send("GET", "/v1/fs/", &[("host", "localhost:x")], "").await.problem(400, "malformed");
    // In an absolute target, the authority counts; a foreign Host header is still refused.
    app.send("GET", "http://localhost:8080/v1/fs/", &[], "").await.is(200);
    app.send("GET", "http://evil.example/v1/fs/", &[], "").await.problem(421, "unknown-host");
    app.send("GET", "http://localhost:8080/v1/fs/", &[("host", "evil.example")], "").await.problem(421, "unknown-host");
    assert!(app.names("/v1/fs/").await.is_empty());
}

#[tokio::test]
async fn cross_origin_writes_are_refused() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f"]).await;
    for origin in [
        "http://evil.example",
        "null",
        "http://localhost:8081",
        "http://localhost",
        "http://127.0.0.1:8080",
        "",
        "localhost:8080",
    ] {
        for (method, target) in WRITES {
            app.send(method, target, &[("origin", origin)], "").await.problem(403, "foreign-origin");
        }
        let read = app.send("GET", "/v1/fs/f", &[("origin", origin)], "").await.is(200);
        assert!(read.header("access-control-allow-origin").is_none());
    }
    let own = ("origin", "http://localhost:8080");
    app.send("PUT", "/v1/fs/g", &[own], "x").await.is(201);
    app.send("PUT", "/v1/fs/g", &[own, ("origin", "http://evil.example")], "x").await.problem(403, "foreign-origin");
    app.send("PUT", "http://127.0.0.1:9/v1/fs/g", &[own], "x").await.problem(403, "foreign-origin");
    app.send("PUT", "http://127.0.0.1:9/v1/fs/g", &[("origin", "http://127.0.0.1:9")], "x").await.is(200);
    assert_eq!(app.names("/v1/fs/").await, ["f", "g"]);
}

#[tokio::test]
async fn an_invalid_parameter_is_named() {
    let app = TestApp::new().await;
    let detail = app.get("/v1/files?form=x").await.problem(400, "malformed").json();
    assert!(detail["detail"].as_str().unwrap().contains("`form`"), "{detail}");
    let ids: Vec<_> = futures_util::future::join_all((0..5).map(|_| app.get("/v1/fs/nothing"))).await;
    let mut ids: Vec<_> = ids.iter().map(|a| a.header("x-request-id").unwrap().to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    let given = app.send("GET", "/healthz", &[("x-request-id", "mine")], "").await;
    assert_ne!(given.header("x-request-id"), Some("mine"));
}
