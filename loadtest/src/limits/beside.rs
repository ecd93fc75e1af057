//! Tools that look into a process from outside while it works: strace and perf, where they are installed.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};

/// What a tool needs to begin.
const BEGIN: Duration = Duration::from_millis(300);

/// Runs a tool from a moment before some work until it is done, and then interrupts it: what both have given. Nothing,
/// and no work is done, where there is no such tool.
pub async fn beside<T>(tool: &mut Command, work: impl Future<Output = Result<T>>) -> Result<Option<(Output, T)>> {
    let Ok(child) = tool.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn() else {
        return Ok(None);
    };
    tokio::time::sleep(BEGIN).await;
    let done = work.await;
    kill_process(Pid::from_child(&child), Signal::INT)?;
    let told = tokio::task::spawn_blocking(move || child.wait_with_output()).await??;
    Ok(Some((told, done?)))
}
