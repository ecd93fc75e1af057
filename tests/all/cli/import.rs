//! `rowdrive import` against a real server.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::tree::{self, FILES, bytes, set_time, write};
use super::{backup_folder, export, import, rowdrive};
use crate::server::Server;

#[test]
fn an_imported_tree_is_exported_unchanged_and_sent_only_once() {
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
    let summary = format!("0 files sent (0 bytes), {files} were there; 0 skipped, 2 renamed, 0 failed");
    assert_eq!(again.last(), summary, "{again:#?}");

    let back = export(&server.address, "/up/here", &to);
    back.is_done();
    let summary =
        format!("{files} files fetched ({all} bytes), 0 were there; 10 folders made; 0 skipped, 0 renamed, 0 failed");
    assert_eq!(back.last(), summary, "{back:#?}");
    tree::are_equal(&from, &to);
    let again = export(&server.address, "/up/here", &to);
    again.is_done();
    let summary = format!("0 files fetched (0 bytes), {files} were there; 0 skipped, 0 renamed, 0 failed");
    assert_eq!(again.last(), summary, "{again:#?}");
    tree::are_equal(&from, &to);
}

#[test]
fn a_file_with_a_changed_time_or_changed_bytes_is_sent_again() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    for name in ["same", "time", "bytes", "longer"] {
        write(&from.join(name), b"0123456789", 1_000_000_000_000);
    }
    import(&server.address, &from, "/").is_done();
    set_time(&from.join("time"), 1_000_001_000_000);
    // A difference below one millisecond does not count.
    set_time(&from.join("same"), 1_000_000_999_999);
    write(&from.join("bytes"), b"012345678x", 1_000_000_000_000);
    write(&from.join("longer"), b"0123456789-", 1_000_000_000_000);
    let again = import(&server.address, &from, "/");
    again.is_done();
    let summary = "3 files sent (31 bytes), 3 of them replaced others, 1 were there;";
    assert!(again.last().starts_with(summary), "{again:#?}");
    export(&server.address, "/", &to).is_done();
    tree::are_equal(&from, &to);
}

