//! A real server process with a port and a data folder of its own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

pub struct Server {
    child: Child,
    /// Host and port.
    pub address: String,
    /// The data folder.
    pub data: PathBuf,
    _scratch: Option<tempfile::TempDir>,
}

/// A program that ended before it served.
pub struct FailedStart {
    /// None if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to the standard error.
    pub said: String,
}

impl std::fmt::Debug for FailedStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit code {:?}: {}", self.code, self.said)
    }
}

/// Much longer than a start or a stop takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

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

    /// Runs a command that starts a server, and waits for the line with its address.
    pub fn wait_for(command: Command, data: &Path) -> Self {
        Self::try_wait_for(command, data).unwrap_or_else(|refused| panic!("the server does not serve: {refused:?}"))
    }

    /// Like [`wait_for`](Self::wait_for), but keeps the command's standard error.
    pub fn wait_for_with_log(mut command: Command, data: &Path) -> Self {
        Self::found(command.stdout(Stdio::piped()).spawn().unwrap(), data)
    }

    /// Wraps a process that starts a server, once it serves.
    pub fn found(mut child: Child, data: &Path) -> Self {
        let address = address(&mut child).expect("the server says where it listens");
        Self { child, address, data: data.to_owned(), _scratch: None }
    }

    /// Like [`wait_for`](Self::wait_for), for a command that may end instead.
    pub fn try_wait_for(mut command: Command, data: &Path) -> Result<Self, FailedStart> {
        let said = tempfile::tempfile().unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(said.try_clone().unwrap()).spawn().unwrap();
        match address(&mut child) {
            Ok(address) => Ok(Self { child, address, data: data.to_owned(), _scratch: None }),
            Err(RecvTimeoutError::Disconnected) => {
                let code = child.wait().unwrap().code();
                Err(FailedStart { code, said: text(said) })
            }
            Err(RecvTimeoutError::Timeout) => {
                child.kill().unwrap();
                panic!("the server neither serves nor ends: {}", text(said))
            }
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGSTOP. Returns when no thread runs any more, not even in a system call.
    pub fn stop(&self) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill_process(pid.unwrap(), Signal::STOP).unwrap();
        let (_, status) = waitpid(pid, WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM, and returns the exit code.
    pub fn terminate(mut self) -> Option<i32> {
        terminate(self.child.id());
        self.child.wait().unwrap().code()
    }

    /// The exit code, once it ends.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends SIGTERM, and returns the exit code. Panics if the server does not end in time.
    pub fn terminate_in_time(mut self) -> Option<i32> {
        terminate(self.child.id());
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(asked.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until its first thread has ended; strace may still have others. Panics if it does not end in time.
    pub async fn first_thread_ends(&self) {
        let status = format!("/proc/{}/status", self.id());
        let asked = Instant::now();
        while !std::fs::read_to_string(&status).unwrap().contains("State:\tZ") {
            assert!(asked.elapsed() < PATIENCE, "the server does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends SIGTERM to the child process of the command, and returns the command's exit code.
    pub fn terminate_child(mut self) -> Option<i32> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(children).unwrap();
        terminate(children.trim().parse().unwrap());
        self.child.wait().unwrap().code()
    }
}

/// The address that the server prints; `Disconnected` if the server ends first.
fn address(child: &mut Child) -> Result<String, RecvTimeoutError> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, address) = channel();
    std::thread::spawn(move || {
        let found = lines.by_ref().map_while(Result::ok).find_map(|line| {
            // Of all addresses, the one of this machine.
            if let Some((_, on)) = line.split_once(" on port ") {
                return Some(format!("127.0.0.1:{}", on.split(' ').next()?));
            }
            let (_, address) = line.split_once("://")?;
            Some(address.trim_end_matches('/').to_owned())
        });
        // Without an address the channel is closed here.
        let _sent = found.map(|address| sender.send(address));
        drop(sender);
        // Reads all further output, so that it cannot block the server.
        lines.map_while(Result::ok).for_each(drop);
    });
    address.recv_timeout(PATIENCE)
}

/// Sends SIGTERM.
pub fn terminate(pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

fn text(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this process may mount file systems and trace other processes. If not, it prints so directly to the
/// terminal, since the output of passing tests is captured.
pub fn root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: it needs root, to mount and to trace");
    }
    root
}
