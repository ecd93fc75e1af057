//! Tars as programs write them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::super::test_app::{TestApp, bytes};
use super::tar_of::{file, folder, member, pax, record, tar};
use super::{of, statuses, unpack};

/// A tree with long names, a large file, an empty one and times with fractions.
fn sample(at: &Path) -> Vec<(String, Vec<u8>)> {
    let long = ["l".repeat(200), "m".repeat(90), "n".repeat(250)].join("/");
    let umlaut = format!("{}/ü照片.txt", "ö".repeat(60));
    let files = [
        ("a.jpg", 10),
        ("empty", 0),
        ("block", 512),
        ("below/b.txt", 4_000),
        ("below/inline", 256 << 10),
        ("below/large", (256 << 10) + 1),
        ("below/larger", 3_000_000),
        (long.as_str(), 5),
        (umlaut.as_str(), 6),
    ];
    let made = files.map(|(name, size)| {
        let path = at.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = bytes(size);
        fs::write(&path, &content).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_767_323_045_678);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        (name.to_owned(), content)
    });
    fs::create_dir(at.join("nothing in it")).unwrap();
    made.into()
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> Vec<u8> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program} cannot be started ({error})"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

const PYTHON: &str = "import sys, tarfile
with tarfile.open(fileobj=sys.stdout.buffer, mode='w|', format=getattr(tarfile, sys.argv[1])) as tar:
    tar.add('.')";

#[tokio::test]
async fn tars_of_all_common_formats_are_stored_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let files = sample(scratch.path());
    for (made, fractions) in [
        (("tar", &["c", "--format=gnu", "."][..]), false),
        (("tar", &["c", "--format=pax", "."]), true),
        (("tar", &["c", "--format=posix", "--pax-option=globexthdr.name=g,comment=c", "."]), true),
        (("python3", &["-c", PYTHON, "GNU_FORMAT"]), false),
        (("python3", &["-c", PYTHON, "PAX_FORMAT"]), true),
    ] {
        let app = TestApp::new().await;
        let tar = run(made.0, made.1, scratch.path());
        let lines = unpack(&app, "/v1/fs/a%20b/", tar.clone()).await;
        let stored = statuses(&lines);
        // All files and folders: the top one too, which its own member makes.
        assert_eq!(stored.len(), files.len() + 6, "{made:?}: {stored:#?}");
        assert!(stored.iter().all(|(_, status)| *status == 201), "{made:?}: {stored:#?}");
        assert!(
            stored.iter().any(|(path, _)| path == "/a b")
                && stored.iter().any(|(path, _)| path == "/a b/nothing in it")
        );
        for (name, content) in &files {
            let target = format!("/v1/fs/a%20b/{}", percent(name));
            let got = app.get(&target).await.is(200);
            assert!(got.body == content, "{made:?} {name}");
            let entry = app.get(&target.replace("/fs/", "/stat/")).await.is(200).json();
            let time = if fractions { "2026-01-02T03:04:05.678Z" } else { "2026-01-02T03:04:05.000Z" };
            assert_eq!((entry["modified"].as_str(), entry["creator"].as_str()), (Some(time), Some("anonymous")));
        }
        assert_eq!(app.get("/v1/stat/a%20b/a.jpg").await.json()["type"], "image/jpeg");
        // A repeat is harmless: the same files, each a new version.
        let again = statuses(&unpack(&app, "/v1/fs/a%20b/", tar).await);
        assert!(again.iter().all(|(_, status)| *status == 200), "{again:#?}");
        assert_eq!(app.content_files(2).await.len(), 2);
    }
}

fn percent(name: &str) -> String {
    name.bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b"/.".contains(&b) { (b as char).to_string() } else { format!("%{b:02X}") }
        })
        .collect()
}

#[tokio::test]
async fn ustar_and_older_formats_are_read() {
    let scratch = tempfile::tempdir().unwrap();
    let name = ["d".repeat(60), "e".repeat(60), "f".repeat(90)].join("/");
    fs::create_dir_all(scratch.path().join(&name).parent().unwrap()).unwrap();
    for name in [name.as_str(), "short"] {
        fs::write(scratch.path().join(name), name).unwrap();
    }
    for made in [
        run("tar", &["c", "--format=ustar", "."], scratch.path()),
        run("python3", &["-c", PYTHON, "USTAR_FORMAT"], scratch.path()),
    ] {
        let app = TestApp::new().await;
        assert_eq!(unpack(&app, "/v1/fs/", made).await.len(), 5);
        assert_eq!(app.get(&format!("/v1/fs/{name}")).await.text(), name);
    }
    let app = TestApp::new().await;
    let old = run("tar", &["c", "--format=v7", "short"], scratch.path());
    assert_eq!(statuses(&unpack(&app, "/v1/fs/", old).await), [("/short".to_owned(), 201)]);
    // The first tars had no type of directories.
    let lines =
        unpack(&app, "/v1/fs/v7/", tar(&[member("d/", 0, b""), member("d/f", 0, b"x"), member("e/", b'0', b"")])).await;
    assert_eq!(statuses(&lines), [("/v7/d", 201), ("/v7/d/f", 201), ("/v7/e", 201)].map(|(p, s)| (p.to_owned(), s)));
    assert_eq!(app.names("/v1/fs/v7/").await, ["d/", "e/"]);
}

