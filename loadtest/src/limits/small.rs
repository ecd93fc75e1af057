//! The goals of small requests.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{Method, Request};
use jiff::Timestamp;

use super::Subject;
use super::beside::beside;
use super::loops::{Loop, PAGE, SMALL, small};
use super::rounds::{Measure, Series, at, composed, once, ratio};
use crate::data::{CAMERA, DAY, FIRST_DAY};
use crate::http::{Base, closed_loop};
use crate::report::model::Limit;

/// Requests at a time, and in the loops without HTTP.
const CLIENTS: usize = 32;
const MANY: usize = 128;
/// How long what misses a goal is sampled, in milliseconds.
const PROFILED: u64 = 2_000;
/// Entries of the largest page that the server gives.
const LARGEST_PAGE: usize = 10_000;

/// Files that were put so far, in all rounds: each has its own name.
static PUT: AtomicU64 = AtomicU64::new(0);

pub async fn goals(subject: &Subject, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    upload(subject, keep).await?;
    upload_of_one(subject, keep).await?;
    stat(subject, keep).await?;
    list(subject, keep).await?;
    pages(subject, keep).await?;
    period(subject, keep).await?;
    download(subject, keep).await
}

impl Subject {
    fn base(&self) -> Base {
        self.base.clone()
    }

    fn get(&self, connections: usize, target: impl Fn(u64) -> String + Send + Sync + 'static) -> Measure {
        let base = self.base();
        Measure::requests(connections, move |n| base.request(Method::GET, target(n), Bytes::new()))
    }

    fn put(&self, connections: usize) -> Measure {
        let base = self.base();
        Measure::requests(connections, move |_| {
            let n = PUT.fetch_add(1, Ordering::Relaxed);
            base.request(Method::PUT, format!("/v1/fs/limits/put/{}/{n}.bin", n / 10_000), body(n))
        })
    }

    /// Keeps what was found out by a measurement, with a profile of it for those goals that it misses.
    async fn told(
        &self,
        mut limits: Vec<Limit>,
        of: &Measure,
        keep: &mut impl FnMut(Limit) -> Result<()>,
    ) -> Result<()> {
        self.profiles.add(&mut limits, self.server.id(), once(&self.server, of, PROFILED)).await?;
        limits.into_iter().try_for_each(keep)
    }

    /// The bytes of the answer to a request.
    async fn length(&self, target: &str) -> Result<usize> {
        let answer = self.server.client().get(self.server.url(target)).send().await?.error_for_status()?;
        Ok(answer.bytes().await?.len())
    }
}

fn body(n: u64) -> Bytes {
    vec![n as u8; SMALL].into()
}

fn at_least(operation: &str, goal: f64, ours: f64, limit: f64, ratio: f64) -> Limit {
    let met = ratio >= goal;
    let (operation, unit, goal) = (operation.into(), "requests/s".into(), format!(">= {goal:.2}"));
    Limit { operation, unit, ours, limit, ratio, goal, met, ..Limit::default() }
}

/// Against the limit that a static handler and the store's own call make together.
fn against_composed(operation: &str, goal: f64, [ours, http, store]: &[Series; 3]) -> Limit {
    let limit = |round| Some(composed(at(http, round)?, at(store, round)?));
    let told = composed(http.per_second(), store.per_second());
    let mut limited = at_least(operation, goal, ours.per_second(), told, ratio(ours, limit));
    limited.limit_is = "composed: static handler and store call".into();
    limited.raw = BTreeMap::from([
        ("static handler".to_owned(), http.per_second()),
        ("store call".to_owned(), store.per_second()),
    ]);
    limited.also = BTreeMap::from([("p50 us".to_owned(), ours.p50_us()), ("p99 us".to_owned(), ours.p99_us())]);
    limited.note = noted([ours, http]);
    limited
}

/// Against a static handler alone.
fn against_static(operation: &str, goal: f64, ours: &Series, http: &Series) -> Limit {
    let found = ratio(ours, |round| at(http, round));
    let mut limited = at_least(operation, goal, ours.per_second(), http.per_second(), found);
    limited.limit_is = "static handler".into();
    limited.note = noted([ours, http]);
    limited
}

fn noted(series: [&Series; 2]) -> Option<String> {
    let bound = series.iter().any(|series| series.generator_bound);
    bound.then(|| "the generator had no time left: its own limit, not the server's".into())
}

