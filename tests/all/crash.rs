//! A server that is killed again and again in the middle of its work: whatever it acknowledged is there after the
//! next start, and everything else is there whole or not at all.
//!
//! `ROWDRIVE_KILLS` says how often it is killed, for longer runs by hand.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::drive::model::{No, Op, View};
use crate::drive::world::bytes;
use crate::server::Server;

const CLIENTS: usize = 8;
const KILLS: usize = 50;

/// Somebody with a folder of his own, so that he knows what must be in it.
struct Person {
    folder: &'static str,
    /// Paths in the folder; the first ones are those of directories.
    paths: Vec<&'static str>,
    dice: StdRng,
    /// What is there, and what is there too if the operation that had no answer has happened.
    view: View,
    perhaps: Option<View>,
    acknowledged: usize,
    sizes: usize,
}

/// Directories among [`Person::paths`].
const DIRECTORIES: usize = 4;

impl Person {
    fn new(number: usize) -> Self {
        let folder = format!("/c{number}");
        let below = ["a", "b", "a/x", "b/a", "f", "a/f", "b/f", "a/x/f", "b/a/f"];
        // The model's paths live as long as the program.
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        Self {
            paths: below.iter().map(|path| leak(format!("{folder}/{path}"))).collect(),
            folder: leak(folder),
            dice: StdRng::seed_from_u64(number as u64),
            view: View::default(),
            perhaps: None,
            acknowledged: 0,
            sizes: 1_000 * number,
        }
    }

