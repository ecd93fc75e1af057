//! The commands of the README and of `docs/`, run as they are written against a real server.

use std::path::Path;
use std::process::{Command, Output};

use crate::server::Server;

const README: &str = include_str!("../../../README.md");
const GUIDE: &str = include_str!("../../../docs/guide.md");
const CONFIGURATION: &str = include_str!("../../../docs/configuration.md");
const TLS: &str = include_str!("../../../docs/tls.md");
const API: &str = include_str!("../../../docs/api.md");
const ACCESS: &str = include_str!("../../../docs/access.md");

/// The shell blocks of a page that follow the marker, in order.
pub fn sessions(page: &str) -> Vec<String> {
    let marked = page.split("<!-- A test runs this block as it is written. -->").skip(1);
    marked.map(|after| after.split("```sh\n").nth(1).unwrap().split("```").next().unwrap().to_owned()).collect()
}

/// One block of a page, by its number from 1.
pub fn session(page: &str, marker: usize) -> String {
    sessions(page).swap_remove(marker - 1)
}

/// A folder with the picture that the sessions upload.
fn with_photo() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let photo: Vec<u8> = (0..600_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(folder.path().join("photo.jpg"), &photo).unwrap();
    (folder, photo)
}

/// Runs a script in a folder, after these definitions. The script ends at the first command that fails.
pub fn run(definitions: &str, script: &str, folder: &Path) -> Output {
    let script = format!("set -e\n{definitions}\n{script}");
    Command::new("bash").arg("-c").arg(&script).current_dir(folder).output().unwrap()
}

#[test]
fn the_session_of_the_readme_runs_as_written() {
    runs_as_written(&session(README, 1));
}

#[test]
fn the_session_runs_as_written() {
    runs_as_written(&session(GUIDE, 1));
}

