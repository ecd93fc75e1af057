//! The server in a process of its own, and what can be seen of it from outside.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use procfs::process::Process;

use super::loops::{Loop, Speed};
use super::server::{Asked, Commits};

/// A server on a folder; it ends when this is dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    client: reqwest::Client,
}

impl Server {
    /// Waits until it answers.
    pub fn start(data: &Path, memory: usize) -> Result<Self> {
        // This very program, even if a build has put another in its place meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg("server").arg("--data").arg(data).arg("--memory").arg(memory.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("no server")?;
        let mut said = String::new();
        let out = child.stdout.take().context("the server has no output")?;
        BufReader::new(out).read_line(&mut said)?;
        let address = said.trim().parse().with_context(|| {
            let ended = child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
            format!("the server did not start: {ended}")
        })?;
        // A request for a gibibyte takes a while.
        let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        Ok(Self { child, address, client })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn looped(&self, which: Loop, asked: Asked) -> Result<Speed> {
        let Asked { tasks, ms, bytes } = asked;
        let url = self.url(&format!("/limits/loop/{}?tasks={tasks}&ms={ms}&bytes={bytes}", which.name()));
        let answer = self.client.post(url).send().await?;
        ensure!(answer.status().is_success(), "{}: {}", which.name(), answer.text().await?);
        Ok(answer.json().await?)
    }

    pub async fn commits(&self) -> Result<Commits> {
        Ok(self.client.get(self.url("/limits/commits")).send().await?.error_for_status()?.json().await?)
    }

    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn process(&self) -> Result<Process> {
        Ok(Process::new(self.child.id() as i32)?)
    }

    /// Bytes.
    pub fn resident(&self) -> Result<u64> {
        Ok(self.process()?.statm()?.resident * procfs::page_size())
    }

    /// Bytes that it has had written to devices.
    pub fn written(&self) -> Result<u64> {
        Ok(self.process()?.io()?.write_bytes)
    }

    /// The most bytes that were resident at any time while something went on.
    pub async fn most_resident<T>(&self, work: impl Future<Output = T>) -> Result<(T, u64)> {
        let mut most = self.resident()?;
        let mut often = tokio::time::interval(Duration::from_millis(10));
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok((done, most.max(self.resident()?))),
                _ = often.tick() => most = most.max(self.resident()?),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input tells it to stop.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
