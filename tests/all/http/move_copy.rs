//! POST /v1/move and /v1/copy.

use std::time::Duration;

use serde_json::json;

use super::site::{Site, bytes};

#[tokio::test]
async fn a_moved_file_stays_itself() {
    let site = Site::new().await;
    let made = site.put("/v1/fs/a/f.txt?modified=2026-01-02T03:04:05Z", "hello").await.json();
    site.put("/v1/fs/b/", "").await.is(201);
    let moved = site.post("/v1/move", &json!({"from": "/a/f.txt", "to": "/b/g.md"})).await.is(201);
    assert_eq!(moved.header("location"), Some("/v1/fs/b/g.md"));
    assert_eq!(moved.header("etag"), made["etag"].as_str());
    let mut expected = made;
    expected["path"] = "/b/g.md".into();
    expected["name"] = "g.md".into();
    assert_eq!(moved.json(), expected);
    site.get("/v1/fs/a/f.txt").await.problem(404, "not-found");
    assert_eq!(site.get("/v1/fs/b/g.md").await.text(), "hello");
    site.files(&["/v1/fs/h"]).await;
    let over = json!({"from": "/b/g.md", "to": "/h", "overwrite": true});
    site.post("/v1/move", &over).await.is(200);
    site.post("/v1/move", &over).await.problem(404, "not-found");
    assert_eq!(site.get("/v1/fs/h").await.text(), "hello");
}

#[tokio::test]
async fn a_copy_is_a_new_file() {
    let site = Site::new().await;
    for size in [5, 400_000] {
        let content = bytes(size);
        site.send("PUT", "/v1/fs/f.txt?modified=2026-01-02T03:04:05Z", &[("content-type", "a/b")], content.clone())
            .await;
        let made = site.get("/v1/stat/f.txt").await.json();
        let ask = json!({"from": "/f.txt", "to": "/g", "overwrite": true});
        let copy = site.post("/v1/copy", &ask).await;
        assert!(matches!(copy.status, 200 | 201));
        let copied = copy.json();
        assert!(copied.get("copied").is_none());
        for same in ["modified", "type", "digest", "size"] {
            assert_eq!(copied[same], made[same], "{same}");
        }
        assert_ne!(copied["id"], made["id"]);
        assert!(site.get("/v1/fs/g").await.body == content && site.get("/v1/fs/f.txt").await.body == content);
    }
}

#[tokio::test]
async fn both_refuse_what_makes_no_sense() {
    let site = Site::new().await;
    site.files(&["/v1/fs/f", "/v1/fs/g", "/v1/fs/d/x", "/v1/fs/e/x", "/v1/fs/e/y/z/x"]).await;
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
            let answer = site.post(route, &ask).await;
            assert_eq!(answer.status, status, "{route} {ask}: {:?}", answer.body);
            answer.problem(status, problem);
        }
        let long = format!("/{}", "x".repeat(255)).repeat(17);
        site.post(route, &json!({"from": "/f", "to": long})).await.problem(414, "target-too-long");
        site.post(route, &json!({"from": long, "to": "/f"})).await.problem(414, "target-too-long");
        site.post(route, &json!({"from": "/f", "to": "/y".repeat(129)})).await.problem(400, "malformed");
    }
    assert_eq!(site.names("/v1/fs/").await, ["d/", "e/", "f", "g"]);
    assert_eq!(site.names("/v1/fs/e/").await, ["y/", "x"]);
}

