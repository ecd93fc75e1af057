//! Names and paths, through every input that accepts one.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::test_app::TestApp;

/// Percent-encodes each name of a path, and keeps the slashes.
fn encode(path: &str) -> String {
    path.split('/').map(|n| utf8_percent_encode(n, NON_ALPHANUMERIC).to_string()).collect::<Vec<_>>().join("/")
}

fn good() -> Vec<(String, String)> {
    let same = |p: &str| (p.to_owned(), p.to_owned());
    let mut paths: Vec<_> = [
        "/a",
        "/.a",
        "/...",
        "/..a",
        "/a..",
        "/a.",
        "/a ",
        "/ a",
        "/ ",
        "/a\\b",
        "/\\..\\b",
        "/C:",
        "/a;x",
        "/a&b=c",
        "/a?b#c",
        "/%2e%2e",
        "/%2F",
        "/%",
        "/+",
        "/照片/目录.jpg",
        "/😀👨‍👩‍👧",
        "/ファイル",
        "/فارسی",
        "/\u{202e}gpj.exe",
        "/\u{ff0e}\u{ff0e}",
        "/\u{ff0f}",
        "/\u{200b}",
        "/\u{feff}",
        "/\u{10ffff}",
        "/\u{2028}",
        "/~!@$^*()_`-={}|[]:\"<>,'",
        "/CON",
        "/nul.txt",
        "/a/b/c/d",
        "/A",
        "/ａ",
        "/ß",
        "/ẞ",
    ]
    .map(same)
    .to_vec();
    paths.push(("/e\u{301}".into(), "/é".into()));
    paths.push(("/\u{212b}".into(), "/\u{c5}".into()));
    paths.push(("/\u{1100}\u{1161}".into(), "/가".into()));
    paths.push(same(&format!("/{}", "x".repeat(255))));
    paths.push(same(&format!("/{}", "é".repeat(127))));
    paths.push((format!("/{}", "\u{2126}".repeat(127)), format!("/{}", "\u{3a9}".repeat(127))));
    paths.push(same(&"/d".repeat(128)));
    paths.push(same(&format!("/{}", "y".repeat(255)).repeat(16)));
    paths
}

#[tokio::test]
async fn valid_names_are_listed_unchanged() {
    let app = TestApp::new().await;
    for (sent, stored) in good() {
        let target = format!("/v1/fs{}", encode(&sent));
        let made = app.put(&target, sent.clone()).await;
        assert!(matches!(made.status, 200 | 201), "{sent:?}: {:?}", made.body);
        assert_eq!(made.json()["path"], stored, "{sent:?}");
        assert_eq!(app.get(&target).await.is(200).text(), sent);
        assert_eq!(app.get(&format!("/v1/fs{}", encode(&stored))).await.is(200).text(), sent);
        assert_eq!(app.get(made.header("location").unwrap()).await.is(200).text(), sent);
        assert_eq!(app.get(&format!("/v1/stat{}", encode(&sent))).await.json()["path"], stored);
        let parent = stored.rsplit_once('/').unwrap().0;
        let name = stored.rsplit('/').next().unwrap();
        assert!(app.get(&format!("/v1/fs{}/", encode(parent))).await.names().contains(&name.to_owned()), "{sent:?}");
        let under = if parent.is_empty() { "/" } else { parent };
        let found = app.get(&format!("/v1/find?name={}&under={}", encode(name), encode(under))).await.is(200);
        assert!(found.names().contains(&name.to_owned()) || name.ends_with('*'), "{sent:?}");
        // A round trip through JSON.
        let there = app.post("/v1/move", &json!({"from": sent, "to": "/moved"})).await.is(201);
        assert_eq!(there.json()["path"], "/moved");
        assert_eq!(app.post("/v1/move", &json!({"from": "/moved", "to": sent})).await.is(201).json()["path"], stored);
        app.delete(&target).await.is(204);
    }
}

#[tokio::test]
async fn names_equal_after_normalisation_are_one_file() {
    let app = TestApp::new().await;
    app.put("/v1/fs/caf%C3%A9/f", "1").await.is(201);
    app.put("/v1/fs/cafe%CC%81/f", "2").await.is(200);
    assert_eq!(app.names("/v1/fs/").await, ["café/"]);
    app.files(&["/v1/fs/A", "/v1/fs/a"]).await;
    assert_eq!(app.names("/v1/fs/").await.len(), 3);
}

