//! The drive as a library: opens one in a folder, stores a file, lists its directory, finds it by its time, reads it.
//!
//!     cargo run --release --example open_drive

use std::error::Error;
use std::sync::Arc;

use futures_util::TryStreamExt;
use rowdrive::drive::{Drive, ListQuery, PutOptions, TimeQuery, whole_body};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::{DrivePath, Timestamp};
use rowdrive::table::Tables;

/// Public because a test runs it.
#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    // The tables go to `db`, the content of larger files to `content`. Any store will do in place of RocksDB.
    let folder = tempfile::tempdir()?;
    let tables = Tables::new(Arc::new(Rocks::open(&folder.path().join("db"), RocksOptions::default())?));
    migrate::up(&tables).await?;
    let opened = Drive::open(tables, &folder.path().join("content")).await?;
    // A drive without users: everyone may do everything.
    let drive = opened.unrestricted();

    // Upload. When `put` returns, the file is on the disk.
    let path = DrivePath::parse("/notes/hello.txt")?;
    let modified = Some(Timestamp::parse("2026-01-02T03:04:05Z")?);
    let options = PutOptions { modified, ..PutOptions::new("text/plain", "anonymous") };
    drive.put(&path, options, whole_body("Hello")).await?;

    // List its directory.
    let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 100 };
    for node in drive.list(&DrivePath::parse("/notes")?, &query).await?.nodes {
        println!("listed {}", node.path());
    }

    // The files of January 2026, newest first.
    let january = TimeQuery {
        clock: Clock::Modified,
        from: Some(Timestamp::parse("2026-01-01T00:00:00Z")?),
        to: Some(Timestamp::parse("2026-02-01T00:00:00Z")?),
        under: None,
        creator: None,
        mime: None,
        ascending: false,
        after: None,
        limit: 100,
    };
    for node in drive.files_by_time(&january).await?.nodes {
        println!("found {}", node.path());
    }

    // Read it.
    let file = drive.open_file(&path).await?;
    let size = file.body.len();
    let bytes: Vec<_> = file.body.stream(0, size).try_collect().await?;
    println!("read {}", String::from_utf8(bytes.concat())?);

    opened.close().await;
    Ok(())
}