#[tokio::test]
async fn json_is_read_strictly() {
    let site = Site::new().await;
    site.files(&["/v1/fs/f"]).await;
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
            site.send("POST", route, &json, bad).await.problem(400, "malformed");
        }
        site.send("POST", route, &json, vec![0xff, 0xfe]).await.problem(400, "malformed");
        let good = r#"{"from":"/f","to":"/g"}"#;
        for mime in ["text/plain", "application/json+x", "application/x-www-form-urlencoded", ""] {
            site.send("POST", route, &[("content-type", mime)], good).await.problem(415, "media-type");
        }
        site.send("POST", route, &[], good).await.problem(415, "media-type");
        site.send("POST", &format!("{route}?overwrite=true"), &json, good).await.problem(400, "malformed");
        let huge = format!(r#"{{"from":"/f","to":"/g","x":"{}"}}"#, "x".repeat(100_000));
        site.send("POST", route, &json, huge.clone()).await.problem(413, "body-too-large");
        let length = huge.len().to_string();
        site.send("POST", route, &[json[0], ("content-length", &length)], huge).await.problem(413, "body-too-large");
    }
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    site.send("POST", "/v1/move", &charset, r#"{"from":"/f","to":"/g"}"#).await.is(201);
    assert_eq!(site.names("/v1/fs/").await, ["g"]);
}

#[tokio::test]
async fn directories_move_whole() {
    let site = Site::new().await;
    site.files(&["/v1/fs/a/b/f", "/v1/fs/a/g", "/v1/fs/t/x"]).await;
    let before = site.get("/v1/stat/a").await.json();
    let moved = site.post("/v1/move", &json!({"from": "/a", "to": "/t/a"})).await.is(201);
    assert_eq!(moved.json()["path"], "/t/a");
    assert_eq!(moved.json()["id"], before["id"]);
    site.get("/v1/stat/a").await.problem(404, "not-found");
    assert_eq!(site.names("/v1/fs/").await, ["t/"]);
    assert_eq!(site.names("/v1/fs/t/a/").await, ["b/", "g"]);
    assert_eq!(site.get("/v1/fs/t/a/b/f").await.is(200).text(), "x");
    let found = site.get("/v1/find?name=f&under=/t").await.json();
    assert_eq!(found["entries"][0]["path"], "/t/a/b/f");
    // With slashes it is the same.
    site.post("/v1/move", &json!({"from": "/t/a/", "to": "/a/"})).await.is(201);
    site.post("/v1/move", &json!({"from": "/a", "to": "/t", "overwrite": true})).await.problem(409, "exists");
    site.post("/v1/move", &json!({"from": "/a", "to": "/t/x", "overwrite": true})).await.problem(409, "exists");
    assert_eq!(site.names("/v1/fs/a/").await, ["b/", "g"]);
}

#[tokio::test]
async fn a_directory_does_not_move_to_where_something_in_it_would_not_fit() {
    let site = Site::new().await;
    let deep = "/d".repeat(60);
    site.files(&[&format!("/v1/fs/a{deep}/f"), &format!("/v1/fs/long{}/f", format!("/{}", "x".repeat(255)).repeat(8))])
        .await;
    let target = "/e".repeat(70);
    site.put(&format!("/v1/fs{target}/"), "").await.is(201);
    site.post("/v1/move", &json!({"from": "/a", "to": format!("{target}/a")})).await.problem(409, "path-too-long");
    let target = format!("/{}", "y".repeat(255)).repeat(9);
    site.put(&format!("/v1/fs{target}/"), "").await.is(201);
    site.post("/v1/move", &json!({"from": "/long", "to": format!("{target}/a")})).await.problem(409, "path-too-long");
    // Nothing is held any more.
    site.files(&[&format!("/v1/fs/a{deep}/g")]).await;
    site.post("/v1/move", &json!({"from": "/a", "to": "/b"})).await.is(201);
    assert_eq!(site.names(&format!("/v1/fs/b{deep}/")).await, ["f", "g"]);
}

