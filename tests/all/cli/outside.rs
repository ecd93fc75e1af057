//! A server whose loopback addresses its operator does not reach, as in a container: a network namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Run, rowdrive};
use crate::server::{Server, root};

/// A network namespace, connected with this one by a pair of addresses that are for tests (RFC 2544).
struct Namespace {
    name: String,
    /// The address of the namespace.
    address: String,
}

impl Namespace {
    fn new() -> Self {
        let id = std::process::id();
        let (net, name) = (format!("198.18.{}", id % 250), format!("rowdrive-{id}"));
        let (near, far) = (format!("rdn{id}"), format!("rdf{id}"));
        let made = Self { name, address: format!("{net}.2") };
        let inside = ["netns", "exec", &made.name, "ip"];
        for arguments in [
            &["netns", "add", &made.name][..],
            &["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &made.name],
            &["address", "add", &format!("{net}.1/30"), "dev", &near],
            &["link", "set", &near, "up"],
            &[&inside[..], &["address", "add", &format!("{net}.2/30"), "dev", &far]].concat(),
            &[&inside[..], &["link", "set", &far, "up"]].concat(),
            &[&inside[..], &["link", "set", "lo", "up"]].concat(),
        ] {
            let run = Command::new("ip").args(arguments).output().unwrap();
            assert!(run.status.success(), "{arguments:?}: {run:?}");
        }
        made
    }

    /// A command of the program inside.
    fn command(&self, arguments: &[&str], data: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, env!("CARGO_BIN_EXE_rowdrive")]).args(arguments);
        command.arg("--data").arg(data);
        command
    }
}

/// The other end of the pair goes with it.
impl Drop for Namespace {
    fn drop(&mut self) {
        let _removed = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

#[test]
fn the_first_user_is_made_where_only_other_machines_reach_the_server() {
    if !root("the_first_user_is_made_where_only_other_machines_reach_the_server") {
        return;
    }
    let (namespace, folder) = (Namespace::new(), tempfile::tempdir().unwrap());
    let data = folder.path().join("data");
    let password: PathBuf = folder.path().join("password");
    fs::write(&password, "correct horse").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let password = password.to_str().unwrap();
    let listen = format!("{}:0", namespace.address);
    let serve = ["serve", "--listen", &listen, "--insecure-http"];
    let refused = Server::try_wait_for(namespace.command(&serve, &data), &data).map(|_| ()).unwrap_err();
    assert!(refused.code == Some(3) && refused.said.contains("user add NAME --data"), "{refused:?}");
    let first = namespace.command(&["user", "add", "eve", "--new-password-file", password], &data).output().unwrap();
    assert!(first.status.success(), "{first:?}");

    let server = Server::wait_for(namespace.command(&serve, &data), &data);
    let by = |user: &str, arguments: &[&str]| -> Run {
        let who = ["--user", user, "--password-file", password, "--insecure-http"];
        let all: Vec<_> =
            arguments.iter().chain(&who).map(|argument| argument as &dyn AsRef<std::ffi::OsStr>).collect();
        rowdrive(&server.address, &all)
    };
    assert!(server.address.starts_with(&namespace.address), "{}", server.address);
    by("eve", &["user", "add", "tom", "--new-password-file", password]).is_done();
    by("tom", &["ls", "/home/tom"]).is_done();
    // The namespace's own loopback addresses are not ours.
    let port = server.address.rsplit(':').next().unwrap();
    let elsewhere = rowdrive(&format!("127.0.0.1:{port}"), &[&"ls", &"/"]);
    assert_eq!(elsewhere.code, Some(3), "{elsewhere:?}");
    assert_eq!(server.terminate(), Some(0));
}
