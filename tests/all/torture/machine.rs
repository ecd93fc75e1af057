//! A small disk of its own, and the server with its data there.
//!
//! The disk is an ext4 in a file, mounted in a name space that ends with the test. It can be filled, and its power can
//! be cut: unsynced writes are then lost.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

use super::run::{Harness, Serving};

/// The size of the disk in bytes.
const DISK: u64 = 512 << 20;
/// The time in which a server must stop after SIGTERM: it gives requests 30 seconds.
const STOPS_IN: Duration = Duration::from_secs(45);
const STARTS_IN: Duration = Duration::from_secs(60);

/// The options of the server: short time-outs, so that stalled clients are disconnected within a run.
const ARGUMENTS: [&str; 14] = [
    "--listen",
    "127.0.0.1:0",
    "--memory",
    "48MiB",
    "--connections",
    "200",
    "--head-timeout",
    "10s",
    "--body-idle-timeout",
    "3s",
    "--write-idle-timeout",
    "3s",
    "--body-grace",
    "30s",
];

pub struct Machine {
    pub harness: Arc<Harness>,
    scratch: PathBuf,
    binary: PathBuf,
    holder: Child,
    /// Keeps the name space while it is open.
    _holding: ChildStdin,
    server: Option<Child>,
    pub log: Arc<Log>,
    started: usize,
}

/// The log of a server, which is read unless a fault stalls it.
#[derive(Default)]
pub struct Log {
    pub stalled: AtomicBool,
    pub damage: AtomicU64,
    pub lines: AtomicU64,
}

