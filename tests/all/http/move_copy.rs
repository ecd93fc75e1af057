//! POST /v1/move and /v1/copy.

use std::time::Duration;

use serde_json::json;

use super::test_app::{TestApp, bytes};

#[tokio::test]
async fn a_moved_file_keeps_its_identity() {
    let app = TestApp::new().await;
    let made = app.put("/v1/fs/a/f.txt?modified=2026-01-02T03:04:05Z", "hello").await.json();
    app.put("/v1/fs/b/", "").await.is(201);
    let moved = app.post("/v1/move", &json!({"from": "/a/f.txt", "to": "/b/g.md"})).await.is(201);
    assert_eq!(moved.header("location"), Some("/v1/fs/b/g.md"));
    assert_eq!(moved.header("etag"), made["etag"].as_str());
    let mut expected = made;
    expected["path"] = "/b/g.md".into();
    expected["name"] = "g.md".into();
    assert_eq!(moved.json(), expected);
    app.get("/v1/fs/a/f.txt").await.problem(404, "not-found");
    assert_eq!(app.get("/v1/fs/b/g.md").await.text(), "hello");
    app.files(&["/v1/fs/h"]).await;
    let over = json!({"from": "/b/g.md", "to": "/h", "overwrite": true});
    app.post("/v1/move", &over).await.is(200);
    app.post("/v1/move", &over).await.problem(404, "not-found");
    assert_eq!(app.get("/v1/fs/h").await.text(), "hello");
}

#[tokio::test]
async fn a_copy_is_a_new_file() {
    let app = TestApp::new().await;
    for size in [5, 400_000] {
        let content = bytes(size);
        app.send("PUT", "/v1/fs/f.txt?modified=2026-01-02T03:04:05Z", &[("content-type", "a/b")], content.clone())
            .await;
        let made = app.get("/v1/stat/f.txt").await.json();
        let ask = json!({"from": "/f.txt", "to": "/g", "overwrite": true});
        let copy = app.post("/v1/copy", &ask).await;
        assert!(matches!(copy.status, 200 | 201));
        let copied = copy.json();
        assert!(copied.get("copied").is_none());
        for same in ["modified", "type", "digest", "size"] {
            assert_eq!(copied[same], made[same], "{same}");
        }
        assert_ne!(copied["id"], made["id"]);
        assert!(app.get("/v1/fs/g").await.body == content && app.get("/v1/fs/f.txt").await.body == content);
    }
}

#[tokio::test]
async fn move_and_copy_refuse_invalid_requests() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f", "/v1/fs/g", "/v1/fs/d/x", "/v1/fs/e/x", "/v1/fs/e/y/z/x"]).await;
    for route in ["/v1/move", "/v1/copy"] {
        for (from, to, overwrite, status, problem) in [
            ("/f", "/g", false, 409, "exists"),
            ("/f", "/f", false, 409, "exists"),
            ("/f", "/f", true, 409, "exists"),
            ("/f", "/d", false, 409, "exists"),
            ("/f", "/d", true, 409, "exists"),
            ("/f", "/", true, 409, "exists"),
            ("/d/x", "/d", true, 409, "exists"),
            ("/e/y/z", "/e", false, 409, "exists"),
            ("/e/y/z", "/e", true, 409, "exists"),
            ("/e/y/z", "/", true, 409, "exists"),
            ("/f", "/no/thing", false, 409, "parent-missing"),
            ("/f", "/g/x", false, 409, "parent-is-file"),
            ("/nothing", "/new", false, 404, "not-found"),
            ("/no/thing", "/new", false, 404, "not-found"),
            ("/f/x", "/new", false, 404, "not-found"),
            ("/f/", "/new", false, 404, "not-found"),
            ("/f", "/new/", false, 400, "malformed"),
            ("/f", "/f/x", false, 400, "malformed"),
            ("/d", "/d/x/y", false, 400, "malformed"),
            ("/", "/new", false, 400, "malformed"),
            ("f", "/new", false, 400, "malformed"),
            ("/f", "new", false, 400, "malformed"),
            ("", "/new", false, 400, "malformed"),
            ("/f", "/..", false, 400, "malformed"),
            ("/f", "/a//b", false, 400, "malformed"),
        ] {
            let ask = json!({"from": from, "to": to, "overwrite": overwrite});
            let answer = app.post(route, &ask).await;
            assert_eq!(answer.status, status, "{route} {ask}: {:?}", answer.body);
            answer.problem(status, problem);
        }
        let long = format!("/{}", "x".repeat(255)).repeat(17);
        app.post(route, &json!({"from": "/f", "to": long})).await.problem(414, "target-too-long");
        app.post(route, &json!({"from": long, "to": "/f"})).await.problem(414, "target-too-long");
        app.post(route, &json!({"from": "/f", "to": "/y".repeat(129)})).await.problem(400, "malformed");
    }
    assert_eq!(app.names("/v1/fs/").await, ["d/", "e/", "f", "g"]);
    assert_eq!(app.names("/v1/fs/e/").await, ["y/", "x"]);
}

