//! `rowdrive export` against a real server.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::tree::{self, bytes, write};
use super::{export, import, rowdrive};
use crate::server::{Server, root};

#[test]
fn what_is_in_the_way_is_named_and_kept() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to, outside) = (scratch.path().join("from"), scratch.path().join("to"), scratch.path().join("outside"));
    for path in ["folder/a", "folder/below/b", "linked/c", "piped/d", "file", "link", "fine/e", "zone/f"] {
        write(&from.join(path), path.as_bytes(), 1_000_000);
    }
    import(&server.address, &from, "/").is_done();
    write(&to.join("folder"), b"a file here", 1);
    write(&to.join("file/inside"), b"a folder here", 1);
    fs::create_dir_all(&outside).unwrap();
    write(&outside.join("kept"), b"kept", 1);
    symlink(&outside, to.join("linked")).unwrap();
    symlink(outside.join("kept"), to.join("link")).unwrap();
    symlink(outside.join("new"), to.join("piped")).unwrap();
    write(&to.join("fine/mine"), b"not on the drive", 1);
    let before = tree::seen(&outside);
    let run = export(&server.address, "/", &to);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().starts_with("2 files fetched") && run.last().ends_with(" 5 failed"), "{run:#?}");
    for (name, why) in [
        ("folder", "a file is in the way of the folder"),
        ("linked", "a symbolic link is in the way of the folder"),
        ("piped", "a symbolic link is in the way of the folder"),
        ("file", "a folder is in the way of the file"),
        ("link", "a symbolic link is in the way of the file"),
    ] {
        let start = format!("{}/{name}: {why}", to.display());
        assert!(run.named("failed").iter().any(|line| line.starts_with(&start)), "{start}: {run:#?}");
    }
    assert_eq!(tree::seen(&outside), before);
    assert_eq!(fs::read(to.join("folder")).unwrap(), b"a file here");
    assert_eq!(fs::read(to.join("file/inside")).unwrap(), b"a folder here");
    assert!(fs::symlink_metadata(to.join("link")).unwrap().is_symlink());
    assert_eq!(fs::read(to.join("fine/mine")).unwrap(), b"not on the drive");
    assert_eq!(fs::read(to.join("fine/e")).unwrap(), b"fine/e");
    assert_eq!(fs::read(to.join("zone/f")).unwrap(), b"zone/f");
    assert_eq!(tree::temporaries(&to), [""; 0]);
}

#[test]
fn a_local_file_that_differs_in_anything_is_brought_back() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    for (seed, name) in (0..).zip(["same", "flipped", "time", "longer", "shorter", "gone"]) {
        write(&from.join(name), &bytes(300_000, seed), 1_234_567_890_123_456_789);
    }
    import(&server.address, &from, "/").is_done();
    export(&server.address, "/", &to).is_done();
    let mut flipped = fs::read(to.join("flipped")).unwrap();
    flipped[200_000] ^= 1;
    // Neither size nor time tells.
    write(&to.join("flipped"), &flipped, 1_234_567_890_123_999_999);
    tree::set_time(&to.join("time"), 1_234_567_890_124_000_000);
    write(&to.join("longer"), &bytes(300_001, 3), 1_234_567_890_123_456_789);
    write(&to.join("shorter"), &bytes(299_999, 4), 1_234_567_890_123_456_789);
    fs::remove_file(to.join("gone")).unwrap();
    let again = export(&server.address, "/", &to);
    again.is_done();
    assert!(again.last().starts_with("5 files fetched (1500000 bytes), 1 were there;"), "{again:#?}");
    tree::are_equal(&from, &to);
}

#[test]
fn one_file_is_brought_back_under_its_name() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to/here"));
    write(&from.join("a b/c%d.txt"), b"content", -5_000_000);
    import(&server.address, &from, "/").is_done();
    export(&server.address, "/a b/c%d.txt", &to).is_done();
    tree::are_equal(&from.join("a b"), &to);
    assert!(
        export(&server.address, "/a b/c%d.txt", &to).last().starts_with("0 files fetched (0 bytes), 1 were there;")
    );
}

