//! Loops without HTTP, inside the measured server: calls of the drive, and what the disk does at most.

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

use crate::data::{CAMERA, DAY, FIRST_DAY};

/// Bytes of a small file.
pub const SMALL: usize = 4 << 10;
/// Entries of a page.
pub const PAGE: usize = 100;
/// Days of a time page.
pub const PERIOD: i64 = 30;
/// Small files at [`small`].
pub const SMALLS: u64 = 1_000;
/// Bytes of one read or write of a large file, and what they are aligned to.
const BLOCK: usize = 1 << 20;
const ALIGNMENT: usize = 4 << 10;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Loop {
    Put,
    Stat,
    List,
    Period,
    Read,
    /// A small write and a sync, one after the other.
    Sync,
    /// So many MiB past the page cache, and a sync.
    DirectWrite(u64),
    /// So many MiB out of the page cache, after a direct write of them.
    Pread(u64),
}

/// How long a loop runs, and how many of it at once. A loop over MiB ends with them, and is alone.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Asked {
    pub which: Loop,
    pub tasks: usize,
    pub ms: u64,
}

/// How fast a loop was: operations or MiB a second.
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

pub async fn run(drive: &Drive, data: &Path, Asked { which, tasks, ms }: Asked) -> Result<Speed> {
    let large = data.join("large.bin");
    let disk = move || match which {
        Loop::DirectWrite(mib) => direct_write(&large, mib),
        Loop::Pread(mib) => pread(&large, mib),
        _ => Ok(0.0),
    };
    if matches!(which, Loop::DirectWrite(_) | Loop::Pread(_)) {
        return Ok(Speed { per_second: tokio::task::spawn_blocking(disk).await??, ..Speed::default() });
    }
    // Where an earlier loop has put its files, this one puts its own over them.
    let (numbers, file) = (Arc::new(AtomicU64::new(0)), Arc::new(File::create(data.join("sync.bin"))?));
    let (start, mut running, mut all) = (Instant::now(), JoinSet::new(), latencies()?);
    for _ in 0..tasks.max(1) {
        let (drive, numbers, file, mut own) = (drive.clone(), numbers.clone(), file.clone(), latencies()?);
        running.spawn(async move {
            while start.elapsed() < Duration::from_millis(ms) {
                let start = Instant::now();
                call(&drive, &file, which, numbers.fetch_add(1, Ordering::Relaxed)).await?;
                own.saturating_record(start.elapsed().as_nanos() as u64);
            }
            anyhow::Ok(own)
        });
    }
    while let Some(own) = running.join_next().await {
        all.add(own??)?;
    }
    let us = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Speed { per_second: all.len() as f64 / start.elapsed().as_secs_f64(), p50_us: us(0.5), p99_us: us(0.99) })
}

/// In nanoseconds, up to a minute.
fn latencies() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(100, 60_000_000_000, 3)?)
}

async fn call(drive: &Drive, file: &File, which: Loop, n: u64) -> Result<()> {
    match which {
        Loop::Put => put(drive, &format!("/limits/loop/{n}.bin"), n).await?,
        Loop::Stat => drop(drive.stat(&DrivePath::parse(&small(n))?).await?),
        Loop::Read => {
            let body = drive.open_file(&DrivePath::parse(&small(n))?).await?.body;
            let length = body.len();
            body.stream(0, length).try_for_each(async |_| Ok(())).await?;
        }
        Loop::List => {
            let page = ListQuery { kind: Some(NodeKind::File), prefix: String::new(), after: None, limit: PAGE };
            drop(drive.list(&DrivePath::parse(CAMERA)?, &page).await?);
        }
        Loop::Period => drop(drive.files_by_time(&period(n)).await?),
        _ => {
            file.write_all_at(&[7; SMALL], n * SMALL as u64)?;
            file.sync_data()?;
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

/// The newest files of 30 days; other days each time.
fn period(n: u64) -> TimeQuery {
    let from = first_ms(n);
    TimeQuery {
        clock: Clock::Modified,
        from: Some(Timestamp::from_ms(from)),
        to: Some(Timestamp::from_ms(from + PERIOD * DAY)),
        under: None,
        creator: None,
        mime: None,
        ascending: false,
        after: None,
        limit: PAGE,
    }
}

/// Where period `n` begins, in milliseconds since 1970.
fn first_ms(n: u64) -> i64 {
    FIRST_DAY + (n % 1_000) as i64 * DAY
}

/// The query of the same page over HTTP.
pub fn time_page(n: u64) -> String {
    let time = |ms| jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("from={}&to={}&limit={PAGE}", time(first_ms(n)), time(first_ms(n) + PERIOD * DAY))
}

fn direct_write(path: &Path, mib: u64) -> Result<f64> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    let file = options.open(path).context("this file system has no O_DIRECT")?;
    let buffer = vec![7; BLOCK + ALIGNMENT];
    let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
    let block = buffer.get(aligned..aligned + BLOCK).context("a buffer cannot be aligned")?;
    let start = Instant::now();
    (0..mib).try_for_each(|at| file.write_all_at(block, at << 20))?;
    file.sync_data()?;
    Ok(mib as f64 / start.elapsed().as_secs_f64())
}

/// Reads what [`direct_write`] has written.
fn pread(path: &Path, mib: u64) -> Result<f64> {
    let (file, mut block) = (File::open(path)?, vec![0; BLOCK]);
    let mut read = || (0..mib).try_for_each(|at| file.read_exact_at(&mut block, at << 20));
    read()?;
    let start = Instant::now();
    read()?;
    Ok(mib as f64 / start.elapsed().as_secs_f64())
}
