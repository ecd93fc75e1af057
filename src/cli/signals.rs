//! Signals: SIGTERM and SIGINT end a command, SIGXFSZ does not. The program sends SIGKILL to itself if it cannot exit.

use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::{Signal as Number, getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Installs a handler of SIGXFSZ, so that a write beyond the limit of file sizes (`ulimit -f`) fails. Without a handler
/// the signal would end the process.
pub fn survive_file_size_limit() -> io::Result<()> {
    // The handler remains installed when this is dropped.
    signal(SignalKind::from_raw(Number::XFSZ.as_raw())).map(drop)
}

/// SIGTERM and SIGINT. Once this is created, they no longer end the process by themselves.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    pub async fn recv(&mut self) -> Number {
        tokio::select! {
            _ = self.terminate.recv() => Number::TERM,
            _ = self.interrupt.recv() => Number::INT,
        }
    }

    /// Counts the signals from now on.
    pub fn count(mut self) -> SignalCount {
        let (count, counted) = watch::channel(0);
        // The task ends with the runtime.
        tokio::spawn(async move {
            loop {
                self.recv().await;
                count.send_modify(|signals| *signals += 1);
            }
        });
        SignalCount(counted)
    }
}

/// How many signals have arrived. All clones see the same number.
#[derive(Clone)]
pub struct SignalCount(watch::Receiver<u32>);

impl SignalCount {
    /// Waits until this many signals have arrived.
    pub async fn reached(mut self, times: u32) {
        if self.0.wait_for(|signals| *signals >= times).await.is_err() {
            // The runtime is ending: no more signals arrive.
            std::future::pending().await
        }
    }
}

/// From now on, an interrupted command prints one line: it is safe to run the command again.
///
/// For commands that may be killed at any moment, and that block the threads of this runtime. A signal that this
/// process was started to ignore stays ignored.
pub fn explain_interruption() -> io::Result<()> {
    let handler = |number: Number| match is_ignored(number) {
        true => Ok(None),
        false => signal(SignalKind::from_raw(number.as_raw())).map(Some),
    };
    let (mut terminate, mut interrupt) = (handler(Number::TERM)?, handler(Number::INT)?);
    tokio::spawn(async move {
        let number = tokio::select! {
            () = arrival(&mut terminate) => Number::TERM,
            () = arrival(&mut interrupt) => Number::INT,
        };
        // A progress bar leaves the cursor within its line.
        let start = if io::stderr().is_terminal() { "\n" } else { "" };
        super::say(&format!("{start}rowdrive: interrupted; it is safe to run the same command again"));
        die_of(number);
    });
    Ok(())
}

/// Waits for the signal; for ever without a handler.
async fn arrival(handler: &mut Option<Signal>) {
    if let Some(signal) = handler
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}

/// Whether this process was started to ignore a signal, as shells start the background jobs of scripts.
fn is_ignored(number: Number) -> bool {
    // proc_pid_status(5): a hexadecimal mask, whose lowest bit is signal 1.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (number.as_raw() - 1)) != 0
}

/// Ends the process by SIGKILL if it has not ended by itself after this time. At an exit with an open database RocksDB waits
/// for the threads of its flushes, and after some failed flushes these wait for ever.
pub fn end_within(time: Duration) {
    let end = move || {
        sleep(time);
        kill_process(getpid(), Number::KILL)
    };
    if let Err(error) = thread::Builder::new().spawn(end) {
        tracing::warn!(%error, "the process may not end by itself");
    }
}

/// Ends the process by this signal, as if it had no handler: shells and scripts check the signal.
fn die_of(number: Number) {
    // `exec` resets the handlers, and ends all threads without running destructors while the database works.
    let name = if number == Number::TERM { "TERM" } else { "INT" };
    let _failed = Command::new("/bin/sh").args(["-c", &format!("kill -s {name} $$")]).exec();
    std::process::exit(128 + number.as_raw());
}