#[tokio::test]
async fn pax_records_replace_the_fields_of_the_header() {
    let app = TestApp::new().await;
    let large = member("x", b'0', b"");
    let unsized_member =
        [pax(&[("size", "5"), ("path", "sized")]), large[..512].to_vec(), b"12345".to_vec(), vec![0; 507]].concat();
    let global = member("g", b'g', record("mtime", "1000000000.25").as_bytes());
    let lines = unpack(
        &app,
        "/v1/fs/d/",
        tar(&[
            unsized_member,
            [pax(&[("path", "named\u{e9}"), ("mtime", "-1.5")]), file("y", b"1")].concat(),
            [pax(&[("comment", "mtime=7\n12 path=no\n")]), file("comment", b"1")].concat(),
            [pax(&[("path", "first"), ("path", "second")]), file("y", b"1")].concat(),
            global,
            file("global", b"1"),
            [pax(&[("mtime", "5")]), file("own", b"1")].concat(),
            [pax(&[("mtime", "")]), file("none", b"1")].concat(),
            [member("././@LongLink", b'L', b"long\0"), pax(&[("path", "pax")]), file("y", b"1")].concat(),
            [member("././@LongLink", b'L', b"long\0"), file("y", b"1")].concat(),
        ]),
    )
    .await;
    let of_path = |name: &str| of(&lines, &format!("/d/{name}"))["status"].as_u64();
    for name in ["sized", "named\u{e9}", "comment", "second", "global", "own", "none", "pax", "long"] {
        assert_eq!(of_path(name), Some(201), "{name}: {lines:#?}");
    }
    assert_eq!(lines.len(), 9);
    assert_eq!(app.get("/v1/fs/d/sized").await.text(), "12345");
    let mut times = Vec::new();
    for name in ["named%C3%A9", "global", "own", "none"] {
        let entry: Value = app.get(&format!("/v1/stat/d/{name}")).await.json();
        times.push(entry["modified"].as_str().unwrap().to_owned());
    }
    let expected = [
        "1969-12-31T23:59:58.500Z",
        "2001-09-09T01:46:40.250Z",
        "1970-01-01T00:00:05.000Z",
        "2026-01-02T03:04:05.000Z",
    ];
    assert_eq!(times, expected);
}

#[tokio::test]
async fn a_digest_of_a_member_is_verified() {
    let app = TestApp::new().await;
    // Of "hello".
    let good = "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:";
    let with = |digest: &str, name: &str| [pax(&[("ROWDRIVE.repr-digest", digest)]), file(name, b"hello")].concat();
    let lines =
        unpack(&app, "/v1/fs/", tar(&[with(good, "good"), with(&good.replace('L', "M"), "bad"), with("x", "odd")]))
            .await;
    assert_eq!(of(&lines, "/good")["status"], 201, "{lines:?}");
    assert_eq!(of(&lines, "/bad")["type"], "/problems/digest-mismatch", "{lines:?}");
    assert_eq!(of(&lines, "/odd")["type"], "/problems/malformed", "{lines:?}");
    assert_eq!(app.names("/v1/fs/").await, ["good"]);
}

#[tokio::test]
async fn an_empty_tar_stores_nothing_and_the_creator_is_that_of_the_request() {
    let app = TestApp::new().await;
    assert!(unpack(&app, "/v1/fs/d/", vec![0; 10_240]).await.is_empty());
    assert!(app.names("/v1/fs/").await.is_empty());
    let body = tar(&[folder("./"), folder("e/"), file("e/f", b"1")]);
    let tom = [("authorization", "Basic dG9tOg==")];
    super::answered(&app.send("PUT", "/v1/fs/d/?unpack=tar", &tom, body).await);
    for path in ["d", "d/e", "d/e/f"] {
        assert_eq!(app.get(&format!("/v1/stat/{path}")).await.json()["creator"], "tom", "{path}");
    }
}
