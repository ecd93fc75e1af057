//! The faults that a server gets during its work.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::fs::FallocateFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::idle_checks;
use super::machine::Machine;
use super::run::{Harness, Serving};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Kill,
    Stop,
    PowerCut,
    FullDisk,
    FailedSync,
    FailedCall,
    StalledReaders,
    StalledWriters,
    StalledLog,
    IdleConnections,
}

pub const ALL: [Fault; 10] = [
    Fault::Kill,
    Fault::FailedSync,
    Fault::FullDisk,
    Fault::Stop,
    Fault::PowerCut,
    Fault::StalledLog,
    Fault::FailedCall,
    Fault::StalledReaders,
    Fault::StalledWriters,
    Fault::IdleConnections,
];

impl Fault {
    /// Two faults with a tracer cannot run at once: a process has only one tracer.
    pub fn traces(self) -> bool {
        matches!(self, Self::FailedSync | Self::FailedCall)
    }

    pub const fn title(self) -> &'static str {
        match self {
            Self::Kill => "kill -9 and restart",
            Self::Stop => "SIGTERM and restart",
            Self::PowerCut => "power cut and restart",
            Self::FullDisk => "full disk, emptied again",
            Self::FailedSync => "failed sync of the log",
            Self::FailedCall => "failed call",
            Self::StalledReaders => "readers that stop",
            Self::StalledWriters => "writers that stop",
            Self::StalledLog => "log without a reader",
            Self::IdleConnections => "many idle connections",
        }
    }

    /// Injects the fault, and waits for its end.
    pub async fn inject(self, machine: &Mutex<Machine>, harness: &Harness, seed: u64) {
        let mut dice = StdRng::seed_from_u64(seed);
        harness.count(self.title());
        harness.announce(&format!("{} begins", self.title()));
        harness.faults.fetch_add(1, Ordering::SeqCst);
        match self {
            Self::Kill => {
                let mut machine = machine.lock().await;
                machine.kill().await;
                start(&mut machine).await;
            }
            Self::Stop => {
                let mut machine = machine.lock().await;
                machine.stop().await;
                start(&mut machine).await;
            }
            Self::PowerCut => {
                let mut machine = machine.lock().await;
                machine.cut_power().await;
                start(&mut machine).await;
            }
            Self::FullDisk => full_disk(machine, harness, &mut dice).await,
            Self::FailedSync => failed_sync(machine, harness, &mut dice).await,
            Self::FailedCall => failed_call(machine, harness, &mut dice).await,
            Self::StalledReaders => stalled_readers(harness).await,
            Self::StalledWriters => stalled_writers(harness, &mut dice).await,
            Self::StalledLog => stalled_log(machine, harness).await,
            Self::IdleConnections => idle_connections(harness).await,
        }
        harness.faults.fetch_sub(1, Ordering::SeqCst);
        harness.announce(&format!("{} has passed", self.title()));
    }
}

fn ballast(machine: &Machine) -> PathBuf {
    machine.disk().join("ballast")
}

/// Starts the server again. On a completely full disk the start may fail; on one with free space it must succeed.
async fn start(machine: &mut Machine) {
    let mut why = machine.start().await;
    if why.is_err() && fs::exists(ballast(machine)).unwrap() {
        machine.harness.count("starts refused by a full disk");
        fs::remove_file(ballast(machine)).unwrap();
        why = machine.start().await;
    }
    if let Err(why) = why {
        machine.harness.found("start", format!("the server does not start again: {why}"));
        machine.harness.over.store(true, Ordering::SeqCst);
        // Clients no longer wait for this server.
        let nowhere = Serving { address: "127.0.0.1:1".to_owned(), number: usize::MAX };
        machine.harness.serving.send_replace(Some(nowhere));
    }
}

async fn full_disk(machine: &Mutex<Machine>, harness: &Harness, dice: &mut StdRng) {
    let spare = if dice.random_bool(0.5) { 0 } else { dice.random_range(0..40_u64 << 20) };
    let path = ballast(&*machine.lock().await);
    let Ok(file) = fs::File::create(&path) else { return };
    // In steps, since the server takes a part of the free space, too.
    let mut size = 0;
    for step in [32_u64 << 20, 1 << 20, 4 << 10] {
        while free(&path) > spare && rustix::fs::fallocate(&file, FallocateFlags::empty(), size, step).is_ok() {
            size += step;
        }
    }
    drop(file);
    tokio::time::sleep(Duration::from_millis(dice.random_range(500..2_500))).await;
    let machine = machine.lock().await;
    // The power may have been cut meanwhile, and the ballast lost.
    let _ = fs::remove_file(ballast(&machine));
    drop(machine);
    idle_checks::takes_writes(harness, "a full disk with free space again").await;
}

