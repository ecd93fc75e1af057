//! A drive over HTTP: its operations, and every kind of read.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::drive::model::{Op, View};
use crate::server::Server;

/// Bytes that are generated at a time.
const PIECE: usize = 4_096;

/// The content of a version: each size is used only once, and no piece occurs in another version.
pub fn content(size: usize) -> Vec<u8> {
    let mut piece = [0; PIECE];
    StdRng::seed_from_u64(size as u64).fill_bytes(&mut piece);
    let mut bytes = Vec::with_capacity(size + PIECE);
    while bytes.len() < size {
        piece[..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&piece);
    }
    bytes.truncate(size);
    bytes
}

/// Sends an operation. Returns the status; none if the answer is incomplete.
pub async fn send(client: &Client, server: &str, op: Op) -> Option<StatusCode> {
    let (method, target, body, relocation) = match op {
        Op::Put(path, size) => (Method::PUT, format!("/v1/fs{path}"), content(size), None),
        Op::Mkdir(path) => (Method::PUT, format!("/v1/fs{path}/"), vec![], None),
        Op::Delete(path) => (Method::DELETE, format!("/v1/fs{path}"), vec![], None),
        Op::Rmdir(path) => (Method::DELETE, format!("/v1/fs{path}/"), vec![], None),
        Op::Remove(path) => (Method::DELETE, format!("/v1/fs{path}/?recursive=true"), vec![], None),
        Op::Move(from, to, overwrite) => {
            let asked = json!({"from": from, "to": to, "overwrite": overwrite});
            (Method::POST, "/v1/move".to_owned(), vec![], Some(asked))
        }
        Op::Copy(from, to, overwrite) => {
            let asked = json!({"from": from, "to": to, "overwrite": overwrite});
            (Method::POST, "/v1/copy".to_owned(), vec![], Some(asked))
        }
        Op::New(..) => panic!("{op:?} is not sent"),
    };
    let mut request = client.request(method, format!("http://{server}{target}"));
    request = match relocation {
        Some(asked) => request.json(&asked),
        None => request.body(body),
    };
    let answer = request.send().await.ok()?;
    let status = answer.status();
    // Only a complete answer counts.
    answer.bytes().await.ok().map(|_| status)
}

/// The complete answer to a GET.
pub async fn get(client: &Client, server: &str, target: &str) -> Result<(StatusCode, Vec<u8>), String> {
    let failed = |e: reqwest::Error| format!("GET {target}: {e}");
    let answer = client.get(format!("http://{server}{target}")).send().await.map_err(failed)?;
    let status = answer.status();
    Ok((status, answer.bytes().await.map_err(failed)?.to_vec()))
}

async fn get_json(client: &Client, server: &str, target: &str) -> Result<Value, String> {
    let (status, body) = get(client, server, target).await?;
    if status != StatusCode::OK {
        return Err(format!("GET {target} answers {status}: {}", String::from_utf8_lossy(&body)));
    }
    serde_json::from_slice(&body).map_err(|e| format!("GET {target}: {e}"))
}

/// Reads everything in the drive: compares each byte, and finds each file by listing, stat, time and name. Names of
/// files start with `f`. An error describes the difference.
pub async fn read_all(client: &Client, server: &str) -> Result<View, String> {
    let mut seen = View::default();
    let mut below = vec![String::new()];
    while let Some(at) = below.pop() {
        let listed = get_json(client, server, &format!("/v1/fs{at}/?limit=10000")).await?;
        for entry in listed["entries"].as_array().ok_or("a listing without entries")? {
            let path = entry["path"].as_str().ok_or("an entry without a path")?.to_owned();
            let stat = get_json(client, server, &format!("/v1/stat{path}")).await?;
            if stat != *entry {
                return Err(format!("listed as {entry}, but stat says {stat}"));
            }
            if entry["kind"] == "directory" {
                seen.dirs.insert(path.clone());
                below.push(path);
                continue;
            }
            let (status, bytes) = get(client, server, &format!("/v1/fs{path}")).await?;
            if status != StatusCode::OK || bytes != content(bytes.len()) || entry["size"] != bytes.len() {
                return Err(format!("{path} of {}: {status} with {} bytes", entry["size"], bytes.len()));
            }
            seen.files.insert(path, bytes.len());
        }
    }
    let listed: Vec<&str> = seen.files.keys().map(String::as_str).collect();
    for query in ["/v1/files?limit=10000", "/v1/find?name=f*&limit=10000"] {
        let found = get_json(client, server, query).await?;
        let entries = found["entries"].as_array().ok_or("a page without entries")?;
        let mut paths: Vec<&str> = entries.iter().filter_map(|entry| entry["path"].as_str()).collect();
        paths.sort_unstable();
        if paths != listed || !found["next"].is_null() {
            return Err(format!("{query} finds {paths:?}, a listing {listed:?}"));
        }
    }
    Ok(seen)
}

/// `rowdrive check --content --json` of a data folder.
pub fn check_command(mut command: Command, data: &Path) -> Command {
    command.args(["check", "--content", "--json", "--memory", "32MiB", "--data"]).arg(data);
    command
}

/// Runs a check. Returns its summary if it finds no damage and nothing stray.
pub fn run_clean_check(mut check: Command) -> Result<Value, String> {
    let done = check.output().unwrap();
    let found: Value = serde_json::from_slice(&done.stdout).map_err(|e| format!("{e}: {done:?}"))?;
    if done.status.code() == Some(0) && found["findings"].as_array().is_some_and(Vec::is_empty) {
        return Ok(found["summary"].clone());
    }
    Err(format!("check: {found:#}"))
}

/// Starts and stops a server until no work is left: a stop leaves the clean-up to the next start.
pub async fn finishes_clean_up(start: impl Fn() -> Server, check: impl Fn() -> Command) -> Result<(), String> {
    for _ in 0..100 {
        let server = start();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(server.terminate_in_time(), Some(0));
        if run_clean_check(check())?["unsettled"] == 0 {
            return Ok(());
        }
    }
    Err("what a crash left half done stays so".into())
}

/// The program under test.
pub fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rowdrive"))
}

/// Adds the arguments that start a server on this folder.
pub fn serve_command(mut command: Command, data: &Path) -> Command {
    command.arg("serve").arg("--data").arg(data).args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    command
}