/// Runs an export in a name space of its own where the target is a small file system, and lists it in the end.
fn export_to_small_disk(address: &str, to: &Path) -> String {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let script = r#"mount -t tmpfs -o size=4m tmpfs "$0"; "$@"; echo "exit code $?"; cd "$0" && find . -type f -printf '%P %s\n' | sort"#;
    command.args(["--mount", "sh", "-c", script]).arg(to).arg(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(["export", "/", "--jobs", "1"]).arg(to).args(["--server", &format!("http://{address}")]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn a_full_disk_is_told_and_keeps_no_half_file() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::create_dir(&to).unwrap();
    write(&from.join("a"), &bytes(1 << 20, 1), 1);
    write(&from.join("b"), &bytes(8 << 20, 2), 1);
    write(&from.join("c"), &bytes(8 << 20, 3), 1);
    import(&server.address, &from, "/").is_done();
    let said = export_to_small_disk(&server.address, &to);
    assert!(said.contains(&format!("failed: {}/b: it cannot be written: No space left", to.display())), "{said}");
    assert!(said.contains("exit code 1\na 1048576\n") && said.ends_with("a 1048576\n"), "{said}");
}

/// Runs commands in a name space of its own where `to` is an exFAT file system, as on a USB stick: it takes `a` and `A`
/// for one name, and cannot refuse to replace. Gives what they print.
fn on_a_stick(to: &Path, image: &Path, address: &str, commands: &str) -> String {
    fs::File::create(image).unwrap().set_len(16 << 20).unwrap();
    let script = r#"
        set -e
        stick=$0 image=$1 program=$2 server=$3
        mkfs.exfat "$image" >/dev/null
        mount -t exfat-fuse -o loop "$image" "$stick" 2>&1
        trap 'cd /; umount "$stick"' EXIT
        rowdrive() { "$program" "$@" --server "http://$server" && echo "exit code 0" || echo "exit code $?"; }
        cd "$stick"
        "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", &format!("{script}{commands}")]);
    command.args([to, image, Path::new(env!("CARGO_BIN_EXE_rowdrive")), Path::new(address)]);
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "is mkfs.exfat there, and mount.exfat-fuse? {out}\n{err}");
    out
}

#[test]
fn of_two_names_that_a_folder_takes_for_one_the_second_is_named_and_replaces_nothing() {
    if !root("of_two_names_that_a_folder_takes_for_one_the_second_is_named_and_replaces_nothing") {
        return;
    }
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::create_dir(&to).unwrap();
    let pairs = [("readme", "README"), ("folder/below/f", "FOLDER/below/f"), ("same", "SAME")];
    for (one, other) in pairs {
        // The last two are equal in all but their names.
        let content = |name: &str| if name.eq_ignore_ascii_case("same") { "same".to_owned() } else { name.to_owned() };
        write(&from.join(one), content(one).as_bytes(), 1_000_000_000_000_000_000);
        write(&from.join(other), content(other).as_bytes(), 1_000_000_000_000_000_000);
    }
    import(&server.address, &from, "/x").is_done();
    // The second export finds a file that has changed on the drive, and replaces it.
    let said = on_a_stick(
        &to,
        &scratch.path().join("image"),
        &server.address,
        &format!(
            r#"
        rowdrive export /x .
        find . -type f -exec echo kept {{}} \; -exec cat {{}} \; -exec echo \;
        first=$(find . -maxdepth 1 -type f -iname readme); first=${{first#./}}
        printf changed | curl -s -o answer -T - "http://{}/v1/fs/x/$first"
        rm answer
        rowdrive export /x .
        echo "changed: $(cat "$first")"
        "#,
            server.address
        ),
    );
    assert_eq!(said.matches("exit code 1").count(), 2, "{said}");
    let failed: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("failed: ")).collect();
    assert_eq!(failed.len(), 6, "{said}");
    for (one, other) in [("readme", "README"), ("same", "SAME"), ("folder", "FOLDER")] {
        let named =
            |name: &str| failed.iter().filter(|line| line.starts_with(&format!("./{name}: another name"))).count();
        assert_eq!((named(one) + named(other), named(one) * named(other)), (2, 0), "{one}: {said}");
        // The one that is there has its own content.
        let is_kept = |name: &str, content: &str| said.contains(&format!("kept ./{name}\n{content}\n"));
        let below = |name: &str| format!("{name}/below/f");
        let kept = match one {
            "same" => [is_kept(one, "same"), is_kept(other, "same")],
            "folder" => [is_kept(&below(one), &below(one)), is_kept(&below(other), &below(other))],
            _ => [is_kept(one, one), is_kept(other, other)],
        };
        assert_eq!(kept.iter().filter(|kept| **kept).count(), 1, "{one}: {said}");
    }
    assert!(said.contains("changed: changed"), "{said}");
}

#[test]
fn a_file_of_the_drive_that_is_called_as_a_left_over_stays() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    let name = format!(".rowdrive-export-{}", "0123456789abcdef".repeat(2));
    for path in [name.clone(), format!("folder/{name}")] {
        write(&from.join(path), b"mine", 1);
    }
    import(&server.address, &from, "/x").is_done();
    export(&server.address, "/x", &to).is_done();
    tree::are_equal(&from, &to);
    for place in ["/x".to_owned(), format!("/x/{name}")] {
        let again = export(&server.address, &place, &to);
        again.is_done();
        assert!(again.last().starts_with("0 files fetched"), "{again:#?}");
    }
    tree::are_equal(&from, &to);
}

