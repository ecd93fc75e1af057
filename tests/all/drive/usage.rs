//! What each creator has is counted: the counters are what a recount of the tree finds, after any changes and faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rowdrive::drive::{Condition, Drive, ListQuery, Node, PutOptions, Settings, Thresholds, whole_body};
use rowdrive::engines::memory::Memory;
use rowdrive::schema::account::{self, Usage};
use rowdrive::schema::{CF, DrivePath};
use rowdrive::table::{RowCursor, RowQuery, RowRange, Tables};

use super::fixture::{Fixture, SETTINGS, bytes, path};
use super::model::Op;
use crate::stepwise::{Fault, Stepwise};

/// Users by their names, and creators who are none.
const CREATORS: [&str; 5] = ["eva", "tom", "Tom", "anonymous", "two words"];
const DIRECTORIES: [&str; 6] = ["/a", "/b", "/a/d", "/b/d", "/a/d/e", "/n/m"];
const FILES: [&str; 8] = ["/f", "/a/f", "/a/g", "/b/f", "/a/d/f", "/b/d/g", "/n/m/f", "/a/d/e/h"];
const FAULTS: [Fault; 6] =
    [Fault::Stop, Fault::StopAfter, Fault::Lose, Fault::LoseAnswer, Fault::DelayAndStop, Fault::Slow];

type Sums = BTreeMap<String, Usage>;

/// The sums that a walk through the tree finds.
pub async fn recounted(drive: &Drive) -> Sums {
    let (mut sums, mut below) = (Sums::new(), vec![DrivePath::root()]);
    while let Some(at) = below.pop() {
        let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10_000 };
        for node in drive.unrestricted().list(&at, &query).await.unwrap().nodes {
            let (creator, size) = match node {
                Node::Directory { path, entry } => {
                    below.push(path);
                    (entry.creator, 0)
                }
                Node::File { entry, .. } => (entry.attributes.creator, entry.attributes.size),
            };
            let sum = sums.entry(creator).or_default();
            *sum = Usage { bytes: sum.bytes + size as i64, files: sum.files + 1 };
        }
    }
    sums.retain(|creator, _| !["anonymous", "two words"].contains(&creator.as_str()));
    sums
}

/// The counters of all accounts, but those that are zero.
pub async fn counters(tables: &Tables) -> Sums {
    let all = RowCursor::new(account::TABLE, RowRange::all(), RowQuery::families(&[CF]), 100);
    let rows = all.rest(tables).await.unwrap().into_iter();
    let sums = rows.map(|(key, row)| (String::from_utf8(key.to_vec()).unwrap(), Usage::from_row(&row).unwrap()));
    sums.filter(|(_, usage)| *usage != Usage::default()).collect()
}

async fn assert_counted(fixture: &Fixture, what: &str) {
    fixture.wait_until_no_records().await;
    fixture.idle().await;
    assert_eq!(counters(&fixture.tables).await, recounted(&fixture.watcher).await, "{what}");
}

/// One change by some creator. Whatever its answer is, it has happened whole or not.
pub async fn change(drive: &Drive, op: Op, creator: &str) {
    let drive = drive.unrestricted();
    let _answer = match op {
        Op::Put(at, size) | Op::New(at, size) => {
            let options = PutOptions::new("image/png", creator);
            drive.put(&path(at), options, whole_body(bytes(size))).await.map(|_| ()).map_err(|error| error.to_string())
        }
        Op::Mkdir(at) => drive.mkdir(&path(at), creator, true).await.map(|_| ()).map_err(|error| error.to_string()),
        Op::Rmdir(at) => drive.rmdir(&path(at)).await.map_err(|error| error.to_string()),
        Op::Delete(at) => drive.delete(&path(at), &Condition::default()).await.map_err(|error| error.to_string()),
        Op::Remove(at) => drive.delete_subtree(&path(at)).await.map_err(|error| error.to_string()),
        Op::Move(from, to, overwrite) => {
            let moved = drive.move_node(&path(from), &path(to), overwrite).await;
            moved.map(|_| ()).map_err(|error| error.to_string())
        }
        Op::Copy(from, to, overwrite) => {
            let copied = drive.copy_node(&path(from), &path(to), overwrite, creator).await;
            copied.map(|_| ()).map_err(|error| error.to_string())
        }
    };
}

