//! The goals of large files, large folders and large stores.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::loops::Loop;
use super::profile::Profiles;
use super::rounds::Rounds;
use super::server::Asked;
use super::{Options, Subject, large};
use crate::comparison::disk_usage::DiskUsage;
use crate::data::Tree;
use crate::progress::{Stop as Pace, bar};
use crate::report::model::Limit;
use crate::stats::median;
use crate::subtrees::{Moved, Mover};

const MIB: f64 = 1_048_576.0;
/// Transfers at a time, to see what each takes of memory.
const STREAMS: u64 = 4;
const FILE: &str = "/v1/fs/limits/large.bin";

/// Bytes a file, and the time that the store took to open.
pub fn of_store(tree: &Tree, settled: &DiskUsage, opened: Duration) -> Vec<Limit> {
    let files = tree.files.len() as f64;
    let bytes = settled.tables.values().sum::<u64>() as f64 / files;
    let path = tree.files.iter().map(|file| tree.path(file).len()).sum::<usize>() as f64 / files;
    let by_table = settled.tables.iter().map(|(table, bytes)| (table.clone(), *bytes as f64 / files)).collect();
    let mut disk = at_most("disk per file, all tables and indexes", "bytes", bytes, 400.0);
    disk.also = by_table;
    disk.note = Some(format!("paths of {path:.0} bytes on average"));
    let opened = opened.as_secs_f64() * 1e3;
    vec![disk, at_most(&format!("start with {} files", tree.files.len()), "ms", opened, 2_000.0)]
}

fn at_most(operation: &str, unit: &str, ours: f64, goal: f64) -> Limit {
    Limit {
        operation: operation.into(),
        unit: unit.into(),
        ours,
        limit: goal,
        limit_is: "goal".into(),
        ratio: ours / goal,
        goal: "<= 1".into(),
        met: ours <= goal,
        ..Limit::default()
    }
}

pub async fn goals(subject: &Subject, options: &Options, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    upload(subject, options.large, keep).await?;
    download(subject, options.large, keep).await
}

/// Bytes a second of each, by round.
struct Transfers {
    ours: Vec<f64>,
    from_memory: Vec<f64>,
    disk: Vec<f64>,
}

impl Transfers {
    fn limit(&self, operation: String, [memory, disk]: [&str; 2]) -> Limit {
        let limits = self.from_memory.iter().zip(&self.disk).map(|(memory, disk)| memory.min(*disk));
        let limits: Vec<f64> = limits.collect();
        let ratio = median(&self.ours.iter().zip(&limits).map(|(ours, limit)| ours / limit).collect::<Vec<_>>());
        Limit {
            operation,
            unit: "MiB/s".into(),
            ours: median(&self.ours) / MIB,
            limit: median(&limits) / MIB,
            limit_is: format!("the lesser of {memory} and {disk}"),
            ratio,
            goal: ">= 0.85".into(),
            met: ratio >= 0.85,
            raw: BTreeMap::from([
                (memory.to_owned(), median(&self.from_memory) / MIB),
                (disk.to_owned(), median(&self.disk) / MIB),
            ]),
            ..Limit::default()
        }
    }
}

async fn upload(subject: &Subject, bytes: u64, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let Subject { server, rounds: Rounds { rounds, pace, .. }, .. } = subject;
    let title = bar("limits: large uploads")?;
    let mut all = Transfers { ours: Vec::new(), from_memory: Vec::new(), disk: Vec::new() };
    let (mut device, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..*rounds {
        pace.go_on()?;
        let (resident, written) = (server.resident()?, server.written()?);
        let (sent, most) = server.most_resident(large::send(server, FILE, bytes)).await?;
        all.ours.push(sent?);
        device.push((server.written()? - written) as f64 / bytes as f64);
        memory.push(most.saturating_sub(resident) as f64 / MIB);
        all.from_memory.push(large::send(server, "/limits/discard", bytes).await?);
        let asked = Asked { tasks: 1, ms: 0, bytes };
        all.disk.push(server.looped(Loop::DirectWrite, asked).await?.per_second);
        title.inc(1);
    }
    let speed =
        all.limit(format!("upload {} MiB, durable", bytes >> 20), ["a sink without a store", "an O_DIRECT loop"]);
    title.finish_and_clear();
    keep(profiled(subject, speed, large::send(server, FILE, bytes)).await?)?;
    keep(at_most("upload, device bytes for each of the user's", "x", median(&device), 1.02))?;
    keep(at_most("upload, memory for a stream", "MiB", median(&memory), 8.0))
}

async fn download(subject: &Subject, bytes: u64, keep: &mut impl FnMut(Limit) -> Result<()>) -> Result<()> {
    let Subject { server, rounds: Rounds { rounds, pace, .. }, .. } = subject;
    let title = bar("limits: large downloads")?;
    let mut all = Transfers { ours: Vec::new(), from_memory: Vec::new(), disk: Vec::new() };
    let mut memory = Vec::new();
    let stream = format!("/limits/stream/{bytes}");
    large::receive(server, FILE, bytes).await?;
    for _ in 0..*rounds {
        pace.go_on()?;
        all.ours.push(large::receive(server, FILE, bytes).await?);
        all.from_memory.push(large::receive(server, &stream, bytes).await?);
        all.disk.push(server.looped(Loop::Pread, Asked { tasks: 1, ms: 0, bytes }).await?.per_second);
        let resident = server.resident()?;
        let streams = try_join_all((0..STREAMS).map(|_| large::receive(server, FILE, bytes)));
        let (received, most) = server.most_resident(streams).await?;
        received?;
        memory.push(most.saturating_sub(resident) as f64 / MIB / STREAMS as f64);
        title.inc(1);
    }
    title.finish_and_clear();
    let speed = all.limit(format!("download {} MiB", bytes >> 20), ["a stream from memory", "a pread loop"]);
    keep(profiled(subject, speed, large::receive(server, FILE, bytes)).await?)?;
    keep(at_most("download, memory for a stream", "MiB", median(&memory), 4.0))
}

async fn profiled(subject: &Subject, limit: Limit, work: impl Future<Output = Result<f64>>) -> Result<Limit> {
    let mut limits = [limit];
    subject.profiles.add(&mut limits, subject.server.id(), work).await?;
    let [limit] = limits;
    Ok(limit)
}

/// The move of a large folder, beside the same rows in a RocksDB of their own.
pub async fn moved(options: &Options, scratch: &Path, pace: &Pace, profiles: &Profiles) -> Result<Limit> {
    pace.go_on()?;
    let mut mover = Mover::new(options.moved, &scratch.join("moved")).await?;
    let times = mover.times(options.rounds as u32).await?;
    let ms = |of: fn(&Moved) -> f64| median(&times.iter().map(of).collect::<Vec<_>>());
    let ratio = ms(|moved| moved.ours / moved.plain);
    let mut limits = [Limit {
        operation: format!("move a folder of {}", options.moved),
        unit: "ms".into(),
        ours: ms(|moved| moved.ours) * 1e3,
        limit: ms(|moved| moved.plain) * 1e3,
        limit_is: "scan, put and delete_range of the same rows, in batches as large".into(),
        ratio,
        goal: "<= 1.25".into(),
        met: ratio <= 1.25,
        ..Limit::default()
    }];
    profiles.add(&mut limits, std::process::id(), mover.times(1)).await?;
    mover.close().await;
    let [limit] = limits;
    Ok(limit)
}