/// The files in a folder and those below it.
fn files(dir: &Path) -> Vec<PathBuf> {
    let (folders, mut all): (Vec<_>, Vec<_>) =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).partition(|path| path.is_dir());
    all.extend(folders.iter().flat_map(|folder| files(folder)));
    all
}

/// It is what saves the rest of a damaged drive.
#[test]
fn files_whose_content_is_lost_keep_no_other_file_back() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (lost, sound, to) = (scratch.path().join("lost"), scratch.path().join("sound"), scratch.path().join("to"));
    for n in 0..20 {
        write(&lost.join(format!("{n}")), &bytes(300_000, n), 1);
        write(&sound.join(format!("{n}")), &bytes(300_000, 100 + n), 1);
    }
    // The one that is fetched first.
    import(&server.address, &lost, "/z-lost").is_done();
    for path in files(&server.data.join("content")).iter().filter(|path| path.metadata().unwrap().len() >= 300_000) {
        fs::remove_file(path).unwrap();
    }
    import(&server.address, &sound, "/a-sound").is_done();
    for jobs in ["16", "1"] {
        let to = to.join(jobs);
        for fetched in [20, 0] {
            let run = rowdrive(&server.address, &[&"export", &"/", &to, &"--jobs", &jobs]);
            assert_eq!(run.code, Some(1), "{run:#?}");
            let there = 20 - fetched;
            assert!(run.last().starts_with(&format!("{fetched} files fetched ")), "{run:#?}");
            assert!(run.last().contains(&format!(" {there} were there;")), "{run:#?}");
            assert!(run.last().ends_with(" 20 failed"), "{run:#?}");
            let parts = ["/z-lost/", "cannot be read back", "(500); request id "];
            let is_lost = |line: &&str| parts.iter().all(|part| line.contains(part));
            assert!(run.named("failed").iter().all(is_lost), "{run:#?}");
        }
        tree::are_equal(&sound, &to.join("a-sound"));
        assert!(tree::names(&to.join("z-lost")).is_empty());
    }
}

/// Which file of the disk each path is, and its content.
type Standing = BTreeMap<PathBuf, (u64, Option<Vec<u8>>)>;

/// What lies below a folder, and the folder itself.
fn standing(at: &Path) -> Standing {
    let all = tree::names(at).into_iter().chain([at.to_owned()]);
    let of = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).ok()?;
        let content = if found.is_file() { Some(fs::read(&path).ok()?) } else { None };
        Some((path, (found.ino(), content)))
    };
    all.filter_map(of).collect()
}

