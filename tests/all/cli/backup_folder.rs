//! Backups in a folder, and the subcommands that make and restore them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::Run;
use crate::faults::client::program;

/// Runs `rowdrive backup` or another subcommand with a folder of backups, for the drive in `data`.
pub fn run(subcommand: &str, folder: &Path, data: &Path, more: &[&str]) -> Run {
    let mut command = program();
    command.arg(subcommand).arg(folder).arg("--data").arg(data).args(["--memory", "32MiB"]).args(more);
    Run::from_output(command.stdin(Stdio::null()).output().unwrap())
}

/// The backups in a folder, in order.
pub fn backups(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.join("backup.json").is_file());
    found.sort();
    found
}
