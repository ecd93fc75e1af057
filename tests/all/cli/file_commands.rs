//! The subcommands that send only a request or two.

use serde_json::Value;

use super::tree::{sample, write};
use super::{Run, import, rowdrive};
use crate::server::Server;

/// Runs `rowdrive` with arguments that have no spaces.
fn run_line(address: &str, line: &str) -> Run {
    let arguments: Vec<&str> = line.split(' ').collect();
    rowdrive(address, &arguments.iter().map(|argument| argument as _).collect::<Vec<_>>())
}

fn json(run: &Run) -> Value {
    run.is_done();
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn listing_and_finding() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    sample(scratch.path());
    import(&server.address, scratch.path(), "/").is_done();
    let ask = |arguments: &[&str]| {
        let arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = arguments.iter().map(|argument| argument as _).collect();
        rowdrive(&server.address, &arguments)
    };
    let root = ask(&["ls"]);
    root.is_done();
    assert!(root.out.starts_with(" spaces  in names /\n.hidden/\na/\n"), "{root:#?}");
    assert!(root.out.ends_with("\nlarge.bin\nlarger.bin\nlimit.bin\n"), "{root:#?}");
    assert_eq!(ask(&["ls", "/a/b/"]).out, "c/\nbefore.txt\n");
    assert_eq!(ask(&["ls", "/a/nothing in it/nor here"]).out, "");
    assert_eq!(ask(&["ls", "/large.bin"]).out, "large.bin\n");
    let long = ask(&["ls", "-l", "/a/b"]).out;
    assert!(
        long.contains("        12 B  1969-12-30T23:59:59.999Z  before.txt\n") && long.starts_with("           - "),
        "{long}"
    );
    let listed = json(&ask(&["ls", "--json", "/a/b"]));
    assert_eq!((&listed["path"], &listed["entries"][1]["size"]), (&"/a/b".into(), &12.into()));

    let stat = ask(&["stat", "/100% #1?&=+;.txt"]);
    stat.is_done();
    assert!(stat.out.starts_with("path      /100% #1?&=+;.txt\nkind      file\nsize      15\n"), "{stat:#?}");
    assert!(stat.out.contains("\nmodified  2400-01-01T00:00:00.000Z\n"), "{stat:#?}");
    assert_eq!(json(&ask(&["stat", "/a", "--json"]))["kind"], "directory");
    assert_eq!(json(&ask(&["stat", "/", "--json"]))["path"], "/");

    assert_eq!(ask(&["find", "DEEP.txt"]).out, "/a/b/c/d/deep.txt\n");
    assert_eq!(ask(&["find", "l*", "--under", "/a"]).out, "/a/long before.txt\n");
    assert_eq!(json(&ask(&["find", "large*", "--json"]))["entries"].as_array().unwrap().len(), 2);
    let none = ask(&["find", "none of this name"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    assert!(none.err.contains("a star at the end"), "{none:#?}");
    for arguments in [&["find", "none*"][..], &["find", "none", "--json"], &["find", "deep.txt"]] {
        assert_eq!(ask(arguments).err, "", "{arguments:?}");
    }
}

#[test]
fn files_of_a_period() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    const SECOND: i128 = 1_000_000_000;
    // In nanoseconds, as `write` takes it.
    const NEW_YEAR: i128 = 1_767_225_600 * SECOND;
    let files = [
        ("old.jpg", NEW_YEAR - SECOND),
        ("a/new.JPG", NEW_YEAR),
        ("a/b/last.txt", NEW_YEAR + (31 * 86_400 - 1) * SECOND),
    ];
    for (path, time) in files {
        write(&scratch.path().join(path), b"x", time);
    }
    import(&server.address, scratch.path(), "/").is_done();
    let ask = |line: &str| run_line(&server.address, line);
    let (old, new, last) = ("/old.jpg\n", "/a/new.JPG\n", "/a/b/last.txt\n");
    for (line, found) in [
        ("files", &[last, new, old][..]),
        ("files --in 2026", &[last, new]),
        ("files --in 2026-01", &[last, new]),
        ("files --in 2026-01-01", &[new]),
        ("files --in 2026-02", &[]),
        ("files --in 2025-12 --under /a", &[]),
        ("files --from 2026 --type image/*", &[new]),
        ("files --to 2026-01-31", &[new, old]),
        ("files --from 2026-01-01T08:00:00+08:00 --to 2026-01-01T00:00:00.001Z", &[new]),
        ("files --oldest-first --under /a", &[new, last]),
        ("files --in 2025 --added", &[]),
        ("files --from 2026-02 --added --oldest-first --creator anonymous --type image/jpeg --under /a", &[new]),
        ("files --creator eve", &[]),
    ] {
        let run = ask(line);
        run.is_done();
        assert_eq!(run.out, found.concat(), "{line}");
    }
    assert_eq!(ask("files --in 2025 -l").out, "         1 B  2025-12-31T23:59:59.000Z  /old.jpg\n");
    let added = ask("files --under /a --type image/* --added -l").out;
    assert!(!added.contains("2026-01-01T") && added.ends_with(&format!("Z  {new}")), "{added}");
    assert_eq!(json(&ask("files --in 2025 --json"))["entries"][0]["path"], "/old.jpg");
    for (line, said) in [
        ("files --in 2024", "there is no file in this period, whose days begin in UTC\n"),
        ("files --to 2024 --type image/jpg", "there is no file in this period, of the type image/jpg\n"),
        ("files --under /a/b --creator eve", "there is no file below /a/b, of the creator eve\n"),
    ] {
        assert_eq!(ask(line).err, format!("rowdrive: {said}"));
    }
    assert_eq!(ask("files --in 2024 --json").err, "");
    for line in ["files --from 2026-06 --to 2026-06", "files --from 2026-07 --to 2026"] {
        let run = ask(line);
        assert!(run.code == Some(2) && run.err.contains("--in takes a whole one"), "{run:#?}");
    }
}

#[test]
fn moving_copying_and_removing() {
    let (server, scratch) = (Server::start(), tempfile::tempdir().unwrap());
    for path in ["a/f", "a/b/g", "h"] {
        write(&scratch.path().join(path), path.as_bytes(), 1);
    }
    import(&server.address, scratch.path(), "/").is_done();
    let ask = |line: &str| run_line(&server.address, line);
    for (line, said) in [
        ("mv /h /i", "/i\n"),
        ("mv /a/b/ /b/", "/b\n"),
        ("cp /a /c", "/c: 1 files (3 bytes) and 1 folders copied\n"),
        ("cp /i /c/f --overwrite", "/c/f\n"),
        ("rm /i", ""),
        ("rm /b/g", ""),
        ("rm /b", ""),
        ("mkdir /new/folder", ""),
        ("mkdir /new/folder/", ""),
        ("ls /new", "folder/\n"),
        ("rm /new --recursive", ""),
        ("ls /", "a/\nc/\n"),
    ] {
        let run = ask(line);
        run.is_done();
        assert_eq!(run.out, said, "{line}");
    }
    assert_eq!(json(&ask("mv /c/f /c/g --json"))["path"], "/c/g");
    assert_eq!(json(&ask("cp /c /d --json"))["kind"], "directory");
    assert_eq!(json(&ask("rm /d/g --json"))["path"], "/d/g");
    assert_eq!(json(&ask("mkdir /a --json"))["kind"], "directory");
    for (line, said, kind) in [
        ("ls /none", "Nothing stands at this path", "not-found"),
        ("ls /c/g/", "Nothing stands at this path", "not-found"),
        ("stat /none", "Nothing stands at this path", "not-found"),
        ("find x --under /none", "There is no directory at --under: check its spelling (404)", "not-found"),
        ("files --in 2026 --under /none", "There is no directory at --under", "not-found"),
        ("files --type image", "--type is a whole media type", "malformed"),
        ("mkdir /a/f", "A file stands at this path", "is-file"),
        ("mv /a /c", "Something is there already: choose another target. --overwrite lets", "exists"),
        ("cp /a/f /z/", "TO ends with a slash", "malformed"),
        ("mv /a/f /none/f", "Make the directory that is to hold it first", "parent-missing"),
        ("cp /a /a/x", "inside the source", "malformed"),
        ("rm /c", "There is something in the directory: remove that first, or say --recursive", "not-empty"),
        ("rm /none", "Nothing stands at this path", "not-found"),
        ("rm /", "(405)", "method-not-allowed"),
    ] {
        let refused = ask(line);
        assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{line}: {refused:#?}");
        assert!(refused.err.starts_with("rowdrive: ") && refused.err.contains(said), "{line}: {refused:#?}");
        assert_eq!(refused.err.lines().count(), 1, "{line}: {refused:#?}");
        let refused = ask(&format!("{line} --json"));
        let problem: Value = serde_json::from_str(&refused.out).unwrap();
        assert_eq!((refused.code, &problem["type"]), (Some(1), &format!("/problems/{kind}").into()), "{line}");
    }
    ask("rm /c --recursive").is_done();
    assert_eq!(ask("ls").out, "a/\nd/\n");
    for line in ["ls relative", "mv /a", "rm", "stat /a//b", "ls / --server https://localhost", "files --in now"] {
        assert_eq!(ask(line).code, Some(2), "{line}");
    }
    assert_eq!(ask("files --in 2026 --from 2025").code, Some(2));
    let address = server.address.clone();
    assert_eq!(server.terminate(), Some(0));
    for line in ["ls", "stat /a", "find x", "files", "mv /a /b", "cp /a /b", "rm /a", "mkdir /a"] {
        let run = run_line(&address, line);
        assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{line}: {run:#?}");
        assert!(run.err.contains("cannot be reached") && run.err.contains("--server"), "{line}: {run:#?}");
    }
}
