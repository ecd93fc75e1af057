//! Tars that are cut, malformed, or read differently by different programs.

use super::super::test_app::{TestApp, broken, bytes};
use super::tar_of::{Head, file, folder, member, pax, record, tar};
use super::{answered, statuses};

/// A tar that is not read to its end: what comes before the fault is stored, and the last line says so.
async fn is_malformed(parts: &[Vec<u8>]) {
    let app = TestApp::new().await;
    let body = [vec![file("before", b"1")], parts.to_vec(), vec![tar(&[file("after", b"1")])]].concat().concat();
    let (lines, last) = answered(&app.put("/v1/fs/d/?unpack=tar", body).await);
    assert_eq!((last["done"].as_bool(), last["status"].as_u64()), (Some(false), Some(400)), "{last}");
    assert_eq!(last["type"], "/problems/malformed", "{last}");
    assert_eq!(statuses(&lines), [("/d/before".to_owned(), 201)], "{last}");
    assert_eq!(app.names("/v1/fs/d/").await, ["before"]);
}

#[tokio::test]
async fn a_malformed_tar_ends_where_it_is_malformed() {
    let head = Head::new("x", b'0', 1);
    for parts in [
        // No header, a wrong sum, sizes that are no numbers.
        vec![bytes(512)],
        vec![head.clone().block.to_vec()],
        vec![head.clone().set(124, b"00000000009\0").sealed()],
        vec![head.clone().set(124, b"-0000000001\0").sealed()],
        vec![head.clone().set(124, &[0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).sealed()],
        vec![head.clone().set(124, &[0xff; 12]).sealed()],
        // Content that some programs read, and others skip.
        vec![member("d/", b'5', b"content")],
        vec![member("d/", b'0', b"content")],
        vec![member("l", b'1', b"content")],
        vec![member("l", b'2', b"content")],
        vec![member("p", b'6', b"content")],
        vec![pax(&[("size", "512")]), folder("d")],
        // Extended headers that are malformed, too large, or of no member.
        vec![member("p", b'x', b"5 path=a\n"), file("x", b"1")],
        vec![member("p", b'x', b"path=a\n"), file("x", b"1")],
        vec![member("g", b'g', b"99 mtime=1\n"), file("x", b"1")],
        vec![pax(&[("size", "-5")]), file("x", b"1")],
        vec![pax(&[("size", "99999999999999999999999")]), file("x", b"1")],
        vec![member("p", b'x', record("comment", &"c".repeat(40_000)).as_bytes()), file("x", b"1")],
        vec![member("p", b'L', &vec![b'n'; 40_000]), file("x", b"1")],
        vec![Head::new("p", b'x', (1 << 33) - 1).sealed()],
        vec![Head::new("p", b'L', (1 << 33) - 1).sealed()],
        vec![Head::new("p", b'g', 40_000).sealed()],
        vec![pax(&[("path", "a")]), vec![0; 1024]],
        vec![member("p", b'L', b"name\0"), vec![0; 1024]],
        // A second tar after the end of the first one.
        vec![vec![0; 512]],
        vec![vec![0; 10_240]],
    ] {
        is_malformed(&parts).await;
    }
}

#[tokio::test]
async fn a_tar_cut_anywhere_stores_whole_files_only_and_says_so() {
    let contents =
        [("a", bytes(10)), ("b/c", bytes(600)), ("b/d", bytes(0)), ("e", bytes(1_024)), ("f", bytes(300_000))];
    let members: Vec<_> = contents
        .iter()
        .map(|(name, content)| [pax(&[("path", name), ("mtime", "1.5")]), file("x", content)].concat())
        .collect();
    let body = tar(&[vec![folder("b")], members].concat());
    let content_end = body.len() - 1024;
    let mut cuts: Vec<usize> =
        (512..body.len()).step_by(512).filter(|at| *at < 8_192 || *at + 2_048 > body.len()).collect();
    cuts.extend([513, 1_000, 1_025, 4_000, 200_000, body.len() - 1]);
    for cut in cuts {
        for breaks in [true, false] {
            let app = TestApp::new().await;
            let part = body[..cut].to_vec();
            let answer = if breaks {
                app.put("/v1/fs/t/?unpack=tar", broken(part)).await
            } else {
                app.put("/v1/fs/t/?unpack=tar", part).await
            };
            let (lines, last) = answered(&answer);
            // Of the end, one block is enough, if nothing breaks.
            let is_whole = !breaks && cut >= content_end + 512;
            assert_eq!(last["done"], is_whole, "{cut} {breaks}: {last}");
            if !is_whole {
                assert_eq!(last["type"], "/problems/body-cut", "{cut}: {last}");
            }
            let mut reported: Vec<String> = statuses(&lines)
                .into_iter()
                .map(|(path, status)| {
                    assert!(matches!(status, 200 | 201), "{lines:?}");
                    path
                })
                .collect();
            reported.retain(|path| *path != "/t/b");
            for (name, content) in &contents {
                let path = format!("/t/{name}");
                let is_reported = reported.contains(&path);
                let got = app.get(&format!("/v1/fs{path}")).await;
                assert_eq!(got.status, if is_reported { 200 } else { 404 }, "{cut} {path}: {lines:?}");
                assert!(!is_reported || got.body == *content, "{cut} {path}");
            }
            let large = usize::from(reported.contains(&"/t/f".to_owned()));
            assert_eq!(app.content_files(large).await.len(), large, "{cut}");
        }
    }
}

#[tokio::test]
async fn endless_extended_headers_use_no_memory_and_store_nothing() {
    let app = TestApp::new().await;
    let header = member("g", b'g', record("comment", &"c".repeat(30_000)).as_bytes());
    let names = member("p", b'L', &[vec![b'n'; 30_000], vec![0]].concat());
    let body = [header.repeat(500), names.repeat(500), tar(&[file("x", b"1")])].concat();
    let (lines, last) = answered(&app.put("/v1/fs/?unpack=tar", body).await);
    assert_eq!((last["done"].as_bool(), lines[0]["status"].as_u64()), (Some(true), Some(414)), "{last}");
}
