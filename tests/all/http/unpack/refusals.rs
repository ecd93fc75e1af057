//! Members and requests that are refused.

use rowdrive::table::StoreError;

use super::super::test_app::{TestApp, broken, bytes, watched};
use super::tar_of::{Head, file, folder, member, pax, tar};
use super::{answered, limited, of, statuses, unpack};

#[tokio::test]
async fn a_member_that_cannot_be_stored_has_a_line_and_the_rest_goes_on() {
    let app = TestApp::new().await;
    let sparse = Head::new("sparse", b'S', 5).set(257, b"ustar  \0").set(482, &[1]).sealed();
    let more_map = [&[0; 504][..], &[1], &[0; 7]].concat();
    let long = "n".repeat(256);
    let deep = "d/".repeat(130);
    let lines = unpack(
        &app,
        "/v1/fs/d/",
        tar(&[
            member("link", b'2', b""),
            member("hard", b'1', b""),
            member("char", b'3', b""),
            member("block", b'4', b""),
            member("pipe", b'6', b""),
            [sparse, more_map, vec![0; 512], b"12345".to_vec(), vec![0; 507]].concat(),
            [pax(&[("GNU.sparse.major", "1"), ("GNU.sparse.name", "parts")]), file("x", b"not a header")].concat(),
            member("volume", b'V', b""),
            member("list", b'D', b"some names"),
            file("../up", b"1"),
            file("a/../b", b"1"),
            folder(".."),
            file("/etc/absolute", b"1"),
            file("a\nb", b"1"),
            file(".", b"1"),
            file("", b"1"),
            [pax(&[("path", &long)]), file("x", b"1")].concat(),
            [pax(&[("path", &deep)]), folder("x")].concat(),
            [pax(&[("path", &"p".repeat(20_000))]), file("x", b"1")].concat(),
            [pax(&[("mtime", "soon")]), file("mtime", b"1")].concat(),
            [pax(&[("mtime", "999999999999")]), file("late", b"1")].concat(),
            Head::new("latin", b'0', 0).set(0, b"\xe9").sealed(),
            file("good", b"1"),
        ]),
    )
    .await;
    let refused: Vec<_> = lines.iter().filter(|line| line["path"] != "/d/good").collect();
    assert_eq!(refused.len(), 22, "{lines:#?}");
    for line in refused {
        let known = ["/problems/malformed", "/problems/target-too-long"];
        assert!(known.contains(&line["type"].as_str().unwrap()), "{line}");
        assert!(matches!(line["status"].as_u64(), Some(400 | 414)) && line["detail"].as_str().unwrap().len() > 20);
        assert!(line["path"].as_str().unwrap().len() < 5_000);
    }
    for path in ["/d/link", "/d/parts", "/d/sparse", "/d/../up", "/d//etc/absolute", "/d/a\nb", "/d/\u{fffd}atin"] {
        of(&lines, path);
    }
    assert_eq!(of(&lines, "/d/good")["status"], 201);
    assert_eq!(app.names("/v1/fs/").await, ["d/"]);
    assert_eq!(app.names("/v1/fs/d/").await, ["good"]);
}

