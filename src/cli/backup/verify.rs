//! A copy held to what `rowdrive check` holds a data folder to.

use std::path::Path;
use std::sync::Arc;

use rowdrive::check::{CheckEvent, CheckSummary, Finding, FindingKind, Options, check};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::table::Tables;

use super::{BackupFailed, Progress, Result};

/// A data folder that is read and not changed.
pub struct OpenCopy {
    rocks: Arc<Rocks>,
    pub tables: Tables,
}

impl OpenCopy {
    pub async fn open(data: &Path, memory: usize) -> Result<Self> {
        let rocks = Rocks::open_read_only(&data.join("db"), RocksOptions { memory });
        let rocks = Arc::new(rocks.map_err(BackupFailed::Copy)?);
        let tables = Tables::new(rocks.clone());
        migrate::open(&tables).await?;
        Ok(Self { rocks, tables })
    }

    /// What cannot be read of its tables, each of which is read once.
    pub async fn damage(&self) -> Result<Vec<String>> {
        self.rocks.scrub().await.map_err(BackupFailed::Copy)
    }

    pub async fn close(self) {
        self.rocks.close().await;
    }
}

/// Names what is wrong, and counts all. `content`: every byte of every file too.
pub async fn verify(copy: &OpenCopy, data: &Path, content: bool, progress: &mut Progress) -> Result<CheckSummary> {
    let (summary, rotten) = inspect(copy, data, content, progress).await?;
    for finding in rotten {
        progress.print(&finding.to_string());
    }
    Ok(summary)
}

/// As [`verify`], but content files that are damaged or missing are given, not named.
pub async fn inspect(
    copy: &OpenCopy,
    data: &Path,
    content: bool,
    progress: &mut Progress,
) -> Result<(CheckSummary, Vec<Finding>)> {
    let mut rotten = Vec::new();
    let options = Options { content, repair: false };
    let mut tell = |told: CheckEvent<'_>| match told {
        CheckEvent::Stage(stage) => progress.stage(stage),
        CheckEvent::Rows(rows) => progress.rows(rows as u64),
        CheckEvent::Finding(finding)
            if matches!(finding.kind, FindingKind::ContentDamaged | FindingKind::ContentMissing)
                && finding.table == "content" =>
        {
            rotten.push(finding.clone());
        }
        CheckEvent::Finding(finding) => progress.print(&finding.to_string()),
    };
    let summary = check(&copy.tables, data, &options, &mut tell).await?;
    Ok((summary, rotten))
}