async fn upload(subject: &Subject, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let base = subject.base();
    let discard = Measure::requests(CLIENTS, move |n| base.request(Method::PUT, "/limits/discard".into(), body(n)));
    let put = subject.put(CLIENTS);
    let measures = [put.clone(), discard, Measure::Loop { which: Loop::Put, tasks: CLIENTS }];
    let found = subject.rounds.all("upload", &subject.server, measures).await?;
    let mut limit = against_composed("upload 4 KiB, durable, 32 clients", 0.8, &found);
    let [syncs] = subject.rounds.all("sync", &subject.server, [Measure::Loop { which: Loop::Sync, tasks: 1 }]).await?;
    limit.raw.insert("fdatasync of 4 KiB".into(), syncs.per_second());
    subject.told(vec![limit], &put, keep).await?;
    for (clients, goal) in [(CLIENTS, 8.0), (MANY, 40.0)] {
        let before = subject.server.commits().await?;
        let put = subject.put(clients);
        subject.rounds.all("commits per sync", &subject.server, [put.clone()]).await?;
        let after = subject.server.commits().await?;
        let (plans, syncs) = (after.plans - before.plans, after.syncs - before.syncs);
        let ours = plans as f64 / syncs.max(1) as f64;
        let limit = Limit {
            operation: format!("commits per sync, {clients} clients"),
            unit: "commits".into(),
            ours,
            limit: goal,
            limit_is: "goal".into(),
            ratio: ours / goal,
            goal: ">= 1".into(),
            met: ours >= goal,
            ..Limit::default()
        };
        subject.told(vec![limit], &put, keep).await?;
    }
    Ok(())
}

/// What one client waits for, through what a sync and a request take.
async fn upload_of_one(subject: &Subject, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let get = subject.get(1, |_| "/limits/bytes/16".into());
    let put = subject.put(1);
    let measures = [put.clone(), get, Measure::Loop { which: Loop::Sync, tasks: 1 }];
    let [ours, get, sync] = subject.rounds.all("upload, 1 client", &subject.server, measures).await?;
    let limit = sync.p50_us() + get.p50_us();
    let ratio = ours.p50_us() / limit;
    let limit = Limit {
        operation: "upload 4 KiB, durable, 1 client, p50".into(),
        unit: "us".into(),
        ours: ours.p50_us(),
        limit,
        limit_is: "fdatasync and static handler, p50 each".into(),
        ratio,
        goal: "<= 1.5".into(),
        met: ratio <= 1.5,
        raw: BTreeMap::from([("fdatasync".to_owned(), sync.p50_us()), ("static handler".to_owned(), get.p50_us())]),
        ..Limit::default()
    };
    subject.told(vec![limit], &put, keep).await
}

async fn stat(subject: &Subject, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let length = subject.length(&format!("/v1/stat{}", small(0))).await?;
    let request = subject.get(CLIENTS, |n| format!("/v1/stat{}", small(n)));
    let plain = subject.get(CLIENTS, move |_| format!("/limits/bytes/{length}"));
    let measures = [request.clone(), plain, Measure::Loop { which: Loop::Stat, tasks: CLIENTS }];
    let found = subject.rounds.all("stat", &subject.server, measures).await?;
    let mut limit = against_composed("stat, 32 clients", 0.85, &found);
    let [ours, plain, _] = &found;
    let calls = system_calls(subject).await?;
    if let Some(calls) = calls {
        limit.also.insert("system calls per request".into(), calls);
    }
    let limits = vec![limit, against_static("stat, 32 clients, against a static GET", 0.65, ours, plain)];
    subject.told(limits, &request, keep).await?;
    let Some(calls) = calls else { return Ok(()) };
    keep(Limit {
        operation: "stat, system calls".into(),
        unit: "calls".into(),
        ours: calls,
        limit: 2.1,
        limit_is: "goal".into(),
        ratio: calls / 2.1,
        goal: "<= 1".into(),
        met: calls <= 2.1,
        ..Limit::default()
    })
}

/// Of the server, for each stat; none where there is no strace.
async fn system_calls(subject: &Subject) -> Result<Option<f64>> {
    const LENGTH: Duration = Duration::from_millis(1_000);
    let mut strace = Command::new("strace");
    strace.args(["--follow-forks", "--summary-only", "--attach", &subject.server.id().to_string()]);
    let base = subject.base();
    let make = move |n| base.request(Method::GET, format!("/v1/stat{}", small(n)), Bytes::new());
    let work = closed_loop(subject.server.address, CLIENTS, 1, LENGTH, make);
    let Some((told, done)) = beside(&mut strace, work).await? else { return Ok(None) };
    let calls = total(&String::from_utf8_lossy(&told.stderr));
    Ok(calls.map(|calls| calls as f64 / done.requests.max(1) as f64))
}

