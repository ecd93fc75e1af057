//! The programs of `examples/`: each runs against a real server or on a folder of its own.

use std::process::Command;

use crate::server::Server;

#[path = "../../../examples/open_drive.rs"]
mod open_drive;

#[test]
fn the_drive_can_be_used_as_a_library() {
    open_drive::main().unwrap();
}

#[test]
fn the_client_in_python_uploads_lists_queries_and_downloads() {
    client("python3", "client.py", "/examples/python");
}

#[test]
fn the_client_in_javascript_uploads_lists_queries_and_downloads() {
    client("node", "client.mjs", "/examples/javascript");
}

fn client(interpreter: &str, example: &str, folder: &str) {
    let server = Server::start();
    let scratch = tempfile::tempdir().unwrap();
    let picture = vec![7; 300_000];
    std::fs::write(scratch.path().join("cat 1.jpg"), &picture).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/").to_owned() + example;
    let mut command = Command::new(interpreter);
    command.arg(script).arg(server.url("/")).arg("cat 1.jpg").current_dir(scratch.path());
    let run = command.output().unwrap_or_else(|error| {
        panic!("{interpreter} cannot be started ({error}): `.ci/needs test` installs it, as Debian's python3 or nodejs")
    });
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    let expected = format!(
        "uploaded {folder}/cat 1.jpg 300000 bytes\nlisted cat 1.jpg file\n\
         found {folder}/cat 1.jpg 2026-01-02T03:04:05.000Z\ndownloaded downloaded-cat 1.jpg\n"
    );
    assert_eq!(out, expected);
    assert_eq!(std::fs::read(scratch.path().join("downloaded-cat 1.jpg")).unwrap(), picture);
    assert_eq!(server.terminate(), Some(0));
}
