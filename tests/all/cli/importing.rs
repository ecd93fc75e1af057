//! `rowdrive import` against a real server.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::tree::{self, FILES, bytes, set_time, write};
use super::{export, import};
use crate::server::Server;

#[test]
fn a_tree_goes_up_once_and_comes_back_as_it_was() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("made/to"));
    tree::sample(&from);
    let (files, all): (usize, usize) = (FILES.len(), FILES.iter().map(|(_, size, _)| size).sum());

    let first = import(&server.address, &from, "/up/here");
    first.is_done();
    let summary =
        format!("{files} files sent ({all} bytes), 0 were there; 10 folders made; 0 skipped, 2 renamed, 0 failed");
    assert_eq!(first.last(), summary, "{first:#?}");
    let renamed = first.named("renamed");
    assert!(renamed.iter().any(|line| line.ends_with("u\u{308}.txt: it is \u{fc}.txt, composed (NFC), on the drive")));
    let again = import(&server.address, &from, "/up/here/");
    again.is_done();
    let summary = format!("0 files sent (0 bytes), {files} were there; 0 folders made; 0 skipped, 2 renamed, 0 failed");
    assert_eq!(again.last(), summary, "{again:#?}");

    let back = export(&server.address, "/up/here", &to);
    back.is_done();
    let summary =
        format!("{files} files fetched ({all} bytes), 0 were there; 10 folders made; 0 skipped, 0 renamed, 0 failed");
    assert_eq!(back.last(), summary, "{back:#?}");
    tree::are_equal(&from, &to);
    let again = export(&server.address, "/up/here", &to);
    again.is_done();
    let summary =
        format!("0 files fetched (0 bytes), {files} were there; 0 folders made; 0 skipped, 0 renamed, 0 failed");
    assert_eq!(again.last(), summary, "{again:#?}");
    tree::are_equal(&from, &to);
}

#[test]
fn another_time_or_other_bytes_are_sent_again() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    for name in ["same", "time", "bytes", "longer"] {
        write(&from.join(name), b"0123456789", 1_000_000_000_000);
    }
    import(&server.address, &from, "/").is_done();
    set_time(&from.join("time"), 1_000_001_000_000);
    // Less than a millisecond is no other time.
    set_time(&from.join("same"), 1_000_000_999_999);
    write(&from.join("bytes"), b"012345678x", 1_000_000_000_000);
    write(&from.join("longer"), b"0123456789-", 1_000_000_000_000);
    let again = import(&server.address, &from, "/");
    again.is_done();
    assert!(again.last().starts_with("3 files sent (31 bytes), 1 were there;"), "{again:#?}");
    export(&server.address, "/", &to).is_done();
    tree::are_equal(&from, &to);
}