/// The calls in the last line of strace's summary, as `100.00    0.1    3    4242    17 total`.
fn total(summary: &str) -> Option<u64> {
    let line = summary.lines().rfind(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

async fn list(subject: &Subject, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let page = format!("/v1/fs{CAMERA}/?limit={PAGE}");
    let length = subject.length(&page).await?;
    let request = subject.get(CLIENTS, move |_| page.clone());
    let plain = subject.get(CLIENTS, move |_| format!("/limits/bytes/{length}"));
    let measures = [request.clone(), plain, Measure::Loop { which: Loop::List, tasks: CLIENTS }];
    let found = subject.rounds.all("list", &subject.server, measures).await?;
    subject.told(vec![against_composed("list, page of 100 with attributes", 0.75, &found)], &request, keep).await
}

/// A deep page against the first, and attributes against names.
async fn pages(subject: &Subject, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let first = format!("/v1/fs{CAMERA}/?limit={PAGE}");
    let deep = deep_page(subject).await?;
    let measures = [subject.get(CLIENTS, move |_| deep.clone()), subject.get(CLIENTS, move |_| first.clone())];
    let [deep, first] = subject.rounds.all("deep page", &subject.server, measures).await?;
    let operation = format!("list, page {} of a folder", subject.files / PAGE);
    keep(no_dearer(operation, &deep, &first, "the first page"))?;
    // A folder's names come whole, as text, and all at once: so do the attributes of as many.
    let (base, folder) = (subject.base(), format!("/v1/fs{}/", subject.folder));
    let whole = format!("{folder}?limit={LARGEST_PAGE}");
    let names = move |_| as_text(base.request(Method::GET, folder.clone(), Bytes::new()));
    let request = subject.get(CLIENTS, move |_| whole.clone());
    let measures = [request.clone(), Measure::requests(CLIENTS, names)];
    let [attributes, names] = subject.rounds.all("attributes", &subject.server, measures).await?;
    let limit = no_dearer("list a folder with attributes".into(), &attributes, &names, "names as text");
    subject.told(vec![limit], &request, keep).await
}

/// What two kinds of request take, each.
fn no_dearer(operation: String, ours: &Series, other: &Series, other_is: &str) -> Limit {
    let ratio = 1.0 / ratio(ours, |round| at(other, round));
    Limit {
        operation,
        unit: "us".into(),
        ours: 1e6 / ours.per_second(),
        limit: 1e6 / other.per_second(),
        limit_is: other_is.into(),
        ratio,
        goal: "<= 1.2".into(),
        met: ratio <= 1.2,
        note: noted([ours, other]),
        ..Limit::default()
    }
}

fn as_text(mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/plain"));
    request
}

/// The target of the last whole page of the largest folder: the server gives the cursor of it after all before.
async fn deep_page(subject: &Subject) -> Result<String> {
    let mut cursor = String::new();
    let mut before = subject.files.saturating_sub(PAGE);
    while before > 0 {
        let limit = before.min(LARGEST_PAGE);
        let url = subject.server.url(&format!("/v1/fs{CAMERA}/?limit={limit}{cursor}"));
        let page = subject.server.client().get(url).send().await?.error_for_status()?;
        let page: serde_json::Value = page.json().await?;
        let next = page.get("next").and_then(|next| next.as_str()).context("the largest folder has shrunk")?;
        cursor = format!("&cursor={next}");
        before -= limit;
    }
    Ok(format!("/v1/fs{CAMERA}/?limit={PAGE}{cursor}"))
}

async fn period(subject: &Subject, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let target = |n: u64| {
        let from = FIRST_DAY + (n % 1_000) as i64 * DAY;
        let told = |ms| Timestamp::from_millisecond(ms).map(|at| at.to_string()).unwrap_or_default();
        format!("/v1/files?from={}&to={}&limit={PAGE}", told(from), told(from + 30 * DAY))
    };
    let request = subject.get(CLIENTS, target);
    let measures = [request.clone(), Measure::Loop { which: Loop::Period, tasks: CLIENTS }];
    let [ours, store] = subject.rounds.all("time page", &subject.server, measures).await?;
    let found = ours.per_second();
    let mut limit = at_least("time page of 100", 1.0, found, 5_000.0, found / 5_000.0);
    limit.limit_is = "goal".into();
    limit.raw = BTreeMap::from([("store call".to_owned(), store.per_second())]);
    limit.also = BTreeMap::from([("p50 us".to_owned(), ours.p50_us()), ("p99 us".to_owned(), ours.p99_us())]);
    subject.told(vec![limit], &request, keep).await
}

async fn download(subject: &Subject, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let request = subject.get(CLIENTS, |n| format!("/v1/fs{}", small(n)));
    let plain = subject.get(CLIENTS, |_| format!("/limits/bytes/{SMALL}"));
    let measures = [request.clone(), plain, Measure::Loop { which: Loop::Read, tasks: CLIENTS }];
    let [ours, plain, store] = subject.rounds.all("download", &subject.server, measures).await?;
    let mut limit = against_static("download 4 KiB, 32 clients", 0.65, &ours, &plain);
    limit.raw = BTreeMap::from([("store call".to_owned(), store.per_second())]);
    subject.told(vec![limit], &request, keep).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_are_those_of_the_last_line() {
        let told = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    60.00    0.400000           4    100000           sendto\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.700000           3    210000       120 total\n";
        assert_eq!(total(told), Some(210_000));
        assert_eq!(total("strace: attach: no"), None);
    }
}