/// The same of a data folder, once its server has nothing to do any more.
fn at_rest(data: &Path) -> Standing {
    for _ in 0..100 {
        let before = standing(data);
        std::thread::sleep(Duration::from_millis(300));
        if standing(data) == before {
            return before;
        }
    }
    panic!("{} does not come to rest", data.display());
}

/// Puts one file onto the drive, at a path without a slash in front.
fn put(address: &str, path: &Path, content: &[u8]) {
    let alone = tempfile::tempdir().unwrap();
    write(&alone.path().join(path.file_name().unwrap()), content, 1);
    import(address, alone.path(), &format!("/{}", path.parent().unwrap().display())).is_done();
}

const LEFT_OVER: &str = ".rowdrive-export-0123456789abcdef0123456789abcdef";

/// Older copies of the files that a server works with must not take their place: what was acknowledged since would be
/// lost, and the server would not notice before its next start.
#[test]
fn an_export_changes_nothing_in_a_data_folder_and_brings_the_rest() {
    let scratch = tempfile::tempdir().unwrap();
    let (home, kept, to) = (scratch.path().join("home"), scratch.path().join("kept"), scratch.path().join("to"));
    let live = Server::start_on(&home.join("data"), &[]);
    let data = live.data.clone();
    write(&kept.join("large"), &bytes(600_000, 1), 1);
    write(&kept.join("small"), &bytes(600, 2), 1);
    import(&live.address, &kept, "/kept").is_done();
    // Not even what a killed export has left there is removed.
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
        assert!(standing(&data) == before, "{run:#?}");
    }
    for path in others {
        assert_eq!(fs::read(home.join(path)).unwrap(), b"older", "{path}");
    }
    assert_eq!(live.terminate(), Some(0));
    let live = Server::start_on(&data, &[]);
    export(&live.address, "/kept", &to).is_done();
    tree::are_equal(&kept, &to);
}

/// As where it is mounted. Its name is anybody's choice.
#[test]
fn an_export_changes_nothing_in_a_part_of_a_data_folder() {
    let (live, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    put(&live.address, Path::new("large"), &bytes(600_000, 1));
    let mounted = scratch.path().join("mounted");
    for (part, name) in [("db", "tables"), ("content", "bytes")] {
        let from = live.data.join(part);
        // What holds others comes before them.
        for (path, (_, content)) in at_rest(&from) {
            let to = mounted.join(name).join(path.strip_prefix(&from).unwrap());
            match content {
                Some(content) => fs::write(to, content).unwrap(),
                None => fs::create_dir_all(to).unwrap(),
            }
        }
    }
    let before = [standing(&mounted.join("tables")), standing(&mounted.join("bytes"))];
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
    assert!([standing(&mounted.join("tables")), standing(&mounted.join("bytes"))] == before);
}

#[test]
fn an_export_into_a_data_folder_does_not_begin() {
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
            assert!(standing(data) == before, "{}: {run:#?}", to.display());
        }
    }
    export(&server.address, "/", &scratch.path().join("made/below")).is_done();
}

/// Some were imported by versions that took a data folder for one like any other.
#[test]
fn what_is_called_as_a_part_of_a_data_folder_comes_back_again_and_again() {
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

/// From then on it cannot be told from a data folder.
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
    let before = standing(&to.join("old"));
    let run = export(&server.address, "/", &to);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().starts_with("1 files fetched ") && run.last().ends_with(" 1 failed"), "{run:#?}");
    let named = format!("{}/old: it is the data folder of a drive, ", to.display());
    assert!(run.named("failed")[0].starts_with(&named) && run.named("failed")[0].contains("move it away"), "{run:#?}");
    assert!(standing(&to.join("old")) == before);
    let run = export(&server.address, "/old", &to.join("old"));
    assert_eq!(run.code, Some(3), "{run:#?}");
    assert!(run.err.contains("never changed by an export") && standing(&to.join("old")) == before, "{run:#?}");
    fs::rename(to.join("old"), &away).unwrap();
    export(&server.address, "/", &to).is_done();
    assert_eq!(fs::read(to.join("old/db/CURRENT")).unwrap(), b"old");
}