#[tokio::test]
async fn each_member_is_stored_or_refused_as_an_upload_would_be() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/d/file", "/v1/fs/d/folder/x", "/v1/fs/d/old"]).await;
    let body =
        || tar(&[folder("file"), file("file/below", b"1"), file("folder", b"1"), file("old", b"1"), file("new", b"1")]);
    let lines = unpack(&app, "/v1/fs/d/", body()).await;
    assert_eq!(of(&lines, "/d/file")["type"], "/problems/is-file");
    assert_eq!(of(&lines, "/d/file/below")["type"], "/problems/parent-is-file");
    assert_eq!(of(&lines, "/d/folder")["type"], "/problems/is-directory");
    assert_eq!((&of(&lines, "/d/old")["status"], &of(&lines, "/d/new")["status"]), (&200.into(), &201.into()));
    assert!(of(&lines, "/d/new").get("type").is_none() && of(&lines, "/d/new").get("detail").is_none());
    // What is there stays, if that is asked for. A directory that is there is no file that is replaced.
    let answer = app.send(
        "PUT",
        "/v1/fs/d/?unpack=tar&overwrite=false",
        &[],
        tar(&[folder("folder"), file("old", b"2"), file("newer", b"1")]),
    );
    let (lines, _) = answered(&answer.await);
    assert_eq!(of(&lines, "/d/old")["type"], "/problems/precondition-failed");
    assert!(of(&lines, "/d/old")["detail"].as_str().unwrap().contains("`overwrite=false` leaves it"));
    assert_eq!((&of(&lines, "/d/folder")["status"], &of(&lines, "/d/newer")["status"]), (&200.into(), &201.into()));
    assert_eq!(app.get("/v1/fs/d/old").await.text(), "1");
    // Too large for a file, also for a large one: the tar as a whole may be larger.
    let app = limited(300_000).await;
    let lines = unpack(
        &app,
        "/v1/fs/",
        tar(&[file("a", &bytes(300_000)), file("b", &bytes(300_001)), file("c", &bytes(299_999))]),
    )
    .await;
    assert_eq!(statuses(&lines).iter().map(|(_, status)| *status).collect::<Vec<_>>(), [201, 413, 201]);
    assert_eq!(app.content_files(2).await.len(), 2);
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused_before_its_body() {
    let app = TestApp::new().await;
    app.files(&["/v1/fs/f"]).await;
    for (target, headers, status, name) in [
        ("/v1/fs/d/?unpack=zip", &[][..], 400, "malformed"),
        ("/v1/fs/d/?unpack", &[], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar&unpack=tar", &[], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar&overwrite=maybe", &[], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar&parents=true", &[], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar&modified=2026-01-01T00:00:00Z", &[], 400, "malformed"),
        ("/v1/fs/d/?overwrite=true", &[], 400, "malformed"),
        ("/v1/fs/d?unpack=tar", &[], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar", &[("if-none-match", "*")], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar", &[("if-match", "\"x\"")], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar", &[("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT")], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar", &[("x-oc-mtime", "1")], 400, "malformed"),
        ("/v1/fs/d/?unpack=tar", &[("content-range", "bytes 0-1/2")], 400, "malformed"),
        (
            "/v1/fs/d/?unpack=tar",
            &[("content-digest", "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:")],
            400,
            "malformed",
        ),
        ("/v1/fs/d/?unpack=tar", &[("content-encoding", "gzip")], 415, "media-type"),
        ("/v1/fs/f/?unpack=tar", &[], 409, "parent-is-file"),
        ("/v1/fs/f/d/?unpack=tar", &[], 409, "parent-is-file"),
    ] {
        let (body, read) = watched(b"x");
        app.send("PUT", target, headers, body).await.problem(status, name);
        assert!(!read.load(std::sync::atomic::Ordering::Relaxed), "{target} {headers:?}");
    }
    // As curl makes it of `-T h.tar` and of a URL that ends with a slash.
    let answer = app.put("/v1/fs/d/h.tar?unpack=tar", "x").await.problem(400, "malformed");
    assert!(answer.text().contains("curl -T - '.../v1/fs/directory/?unpack=tar' < file.tar"), "{}", answer.text());
    for body in [Vec::new(), b"hello".to_vec(), bytes(512), bytes(10_000), vec![0; 511], b"\x1f\x8b\x08".repeat(400)] {
        let (name, said) =
            if body.is_empty() { ("body-cut", "no tar was sent") } else { ("malformed", "is not a tar") };
        let answer = app.put("/v1/fs/d/?unpack=tar", body).await.problem(400, name);
        assert!(answer.text().contains(said), "{}", answer.text());
    }
    app.put("/v1/fs/d/?unpack=tar", broken(vec![0; 100])).await.problem(400, "body-cut");
    assert_eq!(app.names("/v1/fs/").await, ["f"]);
}