fn free(path: &std::path::Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |disk| disk.f_bavail * disk.f_frsize)
}

/// strace, attached to the server, which makes a call fail.
struct Tracer(Child);

impl Tracer {
    async fn attach(pid: u32, inject: &str) -> Self {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "signal=none", "-e", inject, "-p", &pid.to_string()]);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        Self(child)
    }

    /// Detaches from the server, which continues.
    async fn detach(mut self) {
        let pid = rustix::process::Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        while self.0.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sync of the log fails: nothing more is written until a restart, and every write is answered 503.
async fn failed_sync(machine: &Mutex<Machine>, harness: &Harness, dice: &mut StdRng) {
    let Some(pid) = machine.lock().await.pid() else { return };
    harness.disk_fails.store(true, Ordering::SeqCst);
    let when = dice.random_range(1..20);
    let errno = ["EIO", "ENOSPC"][dice.random_range(0..2)];
    let tracer = Tracer::attach(pid, &format!("inject=fdatasync:error={errno}:when={when}")).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    tracer.detach().await;
    idle_checks::wait_for_free_space(harness).await;
    let mut machine = machine.lock().await;
    // The server may have been killed and replaced meanwhile.
    if machine.pid() == Some(pid) {
        idle_checks::refuses_writes(harness).await;
        if dice.random_bool(0.5) {
            machine.stop().await
        } else {
            machine.kill().await
        }
        start(&mut machine).await;
    }
    harness.disk_fails.store(false, Ordering::SeqCst);
}

/// A disk call fails once or a few times.
async fn failed_call(machine: &Mutex<Machine>, harness: &Harness, dice: &mut StdRng) {
    let calls = ["fsync", "rename", "unlink", "ftruncate", "fallocate", "openat", "mkdir"];
    let call = calls[dice.random_range(0..calls.len())];
    let errno =
        if matches!(call, "openat" | "fallocate" | "mkdir") && dice.random_bool(0.5) { "ENOSPC" } else { "EIO" };
    let Some(pid) = machine.lock().await.pid() else { return };
    harness.disk_fails.store(true, Ordering::SeqCst);
    let (from, to) = (dice.random_range(1..5), dice.random_range(5..8));
    let tracer = Tracer::attach(pid, &format!("inject={call}:error={errno}:when={from}..{to}")).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    tracer.detach().await;
    idle_checks::wait_for_free_space(harness).await;
    let mut machine = machine.lock().await;
    if machine.pid() == Some(pid) && !idle_checks::is_writable(harness).await {
        harness.count("failed calls that ended writing");
        idle_checks::refuses_writes(harness).await;
        machine.kill().await;
        start(&mut machine).await;
    }
    harness.disk_fails.store(false, Ordering::SeqCst);
}

fn address(harness: &Harness) -> Option<String> {
    harness.serving.borrow().as_ref().map(|serving| serving.address.clone())
}

/// Downloads with readers that read nothing.
async fn stalled_readers(harness: &Harness) {
    let Some(address) = address(harness) else { return };
    let mut connections = Vec::new();
    for _ in 0..20 {
        let Ok(mut stream) = TcpStream::connect(&address).await else { break };
        let request = format!("GET /v1/fs/large HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).await;
        let _ = stream.read(&mut [0; 100]).await;
        connections.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
}

/// Uploads that send half of the announced bytes.
async fn stalled_writers(harness: &Harness, dice: &mut StdRng) {
    let Some(address) = address(harness) else { return };
    let mut connections = Vec::new();
    for n in 0..20 {
        let Ok(mut stream) = TcpStream::connect(&address).await else { break };
        let size = [100, 300_000][n % 2];
        let head = format!("PUT /v1/fs/stalled/{n} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {size}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(&vec![b'x'; size / 2]).await;
        connections.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(dice.random_range(500..4_000))).await;
}

/// Nobody reads the server's standard error, and the server still answers.
async fn stalled_log(machine: &Mutex<Machine>, harness: &Harness) {
    let log = machine.lock().await.log.clone();
    log.stalled.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    idle_checks::takes_writes(harness, "a log without a reader").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    log.stalled.store(false, Ordering::SeqCst);
}

/// More connections than the server accepts, all of them idle.
async fn idle_connections(harness: &Harness) {
    let Some(address) = address(harness) else { return };
    let mut connections = Vec::new();
    for _ in 0..400 {
        let connect = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(&address));
        connections.extend(connect.await.ok().and_then(Result::ok));
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
}
