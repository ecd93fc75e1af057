//! The command line: the subcommands that talk to a running server, the server's configuration, and the generated
//! descriptions. The tests of commands that open a data folder are next to the code that they call.

mod backup;
mod backup_damage;
mod backup_folder;
mod backup_retention;
mod backup_socket;
mod checkpoints;
mod config;
mod export;
mod export_data_folders;
mod export_overwrite;
mod fake_server;
mod faulty_server;
mod file_commands;
mod folder_lock;
mod generated_docs;
mod import;
mod import_batches;
mod interrupting;
mod log;
mod messages;
mod outside;
mod restart;
mod restore;
mod shutdown;
pub mod tree;
mod users;
mod users_offline;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The exit code and the output of a program.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Run {
    fn from_output(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The last line: the summary of a transfer.
    pub fn last(&self) -> &str {
        self.out.lines().last().unwrap_or_default()
    }

    /// The output lines that start with this word: `failed`, `skipped`, `renamed`.
    pub fn named(&self, what: &str) -> Vec<&str> {
        self.out.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix(": ")).collect()
    }

    pub fn is_done(&self) {
        assert_eq!(self.code, Some(0), "{self:#?}");
    }
}

/// A command for the server at this address.
pub fn command(address: &str, arguments: &[&dyn AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(arguments.iter().map(|argument| argument.as_ref()));
    let mut server = OsString::from("http://");
    server.push(address);
    command.arg("--server").arg(server).stdin(Stdio::null());
    command
}

pub fn rowdrive(address: &str, arguments: &[&dyn AsRef<OsStr>]) -> Run {
    Run::from_output(command(address, arguments).output().unwrap())
}

pub fn import(address: &str, from: &Path, to: &str) -> Run {
    rowdrive(address, &[&"import", &from, &to])
}

pub fn export(address: &str, from: &str, to: &Path) -> Run {
    rowdrive(address, &[&"export", &from, &to])
}