#[tokio::test]
async fn on_a_full_disk_each_member_is_refused_and_the_rest_is_stored_once_there_is_space() {
    let app = TestApp::new().await;
    app.put("/v1/fs/d/", "").await.is(201);
    let commits = |calls: &[&str]| calls.iter().filter(|call| **call == "commit").count();
    let all = commits(&app.store.calls.lock().unwrap()) + 500;
    let names: Vec<String> = (0..1_000).map(|n| format!("{n:04}")).collect();
    let members: Vec<_> = names.iter().map(|name| file(name, name.as_bytes())).collect();
    let pieces = [tar(&members[..500])[..500 * 1024].to_vec(), tar(&members[500..])];
    let store = app.store.clone();
    let mut number = 0;
    let body = futures_util::stream::unfold(pieces.into_iter(), move |mut left| {
        let store = store.clone();
        number += 1;
        let second = number == 2;
        async move {
            if second {
                // All that has come is stored before the disk is full.
                while commits(&store.calls.lock().unwrap()) < all {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                *store.commits.lock().unwrap() = Some(|| StoreError::Full("no space".into()));
            }
            left.next().map(|piece| (Ok::<_, std::io::Error>(piece), left))
        }
    });
    let (lines, last) = answered(&app.put("/v1/fs/d/?unpack=tar", axum::body::Body::from_stream(body)).await);
    assert_eq!((last["done"].as_bool(), last["count"].as_u64()), (Some(true), Some(1_000)), "{last}");
    *app.store.commits.lock().unwrap() = None;
    let stored: Vec<_> =
        statuses(&lines).into_iter().filter(|(_, status)| *status == 201).map(|(path, _)| path).collect();
    assert!(lines.iter().filter(|line| line["status"] == 507).all(|line| line["type"] == "/problems/disk-full"));
    assert!(
        lines.iter().all(|line| line["status"] == 507 || line["status"] == 201) && (240..=500).contains(&stored.len())
    );
    let there: Vec<_> = app.names("/v1/fs/d/").await.into_iter().map(|name| format!("/d/{name}")).collect();
    assert_eq!(there, stored);
    let again = statuses(&unpack(&app, "/v1/fs/d/", tar(&members)).await);
    assert!(again.iter().all(|(path, status)| *status == if stored.contains(path) { 200 } else { 201 }));
}

#[tokio::test]
async fn a_store_that_stops_ends_the_tar_early() {
    let app = TestApp::new().await;
    *app.store.commits.lock().unwrap() = Some(|| StoreError::Stopped("a sync has failed".into()));
    let first = tar(&[file("a", b"1"), file("b", b"1")])[..2048].to_vec();
    // The rest of the body never comes.
    let endless = futures_util::StreamExt::chain(
        futures_util::stream::iter([Ok::<_, std::io::Error>(first)]),
        futures_util::stream::pending(),
    );
    let answer = app.put("/v1/fs/d/?unpack=tar", axum::body::Body::from_stream(endless));
    let answer = tokio::time::timeout(std::time::Duration::from_secs(20), answer).await.unwrap();
    let (lines, last) = answered(&answer);
    assert_eq!(
        (last["done"].as_bool(), last["type"].as_str()),
        (Some(false), Some("/problems/writes-stopped")),
        "{last}"
    );
    assert!(lines.iter().all(|line| line["status"] == 503), "{lines:?}");
}

#[tokio::test]
async fn an_unknown_outcome_is_said_so() {
    let app = TestApp::new().await;
    *app.store.commits.lock().unwrap() = Some(|| StoreError::Unknown { cause: "lost".into(), full: false });
    let lines = unpack(&app, "/v1/fs/", tar(&[file("a", b"1"), folder("b")])).await;
    assert!(lines.iter().all(|line| line["type"] == "/problems/outcome-unknown"), "{lines:?}");
}