#[test]
fn without_overwriting_other_files_are_left_and_named() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let [before, after, to] = ["before", "after", "to"].map(|name| scratch.path().join(name));
    for folder in [&before, &after] {
        write(&folder.join("same"), b"same", 1_000_000_000_000);
    }
    // Of each size one: sent with others, and alone.
    for (name, size) in [("small", 10), ("large", 300_000)] {
        write(&before.join(name), &bytes(size, 1), 1_000_000_000_000);
        write(&after.join(name), &bytes(size, 2), 1_000_000_000_000);
        write(&after.join(format!("new/{name}")), &bytes(size, 3), 1_000_000_000_000);
    }
    import(&server.address, &before, "/").is_done();
    let run = rowdrive(&server.address, &[&"import", &after, &"--no-overwrite"]);
    run.is_done();
    assert_eq!(
        run.last(),
        "2 files sent (300010 bytes), 1 were there; 1 folders made; 2 skipped, 0 renamed, 0 failed",
        "{run:#?}"
    );
    let left = |name| {
        format!("{}: the drive has another file of this name, which is left as it is", after.join(name).display())
    };
    assert_eq!(run.named("skipped"), [left("large"), left("small")]);
    export(&server.address, "/", &to).is_done();
    for name in ["small", "large"] {
        assert!(fs::read(to.join(name)).unwrap() == fs::read(before.join(name)).unwrap(), "{name}");
        assert!(
            fs::read(to.join("new").join(name)).unwrap() == fs::read(after.join("new").join(name)).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn an_import_names_files_that_the_drive_cannot_store() {
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
    // Both names are equal after normalisation; in each run, the composed one is kept.
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
            ("twin e\u{301}", "another name in this folder is twin \u{e9} too"),
            ("folder e\u{301}", "another name in this folder is folder \u{e9} too"),
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
fn an_import_leaves_a_file_and_a_folder_of_the_same_name_unchanged() {
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
fn a_transfer_that_cannot_start_says_why() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let from = scratch.path().join("from");
    write(&from.join("f"), &bytes(10, 0), 1);
    import(&server.address, &from, "/").is_done();
    for (local, path) in [(from.join("f"), "/"), (from.join("none"), "/"), (from.clone(), "/f"), (from.clone(), "/f/g")]
    {
        let run = import(&server.address, &local, path);
        assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{run:#?}");
        assert!(run.err.starts_with("rowdrive: "), "{run:#?}");
        assert_eq!(run.err.contains("curl -T"), local.is_file(), "{run:#?}");
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

/// Makes a backup and returns its folder.
fn backup(data: &Path, to: &Path) -> PathBuf {
    backup_folder::run("backup", to, data, &[]).is_done();
    backup_folder::backups(to).remove(0)
}

/// An import would copy the drive into itself, and grow with each run.
#[test]
fn a_data_folder_in_the_tree_is_skipped_and_named() {
    let scratch = tempfile::tempdir().unwrap();
    let (home, to) = (scratch.path().join("home"), scratch.path().join("to"));
    let server = Server::start_on(&home.join("data"), &[]);
    write(&home.join("photos/a.jpg"), &bytes(600_000, 1), 1);
    write(&home.join("photos/b.jpg"), &bytes(10, 2), 1);
    // Folders with the names of a drive's parts, but without a drive.
    write(&home.join("mine/data/store-id"), b"like any other", 1);
    write(&home.join("mine/db/CURRENT"), b"of another program", 1);
    for summary in [
        "4 files sent (600042 bytes), 0 were there; 4 folders made; 1 skipped, 0 renamed, 0 failed",
        "0 files sent (0 bytes), 4 were there; 1 skipped, 0 renamed, 0 failed",
    ] {
        let run = import(&server.address, &home, "/home");
        run.is_done();
        assert_eq!(run.last(), summary, "{run:#?}");
        let skipped = format!("{}/data: it is the data folder of a drive", home.display());
        assert_eq!(run.named("skipped"), [skipped], "{run:#?}");
    }
    let backup = backup(&server.data, &home.join("backups"));
    let run = import(&server.address, &home, "/home");
    run.is_done();
    // The lock file in the backup folder is an ordinary file.
    let summary = "1 files sent (0 bytes), 4 were there; 1 folders made; 2 skipped, 0 renamed, 0 failed";
    assert_eq!(run.last(), summary, "{run:#?}");
    assert_eq!(run.named("skipped")[0], format!("{}: it is a backup of a drive", backup.display()), "{run:#?}");

    export(&server.address, "/home", &to).is_done();
    fs::remove_file(to.join("backups/in-use")).unwrap();
    fs::remove_dir(to.join("backups")).unwrap();
    for path in ["photos", "mine"] {
        tree::are_equal(&home.join(path), &to.join(path));
    }
    assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
}

#[test]
fn a_data_folder_and_its_parts_are_not_imported() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let data = &server.data;
    write(&scratch.path().join("from/f"), &bytes(600_000, 1), 1);
    import(&server.address, &scratch.path().join("from"), "/").is_done();
    let backup = backup(data, &scratch.path().join("backups"));
    symlink(data, scratch.path().join("link")).unwrap();
    for from in [
        data.clone(),
        scratch.path().join("link"),
        data.join("db"),
        data.join("content"),
        data.join("content/new"),
        backup.join("db"),
        backup,
    ] {
        let run = import(&server.address, &from, "/taken");
        assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{}: {run:#?}", from.display());
        assert!(run.err.contains(&format!("{} is ", from.display())), "{run:#?}");
        assert!(run.err.contains(" of a drive, or lies in it: ") && run.err.contains("`rowdrive backup`"), "{run:#?}");
    }
    let run = export(&server.address, "/taken", &scratch.path().join("to"));
    assert_eq!(run.code, Some(3), "{run:#?}");
    assert!(run.err.contains("there is nothing at /taken"), "{run:#?}");
    // Files that `rowdrive check --repair` saved can be imported.
    write(&data.join("lost/saved"), b"saved", 1);
    import(&server.address, &data.join("lost"), "/lost").is_done();
}
