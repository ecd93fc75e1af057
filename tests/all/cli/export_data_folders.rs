//! `rowdrive export` into a data folder, into a folder inside one, or of files with the names of its parts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::tree::{self, bytes, write};
use super::{export, import};
use crate::server::Server;

/// The inode and the content of each path.
type Snapshot = BTreeMap<PathBuf, (u64, Option<Vec<u8>>)>;

/// A snapshot of a folder and of everything below it.
fn snapshot(at: &Path) -> Snapshot {
    let all = tree::names(at).into_iter().chain([at.to_owned()]);
    let of = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).ok()?;
        let content = if found.is_file() { Some(fs::read(&path).ok()?) } else { None };
        Some((path, (found.ino(), content)))
    };
    all.filter_map(of).collect()
}

/// A snapshot of a data folder, once its server has finished background work.
fn at_rest(data: &Path) -> Snapshot {
    for _ in 0..100 {
        let before = snapshot(data);
        std::thread::sleep(Duration::from_millis(300));
        if snapshot(data) == before {
            return before;
        }
    }
    panic!("{} does not come to rest", data.display());
}

/// Uploads a file. The path has no leading slash.
fn put(address: &str, path: &Path, content: &[u8]) {
    let alone = tempfile::tempdir().unwrap();
    write(&alone.path().join(path.file_name().unwrap()), content, 1);
    import(address, alone.path(), &format!("/{}", path.parent().unwrap().display())).is_done();
}

const LEFT_OVER: &str = ".rowdrive-export-0123456789abcdef0123456789abcdef";

/// An export must not overwrite the files of a server with older copies: acknowledged writes would be lost, and the
/// server would notice it at its next start only.
#[test]
fn an_export_changes_nothing_in_a_data_folder_and_exports_the_rest() {
    let scratch = tempfile::tempdir().unwrap();
    let (home, kept, to) = (scratch.path().join("home"), scratch.path().join("kept"), scratch.path().join("to"));
    let live = Server::start_on(&home.join("data"), &[]);
    let data = live.data.clone();
    write(&kept.join("large"), &bytes(600_000, 1), 1);
    write(&kept.join("small"), &bytes(600, 2), 1);
    import(&live.address, &kept, "/kept").is_done();
    // Even leftovers of a killed export stay in the data folder.
    fs::write(data.join(LEFT_OVER), "").unwrap();
    fs::write(data.join("content").join(LEFT_OVER), "").unwrap();
    let before = at_rest(&data);

    let server = Server::start();
    let files: Vec<&Path> =
        before.iter().filter(|(_, (_, content))| content.is_some()).map(|(path, _)| &**path).collect();
    let below = |path: &Path| path.strip_prefix(&home).unwrap().to_owned();
    for name in ["store-id", "db/CURRENT", "db/store-id", "db/tables.json", "db/in-use", "content"] {
        assert!(files.iter().any(|path| path.starts_with(data.join(name))), "{name}: {files:?}");
    }
    for path in files.iter().map(|path| below(path)).chain(["data/db/000000.log".into(), "data/made/f".into()]) {
        put(&server.address, &path, b"older");
    }
    let others = ["a/f", "data.txt", "photos/db/CURRENT", "zone/f"];
    for path in others {
        put(&server.address, Path::new(path), b"older");
    }
    for fetched in [4, 0] {
        let run = export(&server.address, "/", &home);
        assert_eq!(run.code, Some(1), "{run:#?}");
        assert!(run.last().starts_with(&format!("{fetched} files fetched ")), "{run:#?}");
        let start = format!("{}/data: it is the data folder of a drive, ", home.display());
        assert!(run.named("failed").len() == 1 && run.named("failed")[0].starts_with(&start), "{run:#?}");
        assert!(snapshot(&data) == before, "{run:#?}");
    }
    for path in others {
        assert_eq!(fs::read(home.join(path)).unwrap(), b"older", "{path}");
    }
    assert_eq!(live.terminate(), Some(0));
    let live = Server::start_on(&data, &[]);
    export(&live.address, "/kept", &to).is_done();
    tree::are_equal(&kept, &to);
}

