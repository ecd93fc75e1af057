//! Members that are stored at the same time, and rivals.

use std::collections::BTreeSet;

use super::super::test_app::{TestApp, bytes};
use super::tar_of::{file, folder, pax, tar};
use super::{answered, of, statuses, unpack};

#[tokio::test(flavor = "multi_thread")]
async fn the_last_member_of_a_path_wins_and_directories_keep_their_place() {
    for _ in 0..20 {
        let app = TestApp::new().await;
        let mut members: Vec<_> = (0..100).map(|n| file("same", format!("{n}").as_bytes())).collect();
        members.push(file("large", &bytes(300_000)));
        members.push(file("large", b"small now"));
        members.extend([folder("new"), file("new/f", b"1"), file("made/f", b"1"), folder("made")]);
        members.extend([file("first", b"1"), folder("first"), file("first/f", b"1")]);
        members.extend([folder("dir"), file("dir", b"1")]);
        let lines = unpack(&app, "/v1/fs/", tar(&members)).await;
        assert_eq!(app.get("/v1/fs/same").await.text(), "99");
        assert_eq!(app.get("/v1/fs/large").await.text(), "small now");
        assert_eq!(lines.iter().filter(|line| line["path"] == "/same" && line["status"] == 201).count(), 1);
        for (path, status) in [("/new", 201), ("/new/f", 201), ("/made/f", 201), ("/made", 200)] {
            assert_eq!(of(&lines, path)["status"], status, "{path}: {lines:#?}");
        }
        let all = |path: &str| -> Vec<u64> {
            lines.iter().filter(|line| line["path"] == path).map(|line| line["status"].as_u64().unwrap()).collect()
        };
        assert_eq!((all("/first"), all("/first/f"), all("/dir")), (vec![201, 409], vec![409], vec![201, 409]));
        assert_eq!(app.content_files(0).await.len(), 0);
    }
}

#[tokio::test]
async fn of_names_that_are_equal_after_composition_the_first_one_is_stored() {
    let named = |name: &str, content: &str| [pax(&[("path", name)]), file("x", content.as_bytes())].concat();
    let (apart, whole) = ("e\u{301}/f", "\u{e9}/f");
    for (names, refused) in [([apart, whole], whole), ([whole, apart], apart)] {
        let app = TestApp::new().await;
        let other = "\u{e9}/g";
        let again = format!("./{}", names[0]);
        let members = [named(names[0], "1"), named(names[1], "2"), named(other, "3"), named(&again, "4")];
        let lines = unpack(&app, "/v1/fs/", tar(&members)).await;
        // The name that is refused is shown as it is in the tar.
        let refused = format!("/{refused}");
        let stored = [("/\u{e9}/f", 200), ("/\u{e9}/f", 201), ("/\u{e9}/g", 201), (refused.as_str(), 400)];
        let mut expected = stored.map(|(path, status)| (path.to_owned(), status));
        expected.sort();
        assert_eq!(statuses(&lines), expected);
        let line = lines.iter().find(|line| line["status"] == 400).unwrap();
        assert!(line["type"] == "/problems/malformed" && line["detail"].as_str().unwrap().contains("NFC"), "{line}");
        assert_eq!(app.get("/v1/fs/%C3%A9/f").await.text(), "4");
        assert_eq!(app.get("/v1/fs/%C3%A9/g").await.text(), "3");
        // A repeat of the tar is harmless: what an earlier one has stored is replaced.
        let again = unpack(&app, "/v1/fs/", tar(&members)).await;
        assert_eq!(statuses(&again).iter().filter(|(_, status)| *status == 200).count(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tars_at_once_store_every_file_in_folders_that_each_makes() {
    let app = TestApp::new().await;
    let of_one = |who: &str| {
        let own = (0..300).map(|n| file(&format!("d{}/e/{who}{n}", n % 7), who.as_bytes()));
        let common = (0..300).map(|n| file(&format!("d{}/e/{n}", n % 7), who.repeat(n).as_bytes()));
        tar(&own.chain(common).collect::<Vec<_>>())
    };
    let (one, two) = tokio::join!(unpack(&app, "/v1/fs/t/", of_one("a")), unpack(&app, "/v1/fs/t/", of_one("b")));
    let (one, two) = (statuses(&one), statuses(&two));
    assert!(one.iter().chain(&two).all(|(_, status)| matches!(status, 200 | 201)), "{one:?} {two:?}");
    let new = one.iter().chain(&two).filter(|(_, status)| *status == 201).map(|(path, _)| path);
    let new: Vec<_> = new.collect();
    assert_eq!((new.len(), new.iter().collect::<BTreeSet<_>>().len()), (900, 900), "each name is new once");
    for n in 0..300 {
        let got = app.get(&format!("/v1/fs/t/d{}/e/{n}", n % 7)).await.is(200);
        assert!(got.text() == "a".repeat(n) || got.text() == "b".repeat(n), "{n}: {}", got.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_and_tars_that_replace_the_same_files_leave_whole_versions_of_one() {
    let app = TestApp::new().await;
    let sizes = [10, 5_000, 300_000];
    let body = tar(&(0..60).map(|n| file(&(n % 6).to_string(), &vec![b't'; sizes[n % 3]])).collect::<Vec<_>>());
    let putting = async {
        for n in 0..120 {
            let answer = app.put(&format!("/v1/fs/d/{}", n % 6), vec![b'p'; sizes[n % 3]]).await;
            assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        }
    };
    let unpacking = async {
        for _ in 0..3 {
            let lines = unpack(&app, "/v1/fs/d/", body.clone()).await;
            assert!(statuses(&lines).iter().all(|(_, status)| matches!(status, 200 | 201)), "{lines:?}");
        }
    };
    tokio::join!(putting, unpacking);
    for n in 0..6 {
        let got = app.get(&format!("/v1/fs/d/{n}")).await.is(200);
        let first = got.body[0];
        assert!(matches!(first, b't' | b'p') && got.body.len() == sizes[n % 3], "{n}");
        assert!(got.body.iter().all(|byte| *byte == first), "{n}");
    }
    assert_eq!(app.content_files(2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_moved_meanwhile_keeps_what_was_stored_and_loses_nothing() {
    let app = TestApp::new().await;
    app.put("/v1/fs/t/", "").await.is(201);
    let body = tar(&(0..2_000).map(|n| file(&format!("{n}"), n.to_string().as_bytes())).collect::<Vec<_>>());
    let moving = async {
        for to in ["/one", "/two", "/three"] {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let _ = app.post("/v1/move", &serde_json::json!({"from": "/t", "to": to})).await;
        }
    };
    let (answer, ()) = tokio::join!(app.put("/v1/fs/t/?unpack=tar", body), moving);
    let (lines, last) = answered(&answer);
    assert_eq!(last["done"], true);
    let reported: BTreeSet<_> = lines
        .iter()
        .filter(|line| line["status"] == 201)
        .map(|line| line["path"].as_str().unwrap()[3..].to_owned())
        .collect();
    let mut there = BTreeSet::new();
    for folder in ["t", "one", "two", "three"] {
        if app.get(&format!("/v1/stat/{folder}")).await.status == 200 {
            there.extend(app.names(&format!("/v1/fs/{folder}/")).await);
        }
    }
    assert_eq!(there, reported);
    assert!(lines.iter().all(|line| matches!(line["status"].as_u64(), Some(201 | 503))), "{last}");
}
