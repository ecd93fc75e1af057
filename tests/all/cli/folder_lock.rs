//! A server waits for the lock of its folder, and writes nothing into the folder before it has the lock.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::{Server, terminate};

/// Much longer than a start takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(50);

/// Starts a server on a locked folder, and waits until it says that it waits. `said` gets its messages.
fn waiting(data: &Path, said: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]);
    command.stdout(Stdio::piped()).stderr(File::create(said).unwrap());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while !fs::read_to_string(said).unwrap().contains("in use") {
        assert!(begun.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "it does not wait");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

struct Folder {
    data: PathBuf,
    said: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        Self { data: scratch.path().join("data"), said: scratch.path().join("said"), _scratch: scratch }
    }
}

#[test]
fn a_server_waits_for_the_lock_of_its_folder_and_then_serves() {
    let folder = Folder::new();
    let first = Server::start_on(&folder.data, &[]);
    let second = waiting(&folder.data, &folder.said);
    let said = fs::read_to_string(&folder.said).unwrap();
    assert!(said.contains(&format!("process {} (rowdrive serve)", first.id())), "{said}");
    assert_eq!(first.terminate(), Some(0));
    let second = Server::found(second, &folder.data);
    assert_eq!(second.terminate(), Some(0));
}

#[test]
fn a_server_that_waits_for_its_folder_stops_on_a_signal() {
    let folder = Folder::new();
    let first = Server::start_on(&folder.data, &[]);
    let mut second = waiting(&folder.data, &folder.said);
    terminate(second.id());
    second.wait().unwrap();
    assert!(!fs::read_to_string(&folder.said).unwrap().contains("cannot be opened"));
    assert_eq!(first.terminate(), Some(0));
}

/// Without the lock, two concurrent first starts would give each part a different id.
#[test]
fn a_first_start_writes_no_id_before_it_locks_the_folder() {
    let folder = Folder::new();
    let db = folder.data.join("db");
    fs::create_dir_all(&db).unwrap();
    let other = File::create(db.join("in-use")).unwrap();
    other.lock().unwrap();
    let server = waiting(&folder.data, &folder.said);
    assert!(!db.join("store-id").exists() && !folder.data.join("content").exists());
    drop(other);
    assert_eq!(Server::found(server, &folder.data).terminate(), Some(0));
}