/// The folder may be a mount point with any name.
#[test]
fn an_export_changes_nothing_in_a_part_of_a_data_folder() {
    let (live, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    put(&live.address, Path::new("large"), &bytes(600_000, 1));
    let mounted = scratch.path().join("mounted");
    for (part, name) in [("db", "tables"), ("content", "bytes")] {
        let from = live.data.join(part);
        // Parents before their children.
        for (path, (_, content)) in at_rest(&from) {
            let to = mounted.join(name).join(path.strip_prefix(&from).unwrap());
            match content {
                Some(content) => fs::write(to, content).unwrap(),
                None => fs::create_dir_all(to).unwrap(),
            }
        }
    }
    let before = [snapshot(&mounted.join("tables")), snapshot(&mounted.join("bytes"))];
    let server = Server::start();
    for path in ["tables/CURRENT", "tables/made/f", "bytes/new/f", "bytes/f", "f"] {
        put(&server.address, Path::new(path), b"older");
    }
    let run = export(&server.address, "/", &mounted);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().starts_with("1 files fetched ") && run.last().ends_with(" 2 failed"), "{run:#?}");
    for (named, (name, part)) in run.named("failed").iter().zip([("bytes", "content/"), ("tables", "db/")]) {
        let start = format!("{}/{name}: it is the {part} of a drive, ", mounted.display());
        assert!(named.starts_with(&start), "{run:#?}");
    }
    assert!([snapshot(&mounted.join("tables")), snapshot(&mounted.join("bytes"))] == before);
}

#[test]
fn an_export_into_a_data_folder_is_refused() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let data = &server.data;
    put(&server.address, Path::new("f"), b"f");
    put(&server.address, Path::new("large"), &bytes(600_000, 1));
    fs::write(data.join(LEFT_OVER), "").unwrap();
    symlink(data.join("content"), scratch.path().join("link")).unwrap();
    let before = at_rest(data);
    for to in [
        data.clone(),
        data.join("made/below"),
        data.join("lost/../db"),
        data.join("db"),
        data.join("db/made"),
        data.join("content"),
        data.join("content/x"),
        data.join("content/new"),
        scratch.path().join("link/x"),
        scratch.path().join("made/../link/x"),
    ] {
        for from in ["/", "/f"] {
            let run = export(&server.address, from, &to);
            assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{}: {run:#?}", to.display());
            assert!(run.err.contains(&format!("{} is ", to.display())), "{run:#?}");
            assert!(run.err.contains(" of a drive, or lies in it, ") && run.err.contains("name a folder"), "{run:#?}");
            assert!(snapshot(data) == before, "{}: {run:#?}", to.display());
        }
    }
    export(&server.address, "/", &scratch.path().join("made/below")).is_done();
}

/// Older versions imported data folders like any other folder.
#[test]
fn files_named_like_parts_of_a_data_folder_are_exported_repeatedly() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    for path in [
        "notes/store-id",
        "notes/db/readme",
        "site/backup.json",
        "site/db/rows",
        "site/content/new/page",
        "other/CURRENT",
        "other/db/in-use",
        "store-8fc6d904-734a-42bd-92ad-438e0b88979e/f",
        "store-id",
    ] {
        write(&from.join(path), path.as_bytes(), 1);
    }
    let run = import(&server.address, &from, "/");
    run.is_done();
    assert!(run.last().starts_with("9 files sent") && run.last().contains("; 0 skipped, "), "{run:#?}");
    for fetched in [9, 0] {
        let run = export(&server.address, "/", &to);
        run.is_done();
        assert!(run.last().starts_with(&format!("{fetched} files fetched ")), "{run:#?}");
        tree::are_equal(&from, &to);
    }
}

/// After the first export the folder cannot be distinguished from a data folder.
#[test]
fn a_copy_of_a_data_folder_is_exported_once_until_it_is_moved_away() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (to, away) = (scratch.path().join("to"), scratch.path().join("away"));
    for path in ["store-id", "db/store-id", "db/CURRENT", "db/tables.json", "db/in-use", "content/new/x"] {
        put(&server.address, &Path::new("old").join(path), b"old");
    }
    put(&server.address, Path::new("f"), b"f");
    export(&server.address, "/", &to).is_done();
    fs::write(to.join("old/db/CURRENT"), "newer").unwrap();
    fs::remove_file(to.join("f")).unwrap();
    let before = snapshot(&to.join("old"));
    let run = export(&server.address, "/", &to);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().starts_with("1 files fetched ") && run.last().ends_with(" 1 failed"), "{run:#?}");
    let named = format!("{}/old: it is the data folder of a drive, ", to.display());
    assert!(run.named("failed")[0].starts_with(&named) && run.named("failed")[0].contains("move it away"), "{run:#?}");
    assert!(snapshot(&to.join("old")) == before);
    let run = export(&server.address, "/old", &to.join("old"));
    assert_eq!(run.code, Some(3), "{run:#?}");
    assert!(run.err.contains("never changed by an export") && snapshot(&to.join("old")) == before, "{run:#?}");
    fs::rename(to.join("old"), &away).unwrap();
    export(&server.address, "/", &to).is_done();
    assert_eq!(fs::read(to.join("old/db/CURRENT")).unwrap(), b"old");
}
