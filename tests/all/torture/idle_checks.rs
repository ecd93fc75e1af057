//! What must hold when nobody works: everything acknowledged is there with its bytes, nothing else is, and every way
//! to look at it shows the same.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client as Http, Method};
use serde_json::Value as Json;

use super::checker::{Finds, Value};
use super::content;
use super::history::{Deed, Histories, Path};
use super::site::{Ask, Reply, Site};

/// In which background work ends, and a server takes writes again.
const SETTLES_IN: Duration = Duration::from_secs(30);

/// The files of a drive: ETag and digest, by path.
pub type Files = BTreeMap<Path, (String, String)>;

async fn ask(site: &Site, http: &Http, method: Method, target: &str, body: &str) -> Option<Reply> {
    let ask = Ask { body: body.to_owned().into(), ..Ask::new(method, target.to_owned()) };
    site.call(http, ask).await.ok()
}

async fn get(site: &Site, http: &Http, target: &str) -> Option<Reply> {
    ask(site, http, Method::GET, target, "").await
}

/// A number of `/metrics`, over all its labels.
fn metric(text: &str, name: &str) -> f64 {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let of_this = rest.starts_with(' ') || rest.starts_with('{');
        of_this.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
    });
    values.sum()
}

async fn metrics(site: &Site, http: &Http) -> String {
    let text = get(site, http, "/metrics").await.map(|reply| reply.body).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

pub async fn is_writable(site: &Site) -> bool {
    let http = Http::new();
    let ready = get(site, &http, "/readyz").await.is_some_and(|reply| reply.status == 200);
    ready && metric(&metrics(site, &http).await, "rowdrive_store_writable") > 0.0
}

/// Waits while the server says that its disk is full: a full disk may be under way too, and then no sync is.
pub async fn has_room(site: &Site) {
    let (http, start) = (Http::new(), Instant::now());
    while start.elapsed() < SETTLES_IN && get(site, &http, "/readyz").await.is_some_and(|reply| reply.status == 507) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// After a failed sync no write is taken until the server is restarted, and everybody is told. Reads go on.
pub async fn refuses_writes(site: &Site) {
    let http = Http::new();
    if is_writable(site).await {
        // No sync was under way, or not so many.
        return;
    }
    site.count("failed syncs met");
    for _ in 0..3 {
        let put = ask(site, &http, Method::PUT, "/v1/fs/after-failed-sync", "x").await;
        let (status, problem) = put.map(|put| (put.status, put.problem())).unwrap_or_default();
        if (status, problem.as_str()) != (503, "writes-stopped") {
            site.found("write after a failed sync", format!("{status} {problem}"));
        }
        let ready = get(site, &http, "/readyz").await.map(|reply| reply.status);
        if ready != Some(503) {
            site.found("readyz after a failed sync", format!("{ready:?}"));
        }
        let list = get(site, &http, "/v1/fs/").await.map(|reply| reply.status);
        if list != Some(200) {
            site.found("read after a failed sync", format!("{list:?}"));
        }
    }
}

/// A write is answered by 2xx, sooner or later.
pub async fn takes_writes(site: &Site, after: &str) {
    let (http, start) = (Http::new(), Instant::now());
    loop {
        let put = ask(site, &http, Method::PUT, "/v1/fs/probe", "probe").await;
        let status = put.as_ref().map(|put| put.status);
        if status.is_some_and(|status| status < 300) {
            return;
        }
        if site.disk_fails.load(std::sync::atomic::Ordering::SeqCst) {
            // Another fault has taken the store away; that one looks after it.
            return;
        }
        if start.elapsed() > SETTLES_IN {
            site.found("no writes", format!("after {after}: {status:?}"));
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until nothing is under way in the background.
pub async fn settled(site: &Site) {
    let (http, start) = (Http::new(), Instant::now());
    loop {
        let text = metrics(site, &http).await;
        let running = metric(&text, "rowdrive_drive_operations");
        let waiting = metric(&text, "rowdrive_drive_cleanup_waiting");
        // The one who asks is in flight.
        let in_flight = metric(&text, "rowdrive_http_in_flight");
        if running + waiting == 0.0 && in_flight <= 1.0 && !text.is_empty() {
            for (name, kind) in [("rowdrive_damage_found_total", "damage"), ("rowdrive_http_panics_total", "panic")] {
                if metric(&text, name) > 0.0 {
                    site.found(kind, format!("{name} is {}", metric(&text, name)));
                }
            }
            return;
        }
        if start.elapsed() > SETTLES_IN {
            let what = format!("{running} operations, {waiting} contents, {in_flight} requests are under way");
            site.found("never settles", what);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All entries of a query, page by page.
async fn pages(site: &Site, http: &Http, query: &str, limit: usize) -> Vec<Json> {
    let (mut entries, mut cursor) = (Vec::new(), String::new());
    loop {
        let Some(reply) = get(site, http, &format!("{query}limit={limit}{cursor}")).await else { return entries };
        if reply.status != 200 {
            site.found("wrong status", format!("{query} answers {} in quiet", reply.status));
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

fn files(site: &Site, of: &str, entries: &[Json]) -> Files {
    let mut files = Files::new();
    for entry in entries.iter().filter(|entry| entry["kind"] == "file") {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        if files.insert(text("path").into(), (text("etag"), text("digest"))).is_some() {
            site.found("twice", format!("{of} has {} twice", text("path")));
        }
    }
    files
}

/// The whole tree, by listings.
pub async fn walk(site: &Site, dice: &mut StdRng) -> Files {
    let http = Http::new();
    let (mut all, mut left) = (Vec::new(), vec![String::new()]);
    while let Some(at) = left.pop() {
        let limit = dice.random_range(5..1_000);
        let entries = pages(site, &http, &format!("/v1/fs{at}/?"), limit).await;
        let directories = entries.iter().filter(|entry| entry["kind"] == "directory");
        left.extend(directories.filter_map(|entry| entry["path"].as_str()).map(str::to_owned));
        all.extend(entries);
    }
    files(site, "the walk", &all)
}

/// Time and name queries show exactly what the walk shows.
async fn queries_agree(site: &Site, walked: &Files, dice: &mut StdRng) {
    let http = Http::new();
    for query in ["/v1/files?", "/v1/files?clock=added&order=asc&"] {
        let entries = pages(site, &http, query, dice.random_range(50..2_000)).await;
        same(site, query, &files(site, query, &entries), walked);
    }
    let mut named = Files::new();
    for start in ["f", "large", "probe"] {
        let query = format!("/v1/find?name={start}*&");
        let entries = pages(site, &http, &query, dice.random_range(50..2_000)).await;
        named.extend(files(site, &query, &entries));
    }
    // What was sent after a failed sync may have been stored or not.
    let other = |path: &Path| path.contains("after-failed");
    let walked: Files = walked.iter().filter(|(path, _)| !other(path)).map(|(a, b)| (a.clone(), b.clone())).collect();
    same(site, "/v1/find", &named, &walked);
}

pub fn same(site: &Site, what: &str, found: &Files, walked: &Files) {
    let only = |a: &Files, b: &Files| -> Vec<String> {
        a.iter()
            .filter(|(path, file)| b.get(*path) != Some(file))
            .map(|(path, file)| format!("{path} {file:?}"))
            .collect()
    };
    let (more, fewer) = (only(found, walked), only(walked, found));
    if more.len() + fewer.len() > 0 {
        let some = |list: &[String]| list.iter().take(5).cloned().collect::<Vec<_>>();
        let what = format!(
            "{what}: {} that the walk has not, as {:?}; {} of the walk are missing, as {:?}",
            more.len(),
            some(&more),
            fewer.len(),
            some(&fewer)
        );
        site.found("disagree", what);
    }
}

/// Every file's bytes are those of its digest; of the large trees, a few are read.
async fn bytes_are_whole(site: &Site, walked: &Files, all: bool, dice: &mut StdRng) {
    let is_large_tree = |path: &str| path.starts_with("/m/") || path.starts_with("/w/");
    let paths: Vec<_> =
        walked.iter().filter(|(path, _)| all || !is_large_tree(path) || dice.random_bool(0.05)).collect();
    let http = Http::new();
    let reads = paths.into_iter().map(|(path, (_, digest))| {
        let http = &http;
        async move {
            let Some(reply) = get(site, http, &format!("/v1/fs{path}")).await else { return };
            let sum = content::sum(&reply.body);
            if reply.status != 200 || format!("sha-256=:{sum}:") != *digest {
                let found = content::title(&reply.body);
                site.found("wrong bytes", format!("{path} of {digest} answers {} with {found}", reply.status));
            }
            site.count("files read in quiet");
        }
    });
    stream::iter(reads).buffer_unordered(8).collect::<()>().await;
}

/// What is there, by path; files of the faults aside.
fn values(site: &Site, walked: &Files) -> BTreeMap<Path, Value> {
    let mut values = BTreeMap::new();
    let mut copies = HashSet::new();
    let ours = walked.iter().filter(|(path, _)| path.matches('/').count() > 1);
    for (path, (_, digest)) in ours {
        let sum = content::sum_of_header(digest).unwrap_or_default();
        match site.contents.find(&sum) {
            Some(value) => {
                if !copies.insert(value) {
                    site.contents.mark_copied(value);
                }
                values.insert(path.clone(), value);
            }
            None => site.found("ghost", format!("{path} has the digest {sum} of nothing that was stored lately")),
        }
    }
    values
}

/// All that must hold; what is there now, for the next time.
pub async fn look(
    site: &Site,
    initial: &BTreeMap<Path, Value>,
    seed: u64,
    all: bool,
) -> (Files, BTreeMap<Path, Value>) {
    let mut dice = StdRng::seed_from_u64(seed);
    settled(site).await;
    let now = site.now();
    let walked = walk(site, &mut dice).await;
    queries_agree(site, &walked, &mut dice).await;
    bytes_are_whole(site, &walked, all, &mut dice).await;
    let last = values(site, &walked);
    let mut records = std::mem::take(&mut *site.records.lock().unwrap());
    let copies_unknown = records.iter().any(|record| matches!(record.deed, Deed::Arrives { .. }));
    for record in &mut records {
        if let Deed::Step { finds, .. } = &mut record.deed
            && let Finds::Not(value) = finds
            && (copies_unknown || site.contents.is_copied(*value))
        {
            // Another version with the same content: that the ETag failed tells nothing.
            *finds = Finds::Anything;
        }
    }
    site.add("records judged", records.len() as u64);
    let deaths = site.deaths.lock().unwrap().clone();
    let mut histories = Histories::new(initial, &records, &deaths, &last, now);
    let (wrong, paths) = (histories.wrong(), histories.paths_known());
    site.add("histories of paths judged", paths as u64);
    for wrong in wrong {
        site.found(wrong.kind, format!("{}\n{}", wrong.path, wrong.story));
    }
    let keep: BTreeSet<Value> = last.values().copied().collect();
    site.contents.keep(&keep.into_iter().collect());
    (walked, last)
}
