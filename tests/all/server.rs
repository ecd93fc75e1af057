//! A real server process on a port and a data folder of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub struct Server {
    child: Child,
    /// Host and port.
    pub address: String,
    /// The data folder.
    pub data: PathBuf,
    _scratch: Option<tempfile::TempDir>,
}

impl Server {
    /// Starts a server on an empty data folder.
    pub fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        let mut server = Self::start_on(&data, &[]);
        server._scratch = Some(scratch);
        server
    }

    /// Starts a server on this data folder, with more arguments.
    pub fn start_on(data: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
        command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]).args(arguments);
        Self::wait_for(command, data)
    }

    /// Starts a command that ends up being a server, and waits for the line that tells its address.
    pub fn wait_for(mut command: Command, data: &Path) -> Self {
        command.stderr(Stdio::null());
        Self::wait_for_with_log(command, data)
    }

    /// As [`wait_for`](Self::wait_for), with the standard error that the command has.
    pub fn wait_for_with_log(mut command: Command, data: &Path) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let at = line.find("http://")?;
            Some(line[at + 7..].trim_end_matches('/').to_owned())
        });
        // Whatever it still prints must not block it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let address = address.expect("the server says where it listens");
        Self { child, address, data: data.to_owned(), _scratch: None }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and the exit code.
    pub fn terminate(mut self) -> Option<i32> {
        terminate(self.child.id());
        self.child.wait().unwrap().code()
    }

    /// The exit code, once it ends.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// SIGTERM to the process that the command began, and the command's exit code.
    pub fn terminate_child(mut self) -> Option<i32> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(children).unwrap();
        terminate(children.trim().parse().unwrap());
        self.child.wait().unwrap().code()
    }
}

/// Sends SIGTERM.
pub fn terminate(pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
