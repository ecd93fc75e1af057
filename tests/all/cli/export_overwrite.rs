//! What `rowdrive export` replaces in the local folder, and what it leaves with `--no-overwrite`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::fake_server::{Fake, content, digest, directory, file, page};
use super::tree::{self, bytes, write};
use super::{Run, export, import, rowdrive};
use crate::server::Server;

fn export_new(address: &str, from: &str, to: &Path) -> Run {
    rowdrive(address, &[&"export", &from, &to, &"--no-overwrite"])
}

/// The line of what is left.
fn left(to: &Path, name: &str, what: &str) -> String {
    format!("{}: the local folder has {what} of this name, which is left as it is", to.join(name).display())
}

#[test]
fn without_overwriting_local_files_that_differ_are_left_and_named() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
    for (seed, name) in (0..).zip(["bytes", "longer", "new/file", "same", "time"]) {
        write(&from.join(name), &bytes(300_000, seed), 1_000_000_000_000);
    }
    import(&server.address, &from, "/").is_done();
    write(&to.join("bytes"), &bytes(300_000, 10), 1_000_000_000_000);
    write(&to.join("longer"), &bytes(300_001, 1), 1_000_000_000_000);
    // A difference below one millisecond does not count.
    write(&to.join("same"), &bytes(300_000, 3), 1_000_000_999_999);
    write(&to.join("time"), &bytes(300_000, 4), 1_000_001_000_000);
    let before = tree::seen(&to);

    let run = export_new(&server.address, "/", &to);
    run.is_done();
    let summary = "1 files fetched (300000 bytes), 1 were there; 1 folders made; 3 skipped, 0 renamed, 0 failed";
    assert_eq!(run.last(), summary, "{run:#?}");
    assert_eq!(run.named("skipped"), ["bytes", "longer", "time"].map(|name| left(&to, name, "another file")));
    let after = tree::seen(&to);
    for (name, what) in &before {
        assert!(after[name] == *what, "{name} differs");
    }
    assert!(after["new/file"] == tree::seen(&from)["new/file"]);

    let one = export_new(&server.address, "/bytes", &to);
    one.is_done();
    assert_eq!(one.last(), "0 files fetched (0 bytes), 0 were there; 1 skipped, 0 renamed, 0 failed", "{one:#?}");
    assert_eq!(one.named("skipped"), [left(&to, "bytes", "another file")]);
    assert!(tree::seen(&to) == after);

    let all = export(&server.address, "/", &to);
    all.is_done();
    let summary =
        "3 files fetched (900000 bytes), 3 of them replaced others, 2 were there; 0 skipped, 0 renamed, 0 failed";
    assert_eq!(all.last(), summary, "{all:#?}");
    tree::are_equal(&from, &to);
}

#[test]
fn without_overwriting_what_is_no_file_is_left_and_not_followed() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let [from, to, outside] = ["from", "to", "outside"].map(|name| scratch.path().join(name));
    for name in ["dangling", "folder", "link", "pipe"] {
        write(&from.join(name), b"of the drive", 1_000_000);
    }
    import(&server.address, &from, "/files").is_done();
    write(&from.join("below/f"), b"of the drive", 1_000_000);
    import(&server.address, &from.join("below"), "/folders/linked").is_done();
    write(&to.join("folder/mine"), b"mine", 1);
    // What the link leads to is the same as on the drive.
    write(&outside.join("kept"), b"of the drive", 1_000_000);
    symlink(outside.join("kept"), to.join("link")).unwrap();
    symlink(outside.join("new"), to.join("dangling")).unwrap();
    symlink(&outside, to.join("linked")).unwrap();
    mknodat(CWD, to.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let before = [&to, &outside].map(|folder| tree::seen(folder));

    let run = export_new(&server.address, "/files", &to);
    run.is_done();
    assert_eq!(run.last(), "0 files fetched (0 bytes), 0 were there; 4 skipped, 0 renamed, 0 failed", "{run:#?}");
    let expected = [
        left(&to, "dangling", "a symbolic link"),
        left(&to, "folder", "a folder"),
        left(&to, "link", "a symbolic link"),
        left(&to, "pipe", "a named pipe"),
    ];
    assert_eq!(run.named("skipped"), expected);
    assert!([&to, &outside].map(|folder| tree::seen(folder)) == before);

    // A folder that cannot be entered is a failure: files below it that are nowhere here are missing.
    let run = export_new(&server.address, "/folders", &to);
    assert_eq!(run.code, Some(1), "{run:#?}");
    let why = "a symbolic link is in the way of the folder, so nothing below it was fetched";
    assert_eq!(run.named("failed"), [format!("{}: {why}", to.join("linked").display())]);
    assert!([&to, &outside].map(|folder| tree::seen(folder)) == before);
}

const NAMES: [&str; 3] = ["link", "mine", "theirs"];

