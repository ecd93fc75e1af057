//! The number of store calls for each request, where the design promises a number.

use std::sync::atomic::Ordering;

use super::test_app::TestApp;

/// Method, target, headers, body, and the promised calls.
type CallCase =
    (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str, &'static [&'static str]);

/// The store calls of a successful request.
async fn calls(app: &TestApp, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Vec<&'static str> {
    app.store.calls.lock().unwrap().clear();
    let answer = app.send(method, target, headers, body.to_owned()).await;
    assert!((200..300).contains(&answer.status), "{answer:?}");
    std::mem::take(&mut *app.store.calls.lock().unwrap())
}

#[tokio::test]
async fn each_request_makes_the_documented_number_of_store_calls() {
    let app = TestApp::new().await;
    for n in 0..30 {
        calls(&app, "PUT", &format!("/v1/fs/a/b/c/f{n:02}"), &[], "hello").await;
    }
    // One read for each folder up to the root, whose path is then cached, and one read of the entries.
    let cold = calls(&app, "GET", "/v1/files?limit=10", &[], "").await;
    assert_eq!(cold, ["scan", "get_many", "get_many", "get_many", "get_many"]);
    let json: &'static [(&str, &str)] = &[("content-type", "application/json")];
    let cases: [CallCase; 12] = [
        ("GET", "/v1/stat/a/b/c/f00", &[], "", &["get"]),
        ("GET", "/v1/stat/a/b/c", &[], "", &["get"]),
        ("HEAD", "/v1/fs/a/b/c/f00", &[], "", &["get"]),
        ("GET", "/v1/fs/a/b/c/f00", &[], "", &["get", "get"]),
        ("GET", "/v1/fs/a/b/c/?limit=10", &[], "", &["page"]),
        ("GET", "/v1/fs/a/b/c/?limit=1000", &[], "", &["page"]),
        ("GET", "/v1/files?limit=10", &[], "", &["scan"]),
        ("GET", "/v1/find?name=f00", &[], "", &["scan", "get_many"]),
        ("PUT", "/v1/fs/a/b/c/new", &[], "hello", &["get", "commit"]),
        ("DELETE", "/v1/fs/a/b/c/new", &[], "", &["get", "commit"]),
        ("POST", "/v1/move", json, r#"{"from":"/a/b/c/f00","to":"/a/b/c/g"}"#, &["get", "get", "commit"]),
        ("PUT", "/v1/fs/a/d/", &[], "", &["get", "get_many", "commit"]),
    ];
    for (method, target, headers, body, expected) in cases {
        assert_eq!(calls(&app, method, target, headers, body).await, expected, "{method} {target}");
    }
}

#[tokio::test]
async fn a_directory_that_is_known_to_be_live_costs_no_cell() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/a/f", "/v1/fs/b/f"]).await;
    let cells = async |target: &str| {
        app.store.cells.store(0, Ordering::SeqCst);
        calls(&app, "GET", target, &[], "").await;
        app.store.cells.load(Ordering::SeqCst)
    };
    // Both entries of the name, id and lock of the directory; the content.
    assert_eq!(cells("/v1/fs/a/f").await, 5);
    assert_eq!([cells("/v1/fs/a/f").await, cells("/v1/stat/a/f").await, cells("/v1/fs/a/").await], [2, 1, 0]);
    assert_eq!([cells("/v1/fs/b/").await, cells("/v1/stat/b/f").await], [2, 1]);
    // The root has been found too, by its listing.
    assert_eq!([cells("/v1/fs/").await, cells("/v1/stat/a").await], [2, 2]);
    app.send("DELETE", "/v1/fs/b/f", &[], "").await;
    assert_eq!(cells("/v1/stat/a/f").await, 1);
    app.send("DELETE", "/v1/fs/b/", &[], "").await;
    assert_eq!([cells("/v1/stat/a/f").await, cells("/v1/stat/a/f").await], [4, 1]);
    // No directory was removed.
    for (target, status) in [("/v1/fs/a/", 409), ("/v1/fs/no/", 404)] {
        app.delete(target).await.is(status);
        assert_eq!(cells("/v1/stat/a/f").await, 1, "{target}");
    }
}
