//! Which operation is measured beside what, and the goal for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::Method;
use hyper::header::{ACCEPT, HeaderValue};
use serde_json::Value;

use super::super::client::request;
use super::super::generator;
use super::super::large_folder::LargeFolder;
use super::super::loops::{Loop, PAGE, SMALL, small, time_page};
use super::measure::Goal::{self, AtLeast, AtMost};
use super::measure::{Figure, Measure, Sample, Set, Subject, composed, first, get, lesser, row};
use super::profile::{profile, system_calls};
use crate::data::CAMERA;
use crate::server::Limit;

/// Connections, and tasks of the loops without HTTP.
const CLIENTS: usize = 32;
const MANY: usize = 128;
/// Entries of the largest page that the server gives.
const LARGEST_PAGE: usize = 10_000;
/// Downloads at a time, to see what each takes of memory.
const STREAMS: usize = 4;
const COMPOSED: &str = "composed: static handler and store call";
const FILE: &str = "/v1/fs/limits/large.bin";

/// Files that were put so far, in all rounds: each has its own name.
static PUT: AtomicU64 = AtomicU64::new(0);

fn figure(
    operation: impl Into<String>,
    unit: &'static str,
    of: fn(&Sample) -> f64,
    limit: fn(&[f64]) -> f64,
    limit_is: &str,
    goal: Goal,
) -> Figure {
    Figure { operation: operation.into(), unit, of, limit, limit_is: limit_is.into(), goal }
}

/// Requests a second, beside a limit.
fn pace(operation: &str, limit: fn(&[f64]) -> f64, limit_is: &str, goal: f64) -> Figure {
    figure(operation, "requests/s", |sample| sample.speed.per_second, limit, limit_is, AtLeast(goal))
}

/// Time of a request, beside that of another kind.
fn time(operation: impl Into<String>, limit_is: &str) -> Figure {
    figure(operation, "us", |sample| 1e6 / sample.speed.per_second, first, limit_is, AtMost(1.2))
}

fn put(connections: usize, target: fn(u64) -> String) -> Measure {
    let put = move |_| {
        let n = PUT.fetch_add(1, Ordering::Relaxed);
        request(Method::PUT, target(n), vec![n as u8; SMALL].into())
    };
    Measure::Requests(connections, Arc::new(put))
}

fn upload(connections: usize) -> Measure {
    put(connections, |n| format!("/v1/fs/limits/put/{}/{n}.bin", n / 10_000))
}

fn bytes(connections: usize, length: usize) -> Measure {
    get(connections, move |_| format!("/limits/bytes/{length}"))
}

fn set(title: &'static str, ours: Measure, beside: Vec<(&'static str, Measure)>, figures: Vec<Figure>) -> Set {
    Set { title, ours, beside, figures }
}

/// What each request needs at least: a handler without a store, and a call of the store.
fn both(handler: Measure, store: Loop) -> Vec<(&'static str, Measure)> {
    vec![("static handler", handler), ("store call", Measure::Loop(store, CLIENTS))]
}

/// Small uploads.
pub fn uploads() -> Vec<Set> {
    let commits =
        |operation, limit| figure(operation, "commits", |sample| sample.commits_per_sync, limit, "goal", AtLeast(1.0));
    let sync = |name| (name, Measure::Loop(Loop::Sync, 1));
    let mut beside = both(put(CLIENTS, |_| "/limits/discard".into()), Loop::Put);
    beside.push(sync("fdatasync of 4 KiB"));
    let speed = pace("upload 4 KiB, durable, 32 clients", composed, COMPOSED, 0.8);
    let latency = figure(
        "upload 4 KiB, durable, 1 client, p50",
        "us",
        |sample| sample.speed.p50_us,
        |beside| beside.iter().sum(),
        "fdatasync and static handler, p50 each",
        AtMost(1.5),
    );
    let one_client = vec![sync("fdatasync"), ("static handler", bytes(1, 16))];
    vec![
        set("upload", upload(CLIENTS), beside, vec![speed, commits("commits per sync, 32 clients", |_| 8.0)]),
        set("commits", upload(MANY), vec![], vec![commits("commits per sync, 128 clients", |_| 40.0)]),
        set("upload, 1 client", upload(1), one_client, vec![latency]),
    ]
}

