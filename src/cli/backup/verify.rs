//! Checks a copy as `rowdrive check` checks a data folder.

use std::path::Path;
use std::sync::Arc;

use rowdrive::check::{CheckEvent, CheckOptions, CheckSummary, Finding, FindingKind, check};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::migrate;
use rowdrive::table::Tables;

use super::{BackupFailed, Progress, Result};

/// A data folder that is open read-only.
pub struct OpenCopy {
    rocks: Arc<Rocks>,
    pub tables: Tables,
}

impl OpenCopy {
    pub async fn open(data: &Path, memory: usize) -> Result<Self> {
        let rocks = Rocks::open_read_only(&data.join("db"), RocksOptions::with_memory(memory));
        let rocks = Arc::new(rocks.map_err(BackupFailed::Copy)?);
        let tables = Tables::new(rocks.clone());
        migrate::open(&tables).await?;
        Ok(Self { rocks, tables })
    }

    /// Reads all tables once, and returns the errors.
    pub async fn damage(&self) -> Result<Vec<String>> {
        self.rocks.scrub().await.map_err(BackupFailed::Copy)
    }

    pub async fn close(self) {
        self.rocks.close().await;
    }
}

/// Prints what is wrong, and returns the counts. `content`: reads every byte of every file too.
pub async fn verify(copy: &OpenCopy, data: &Path, content: bool, progress: &mut Progress) -> Result<CheckSummary> {
    let (summary, damaged_content) = inspect(copy, data, content, progress).await?;
    for finding in damaged_content {
        progress.print(&finding.to_string());
    }
    Ok(summary)
}

/// As [`verify`], but returns findings of damaged or missing content files instead of printing them.
pub async fn inspect(
    copy: &OpenCopy,
    data: &Path,
    content: bool,
    progress: &mut Progress,
) -> Result<(CheckSummary, Vec<Finding>)> {
    let mut damaged_content = Vec::new();
    let options = CheckOptions { content, repair: false };
    let mut on_event = |event: CheckEvent<'_>| match event {
        CheckEvent::Stage(stage) => progress.stage(stage),
        CheckEvent::Rows(rows) => progress.rows(rows as u64),
        CheckEvent::Finding(finding)
            if matches!(finding.kind, FindingKind::ContentDamaged | FindingKind::ContentMissing)
                && finding.table == "content" =>
        {
            damaged_content.push(finding.clone());
        }
        CheckEvent::Finding(finding) => progress.print(&finding.to_string()),
    };
    let summary = check(&copy.tables, data, &options, &mut on_event).await?;
    Ok((summary, damaged_content))
}
