//! Users of a data folder while no server runs, and what only a drive with users serves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Run, rowdrive};
use crate::server::Server;

fn secret(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A folder with the password of all users, and the data folder to be.
struct World {
    folder: tempfile::TempDir,
    data: PathBuf,
    password: PathBuf,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (data, password) = (folder.path().join("data"), secret(folder.path(), "password", "correct horse"));
        Self { folder, data, password }
    }

    /// A command of users on the data folder.
    fn user(&self, arguments: &[&str], password: &Path) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
        command.arg("user").args(arguments).arg("--data").arg(&self.data).stdin(Stdio::null()).env_remove("RUST_LOG");
        Run::from_output(command.arg("--new-password-file").arg(password).output().unwrap())
    }

    fn ls(&self, server: &Server, user: &str, password: &Path) -> Option<i32> {
        rowdrive(&server.address, &[&"ls", &"/", &"--user", &user, &"--password-file", &password]).code
    }
}

#[test]
fn the_first_user_is_made_in_a_new_or_a_stopped_drive() {
    let world = World::new();
    // A password that is none makes no drive.
    let short = secret(world.folder.path(), "short", "short");
    let refused = world.user(&["add", "eve"], &short);
    assert!(refused.code == Some(3) && refused.err.contains("8 characters") && !world.data.exists(), "{refused:?}");
    let made = world.user(&["add", "eve"], &world.password);
    assert_eq!((made.code, made.out.as_str()), (Some(0), "eve  admin\n"), "{made:?}");
    assert!(made.err.contains("a new, empty one is made") && made.err.lines().count() == 1, "{made:?}");
    assert_eq!(fs::metadata(&world.data).unwrap().permissions().mode() & 0o777, 0o700);
    for name in ["eve", "tom"] {
        let refused = world.user(&["add", name], &world.password);
        assert!(refused.code == Some(3) && refused.err.contains("reset-admin"), "{refused:?}");
    }
    let server = Server::start_on(&world.data, &[]);
    let session = rowdrive(&server.address, &[&"ls", &"/home", &"--user", &"eve", &"--password-file", &world.password]);
    assert_eq!((session.code, session.out.as_str()), (Some(0), "eve/\n"), "{session:?}");
    // The server has the folder.
    for arguments in [&["add", "tom"][..], &["reset-admin", "eve"]] {
        let refused = world.user(arguments, &world.password);
        assert!(refused.code == Some(3) && refused.err.contains("in use"), "{refused:?}");
    }
    assert_eq!(server.terminate(), Some(0));
    let checked =
        Command::new(env!("CARGO_BIN_EXE_rowdrive")).arg("check").arg("--data").arg(&world.data).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");

    // A drive that has been used without users; a name or a password that is none changes nothing.
    let world = World::new();
    let server = Server::start_on(&world.data, &[]);
    rowdrive(&server.address, &[&"import", &world.folder.path().join("empty"), &"/"]);
    assert_eq!(server.terminate(), Some(0));
    let short = secret(world.folder.path(), "short", "short");
    for (name, password, code) in [("eve", &short, 3), ("a b", &world.password, 2)] {
        let refused = world.user(&["add", name], password);
        assert_eq!(refused.code, Some(code), "{refused:?}");
    }
    let guest = world.user(&["add", "eve", "--no-home", "--json"], &world.password);
    assert!(guest.code == Some(0) && guest.out.contains("\"eve\""), "{guest:?}");
    // A person may be typing a password there.
    assert_eq!(guest.err, "");
}