impl Machine {
    pub fn new(harness: Arc<Harness>, scratch: &Path) -> Self {
        let binary = std::env::var_os("ROWDRIVE_TORTURE_BINARY").unwrap_or(env!("CARGO_BIN_EXE_rowdrive").into());
        let image = scratch.join("disk");
        File::create(&image).unwrap().set_len(DISK).unwrap();
        fs::create_dir(scratch.join("mounted")).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image));
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", r#"mount -o loop "$0" "$1" && echo && cat"#]);
        command.arg(&image).arg(scratch.join("mounted")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.process_group(0).spawn().unwrap();
        let mut mounted = [0];
        holder.stdout.as_mut().unwrap().read_exact(&mut mounted).expect("the disk is mounted");
        let holding = holder.stdin.take().unwrap();
        let (scratch, binary) = (scratch.to_owned(), binary.into());
        Self { harness, scratch, binary, holder, _holding: holding, server: None, log: Arc::default(), started: 0 }
    }

    /// The path of the mounted disk, from outside of its name space.
    pub fn disk(&self) -> PathBuf {
        let scratch = self.scratch.strip_prefix("/").unwrap();
        Path::new(&format!("/proc/{}/root", self.holder.id())).join(scratch).join("mounted")
    }

    /// A command inside the name space, which ends with the thread that started it.
    fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nsenter"]);
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id())).arg(program).process_group(0);
        command
    }

    fn data(&self) -> PathBuf {
        self.scratch.join("mounted/data")
    }

    pub fn log_file(&self) -> PathBuf {
        self.scratch.join("log")
    }

    /// Starts a server and publishes its address to the clients, or returns why it does not start.
    pub async fn start(&mut self) -> Result<(), String> {
        let mut command = self.inside(&self.binary);
        command.arg("serve").arg("--data").arg(self.data()).args(ARGUMENTS);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        self.log.read(child.stderr.take().unwrap(), &self.log_file());
        let (sender, address) = tokio::sync::oneshot::channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(out).lines().map_while(Result::ok);
            let address = lines.find_map(|line| Some(line.split_once("http://")?.1.trim_end_matches('/').to_owned()));
            let _ = sender.send(address);
            lines.for_each(drop);
        });
        let address = tokio::time::timeout(STARTS_IN, address).await;
        let number = self.started;
        self.started += 1;
        if let Ok(Ok(Some(address))) = address {
            self.server = Some(child);
            self.harness.serving.send_replace(Some(Serving { address, number }));
            return Ok(());
        }
        let _ = child.kill();
        let status = child.wait().unwrap();
        self.harness.deaths.lock().unwrap().push(self.harness.now());
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        Err(format!("{status}: {}", log.lines().last().unwrap_or_default()))
    }

    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal);
        }
    }

    /// Waits until the server has ended, and returns its exit code.
    async fn ended(&mut self, within: Duration) -> Result<Option<i32>, ()> {
        let Some(mut server) = self.server.take() else { return Ok(None) };
        let start = Instant::now();
        loop {
            if let Some(status) = server.try_wait().unwrap() {
                self.harness.deaths.lock().unwrap().push(self.harness.now());
                return Ok(status.code());
            }
            if start.elapsed() > within {
                self.server = Some(server);
                return Err(());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn kill(&mut self) {
        self.harness.serving.send_replace(None);
        self.signal(Signal::KILL);
        self.ended(STOPS_IN).await.expect("what is killed ends");
    }

    /// Sends SIGTERM: the server must end in time, with exit code 0.
    pub async fn stop(&mut self) {
        if self.server.is_none() {
            return;
        }
        self.harness.serving.send_replace(None);
        self.signal(Signal::TERM);
        match self.ended(STOPS_IN).await {
            Ok(Some(0)) => {}
            Ok(code) => self.harness.found("stop", format!("the server ends with {code:?}")),
            Err(()) => {
                self.harness.found("stop", format!("the server has not ended after {STOPS_IN:?}"));
                self.kill().await;
            }
        }
    }

    /// Unsynced writes are lost, and the server is killed.
    pub async fn cut_power(&mut self) {
        self.harness.serving.send_replace(None);
        self.signal(Signal::STOP);
        // FS_IOC_SHUTDOWN without a flush of the journal.
        let cut = r#"open(my $d, "<", $ARGV[0]) or die; my $how = pack("I", 2); ioctl($d, 0x8004587d, $how) or die $!"#;
        run(Command::new("perl").args(["-e", cut]).arg(self.disk()));
        self.kill().await;
        let (image, at) = (self.scratch.join("disk"), self.scratch.join("mounted"));
        let start = Instant::now();
        // The log readers end in a moment.
        while !self.inside(Path::new("umount")).arg(&at).stderr(Stdio::null()).status().unwrap().success() {
            assert!(start.elapsed() < STOPS_IN, "the disk is busy");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        run(self.inside(Path::new("mount")).args(["-o", "loop"]).arg(image).arg(at));
    }

    /// The findings of `rowdrive check --content`, with the server stopped.
    pub async fn check(&self) -> Result<Json, String> {
        let mut command = self.inside(&self.binary);
        command.args(["check", "--content", "--json", "--memory", "48MiB", "--data"]).arg(self.data());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = tokio::task::spawn_blocking(move || {
            let mut text = (String::new(), String::new());
            out.read_to_string(&mut text.0).unwrap();
            err.read_to_string(&mut text.1).unwrap();
            (text, child.wait().unwrap())
        });
        let ((out, err), status) = read.await.unwrap();
        match serde_json::from_str::<Json>(&out) {
            Ok(found) if status.success() && found["findings"] == serde_json::json!([]) => Ok(found["summary"].clone()),
            _ => Err(format!("{status}: {out} {err}")),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

impl Log {
    fn read(self: &Arc<Self>, from: std::process::ChildStderr, into: &Path) {
        let log = self.clone();
        let mut kept = File::options().create(true).append(true).open(into).unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                log.lines.fetch_add(1, Ordering::Relaxed);
                // Most lines are of successful requests.
                if !line.contains(r#""target":"access""#) {
                    let _ = std::io::Write::write_all(&mut kept, format!("{line}\n").as_bytes());
                }
                if line.contains("panicked") {
                    log.damage.fetch_add(1, Ordering::Relaxed);
                }
                while log.stalled.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
    }
}

fn run(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {done:?}");
}
