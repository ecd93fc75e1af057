//! A small file system, mounted for one process tree only, with a power cut on demand.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Ext4,
    Xfs,
}

/// The file system. Dropping it ends its mount name space, which unmounts it.
pub struct Disk {
    /// A process that keeps the name space until its standard input is closed.
    keeper: Child,
    image: PathBuf,
    at: PathBuf,
    _scratch: TempDir,
}

impl Disk {
    /// Mounts an empty file system of this size.
    pub fn new(format: Format, bytes: u64) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let (image, at) = (scratch.path().join("image"), scratch.path().join("disk"));
        std::fs::create_dir(&at).unwrap();
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let mut make = match format {
            Format::Ext4 => Command::new("mkfs.ext4"),
            Format::Xfs => Command::new("mkfs.xfs"),
        };
        match format {
            Format::Ext4 => make.args(["-q", "-F", "-m", "0"]),
            Format::Xfs => make.args(["-q", "-f"]),
        };
        done(make.arg(&image));
        let mut keeper = Command::new("unshare");
        keeper.args(["--mount", "--propagation", "private", "sh", "-c", "echo ready && exec cat"]);
        let mut keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The name space exists once its first program has written a line.
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "no mount name space can be made");
        let disk = Self { keeper, image, at, _scratch: scratch };
        disk.mount();
        disk
    }

    /// A command that runs in the name space of the disk.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id())).arg("--").arg(program);
        command
    }

    /// The program under test, in the name space of the disk.
    pub fn program(&self) -> Command {
        self.command(env!("CARGO_BIN_EXE_rowdrive"))
    }

    /// The data folder on the disk.
    pub fn data(&self) -> PathBuf {
        self.at.join("data")
    }

    pub fn mount(&self) {
        done(self.command("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.at));
    }

    /// Writes all cached data to the disk.
    pub fn sync(&self) {
        done(self.command("sync").arg("-f").arg(&self.at));
    }

    /// From now on nothing reaches the disk, not even the file system's journal in memory.
    pub fn cut(&self) {
        done(self.command("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.at));
    }

    pub fn unmount(&self) {
        // The kernel may still be closing the files of a killed process.
        for _ in 0..200 {
            if self.command("umount").arg(&self.at).stderr(Stdio::null()).status().unwrap().success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        done(self.command("umount").arg(&self.at));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ended = self.keeper.wait();
    }
}

fn done(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}: run .ci/needs test"));
    assert!(output.status.success(), "{command:?}: {output:?}");
}