#[test]
fn what_cannot_be_on_the_drive_is_named() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let from = scratch.path().join("from");
    write(&from.join("fine/f"), b"fine", 1);
    write(&from.join("other/o"), b"other", 1);
    symlink("fine", from.join("link to a folder")).unwrap();
    symlink("fine/f", from.join("link")).unwrap();
    symlink("nowhere", from.join("fine/dangling")).unwrap();
    mknodat(CWD, from.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    for name in [&b"not \xff UTF-8"[..], b"two\nlines", "\u{958}".repeat(85).as_bytes()] {
        write(&from.join(OsString::from_vec(name.to_vec())), b"x", 1);
    }
    // Both become one; the composed one is the one that is there, in each run.
    write(&from.join("twin e\u{301}"), b"decomposed", 1);
    write(&from.join("twin \u{e9}"), b"composed", 1);
    write(&from.join("folder e\u{301}/x"), b"decomposed", 1);
    write(&from.join("folder \u{e9}/x"), b"composed", 1);
    for (sent, there) in [(4, 0), (0, 4)] {
        let run = import(&server.address, &from, "/");
        assert_eq!(run.code, Some(1), "{run:#?}");
        assert!(run.last().starts_with(&format!("{sent} files sent")), "{run:#?}");
        assert!(run.last().contains(&format!(" {there} were there;")), "{run:#?}");
        assert!(run.last().ends_with("5 skipped, 0 renamed, 5 failed"), "{run:#?}");
        for (name, what) in [
            ("link", "a symbolic link"),
            ("link to a folder", "a symbolic link"),
            ("fine/dangling", "a symbolic link"),
            ("pipe", "a named pipe"),
            ("socket", "a socket"),
        ] {
            let line = format!("{}/{name}: it is {what}", from.display());
            assert!(run.named("skipped").contains(&line.as_str()), "{line}: {run:#?}");
        }
        for (name, why) in [
            ("not \\xff UTF-8", "its name is not UTF-8"),
            ("two\\nlines", "control character"),
            (&"\u{958}".repeat(85), "at most 255 bytes"),
            ("twin e\u{301}", "another name beside it is twin \u{e9} too"),
            ("folder e\u{301}", "another name beside it is folder \u{e9} too"),
        ] {
            let start = format!("{}/{name}: ", from.display());
            let is_named = |line: &&str| line.starts_with(&start) && line.contains(why);
            assert_eq!(run.named("failed").iter().filter(|line| is_named(line)).count(), 1, "{name}: {run:#?}");
        }
        let to = scratch.path().join(format!("to {sent}"));
        export(&server.address, "/", &to).is_done();
        assert_eq!(fs::read(to.join("twin \u{e9}")).unwrap(), b"composed");
        assert_eq!(fs::read(to.join("folder \u{e9}/x")).unwrap(), b"composed");
        assert_eq!(tree::seen(&to).len(), 7);
    }
}

#[test]
fn a_file_and_a_folder_of_one_name_are_left_as_they_are() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
    write(&first.join("is a file"), b"file", 1);
    write(&first.join("is a folder/below"), b"below", 1);
    import(&server.address, &first, "/").is_done();
    write(&second.join("is a file/x"), b"x", 1);
    write(&second.join("is a folder"), b"y", 1);
    write(&second.join("z"), b"z", 1);
    let run = import(&server.address, &second, "/");
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().starts_with("1 files sent") && run.last().ends_with(" 2 failed"), "{run:#?}");
    let failed = run.named("failed");
    assert!(failed[0].contains("is a file: the drive has a file of this name"), "{run:#?}");
    assert!(failed[1].contains("is a folder: the drive has a folder of this name"), "{run:#?}");
    let to = scratch.path().join("to");
    export(&server.address, "/", &to).is_done();
    fs::remove_file(to.join("z")).unwrap();
    tree::are_equal(&first, &to);
}

#[test]
fn what_cannot_begin_says_why() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let from = scratch.path().join("from");
    write(&from.join("f"), &bytes(10, 0), 1);
    import(&server.address, &from, "/").is_done();
    for (local, path) in [(from.join("f"), "/"), (from.join("none"), "/"), (from.clone(), "/f"), (from.clone(), "/f/g")]
    {
        let run = import(&server.address, &local, path);
        assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{run:#?}");
        assert!(run.err.starts_with("rowdrive: "), "{run:#?}");
    }
    let to = scratch.path().join("to");
    for path in ["/none", "/f/", "/f/g"] {
        let run = export(&server.address, path, &to);
        assert_eq!((run.code, run.out.as_str(), to.exists()), (Some(3), "", false), "{run:#?}");
    }
    let run = export(&server.address, "/f", &from.join("f"));
    assert_eq!(run.code, Some(3), "{run:#?}");
    let here = scratch.path();
    for run in [import(&server.address, here, "relative"), export(&server.address, "relative", here)] {
        assert_eq!(run.code, Some(2), "{run:#?}");
    }
    let address = server.address.clone();
    assert_eq!(server.terminate(), Some(0));
    for run in [import(&address, &from, "/"), export(&address, "/", &to)] {
        assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{run:#?}");
        assert!(run.err.contains("cannot be reached"), "{run:#?}");
    }
}
