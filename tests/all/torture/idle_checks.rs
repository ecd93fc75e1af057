//! Checks while no client works: every acknowledged file is there with its bytes, no other file is, and all kinds of
//! reads agree.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client as Http, Method};
use serde_json::Value as Json;

use super::checker::{Finds, Value};
use super::content;
use super::history::{Effect, Histories, Path};
use super::run::{Harness, HttpRequest, Reply};

/// The time in which background work must end, and writes must work again.
const IDLE_WITHIN: Duration = Duration::from_secs(30);

/// The files of a drive: ETag and digest, by path.
pub type Files = BTreeMap<Path, (String, String)>;

async fn ask(harness: &Harness, http: &Http, method: Method, target: &str, body: &str) -> Option<Reply> {
    let ask = HttpRequest { body: body.to_owned().into(), ..HttpRequest::new(method, target.to_owned()) };
    harness.call(http, ask).await.ok()
}

async fn get(harness: &Harness, http: &Http, target: &str) -> Option<Reply> {
    ask(harness, http, Method::GET, target, "").await
}

/// The sum of a metric over all its labels.
fn metric(text: &str, name: &str) -> f64 {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let of_this = rest.starts_with(' ') || rest.starts_with('{');
        of_this.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
    });
    values.sum()
}

async fn metrics(harness: &Harness, http: &Http) -> String {
    let text = get(harness, http, "/metrics").await.map(|reply| reply.body).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

pub async fn is_writable(harness: &Harness) -> bool {
    let http = Http::new();
    let ready = get(harness, &http, "/readyz").await.is_some_and(|reply| reply.status == 200);
    ready && metric(&metrics(harness, &http).await, "rowdrive_store_writable") > 0.0
}

/// Waits while the server reports a full disk: another fault may fill the disk meanwhile, and then there is no sync.
pub async fn wait_for_free_space(harness: &Harness) {
    let (http, start) = (Http::new(), Instant::now());
    while start.elapsed() < IDLE_WITHIN && get(harness, &http, "/readyz").await.is_some_and(|reply| reply.status == 507)
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// After a failed sync no write is accepted until the server is restarted, and `/readyz` says so. Reads continue.
pub async fn refuses_writes(harness: &Harness) {
    let http = Http::new();
    if is_writable(harness).await {
        // There was no sync meanwhile, or not enough of them.
        return;
    }
    harness.count("failed syncs");
    for _ in 0..3 {
        let put = ask(harness, &http, Method::PUT, "/v1/fs/after-failed-sync", "x").await;
        let (status, problem) = put.map(|put| (put.status, put.problem())).unwrap_or_default();
        if (status, problem.as_str()) != (503, "writes-stopped") {
            harness.found("write after a failed sync", format!("{status} {problem}"));
        }
        let ready = get(harness, &http, "/readyz").await.map(|reply| reply.status);
        if ready != Some(503) {
            harness.found("readyz after a failed sync", format!("{ready:?}"));
        }
        let list = get(harness, &http, "/v1/fs/").await.map(|reply| reply.status);
        if list != Some(200) {
            harness.found("read after a failed sync", format!("{list:?}"));
        }
    }
}

/// A write is answered with 2xx, sooner or later.
pub async fn takes_writes(harness: &Harness, after: &str) {
    let (http, start) = (Http::new(), Instant::now());
    loop {
        let put = ask(harness, &http, Method::PUT, "/v1/fs/probe", "probe").await;
        let status = put.as_ref().map(|put| put.status);
        if status.is_some_and(|status| status < 300) {
            return;
        }
        if harness.disk_fails.load(std::sync::atomic::Ordering::SeqCst) {
            // Another fault has stopped the store; that fault checks it.
            return;
        }
        if start.elapsed() > IDLE_WITHIN {
            harness.found("no writes", format!("after {after}: {status:?}"));
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until no background work is left.
pub async fn wait_until_idle(harness: &Harness) {
    let (http, start) = (Http::new(), Instant::now());
    loop {
        let text = metrics(harness, &http).await;
        let running = metric(&text, "rowdrive_drive_operations");
        let waiting = metric(&text, "rowdrive_drive_cleanup_waiting");
        // This request is in flight itself.
        let in_flight = metric(&text, "rowdrive_http_in_flight");
        if running + waiting == 0.0 && in_flight <= 1.0 && !text.is_empty() {
            for (name, kind) in [("rowdrive_damage_found_total", "damage"), ("rowdrive_http_panics_total", "panic")] {
                if metric(&text, name) > 0.0 {
                    harness.found(kind, format!("{name} is {}", metric(&text, name)));
                }
            }
            return;
        }
        if start.elapsed() > IDLE_WITHIN {
            let what = format!("{running} operations, {waiting} contents, {in_flight} requests are under way");
            harness.found("never idle", what);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All entries of a query, page by page.
async fn pages(harness: &Harness, http: &Http, query: &str, limit: usize) -> Vec<Json> {
    let (mut entries, mut cursor) = (Vec::new(), String::new());
    loop {
        let Some(reply) = get(harness, http, &format!("{query}limit={limit}{cursor}")).await else { return entries };
        if reply.status != 200 {
            harness.found("wrong status", format!("{query} answers {} while idle", reply.status));
            return entries;
        }
        let mut page = reply.json();
        if let Json::Array(more) = page["entries"].take() {
            entries.extend(more);
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return entries,
        }
    }
}

fn files(harness: &Harness, of: &str, entries: &[Json]) -> Files {
    let mut files = Files::new();
    for entry in entries.iter().filter(|entry| entry["kind"] == "file") {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        if files.insert(text("path").into(), (text("etag"), text("digest"))).is_some() {
            harness.found("twice", format!("{of} has {} twice", text("path")));
        }
    }
    files
}

/// The whole tree, by listings.
pub async fn list_tree(harness: &Harness, dice: &mut StdRng) -> Files {
    let http = Http::new();
    let (mut all, mut left) = (Vec::new(), vec![String::new()]);
    while let Some(at) = left.pop() {
        let limit = dice.random_range(5..1_000);
        let entries = pages(harness, &http, &format!("/v1/fs{at}/?"), limit).await;
        let directories = entries.iter().filter(|entry| entry["kind"] == "directory");
        left.extend(directories.filter_map(|entry| entry["path"].as_str()).map(str::to_owned));
        all.extend(entries);
    }
    files(harness, "the listings", &all)
}

/// Time and name queries show exactly the files that the listings show.
async fn queries_agree(harness: &Harness, listed: &Files, dice: &mut StdRng) {
    let http = Http::new();
    for query in ["/v1/files?", "/v1/files?clock=added&order=asc&"] {
        let entries = pages(harness, &http, query, dice.random_range(50..2_000)).await;
        same(harness, query, &files(harness, query, &entries), listed);
    }
    let mut named = Files::new();
    for start in ["f", "large", "probe"] {
        let query = format!("/v1/find?name={start}*&");
        let entries = pages(harness, &http, &query, dice.random_range(50..2_000)).await;
        named.extend(files(harness, &query, &entries));
    }
    // A request that was sent after a failed sync may have been stored or not.
    let other = |path: &Path| path.contains("after-failed");
    let listed: Files = listed.iter().filter(|(path, _)| !other(path)).map(|(a, b)| (a.clone(), b.clone())).collect();
    same(harness, "/v1/find", &named, &listed);
}

pub fn same(harness: &Harness, what: &str, found: &Files, listed: &Files) {
    let only = |a: &Files, b: &Files| -> Vec<String> {
        a.iter()
            .filter(|(path, file)| b.get(*path) != Some(file))
            .map(|(path, file)| format!("{path} {file:?}"))
            .collect()
    };
    let (more, fewer) = (only(found, listed), only(listed, found));
    if more.len() + fewer.len() > 0 {
        let some = |list: &[String]| list.iter().take(5).cloned().collect::<Vec<_>>();
        let what = format!(
            "{what}: {} that the listings lack, as {:?}; {} of the listings are missing, as {:?}",
            more.len(),
            some(&more),
            fewer.len(),
            some(&fewer)
        );
        harness.found("disagree", what);
    }
}

/// The bytes of every file match its digest; of the large trees, only a few files are read.
async fn bytes_are_whole(harness: &Harness, listed: &Files, all: bool, dice: &mut StdRng) {
    let is_large_tree = |path: &str| path.starts_with("/m/") || path.starts_with("/w/");
    let paths: Vec<_> =
        listed.iter().filter(|(path, _)| all || !is_large_tree(path) || dice.random_bool(0.05)).collect();
    let http = Http::new();
    let reads = paths.into_iter().map(|(path, (_, digest))| {
        let http = &http;
        async move {
            let Some(reply) = get(harness, http, &format!("/v1/fs{path}")).await else { return };
            let sum = content::sum(&reply.body);
            if reply.status != 200 || format!("sha-256=:{sum}:") != *digest {
                let found = content::title(&reply.body);
                harness.found("wrong bytes", format!("{path} of {digest} answers {} with {found}", reply.status));
            }
            harness.count("files read in quiet");
        }
    });
    stream::iter(reads).buffer_unordered(8).collect::<()>().await;
}

/// The contents by path, without the files of the faults.
fn values(harness: &Harness, listed: &Files) -> BTreeMap<Path, Value> {
    let mut values = BTreeMap::new();
    let mut copies = HashSet::new();
    let ours = listed.iter().filter(|(path, _)| path.matches('/').count() > 1);
    for (path, (_, digest)) in ours {
        let sum = content::sum_of_header(digest).unwrap_or_default();
        match harness.contents.find(&sum) {
            Some(value) => {
                if !copies.insert(value) {
                    harness.contents.mark_copied(value);
                }
                values.insert(path.clone(), value);
            }
            None => harness.found("ghost", format!("{path} has the digest {sum} of nothing that was stored lately")),
        }
    }
    values
}

/// Checks everything. Returns the listed files, and their contents for the next round.
pub async fn check_all(
    harness: &Harness,
    initial: &BTreeMap<Path, Value>,
    seed: u64,
    all: bool,
) -> (Files, BTreeMap<Path, Value>) {
    let mut dice = StdRng::seed_from_u64(seed);
    wait_until_idle(harness).await;
    let now = harness.now();
    let listed = list_tree(harness, &mut dice).await;
    queries_agree(harness, &listed, &mut dice).await;
    bytes_are_whole(harness, &listed, all, &mut dice).await;
    let last = values(harness, &listed);
    let mut records = std::mem::take(&mut *harness.records.lock().unwrap());
    let copies_unknown = records.iter().any(|record| matches!(record.effect, Effect::Arrives { .. }));
    for record in &mut records {
        if let Effect::Step { finds, .. } = &mut record.effect
            && let Finds::Not(value) = finds
            && (copies_unknown || harness.contents.is_copied(*value))
        {
            // Another version with the same content: its ETag differs, so the failed condition proves nothing.
            *finds = Finds::Anything;
        }
    }
    harness.add("records judged", records.len() as u64);
    let deaths = harness.deaths.lock().unwrap().clone();
    let mut histories = Histories::new(initial, &records, &deaths, &last, now);
    let (wrong, paths) = (histories.wrong(), histories.paths_known());
    harness.add("histories of paths judged", paths as u64);
    for wrong in wrong {
        harness.found(wrong.kind, format!("{}\n{}", wrong.path, wrong.story));
    }
    let keep: BTreeSet<Value> = last.values().copied().collect();
    harness.contents.keep(&keep.into_iter().collect());
    (listed, last)
}