/// Small requests that read. `files`: of the largest folder; `folder`: one of the usual size.
pub async fn reads(subject: &Subject, files: usize, folder: &str) -> Result<Vec<Set>> {
    // What answers with as many bytes as such a request.
    let handler = async |target: &str| -> Result<Measure> {
        let answer = subject.base.ask(Method::GET, target).send().await?.error_for_status()?;
        Ok(bytes(CLIENTS, answer.bytes().await?.len()))
    };
    let fixed = |target: String| get(CLIENTS, move |_| target.clone());
    let page = format!("/v1/fs{CAMERA}/?limit={PAGE}");
    let stat = both(handler(&format!("/v1/stat{}", small(0))).await?, Loop::Stat);
    let list = both(handler(&page).await?, Loop::List);
    let download = both(bytes(CLIENTS, SMALL), Loop::Read);
    // A folder's names are one text, all at once: so are the attributes of as many.
    let folder = format!("/v1/fs{folder}/");
    let attributes = fixed(format!("{folder}?limit={LARGEST_PAGE}"));
    let names = move |_| {
        let mut names = request(Method::GET, folder.clone(), Bytes::new());
        names.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/plain"));
        names
    };
    let names = vec![("names as text", Measure::Requests(CLIENTS, Arc::new(names)))];
    let deep = fixed(deep_page(subject, files).await?);
    let period = vec![("store call", Measure::Loop(Loop::Period, CLIENTS))];
    let static_stat = pace("stat, 32 clients, against a static GET", first, "static handler", 0.65);
    let stats = vec![pace("stat, 32 clients", composed, COMPOSED, 0.85), static_stat];
    let lists = vec![pace("list, page of 100 with attributes", composed, COMPOSED, 0.75)];
    let pages = vec![time(format!("list, page {} of a folder", files / PAGE), "the first page")];
    let periods = vec![pace("time page of 100", |_| 5_000.0, "goal", 1.0)];
    let downloads = vec![pace("download 4 KiB, 32 clients", first, "static handler", 0.65)];
    Ok(vec![
        set("stat", get(CLIENTS, |n| format!("/v1/stat{}", small(n))), stat, stats),
        set("list", fixed(page.clone()), list, lists),
        set("deep page", deep, vec![("the first page", fixed(page))], pages),
        set("attributes", attributes, names, vec![time("list a folder with attributes", "names as text")]),
        set("time page", get(CLIENTS, |n| format!("/v1/files?{}", time_page(n))), period, periods),
        set("download", get(CLIENTS, |n| format!("/v1/fs{}", small(n))), download, downloads),
    ])
}

/// The target of the last whole page of the largest folder: the server gives its cursor after all pages before.
async fn deep_page(subject: &Subject, files: usize) -> Result<String> {
    let mut cursor = String::new();
    let mut before = files.saturating_sub(PAGE);
    while before > 0 {
        let limit = before.min(LARGEST_PAGE);
        let target = format!("/v1/fs{CAMERA}/?limit={limit}{cursor}");
        let page: Value = subject.json(subject.base.ask(Method::GET, &target)).await?;
        let next = page.get("next").and_then(Value::as_str).context("the largest folder has shrunk")?;
        cursor = format!("&cursor={next}");
        before -= limit;
    }
    Ok(format!("/v1/fs{CAMERA}/?limit={PAGE}{cursor}"))
}

/// Of the server, for each stat; none where there is no strace.
pub async fn calls_of_a_stat(subject: &Subject) -> Result<Option<Limit>> {
    let load = subject.closed(CLIENTS, 1_000);
    let stat = |n| request(Method::GET, format!("/v1/stat{}", small(n)), Bytes::new());
    let Some((calls, done)) = system_calls(subject.server.id(), generator::run(&subject.base, &load, stat)).await?
    else {
        return Ok(None);
    };
    let each = calls as f64 / done.requests.max(1) as f64;
    Ok(Some(row("stat, system calls", "calls", "goal", AtMost(1.0), &[(each, 2.1)])))
}

/// A large file of so many MiB.
pub fn large_files(mib: u64) -> Vec<Set> {
    let speed = |operation: String, [memory, disk]: [&str; 2]| {
        let limit_is = format!("the lesser of {memory} and {disk}");
        vec![figure(operation, "MiB/s", |sample| sample.speed.per_second, lesser, &limit_is, AtLeast(0.85))]
    };
    let cost = |operation, unit, of, limit| figure(operation, unit, of, limit, "goal", AtMost(1.0));
    let receive = |target: String, streams| Measure::Receive(target, mib, streams);
    let [sink, direct] = ["a sink without a store", "an O_DIRECT loop"];
    let [stream, pread] = ["a stream from memory", "a pread loop"];
    let sent = vec![(sink, Measure::Send("/limits/discard", mib)), (direct, Measure::Loop(Loop::DirectWrite(mib), 1))];
    let received =
        vec![(stream, receive(format!("/limits/bytes/{}", mib << 20), 1)), (pread, Measure::Loop(Loop::Pread(mib), 1))];
    let mut uploads = speed(format!("upload {mib} MiB, durable"), [sink, direct]);
    uploads.push(cost("upload, device bytes for each of the user's", "x", |sample| sample.written, |_| 1.02));
    uploads.push(cost("upload, memory for a stream", "MiB", |sample| sample.memory, |_| 8.0));
    let downloads = speed(format!("download {mib} MiB"), [stream, pread]);
    let memory = cost("download, memory for a stream", "MiB", |sample| sample.memory / STREAMS as f64, |_| 4.0);
    vec![
        set("large uploads", Measure::Send(FILE, mib), sent, uploads),
        set("large downloads", receive(FILE.into(), 1), received, downloads),
        set("downloads at once", receive(FILE.into(), STREAMS), vec![], vec![memory]),
    ]
}

/// The move of a large folder, beside the same rows in a RocksDB of their own.
pub async fn moved(files: u32, rounds: usize, folder: &Path, report: Option<&Path>) -> Result<Limit> {
    let mut subject = LargeFolder::create(files, folder).await?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let (ours, plain) = subject.run_move().await?;
        times.push((ours * 1e3, plain * 1e3));
    }
    let limit_is = "scan, put and delete_range of the same rows, in batches as large";
    let mut rows = [row(format!("move a folder of {files}"), "ms", limit_is, AtMost(1.25), &times)];
    profile(report, &mut rows, std::process::id(), subject.run_move()).await?;
    subject.close().await;
    let [row] = rows;
    Ok(row)
}
