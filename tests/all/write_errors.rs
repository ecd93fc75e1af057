//! Permanent write failures: what clients and load balancers see, that reads continue, that the end of the fault is not
//! enough, and that a restart repairs it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reqwest::{Client, StatusCode};

use crate::server::Server;

/// Every call of this kind in the server fails, until this is dropped.
struct Failing(Child);

impl Failing {
    /// Fails with this error, in calls on this file only if one is given.
    fn with(server: &Server, call: &str, error: &str, file: Option<&Path>) -> Self {
        let mut strace = Command::new("strace");
        let inject = format!("inject={call}:error={error}");
        strace.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
        if let Some(file) = file {
            strace.arg("-P").arg(file);
        }
        strace.arg("-p").arg(server.id().to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = strace.spawn().expect("this test needs strace");
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        assert!(first.contains("attached"), "{first}");
        std::thread::spawn(move || said.map_while(Result::ok).for_each(drop));
        Self(child)
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        // On a signal strace detaches and the server continues; a kill of strace would kill the server too.
        crate::server::terminate(self.0.id());
        self.0.wait().unwrap();
    }
}

pub async fn put(client: &Client, server: &Server, path: &str, bytes: Vec<u8>) -> (StatusCode, String) {
    answered(client.put(server.url(path)).body(bytes)).await
}

/// The status, and the last part of the problem's type.
pub async fn answered(request: reqwest::RequestBuilder) -> (StatusCode, String) {
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let problem: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default();
    let kind = problem["type"].as_str().unwrap_or_default().trim_start_matches("/problems/").to_owned();
    (status, kind)
}

/// Asserts that every kind of write is refused, that `/readyz` says so, and that stored files can be read.
async fn has_stopped(client: &Client, server: &Server) {
    let stopped = (StatusCode::SERVICE_UNAVAILABLE, "writes-stopped".to_owned());
    for bytes in [10, 400_000] {
        assert_eq!(put(client, server, "/v1/fs/d/later", vec![1; bytes]).await, stopped);
    }
    assert_eq!(put(client, server, "/v1/fs/d/folder/", vec![]).await, stopped);
    assert_eq!(answered(client.delete(server.url("/v1/fs/d/first"))).await, stopped);
    let json = r#"{"from": "/d/first", "to": "/d/other"}"#;
    for way in ["move", "copy"] {
        let request = client.post(server.url(&format!("/v1/{way}"))).header("content-type", "application/json");
        assert_eq!(answered(request.body(json)).await, stopped);
    }
    assert_eq!(answered(client.get(server.url("/readyz"))).await, stopped);
    assert_eq!(answered(client.get(server.url("/healthz"))).await.0, StatusCode::OK);
    let read = client.get(server.url("/v1/fs/d/first")).send().await.unwrap();
    assert!(read.bytes().await.unwrap() == vec![7; 300_000]);
    let metrics = client.get(server.url("/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("rowdrive_drive_writable 0\n"), "{metrics}");
}

/// A new process accepts writes again, and has all acknowledged files.
async fn a_restart_mends(server: Server, arguments: &[&str]) {
    let data = server.data.clone();
    server.kill();
    let (server, client) = (Server::start_on(&data, arguments), Client::new());
    assert_eq!(answered(client.get(server.url("/readyz"))).await.0, StatusCode::OK);
    assert_eq!(put(&client, &server, "/v1/fs/d/later", vec![1; 10]).await.0, StatusCode::CREATED);
    let read = client.get(server.url("/v1/fs/d/first")).send().await.unwrap();
    assert!(read.bytes().await.unwrap() == vec![7; 300_000]);
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_of_the_log_is_final() {
    // Even if the cause is a full disk: RocksDB would continue, and unacknowledged writes in the log would reappear.
    for error in ["EIO", "ENOSPC"] {
        let scratch = tempfile::tempdir().unwrap();
        let (server, client) = (Server::start_on(&scratch.path().join("data"), &[]), Client::new());
        assert_eq!(put(&client, &server, "/v1/fs/d/first", vec![7; 300_000]).await.0, StatusCode::CREATED);
        let failing = Failing::with(&server, "fdatasync", error, None);
        let unknown = put(&client, &server, "/v1/fs/d/small", vec![1; 10]).await;
        assert_eq!(unknown, (StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown".to_owned()), "{error}");
        drop(failing);
        has_stopped(&client, &server).await;
        a_restart_mends(server, &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_of_content_is_final() {
    // A sync of the bytes, and a sync of the name, after which no free space helps.
    for (call, error) in [("fdatasync", "EIO"), ("fsync", "EIO"), ("fsync", "ENOSPC")] {
        let scratch = tempfile::tempdir().unwrap();
        let (server, client) = (Server::start_on(&scratch.path().join("data"), &[]), Client::new());
        assert_eq!(put(&client, &server, "/v1/fs/d/first", vec![7; 300_000]).await.0, StatusCode::CREATED);
        let failing = Failing::with(&server, call, error, None);
        let failed = put(&client, &server, "/v1/fs/d/large", vec![1; 400_000]).await;
        assert_eq!(failed, (StatusCode::SERVICE_UNAVAILABLE, "writes-stopped".to_owned()), "{call}: {error}");
        drop(failing);
        has_stopped(&client, &server).await;
        a_restart_mends(server, &[]).await;
    }
}

/// RocksDB treats an exceeded quota as a permanent failure, and does not report it.
#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_quota_is_final() {
    let scratch = tempfile::tempdir().unwrap();
    let (server, client) = (Server::start_on(&scratch.path().join("data"), &[]), Client::new());
    assert_eq!(put(&client, &server, "/v1/fs/d/first", vec![7; 300_000]).await.0, StatusCode::CREATED);
    let files = std::fs::read_dir(server.data.join("db")).unwrap().map(|file| file.unwrap().path());
    let log = files.filter(|path| path.extension().is_some_and(|e| e == "log")).max().unwrap();
    let failing = Failing::with(&server, "write", "EDQUOT", Some(&log));
    let full = put(&client, &server, "/v1/fs/d/small", vec![1; 10]).await;
    assert_eq!(full, (StatusCode::INSUFFICIENT_STORAGE, "disk-full".to_owned()));
    drop(failing);
    has_stopped(&client, &server).await;
    a_restart_mends(server, &[]).await;
}

/// A server on a small file system with few inodes, mounted in a name space of its own.
fn serve_with_few_inodes(data: &Path) -> Server {
    std::fs::create_dir(data).unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let mount = r#"mount -t tmpfs -o size=512m,nr_inodes=120 tmpfs "$0" && exec "$@""#;
    command.args(["--mount", "sh", "-c", mount]).arg(data);
    command.arg(env!("CARGO_BIN_EXE_rowdrive")).arg("serve").arg("--data").arg(data);
    command.args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    Server::wait_for(command, data)
}

/// RocksDB does not recover from a log that it could not create, and does not report it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_file_that_cannot_be_created_stops_writes_and_readyz_says_so() {
    let scratch = tempfile::tempdir().unwrap();
    let (server, client) = (serve_with_few_inodes(&scratch.path().join("data")), Client::new());
    assert_eq!(put(&client, &server, "/v1/fs/d/first", vec![7; 300_000]).await.0, StatusCode::CREATED);
    for n in 0..3_000 {
        assert_eq!(put(&client, &server, &format!("/v1/fs/d/small{n}"), vec![7; 10]).await.0, StatusCode::CREATED);
    }
    // The file system from inside the server's name space.
    let inside = format!("/proc/{}/root{}", server.id(), server.data.display());
    let mut taken = Vec::new();
    loop {
        let path = format!("{inside}/taken{}", taken.len());
        match std::fs::File::create(&path) {
            Ok(_) => taken.push(path),
            Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::StorageFull),
        }
    }
    // Deletes do not check for free space. Once the memory is flushed to tables, a new log is created.
    let mut refused = None;
    for n in 0..3_000 {
        let (status, kind) = answered(client.delete(server.url(&format!("/v1/fs/d/small{n}")))).await;
        if status != StatusCode::NO_CONTENT {
            refused = Some((status, kind));
            break;
        }
    }
    assert_eq!(refused, Some((StatusCode::INSUFFICIENT_STORAGE, "disk-full".to_owned())));
    for path in taken {
        std::fs::remove_file(path).unwrap();
    }
    has_stopped(&client, &server).await;
}

/// Clients that take all connections leave enough file descriptors for the store's writes.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_leave_file_descriptors_for_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n 256 && exec "$@""#, "sh", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--data"]);
    command.arg(&data).args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    let (server, client) = (Server::wait_for(command, &data), Client::new());
    // Its connection is opened before the others.
    assert_eq!(put(&client, &server, "/v1/fs/d/first", vec![7; 10]).await.0, StatusCode::CREATED);
    let mut connections = Vec::new();
    for _ in 0..400 {
        connections.push(std::net::TcpStream::connect(&server.address).unwrap());
    }
    // RocksDB creates new files meanwhile: logs and tables.
    for n in 0..150 {
        // While those connections are still being accepted, one more may be answered 503.
        for tries in 0.. {
            let stored = put(&client, &server, &format!("/v1/fs/d/f{n}"), vec![n as u8; 200_000]).await;
            if stored.0 == StatusCode::CREATED {
                break;
            }
            assert!(stored.0 == StatusCode::SERVICE_UNAVAILABLE && tries < 100, "{n}: {stored:?}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    assert_eq!(answered(client.get(server.url("/readyz"))).await.0, StatusCode::OK);
    drop(connections);
    assert_eq!(server.terminate(), Some(0));
}