    fn draw(&mut self) -> Op {
        let (directories, files) = self.paths.split_at(DIRECTORIES);
        let mut one = |of: &[&'static str]| of[self.dice.random_range(0..of.len())];
        let (directory, file, other) = (one(directories), one(files), one(files));
        let target = one(directories);
        self.sizes += 1;
        match self.dice.random_range(0..100) {
            0..40 => Op::Put(file, self.sizes),
            40..55 => Op::Put(file, 300_000 + self.sizes),
            55..65 => Op::Delete(file),
            65..75 if file != other => Op::Move(file, other, true),
            75..88 if !target.starts_with(directory) => Op::Move(directory, target, false),
            88..93 => Op::Remove(directory),
            _ => Op::Mkdir(directory),
        }
    }

    /// Works until the server does not answer any more.
    async fn work(mut self, client: Client, server: String) -> Self {
        loop {
            let op = self.draw();
            let after = self.view.after(op);
            match send(&client, &server, op).await {
                None => {
                    self.perhaps = after.ok();
                    return self;
                }
                Some(StatusCode::SERVICE_UNAVAILABLE) => panic!("{op:?} of one who is alone in his folder is refused"),
                Some(status) if status.is_success() => {
                    self.view = after.unwrap_or_else(|no| panic!("{op:?} answers {status}, not {no:?}"));
                    self.acknowledged += 1;
                }
                Some(status) => {
                    let no = after.err().unwrap_or_else(|| panic!("{op:?} answers {status} on {:?}", self.view));
                    let wanted = if no == No::NotFound { StatusCode::NOT_FOUND } else { StatusCode::CONFLICT };
                    assert_eq!(status, wanted, "{op:?} on {:?}", self.view);
                }
            }
        }
    }

    /// Looks at what is there: as acknowledged, with or without the operation that had no answer.
    async fn look(&mut self, client: &Client, server: &str) {
        let seen = look(client, server, self.folder).await;
        let happened = self.perhaps.take().filter(|perhaps| *perhaps == seen);
        assert!(happened.is_some() || seen == self.view, "{seen:?}, not {:?}", self.view);
        self.view = seen;
    }
}

/// The status; none if there is no answer.
async fn send(client: &Client, server: &str, op: Op) -> Option<StatusCode> {
    let (method, target, body, relocation) = match op {
        Op::Put(path, size) => (Method::PUT, format!("/v1/fs{path}"), bytes(size), None),
        Op::Mkdir(path) => (Method::PUT, format!("/v1/fs{path}/"), "".into(), None),
        Op::Delete(path) => (Method::DELETE, format!("/v1/fs{path}"), "".into(), None),
        Op::Remove(path) => (Method::DELETE, format!("/v1/fs{path}/?recursive=true"), "".into(), None),
        Op::Move(from, to, overwrite) => {
            let asked = json!({"from": from, "to": to, "overwrite": overwrite});
            (Method::POST, "/v1/move".to_owned(), "".into(), Some(asked))
        }
        other => panic!("{other:?} is not drawn"),
    };
    let mut request = client.request(method, format!("http://{server}{target}"));
    request = match relocation {
        Some(asked) => request.json(&asked),
        None => request.body(body),
    };
    let answer = request.send().await.ok()?;
    let status = answer.status();
    // An answer counts when it is whole.
    answer.bytes().await.ok().map(|_| status)
}

async fn get(client: &Client, server: &str, target: &str) -> reqwest::Response {
    client.get(format!("http://{server}{target}")).send().await.unwrap()
}

/// Everything in a folder, every byte compared.
async fn look(client: &Client, server: &str, folder: &str) -> View {
    let mut seen = View::default();
    let mut below = vec![folder.to_owned()];
    while let Some(at) = below.pop() {
        let listed = get(client, server, &format!("/v1/fs{at}/")).await;
        if listed.status() == StatusCode::NOT_FOUND && at == folder {
            return seen;
        }
        seen.dirs.insert(at);
        let listed: Value = listed.error_for_status().unwrap().json().await.unwrap();
        for entry in listed["entries"].as_array().unwrap() {
            let path = entry["path"].as_str().unwrap().to_owned();
            if entry["kind"] == "directory" {
                below.push(path);
                continue;
            }
            let content = get(client, server, &format!("/v1/fs{path}")).await.error_for_status().unwrap();
            let content = content.bytes().await.unwrap();
            assert!(content == bytes(content.len()), "{path} holds other bytes");
            seen.files.insert(path, content.len());
        }
    }
    seen
}

/// The paths of all files, by time.
async fn by_time(client: &Client, server: &str) -> Vec<String> {
    let found: Value = get(client, server, "/v1/files?limit=10000").await.json().await.unwrap();
    assert_eq!(found["next"], Value::Null);
    let mut paths: Vec<_> =
        found["entries"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap().to_owned()).collect();
    paths.sort_unstable();
    paths
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_every_kill() {
    let kills = std::env::var("ROWDRIVE_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let mut people: Vec<_> = (0..CLIENTS).map(Person::new).collect();
    let mut dice = StdRng::seed_from_u64(7);
    let (mut in_flight, mut unsettled) = (0, 0);
    for _ in 0..kills {
        let server = Server::start_on(&data, &["--memory", "64MiB"]);
        let client = Client::new();
        for person in &mut people {
            person.look(&client, &server.address).await;
        }
        let all: Vec<String> = people.iter().flat_map(|person| person.view.files.keys().cloned()).collect();
        assert_eq!(by_time(&client, &server.address).await, all);
        let work = |person: Person| tokio::spawn(person.work(client.clone(), server.address.clone()));
        let working: Vec<_> = people.drain(..).map(work).collect();
        tokio::time::sleep(Duration::from_millis(dice.random_range(20..200))).await;
        server.kill();
        for person in working {
            people.push(person.await.unwrap());
        }
        let left = check(&data).await;
        unsettled += left["unsettled"].as_u64().unwrap();
        in_flight += people.iter().filter(|person| person.perhaps.is_some()).count();
    }
    let acknowledged: usize = people.iter().map(|person| person.acknowledged).sum();
    println!(
        "{kills} kills, {acknowledged} acknowledged writes, {in_flight} in flight; lost 0, half there 0, wrong 0, \
         stray 0; {unsettled} things left to settle"
    );
    assert!(acknowledged > 20 * kills && in_flight > kills, "{acknowledged} acknowledged, {in_flight} in flight");
    let server = Server::start_on(&data, &[]);
    for person in &mut people {
        person.look(&Client::new(), &server.address).await;
    }
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(check(&data).await["unsettled"], 0);
}

/// What `rowdrive check --content` says of a data folder: nothing is wrong or stray in it.
async fn check(data: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(["check", "--content", "--json", "--memory", "64MiB", "--data"]).arg(data);
    let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let found: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    assert_eq!(found["findings"].as_array().unwrap().len(), 0, "{found:#}");
    assert_eq!(done.status.code(), Some(0), "{found:#}");
    found["summary"].clone()
}