fn draw(rng: &mut StdRng) -> Op {
    let [one, other] = [(); 2].map(|()| FILES.choose(rng).copied().unwrap());
    let [from, to] = [(); 2].map(|()| DIRECTORIES.choose(rng).copied().unwrap());
    let size = if rng.random_bool(0.05) { 300_000 } else { rng.random_range(0..100) };
    match rng.random_range(0..16) {
        0..6 => Op::Put(one, size),
        6 => Op::Delete(one),
        7..9 => Op::Move(one, other, rng.random()),
        9 => Op::Mkdir(from),
        10..12 => Op::Move(from, to, false),
        12 => Op::Remove(from),
        13..15 => Op::Copy(from, to, rng.random()),
        _ => Op::Rmdir(from),
    }
}

/// Three clients at a time, with a fault at some call of every third round, and with every threshold.
async fn random_changes(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let threshold = rng.random_range(1..4);
    let memory = Arc::new(Memory::default());
    let store = if rng.random() { Stepwise::new(memory) } else { Stepwise::atomic(memory) };
    let settings = Settings { limits: Thresholds::all(threshold), ..SETTINGS };
    let mut fixture = Fixture::on(store, settings, &[]).await;
    fixture.store.scan_row_by_row();
    for round in 0..12 {
        let fault = (round % 3 == 2).then(|| *FAULTS.choose(&mut rng).unwrap());
        if let Some(fault) = fault {
            fixture.store.at_call(fixture.store.calls() + rng.random_range(1..120), fault);
        }
        let ops: Vec<_> = (0..3).map(|_| (draw(&mut rng), *CREATORS.choose(&mut rng).unwrap())).collect();
        join_all(ops.iter().map(|(op, creator)| change(&fixture.drive, *op, creator))).await;
        if fault.is_some() {
            fixture.store.forget_faults();
            fixture.drive.close().await;
            fixture.restart().await;
        }
        assert_counted(&fixture, &format!("seed {seed}, round {round}, {fault:?}: {ops:?}")).await;
    }
    let (summary, findings) = fixture.check(false).await;
    assert_eq!(summary.wrong, 0, "seed {seed}: {findings:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_what_a_recount_finds_after_random_changes_and_crashes() {
    let seeds = std::env::var("ROWDRIVE_USAGE_SEEDS").map_or(60, |seeds| seeds.parse().unwrap());
    for from in (0..seeds).step_by(20) {
        join_all((from..seeds.min(from + 20)).map(random_changes)).await;
    }
}

/// While the clean-up of a deleted directory runs, its files count until they are taken out, each once.
#[tokio::test]
async fn a_deleted_tree_is_taken_off_once_whoever_clears_it_away() {
    let set_up = [Op::Put("/a/f", 5), Op::Put("/a/g", 6), Op::Put("/a/c/h", 7), Op::Put("/a/c/i", 8)];
    for threshold in 1..=3 {
        let settings = Settings { limits: Thresholds::all(threshold), ..SETTINGS };
        let clean = Fixture::with(settings, &set_up).await;
        clean.store.scan_row_by_row();
        let begun = clean.store.calls();
        clean.run(Op::Remove("/a")).await.unwrap();
        clean.idle().await;
        for call in 1..=clean.store.calls() - begun {
            let fixture = Fixture::with(settings, &set_up).await;
            fixture.store.scan_row_by_row();
            let rival = fixture.watcher.clone();
            fixture.store.once_before_call(fixture.store.calls() + call, move || async move {
                // It wants the rows of the deleted directory, so it clears them away itself.
                for at in ["/a/c/h", "/a/f"] {
                    change(&rival, Op::Put(at, 9), "tom").await;
                }
            });
            fixture.run(Op::Remove("/a")).await.unwrap();
            assert_counted(&fixture, &format!("threshold {threshold}, call {call}")).await;
            fixture.nothing_left_over().await;
        }
    }
}
