//! System calls of a running server that fail: strace, attached to it, injects the errors.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::server::Server;

/// strace, attached to a running server, which makes its calls fail until this is dropped.
pub struct StraceFault {
    strace: Child,
    trace: PathBuf,
}

impl StraceFault {
    /// Traces these calls, of these files only if any are given. `injected`: expressions of strace, as in
    /// `inject=openat:error=ENOSPC:when=2`; `when` counts the calls of each thread.
    pub fn attach(server: &Server, calls: &str, injected: &[String], files: &[PathBuf], trace: &Path) -> Self {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-y", "-s", "0", "-e", "signal=none", "-e", &format!("trace={calls}")]);
        for inject in injected {
            strace.args(["-e", inject]);
        }
        for file in files {
            strace.arg("-P").arg(file);
        }
        strace.arg("-o").arg(trace).args(["-p", &server.id().to_string()]);
        let mut strace = strace.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(strace.stderr.take().unwrap()).lines().map_while(Result::ok);
        let attached = lines.by_ref().any(|line| line.contains("attached"));
        assert!(attached, "strace cannot trace the server");
        std::thread::spawn(move || lines.for_each(drop));
        Self { strace, trace: trace.to_owned() }
    }

    /// The failed calls, each with its file.
    pub fn failed(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.trace).unwrap();
        text.lines().filter(|line| line.contains("(INJECTED)")).map(str::to_owned).collect()
    }

    /// Ends strace at once: by itself it would wait for the calls that it delays.
    pub fn kill(self) {
        kill_process(Pid::from_child(&self.strace), Signal::KILL).unwrap();
    }

    /// Lets the calls succeed again.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for StraceFault {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.strace), Signal::INT).unwrap();
        self.strace.wait().unwrap();
    }
}

/// RocksDB's write-ahead log that is written now.
pub fn newest_log(data: &Path) -> PathBuf {
    let files = std::fs::read_dir(data.join("db")).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|e| e == "log")).max().unwrap()
}