#[test]
fn a_lost_admin_is_made_anew() {
    let world = World::new();
    let missing = world.user(&["reset-admin", "eve"], &world.password);
    assert!(missing.code == Some(3) && missing.err.contains("no drive") && !world.data.exists(), "{missing:?}");
    world.user(&["add", "eve"], &world.password).is_done();
    let server = Server::start_on(&world.data, &[]);
    let by_eve = |arguments: &[&str]| {
        let who = ["--user", "eve", "--password-file", world.password.to_str().unwrap()];
        let arguments: Vec<_> =
            arguments.iter().chain(&who).map(|argument| argument as &dyn AsRef<std::ffi::OsStr>).collect();
        rowdrive(&server.address, &arguments)
    };
    by_eve(&["user", "add", "tom", "--new-password-file", world.password.to_str().unwrap()]).is_done();
    let token = world.folder.path().join("token");
    let made = rowdrive(
        &server.address,
        &[&"token", &"add", &"x", &"--out", &token, &"--user", &"tom", &"--password-file", &world.password],
    );
    made.is_done();
    by_eve(&["user", "disable", "tom"]).is_done();
    assert_eq!(server.terminate(), Some(0));

    let unknown = world.user(&["reset-admin", "max"], &world.password);
    assert!(unknown.code == Some(3) && unknown.err.contains("it has eve, tom"), "{unknown:?}");
    let other = secret(world.folder.path(), "other", "staple of paper");
    let reset = world.user(&["reset-admin", "TOM"], &other);
    assert_eq!((reset.code, reset.out.as_str()), (Some(0), "tom  admin\n"), "{reset:?}");
    let server = Server::start_on(&world.data, &[]);
    assert_eq!(world.ls(&server, "tom", &world.password), Some(1), "the old password");
    assert_eq!(rowdrive(&server.address, &[&"ls", &"/", &"--token-file", &token]).code, Some(1), "his token has ended");
    let list = rowdrive(&server.address, &[&"user", &"list", &"--user", &"tom", &"--password-file", &other]);
    assert_eq!(list.out, "eve  admin  0 B  3 files and folders\ntom  admin  0 B  0 files and folders\n", "{list:?}");
    assert_eq!(server.terminate(), Some(0));
    // There are two admins, as they are counted.
    let checked =
        Command::new(env!("CARGO_BIN_EXE_rowdrive")).arg("check").arg("--data").arg(&world.data).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    world.user(&["reset-admin", "tom"], &world.password).is_done();
}

/// The exit code of a server that does not start, and what it says.
fn refused(data: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(["serve", "--data"]).arg(data).args(arguments);
    let error = Server::try_wait_for(command, data).map(|_| ()).unwrap_err();
    assert_eq!(error.code, Some(3), "{error:?}");
    let lines: Vec<_> = error.said.lines().filter(|line| line.starts_with("rowdrive: ")).collect();
    assert_eq!(lines.len(), 1, "{error:?}");
    lines[0].to_owned()
}

#[test]
fn other_machines_are_served_only_with_users_and_by_a_private_way() {
    let world = World::new();
    let foreign = ["--listen", "0.0.0.0:0"];
    let said = refused(&world.data, &foreign);
    assert!(["--tls-cert", "--proxy", "--insecure-http"].iter().all(|option| said.contains(option)), "{said}");
    let ways = [&["--proxy", "127.0.0.1/32"][..], &["--insecure-http"]];
    for way in ways {
        let said = refused(&world.data, &[&foreign, way].concat());
        assert!(said.contains("has no users") && said.contains("user add NAME --data"), "{said}");
        assert!(!world.data.join("db").exists(), "no drive is made");
    }
    let said = refused(&world.data, &["--listen", "127.0.0.1:0", "--host", "*"]);
    assert!(said.contains("has no users") && said.contains("--host *"), "{said}");
    // A drive that has none.
    assert_eq!(Server::start_on(&world.data, &[]).terminate(), Some(0));
    for arguments in [[&foreign[..], ways[0]].concat(), vec!["--listen", "127.0.0.1:0", "--host", "*"]] {
        assert!(refused(&world.data, &arguments).contains("has no users"));
    }
    world.user(&["add", "eve"], &world.password).is_done();
    assert!(refused(&world.data, &foreign).contains("--insecure-http"));
    for arguments in [
        [&foreign[..], ways[0]].concat(),
        [&foreign[..], ways[1]].concat(),
        vec!["--listen", "127.0.0.1:0", "--host", "*"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
        command.args(["serve", "--data"]).arg(&world.data).args(&arguments);
        let server = Server::wait_for(command, &world.data);
        assert_eq!(world.ls(&server, "eve", &world.password), Some(0), "{arguments:?}");
        assert_eq!(server.terminate(), Some(0));
    }
}