#[tokio::test]
async fn directories_are_copied_file_by_file() {
    let site = Site::new().await;
    site.files(&["/v1/fs/a/b/f", "/v1/fs/a/g", "/v1/fs/a/h"]).await;
    let made = site.post("/v1/copy", &json!({"from": "/a", "to": "/c"})).await.is(201).json();
    let size = site.get("/v1/stat/a/g").await.json()["size"].as_u64().unwrap();
    assert_eq!(made["copied"], json!({"directories": 2, "files": 3, "bytes": 3 * size}));
    assert_eq!((&made["path"], &made["kind"]), (&json!("/c"), &json!("directory")));
    let copied = site.get("/v1/stat/c/b/f").await.json();
    let source = site.get("/v1/stat/a/b/f").await.json();
    assert_eq!(copied["modified"], source["modified"]);
    assert_ne!(copied["id"], source["id"]);
    assert_eq!(site.names("/v1/fs/c/").await, ["b/", "g", "h"]);
    site.post("/v1/copy", &json!({"from": "/a", "to": "/c"})).await.problem(409, "exists");
    // Once more goes on where it was: what is there is passed by, what differs is replaced.
    site.put("/v1/fs/a/g", "other").await.is(200);
    site.delete("/v1/fs/c/h").await.is(204);
    let again = json!({"from": "/a", "to": "/c", "overwrite": true});
    let made = site.post("/v1/copy", &again).await.is(200).json();
    assert_eq!(made["copied"], json!({"directories": 0, "files": 2, "bytes": 5 + size}));
    let made = site.post("/v1/copy", &again).await.is(200).json();
    assert_eq!(made["copied"], json!({"directories": 0, "files": 0, "bytes": 0}));
    let file = site.post("/v1/copy", &json!({"from": "/a/g", "to": "/g"})).await.is(201).json();
    assert!(file.get("copied").is_none(), "{file}");
    // What holds a directory is not copied into.
    for overwrite in [false, true] {
        let onto_parent = json!({"from": "/a/b", "to": "/a", "overwrite": overwrite});
        site.post("/v1/copy", &onto_parent).await.problem(409, "exists");
    }
    assert_eq!(site.get("/v1/stat/c/b/f").await.json(), copied);
    assert_eq!(site.get("/v1/fs/c/g").await.text(), "other");
    assert_eq!(site.names("/v1/fs/c/").await, ["b/", "g", "h"]);
    site.post("/v1/copy", &json!({"from": "/a", "to": "/a/b/x"})).await.problem(400, "malformed");
}

#[tokio::test]
async fn a_directory_is_removed_with_all_it_holds_if_asked() {
    let site = Site::new().await;
    site.files(&["/v1/fs/a/b/f", "/v1/fs/a/g", "/v1/fs/k"]).await;
    site.put("/v1/fs/a/large", bytes(600_000)).await.is(201);
    site.delete("/v1/fs/a/").await.problem(409, "not-empty");
    site.delete("/v1/fs/a/?recursive=true").await.is(204);
    site.delete("/v1/fs/a/?recursive=true").await.problem(404, "not-found");
    assert_eq!(site.names("/v1/fs/").await, ["k"]);
    assert_eq!(site.get("/v1/files").await.json()["entries"].as_array().unwrap().len(), 1);
    assert!(site.content_files(0).await.is_empty());
    site.files(&["/v1/fs/a/b/f"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_finds_no_memory_is_told_to_come_back() {
    let site = Site::new().await;
    site.put("/v1/fs/d/f", bytes(400_000)).await.is(201);
    let memory = site.drive.memory().take(usize::MAX).await;
    for from in ["/d/f", "/d"] {
        let ask = json!({"from": from, "to": "/to", "overwrite": true});
        let copy = site.post("/v1/copy", &ask);
        let answer = tokio::time::timeout(Duration::from_secs(60), copy).await.expect("it does not wait for ever");
        assert!(answer.header("retry-after").is_some());
        answer.problem(503, "busy");
    }
    drop(memory);
    // What the folder's copy had made stays, and a repeat completes it.
    let ask = json!({"from": "/d", "to": "/to", "overwrite": true});
    site.post("/v1/copy", &ask).await.is(200);
    assert_eq!(site.get("/v1/fs/to/f").await.body.len(), 400_000);
}
