//! Loops without HTTP: calls of the drive, and what the disk does at most.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::TryStreamExt;
use hdrhistogram::Histogram;
use rowdrive::drive::{Drive, ListQuery, NodeKind, PutOptions, TimeQuery, whole_body};
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::{DrivePath, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::server::Asked;
use crate::data::{CAMERA, DAY, FIRST_DAY};

/// Bytes of a small file, as in the goals.
pub const SMALL: usize = 4 << 10;
/// Files of [`SMALL`] that are there, and where.
pub const SMALLS: u64 = 1_000;
pub const PAGE: usize = 100;
/// Bytes of one read or write of a large file, and what they are aligned to.
const BLOCK: usize = 1 << 20;
const ALIGNMENT: usize = 4 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    Put,
    Stat,
    List,
    Period,
    Read,
    Sync,
    DirectWrite,
    Pread,
}

impl Loop {
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Period => "period",
            Self::Read => "read",
            Self::Sync => "sync",
            Self::DirectWrite => "direct-write",
            Self::Pread => "pread",
        }
    }
}

/// How fast something went.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Speed {
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// The path of a small file.
pub fn small(n: u64) -> String {
    format!("/limits/small/{}.bin", n % SMALLS)
}

pub async fn run(drive: &Drive, data: &Path, which: Loop, asked: Asked) -> Result<Speed> {
    let data = data.to_owned();
    match which {
        Loop::Sync => tokio::task::spawn_blocking(move || sync(&data, asked)).await?,
        Loop::DirectWrite => tokio::task::spawn_blocking(move || direct_write(&data, asked.bytes)).await?,
        Loop::Pread => tokio::task::spawn_blocking(move || pread(&data, asked.bytes)).await?,
        calls => repeat(drive, calls, asked).await,
    }
}

async fn repeat(drive: &Drive, which: Loop, asked: Asked) -> Result<Speed> {
    // Where an earlier loop has put its files, this one puts its own over them.
    let numbers = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + Duration::from_millis(asked.ms);
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..asked.tasks.max(1) {
        let (drive, numbers) = (drive.clone(), numbers.clone());
        tasks.spawn(async move {
            let mut histogram = latencies()?;
            while Instant::now() < end {
                let start = Instant::now();
                call(&drive, which, numbers.fetch_add(1, Ordering::Relaxed)).await?;
                histogram.saturating_record(start.elapsed().as_nanos() as u64);
            }
            anyhow::Ok(histogram)
        });
    }
    let mut all = latencies()?;
    while let Some(done) = tasks.join_next().await {
        all.add(done??)?;
    }
    Ok(speed(&all, start.elapsed()))
}

/// In nanoseconds, up to a minute.
fn latencies() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(100, 60_000_000_000, 3)?)
}

fn speed(all: &Histogram<u64>, took: Duration) -> Speed {
    let us = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
    Speed { per_second: all.len() as f64 / took.as_secs_f64(), p50_us: us(0.5), p99_us: us(0.99) }
}

async fn call(drive: &Drive, which: Loop, n: u64) -> Result<()> {
    match which {
        Loop::Put => {
            put(drive, &format!("/limits/loop/{n}.bin"), n).await?;
        }
        Loop::Stat => {
            drive.stat(&DrivePath::parse(&small(n))?).await?;
        }
        Loop::Read => {
            let body = drive.open_file(&DrivePath::parse(&small(n))?).await?.body;
            let length = body.len();
            let mut pieces = std::pin::pin!(body.stream(0, length));
            while let Some(piece) = pieces.try_next().await? {
                std::hint::black_box(piece);
            }
        }
        Loop::List => {
            let ask = ListQuery { kind: Some(NodeKind::File), prefix: String::new(), after: None, limit: PAGE };
            std::hint::black_box(drive.list(&DrivePath::parse(CAMERA)?, &ask).await?);
        }
        _ => {
            std::hint::black_box(drive.files_by_time(&period(n)).await?);
        }
    }
    Ok(())
}

/// Stores a small file, and the folders above it.
pub async fn put(drive: &Drive, path: &str, n: u64) -> Result<()> {
    let options = PutOptions { length: Some(SMALL as u64), ..PutOptions::new("application/octet-stream", "loadtest") };
    drive.put(&DrivePath::parse(path)?, options, whole_body(vec![n as u8; SMALL])).await?;
    Ok(())
}

/// The newest files of a month; another month each time.
fn period(n: u64) -> TimeQuery {
    let from = FIRST_DAY + (n % 1_000) as i64 * DAY;
    TimeQuery {
        clock: Clock::Modified,
        from: Some(Timestamp::from_ms(from)),
        to: Some(Timestamp::from_ms(from + 30 * DAY)),
        under: None,
        creator: None,
        mime: None,
        ascending: false,
        after: None,
        limit: PAGE,
    }
}

/// A small write and a sync, one after the other.
fn sync(data: &Path, asked: Asked) -> Result<Speed> {
    let path = data.join("sync.bin");
    let file = File::create(&path)?;
    let (start, end) = (Instant::now(), Instant::now() + Duration::from_millis(asked.ms));
    let mut all = latencies()?;
    let block = vec![7; SMALL];
    let mut at = 0;
    while Instant::now() < end {
        let start = Instant::now();
        file.write_all_at(&block, at)?;
        file.sync_data()?;
        all.saturating_record(start.elapsed().as_nanos() as u64);
        at += SMALL as u64;
    }
    let took = start.elapsed();
    std::fs::remove_file(path)?;
    Ok(speed(&all, took))
}

/// So many bytes past the page cache, and a sync: bytes a second.
fn direct_write(data: &Path, bytes: u64) -> Result<Speed> {
    let path = data.join("direct.bin");
    let mut options = File::options();
    options.write(true).create(true).truncate(true).custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    let file = options.open(&path).context("this file system has no O_DIRECT")?;
    let buffer = vec![7; BLOCK + ALIGNMENT];
    let start_of_block = buffer.as_ptr().align_offset(ALIGNMENT);
    let block = buffer.get(start_of_block..start_of_block + BLOCK).context("a buffer cannot be aligned")?;
    let start = Instant::now();
    for at in (0..bytes).step_by(BLOCK) {
        file.write_all_at(block, at)?;
    }
    file.sync_data()?;
    let took = start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(Speed { per_second: bytes as f64 / took, ..Speed::default() })
}

/// So many bytes out of the page cache: bytes a second.
fn pread(data: &Path, bytes: u64) -> Result<Speed> {
    let path = data.join("pread.bin");
    if !path.exists() {
        let file = File::create(&path)?;
        for at in (0..bytes).step_by(BLOCK) {
            file.write_all_at(&vec![(at >> 20) as u8; BLOCK], at)?;
        }
    }
    let file = File::open(&path)?;
    let mut block = vec![0; BLOCK];
    let read = |block: &mut [u8]| (0..bytes).step_by(BLOCK).try_for_each(|at| file.read_exact_at(block, at));
    read(&mut block)?;
    let start = Instant::now();
    read(&mut block)?;
    Ok(Speed { per_second: bytes as f64 / start.elapsed().as_secs_f64(), ..Speed::default() })
}