/// A drive with files `x` of these names. `meanwhile` is called with the name before the content of a file is answered,
/// and with a slash before it when the file is looked up again.
fn drive(meanwhile: impl Fn(&str) + Clone + Send + Sync + 'static) -> Fake {
    Fake::start(move |request: Request| {
        let meanwhile = meanwhile.clone();
        async move {
            match request.uri().path().trim_start_matches("/v1") {
                "/stat/" => directory("").to_string().into_response(),
                "/fs/" => page(&NAMES.map(|name| file(name, b"x")), None),
                path => match path.strip_prefix("/stat") {
                    Some(again) => {
                        meanwhile(again);
                        file(again.trim_start_matches('/'), b"x").to_string().into_response()
                    }
                    None => {
                        meanwhile(path.trim_start_matches("/fs/"));
                        content(Body::from("x"), &digest(b"x"), 1)
                    }
                },
            }
        }
    })
}

/// Another program makes something of the same name after the export has looked.
#[test]
fn what_appears_during_an_export_is_not_overwritten() {
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().to_owned();
    let fake = drive(move |name| match name {
        // With the time of `file`.
        "mine" => write(&to.join(name), b"x", 1_767_323_045_678_000_000),
        "theirs" => write(&to.join(name), b"other", 1),
        "link" => symlink("elsewhere", to.join(name)).unwrap(),
        _ => {}
    });
    let to = scratch.path();
    let run = export_new(&fake.address, "/", to);
    run.is_done();
    assert_eq!(run.last(), "0 files fetched (0 bytes), 1 were there; 2 skipped, 0 renamed, 0 failed", "{run:#?}");
    assert_eq!(run.named("skipped"), [left(to, "link", "a symbolic link"), left(to, "theirs", "another file")]);
    assert_eq!(fs::read(to.join("theirs")).unwrap(), b"other");
    assert_eq!(fs::read_link(to.join("link")).unwrap().to_str(), Some("elsewhere"));
    assert_eq!(tree::names(to).len(), NAMES.len());
}

#[test]
fn what_comes_back_during_an_export_is_not_overwritten() {
    let scratch = tempfile::tempdir().unwrap();
    let theirs = scratch.path().join("theirs");
    write(&theirs, b"other", 1);
    let there = theirs.clone();
    let fake = drive(move |name| match name {
        "link" => fs::remove_file(&there).unwrap(),
        "theirs" => write(&there, b"other", 1),
        _ => {}
    });
    let one_by_one = [&"export" as &dyn AsRef<OsStr>, &"/", &scratch.path(), &"--no-overwrite", &"--jobs", &"1"];
    let run = rowdrive(&fake.address, &one_by_one);
    run.is_done();
    assert_eq!(run.last(), "2 files fetched (2 bytes), 0 were there; 1 skipped, 0 renamed, 0 failed", "{run:#?}");
    assert_eq!(run.named("skipped"), [left(scratch.path(), "theirs", "another file")]);
    assert_eq!(fs::read(theirs).unwrap(), b"other");
}

#[test]
fn files_that_come_and_go_during_an_export_are_named_as_failed() {
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().to_owned();
    let fake = drive(move |name| match name.strip_prefix('/') {
        Some(gone) => fs::remove_file(to.join(gone)).unwrap(),
        None => write(&to.join(name), b"other", 1),
    });
    let run = export_new(&fake.address, "/", scratch.path());
    assert_eq!(run.code, Some(1), "{run:#?}");
    let expected = NAMES.map(|name| {
        format!("{}: in the local folder files of this name come and go", scratch.path().join(name).display())
    });
    assert_eq!(run.named("failed"), expected);
    assert_eq!(tree::names(scratch.path()).len(), NAMES.len());
}

/// With overwriting too, only files are replaced.
#[test]
fn a_link_that_takes_the_place_of_a_file_during_an_export_is_not_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    for name in NAMES {
        write(&scratch.path().join(name), b"before", 1);
    }
    let to = scratch.path().to_owned();
    let fake = drive(move |name| {
        if name == "link" {
            fs::remove_file(to.join(name)).unwrap();
            symlink("elsewhere", to.join(name)).unwrap();
        }
    });
    let (run, to) = (export(&fake.address, "/", scratch.path()), scratch.path());
    assert_eq!(run.code, Some(1), "{run:#?}");
    let summary = "2 files fetched (2 bytes), 2 of them replaced others, 0 were there; 0 skipped, 0 renamed, 1 failed";
    assert_eq!(run.last(), summary, "{run:#?}");
    let line = format!("{}: it cannot be written: a symbolic link is in the way", to.join("link").display());
    assert_eq!(run.named("failed"), [line]);
    assert_eq!(fs::read_link(to.join("link")).unwrap().to_str(), Some("elsewhere"));
    assert_eq!(tree::names(to).len(), NAMES.len());
}
