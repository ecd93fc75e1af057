//! A disk of a few megabytes, a server on it, and the files that the server has acknowledged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reqwest::{Client, StatusCode};

use crate::server::Server;

/// Starts a server on a small file system, mounted in a name space of its own.
pub fn serve_on_small_disk(data: &Path) -> Server {
    std::fs::create_dir(data).unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-c", r#"mount -t tmpfs -o size=96m tmpfs "$0" && exec "$@""#]);
    command.arg(data).arg(env!("CARGO_BIN_EXE_rowdrive")).arg("serve").arg("--data").arg(data);
    command.args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    Server::wait_for(command, data)
}

/// Incompressible content, different for each seed.
pub fn content(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

pub struct TestServer {
    pub server: Server,
    pub client: Client,
    /// The sizes of the acknowledged files.
    pub stored: BTreeMap<usize, usize>,
    /// The number of digits in a name.
    pub digits: usize,
}

impl TestServer {
    /// A server without files, with names of this many digits.
    pub fn new(server: Server, digits: usize) -> Self {
        Self { server, client: Client::new(), stored: BTreeMap::new(), digits }
    }

    pub fn url(&self, seed: usize) -> String {
        self.server.url(&format!("/v1/fs/full/{seed:0digits$}", digits = self.digits))
    }

    pub async fn put(&mut self, seed: usize, len: usize) -> StatusCode {
        let status = self.client.put(self.url(seed)).body(content(seed, len)).send().await.unwrap().status();
        if status == StatusCode::CREATED {
            self.stored.insert(seed, len);
        }
        status
    }

    /// Uploads files with the seeds `first`, `first + 1`, ... until one is accepted. The others must find a full disk.
    pub async fn put_until_accepted(&mut self, first: usize, len: usize, tries: usize) {
        for n in 0.. {
            match self.put(first + n, len).await {
                StatusCode::CREATED => break,
                status => assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE),
            }
            assert!(n < tries, "the freed disk space is not used");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    pub async fn delete(&mut self, seed: usize) -> StatusCode {
        let answer = self.client.delete(self.url(seed)).send().await.unwrap();
        let status = answer.status();
        if status == StatusCode::NO_CONTENT {
            self.stored.remove(&seed);
        } else {
            // Shown if the test fails.
            println!("file {seed} was not deleted: {status}, {}", answer.text().await.unwrap());
        }
        status
    }

    pub async fn text(&self, path: &str) -> (StatusCode, String) {
        let answer = self.client.get(self.server.url(path)).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// Waits until `/readyz` and both gauges report this state: RocksDB checks for free space every few seconds.
    pub async fn says_that_it_writes(&self, writes: bool) {
        let wanted = if writes { StatusCode::OK } else { StatusCode::INSUFFICIENT_STORAGE };
        let begun = std::time::Instant::now();
        while self.text("/readyz").await.0 != wanted {
            assert!(begun.elapsed().as_secs() < 30, "/readyz is not {wanted}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let (_, metrics) = self.text("/metrics").await;
        for gauge in ["rowdrive_store_writable", "rowdrive_drive_writable"] {
            assert!(metrics.contains(&format!("\n{gauge} {}\n", u8::from(writes))), "{gauge} is not {writes}");
        }
    }

    /// Deletes files, while another program takes the freed space, until a delete fails for want of space. Returns that
    /// file: it may be deleted or not.
    pub async fn delete_until_refused(&mut self, disk: &SmallDisk) -> usize {
        for seed in self.stored.clone().into_keys() {
            disk.fill();
            match self.delete(seed).await {
                StatusCode::NO_CONTENT => {}
                status => {
                    assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
                    self.stored.remove(&seed);
                    self.says_that_it_writes(false).await;
                    return seed;
                }
            }
        }
        panic!("no delete was refused");
    }

    /// Deletes one of the remaining files, within a time that an operator would wait: RocksDB refuses writes for a while
    /// after one has failed.
    pub async fn deletes_again(&mut self) {
        let seed = *self.stored.last_key_value().unwrap().0;
        for _ in 0..300 {
            match self.delete(seed).await {
                StatusCode::NO_CONTENT => return,
                status => assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE),
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("file {seed} cannot be deleted on a full disk");
    }

    /// Asserts that exactly the acknowledged files are listed, each with its bytes.
    pub async fn all_is_there(&self) {
        let listed = self.client.get(self.server.url("/v1/fs/full/")).header("accept", "text/plain").send();
        let listed = listed.await.unwrap().text().await.unwrap();
        let mut names: Vec<usize> = listed.lines().map(|name| name.parse().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, self.stored.keys().copied().collect::<Vec<_>>());
        for (seed, len) in &self.stored {
            let got = self.client.get(self.url(*seed)).send().await.unwrap();
            assert_eq!(got.status(), StatusCode::OK);
            assert!(got.bytes().await.unwrap() == content(*seed, *len), "{seed} of {len} bytes");
        }
    }
}

/// A small file system in a mount name space of its own, which outlives its servers.
pub struct SmallDisk {
    /// A process that keeps the name space.
    pub keeper: Child,
    pub data: PathBuf,
}

impl SmallDisk {
    pub fn mounted(data: &Path, size: &str) -> Self {
        std::fs::create_dir(data).unwrap();
        let mut keeper = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            keeper.arg("--map-root-user");
        }
        let mount = format!(r#"mount -t tmpfs -o size={size} tmpfs "$0" && echo mounted && exec sleep 600"#);
        keeper.args(["--mount", "sh", "-c", &mount]).arg(data).stdout(Stdio::piped());
        let mut keeper = keeper.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "mounted\n");
        Self { keeper, data: data.to_owned() }
    }

    /// A subcommand of the program, in the name space of the disk.
    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper.id().to_string(), "--mount", "--"]);
        command.arg(env!("CARGO_BIN_EXE_rowdrive")).arg(subcommand).arg("--data").arg(&self.data);
        command
    }

    pub fn serve(&self, memory: &str) -> Server {
        let mut command = self.command("serve");
        command.args(["--listen", "127.0.0.1:0", "--memory", memory]);
        Server::wait_for(command, &self.data)
    }

    /// The path of the mounted file system from outside of the name space.
    pub fn inside(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", self.keeper.id(), self.data.display()))
    }

    /// The file of another program that takes disk space.
    pub fn taken(&self) -> PathBuf {
        self.inside().join("taken")
    }

    /// Takes all free space.
    pub fn fill(&self) {
        let mut taken = File::options().create(true).append(true).open(self.taken()).unwrap();
        loop {
            let stat = rustix::fs::statvfs(self.inside()).unwrap();
            if stat.f_bavail == 0 || taken.write_all(&vec![0; (stat.f_bavail * stat.f_frsize) as usize]).is_err() {
                break;
            }
        }
    }

    /// Frees this many bytes again.
    pub fn give_back(&self, bytes: u64) {
        let taken = File::options().write(true).open(self.taken()).unwrap();
        taken.set_len(taken.metadata().unwrap().len() - bytes).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