#[tokio::test]
async fn json_is_parsed_strictly() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f"]).await;
    let json = [("content-type", "application/json")];
    for route in ["/v1/move", "/v1/copy"] {
        for bad in [
            "",
            "{}",
            "[]",
            "null",
            "{\"from\":\"/f\"}",
            r#"{"from":"/f","to":"/g","x":1}"#,
            r#"{"from":"/f","to":"/g","to":"/h"}"#,
            r#"{"from":"/f","to":"/g","overwrite":"yes"}"#,
            r#"{"from":"/f","to":"/g"} x"#,
            r#"{"from":1,"to":"/g"}"#,
            r#"{"from":"/f","to":"/g","overwrite":null}"#,
            r#"{"From":"/f","to":"/g"}"#,
            "\u{feff}{}",
        ] {
            app.send("POST", route, &json, bad).await.problem(400, "malformed");
        }
        app.send("POST", route, &json, vec![0xff, 0xfe]).await.problem(400, "malformed");
        let good = r#"{"from":"/f","to":"/g"}"#;
        for mime in ["text/plain", "application/json+x", "application/x-www-form-urlencoded", ""] {
            app.send("POST", route, &[("content-type", mime)], good).await.problem(415, "media-type");
        }
        app.send("POST", route, &[], good).await.problem(415, "media-type");
        app.send("POST", &format!("{route}?overwrite=true"), &json, good).await.problem(400, "malformed");
        let huge = format!(r#"{{"from":"/f","to":"/g","x":"{}"}}"#, "x".repeat(100_000));
        app.send("POST", route, &json, huge.clone()).await.problem(413, "body-too-large");
        let length = huge.len().to_string();
        app.send("POST", route, &[json[0], ("content-length", &length)], huge).await.problem(413, "body-too-large");
    }
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    app.send("POST", "/v1/move", &charset, r#"{"from":"/f","to":"/g"}"#).await.is(201);
    assert_eq!(app.names("/v1/fs/").await, ["g"]);
}

#[tokio::test]
async fn directories_are_moved_with_all_their_contents() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/a/b/f", "/v1/fs/a/g", "/v1/fs/t/x"]).await;
    let before = app.get("/v1/stat/a").await.json();
    let moved = app.post("/v1/move", &json!({"from": "/a", "to": "/t/a"})).await.is(201);
    assert_eq!(moved.json()["path"], "/t/a");
    assert_eq!(moved.json()["id"], before["id"]);
    app.get("/v1/stat/a").await.problem(404, "not-found");
    assert_eq!(app.names("/v1/fs/").await, ["t/"]);
    assert_eq!(app.names("/v1/fs/t/a/").await, ["b/", "g"]);
    assert_eq!(app.get("/v1/fs/t/a/b/f").await.is(200).text(), "x");
    let found = app.get("/v1/find?name=f&under=/t").await.json();
    assert_eq!(found["entries"][0]["path"], "/t/a/b/f");
    // Trailing slashes make no difference.
    app.post("/v1/move", &json!({"from": "/t/a/", "to": "/a/"})).await.is(201);
    app.post("/v1/move", &json!({"from": "/a", "to": "/t", "overwrite": true})).await.problem(409, "exists");
    app.post("/v1/move", &json!({"from": "/a", "to": "/t/x", "overwrite": true})).await.problem(409, "exists");
    assert_eq!(app.names("/v1/fs/a/").await, ["b/", "g"]);
}

#[tokio::test]
async fn a_directory_move_that_would_make_a_path_too_long_is_refused() {
    let app = TestApp::new().await;
    let deep = "/d".repeat(60);
    app.files(&[&format!("/v1/fs/a{deep}/f"), &format!("/v1/fs/long{}/f", format!("/{}", "x".repeat(255)).repeat(8))])
        .await;
    let target = "/e".repeat(70);
    app.put(&format!("/v1/fs{target}/"), "").await.is(201);
    app.post("/v1/move", &json!({"from": "/a", "to": format!("{target}/a")})).await.problem(409, "path-too-long");
    let target = format!("/{}", "y".repeat(255)).repeat(9);
    app.put(&format!("/v1/fs{target}/"), "").await.is(201);
    app.post("/v1/move", &json!({"from": "/long", "to": format!("{target}/a")})).await.problem(409, "path-too-long");
    // The refused move has left no lock.
    app.files(&[&format!("/v1/fs/a{deep}/g")]).await;
    app.post("/v1/move", &json!({"from": "/a", "to": "/b"})).await.is(201);
    assert_eq!(app.names(&format!("/v1/fs/b{deep}/")).await, ["f", "g"]);
}