fn runs_as_written(session: &str) {
    let server = Server::start();
    let (folder, photo) = with_photo();
    // Only the port differs, so that a server that is already running is not affected.
    let script = session.replace("127.0.0.1:8080", &server.address);
    // Failing statuses of curl are errors too: a reader of the page sees them.
    let curl = "curl() { command curl --fail --silent --show-error \"$@\"; echo; }";
    let run = run(curl, &script, folder.path());
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    for seen in
        ["\"path\":\"/photos/2026/photo.jpg\"", "cat.jpg\nphoto.jpg", "\"2026-01-02T03:04:05.000Z\"", "tiger.jpg"]
    {
        assert!(out.contains(seen), "{seen} is missing in\n{out}");
    }
    assert_eq!(std::fs::read(folder.path().join("tiger.jpg")).unwrap(), photo);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn the_api_answers_as_its_page_says() {
    let server = Server::start();
    let (folder, photo) = with_photo();
    let blocks = sessions(API);
    assert_eq!(blocks.len(), API.matches("```sh\n").count(), "every block of the page is run");
    let script = blocks.concat().replace("127.0.0.1:8080", &server.address);
    let curl = "curl() { command curl --fail --silent --show-error \"$@\"; }";
    let run = run(curl, &script, folder.path());
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    // The statuses that the commands print, each on its own line, must be those in the comments.
    let printed = out.lines().filter(|line| line.len() == 3 && line.bytes().all(|b| b.is_ascii_digit()));
    let printed: Vec<&str> = printed.collect();
    let told = ["412", "412", "409", "416", "304", "412", "400", "400", "409", "409", "404"];
    assert_eq!(printed, told, "{out}\n{err}");
    for seen in [
        "\"modified\":\"2026-01-02T03:04:05.678Z\"",
        "\"modified\":\"2026-01-03T11:00:00.000Z\"",
        "\"type\":\"image/x-raw\"",
        "\"creator\":\"tom\"",
        "content-disposition: inline; filename=\"cat.jpg\"",
        "{\"done\":true,\"count\":6}\nalbums/\nphotos/\n",
        "\"copied\":{\"directories\":1,\"files\":4,\"bytes\":2400000}}",
        "\"copied\":{\"directories\":0,\"files\":0,\"bytes\":0}}",
        "ok\nok\n",
    ] {
        assert!(out.contains(seen), "{seen} is missing in\n{out}");
    }
    assert_eq!(std::fs::read(folder.path().join("cat.jpg")).unwrap(), photo);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_family_shares_a_drive_as_its_page_says() {
    let server = Server::start();
    let (folder, photo) = with_photo();
    std::os::unix::fs::symlink(&server.data, folder.path().join("data")).unwrap();
    let blocks = sessions(ACCESS);
    assert_eq!(blocks.len(), ACCESS.matches("```sh\n").count(), "every block of the page is run");
    let script = blocks.concat().replace("127.0.0.1:8080", &server.address);
    let curl = "curl() { command curl --fail --silent --show-error \"$@\"; echo; }";
    let run = run(curl, &script, folder.path());
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    let printed = out.lines().filter(|line| line.len() == 3 && line.bytes().all(|b| b.is_ascii_digit()));
    assert_eq!(
        printed.collect::<Vec<_>>(),
        ["403", "404", "404", "507", "404", "401", "401", "400", "404", "401", "404"],
        "{out}\n{err}"
    );
    for seen in [
        "{\"user\":\"eve\",\"admin\":true,\"rights\":[{\"path\":\"/\",\"rights\":[\"read\",\"write\",\"share\"]}],\"quota\"",
        "{\"path\":\"/photos\",\"user\":\"tom\",\"rights\":[\"read\",\"write\"],\"by\":null}",
        "\"downloads\":2",
        "\"creator\":\"tom\"",
    ] {
        assert!(out.contains(seen), "{seen} is missing in\n{out}");
    }
    assert_eq!(std::fs::read(folder.path().join("seen.jpg")).unwrap(), photo);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn the_import_and_export_session_runs_as_written() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("holiday/day 1")).unwrap();
    std::fs::write(folder.path().join("holiday/day 1/beach.jpg"), [1; 1000]).unwrap();
    let program = env!("CARGO_BIN_EXE_rowdrive");
    let script = session(GUIDE, 2).replace("target/release/rowdrive", "rowdrive");
    let rowdrive = format!("rowdrive() {{ {program} \"$@\" --server http://{}; }}", server.address);
    let run = run(&rowdrive, &script, folder.path());
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{err}");
    for seen in ["1 files sent (1000 bytes)", "1 files fetched", "holiday/\n", "/photos/holiday/day 1/beach.jpg\n"] {
        assert!(out.contains(seen), "{seen} is missing in\n{out}");
    }
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn the_private_ca_of_the_page_on_tls_works_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_rowdrive");
    let made = run("", &session(TLS, 1), folder.path());
    assert!(made.status.success(), "{made:?}");
    let script = session(TLS, 2).replace("target/release/rowdrive", program).replace("127.0.0.1:8443", "127.0.0.1:0");
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(format!("exec {script}")).current_dir(folder.path());
    let server = Server::wait_for(bash, &folder.path().join("data"));
    let script = session(TLS, 3).replace("target/release/rowdrive", program).replace("127.0.0.1:8443", &server.address);
    let client = "curl() { command curl --fail --silent --show-error \"$@\"; }";
    let run = run(client, &script, folder.path());
    assert!(run.status.success() && run.stdout.starts_with(b"ok\nok"), "{run:?}");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn the_configuration_runs_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_rowdrive");
    let script = session(CONFIGURATION, 1).replace("target/release/rowdrive", "rowdrive");
    let script = format!("set -e\nrowdrive() {{ {program} \"$@\"; }}\nexport ROWDRIVE_LISTEN=127.0.0.1:0\n{script}");
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(&script).current_dir(folder.path());
    let server = Server::wait_for(bash, &folder.path().join("data"));
    let file = std::fs::read_to_string(folder.path().join("rowdrive.toml")).unwrap();
    assert!(file.contains("\ndata = \"data\"\n") && file.contains("\nmax-body = \"10GiB\"\n"), "{file}");
    assert!(server.data.join("db").is_dir());
    assert_eq!(server.terminate_child(), Some(0));

    let script = session(GUIDE, 3).replace("target/release/rowdrive", program);
    let run = Command::new("bash").args(["-e", "-c", &script]).env("HOME", folder.path()).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    for file in ["bash-completion/completions/rowdrive", "man/man1/rowdrive.1", "man/man1/rowdrive-serve.1"] {
        assert!(folder.path().join(".local/share").join(file).is_file(), "{file}");
    }
}
