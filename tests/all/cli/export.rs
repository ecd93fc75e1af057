//! `rowdrive export` against a real server.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tree::{self, bytes, write};
use super::{export, import, rowdrive};
use crate::server::{Server, root};

#[test]
fn an_export_names_and_keeps_local_files_in_its_way() {
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
fn an_export_replaces_a_local_file_that_differs_in_any_way() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    for (seed, name) in (0..).zip(["same", "flipped", "time", "longer", "shorter", "gone"]) {
        write(&from.join(name), &bytes(300_000, seed), 1_234_567_890_123_456_789);
    }
    import(&server.address, &from, "/").is_done();
    export(&server.address, "/", &to).is_done();
    let mut flipped = fs::read(to.join("flipped")).unwrap();
    flipped[200_000] ^= 1;
    // The file is replaced even if size and time are the same.
    write(&to.join("flipped"), &flipped, 1_234_567_890_123_999_999);
    tree::set_time(&to.join("time"), 1_234_567_890_124_000_000);
    write(&to.join("longer"), &bytes(300_001, 3), 1_234_567_890_123_456_789);
    write(&to.join("shorter"), &bytes(299_999, 4), 1_234_567_890_123_456_789);
    fs::remove_file(to.join("gone")).unwrap();
    let again = export(&server.address, "/", &to);
    again.is_done();
    // The file that was gone has replaced none.
    let summary = "5 files fetched (1500000 bytes), 4 of them replaced others, 1 were there;";
    assert!(again.last().starts_with(summary), "{again:#?}");
    tree::are_equal(&from, &to);
}

#[test]
fn a_single_file_is_exported_under_its_name() {
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

/// Runs an export in a mount name space where the target is a small file system, and lists the target at the end.
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
fn an_export_to_a_full_disk_reports_it_and_leaves_no_partial_file() {
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

/// Runs commands in a mount name space where `to` is an exFAT file system, as on a USB stick. exFAT treats `a` and `A`
/// as one name and cannot rename without replacing. Returns the output.
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
fn the_second_of_two_names_that_are_equal_in_the_folder_is_reported_and_replaces_nothing() {
    if !root("the_second_of_two_names_that_are_equal_in_the_folder_is_reported_and_replaces_nothing") {
        return;
    }
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::create_dir(&to).unwrap();
    let pairs = [("readme", "README"), ("folder/below/f", "FOLDER/below/f"), ("same", "SAME")];
    for (one, other) in pairs {
        // The last two files differ in their names only.
        let content = |name: &str| if name.eq_ignore_ascii_case("same") { "same".to_owned() } else { name.to_owned() };
        write(&from.join(one), content(one).as_bytes(), 1_000_000_000_000_000_000);
        write(&from.join(other), content(other).as_bytes(), 1_000_000_000_000_000_000);
    }
    import(&server.address, &from, "/x").is_done();
    // The second export replaces a file that has changed on the drive. The third one may replace none.
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
        rowdrive export /x . --no-overwrite
        "#,
            server.address
        ),
    );
    assert_eq!(said.matches("exit code 1").count(), 3, "{said}");
    let failed: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("failed: ")).collect();
    assert_eq!(failed.len(), 9, "{said}");
    for (one, other) in [("readme", "README"), ("same", "SAME"), ("folder", "FOLDER")] {
        let named = |name: &str| {
            failed.iter().filter(|line| line.starts_with(&format!("./{name}: this folder has another name"))).count()
        };
        assert_eq!((named(one) + named(other), named(one) * named(other)), (3, 0), "{one}: {said}");
        // The first file keeps its content.
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
fn a_drive_file_named_like_a_partial_file_is_kept() {
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

/// All files below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let (folders, mut all): (Vec<_>, Vec<_>) =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).partition(|path| path.is_dir());
    all.extend(folders.iter().flat_map(|folder| files(folder)));
    all
}

/// An export saves the intact files of a damaged drive.
#[test]
fn files_with_lost_content_do_not_block_the_export_of_others() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    let (lost, intact, to) = (scratch.path().join("lost"), scratch.path().join("sound"), scratch.path().join("to"));
    for n in 0..20 {
        write(&lost.join(format!("{n}")), &bytes(300_000, n), 1);
        write(&intact.join(format!("{n}")), &bytes(300_000, 100 + n), 1);
    }
    // The file that the export downloads first.
    import(&server.address, &lost, "/z-lost").is_done();
    for path in files(&server.data.join("content")).iter().filter(|path| path.metadata().unwrap().len() >= 300_000) {
        fs::remove_file(path).unwrap();
    }
    import(&server.address, &intact, "/a-sound").is_done();
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
        tree::are_equal(&intact, &to.join("a-sound"));
        assert!(tree::names(&to.join("z-lost")).is_empty());
    }
}