#[tokio::test]
async fn directories_are_copied_file_by_file() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/a/b/f", "/v1/fs/a/g", "/v1/fs/a/h"]).await;
    let made = app.post("/v1/copy", &json!({"from": "/a", "to": "/c"})).await.is(201).json();
    let size = app.get("/v1/stat/a/g").await.json()["size"].as_u64().unwrap();
    assert_eq!(made["copied"], json!({"directories": 2, "files": 3, "bytes": 3 * size}));
    assert_eq!((&made["path"], &made["kind"]), (&json!("/c"), &json!("directory")));
    let copied = app.get("/v1/stat/c/b/f").await.json();
    let source = app.get("/v1/stat/a/b/f").await.json();
    assert_eq!(copied["modified"], source["modified"]);
    assert_ne!(copied["id"], source["id"]);
    assert_eq!(app.names("/v1/fs/c/").await, ["b/", "g", "h"]);
    app.post("/v1/copy", &json!({"from": "/a", "to": "/c"})).await.problem(409, "exists");
    // A second copy skips equal files and replaces different ones.
    app.put("/v1/fs/a/g", "other").await.is(200);
    app.delete("/v1/fs/c/h").await.is(204);
    let again = json!({"from": "/a", "to": "/c", "overwrite": true});
    let made = app.post("/v1/copy", &again).await.is(200).json();
    assert_eq!(made["copied"], json!({"directories": 0, "files": 2, "bytes": 5 + size}));
    let made = app.post("/v1/copy", &again).await.is(200).json();
    assert_eq!(made["copied"], json!({"directories": 0, "files": 0, "bytes": 0}));
    let file = app.post("/v1/copy", &json!({"from": "/a/g", "to": "/g"})).await.is(201).json();
    assert!(file.get("copied").is_none(), "{file}");
    // A directory is not copied onto its own ancestor.
    for overwrite in [false, true] {
        let onto_parent = json!({"from": "/a/b", "to": "/a", "overwrite": overwrite});
        app.post("/v1/copy", &onto_parent).await.problem(409, "exists");
    }
    assert_eq!(app.get("/v1/stat/c/b/f").await.json(), copied);
    assert_eq!(app.get("/v1/fs/c/g").await.text(), "other");
    assert_eq!(app.names("/v1/fs/c/").await, ["b/", "g", "h"]);
    app.post("/v1/copy", &json!({"from": "/a", "to": "/a/b/x"})).await.problem(400, "malformed");
}

#[tokio::test]
async fn a_recursive_delete_removes_a_directory_with_all_its_contents() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/a/b/f", "/v1/fs/a/g", "/v1/fs/k"]).await;
    app.put("/v1/fs/a/large", bytes(600_000)).await.is(201);
    app.delete("/v1/fs/a/").await.problem(409, "not-empty");
    app.delete("/v1/fs/a/?recursive=true").await.is(204);
    app.delete("/v1/fs/a/?recursive=true").await.problem(404, "not-found");
    assert_eq!(app.names("/v1/fs/").await, ["k"]);
    assert_eq!(app.get("/v1/files").await.json()["entries"].as_array().unwrap().len(), 1);
    assert!(app.content_files(0).await.is_empty());
    app.files(&["/v1/fs/a/b/f"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_without_free_memory_is_answered_503_with_retry_after() {
    let app = TestApp::new().await;
    app.put("/v1/fs/d/f", bytes(400_000)).await.is(201);
    let memory = app.drive.memory().take(usize::MAX).await;
    for from in ["/d/f", "/d"] {
        let ask = json!({"from": from, "to": "/to", "overwrite": true});
        let copy = app.post("/v1/copy", &ask);
        let answer = tokio::time::timeout(Duration::from_secs(60), copy).await.expect("it does not wait for ever");
        assert!(answer.header("retry-after").is_some());
        answer.problem(503, "busy");
    }
    drop(memory);
    // The files that the folder's copy had made stay, and a repeat completes it.
    let ask = json!({"from": "/d", "to": "/to", "overwrite": true});
    app.post("/v1/copy", &ask).await.is(200);
    assert_eq!(app.get("/v1/fs/to/f").await.body.len(), 400_000);
}