#[tokio::test]
async fn invalid_names_are_refused_by_every_route() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f"]).await;
    let long = "x".repeat(256);
    let bad = [
        ".",
        "..",
        "a/..",
        "../a",
        "a/./b",
        "a\0b",
        "\n",
        "a\rb",
        "\u{1b}[31m",
        "\u{7f}",
        "\u{80}",
        "\u{85}",
        "\u{9f}",
        "a//b",
        &long,
    ];
    for path in bad {
        for target in [
            format!("/v1/fs/{}", encode(path)),
            format!("/v1/fs/{}/", encode(path)),
            format!("/v1/stat/{}", encode(path)),
        ] {
            app.get(&target).await.problem(400, "malformed");
        }
        let target = format!("/v1/fs/{}", encode(path));
        app.put(&target, "x").await.problem(400, "malformed");
        app.put(&format!("{target}/"), "").await.problem(400, "malformed");
        app.delete(&target).await.problem(400, "malformed");
        for route in ["/v1/move", "/v1/copy"] {
            let path = format!("/{path}");
            app.post(route, &json!({"from": path, "to": "/g"})).await.problem(400, "malformed");
            app.post(route, &json!({"from": "/f", "to": path})).await.problem(400, "malformed");
        }
        let path = encode(&format!("/{path}"));
        app.get(&format!("/v1/files?under={path}")).await.problem(400, "malformed");
        app.get(&format!("/v1/find?name=f&under={path}")).await.problem(400, "malformed");
    }
    assert_eq!(app.names("/v1/fs/").await, ["f"]);
}

#[tokio::test]
async fn percent_encoding_is_decoded_once_and_strictly() {
    let app = TestApp::new().await;
    for raw in [
        "%2F",
        "a%2fb",
        "%2e",
        "%2E%2e",
        "%2e%2e/a",
        "a/%2e%2e/b",
        "%",
        "%2",
        "%zz",
        "a%0",
        "%u0041",
        "%ff",
        "%C0%AF",
        "%C0%80",
        "%ED%A0%80",
        "%F4%90%80%80",
        "%00",
        "%0d%0a",
        "%E7%85",
        "/a",
        "a//b",
        "a//",
        "/",
    ] {
        for target in [format!("/v1/fs/{raw}"), format!("/v1/stat/{raw}")] {
            app.get(&target).await.problem(400, "malformed");
        }
        app.put(&format!("/v1/fs/{raw}"), "").await.problem(400, "malformed");
    }
    for (raw, path) in [
        ("%252e%252e", "/%2e%2e"),
        ("%25252F", "/%252F"),
        ("a%5C..%5Cb", "/a\\..\\b"),
        ("%61", "/a"),
        ("a+b", "/a+b"),
        ("a;b=c", "/a;b=c"),
    ] {
        assert_eq!(app.put(&format!("/v1/fs/{raw}"), "x").await.is(201).json()["path"], path);
    }
    assert!(app.names("/v1/fs/").await.iter().all(|n| !n.ends_with('/')));
}

#[tokio::test]
async fn path_length_and_depth_are_limited() {
    let app = TestApp::new().await;
    let full = format!("/{}", "y".repeat(255)).repeat(16);
    assert_eq!(full.len(), 4096);
    app.put(&format!("/v1/fs{full}"), "x").await.is(201);
    let parent = full.rsplit_once('/').unwrap().0;
    for over in [
        format!("{full}/y"),
        format!("{full}y"),
        format!("{parent}/{}/z", "y".repeat(254)),
        format!("/{}", "z".repeat(5000)),
    ] {
        for target in [format!("/v1/fs{over}"), format!("/v1/stat{over}")] {
            app.get(&target).await.problem(414, "target-too-long");
        }
        app.put(&format!("/v1/fs{over}"), "x").await.problem(414, "target-too-long");
    }
    for (levels, status) in [(128, 201), (129, 400)] {
        app.put(&format!("/v1/fs{}", "/d".repeat(levels)), "x").await.is(status);
        app.put(&format!("/v1/fs{}/", "/e".repeat(levels)), "").await.is(status);
    }
    let huge = format!("/v1/fs/{}", "%79".repeat(5500));
    app.get(&huge).await.problem(414, "target-too-long");
    app.get(&format!("/v1/find?name=a&under={}", "%79".repeat(5500))).await.problem(414, "target-too-long");
}
