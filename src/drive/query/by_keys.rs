//! The strategy along the keys of a folder: reads the index rows of the folder's files in the order of the index, and no
//! others.
//!
//! Its keys are in memory ([`folder_keys`](crate::drive::folder_keys)). The first queries of a folder read it whole for
//! that, each as much of it as its other strategy has read meanwhile.

use super::by_index::IndexStrategy;
use super::by_time;
use super::reconcile::{IndexPage, IndexRange};
use super::source::{QuerySource, StrategyProgress, time_range};
use crate::drive::error::{DriveError, Result};
use crate::drive::folder_keys::{FolderScan, SetId, SetState};
use crate::drive::model::TimeQuery;
use crate::drive::namespace::scope::Scope;
use crate::drive::namespace::subtree_files::SubtreeFiles;
use crate::schema::DrivePath;
use crate::schema::dir::FileEntry;
use crate::schema::index::by_time::{self as time_index, Clock};

/// A running query of a folder by its keys.
pub struct KeysStrategy<'a> {
    source: &'a QuerySource,
    ask: &'a TimeQuery,
    scope: Scope,
    set: SetId,
    /// The rows of the keys, once the folder is read.
    rows: Option<IndexStrategy<'a>>,
    /// Cells of the folder that this query has read.
    work: usize,
}

impl<'a> KeysStrategy<'a> {
    /// None if a directory has moved since this epoch; for stores whose rows have to be verified; and for queries by
    /// creator or type, since a set has keys alone.
    ///
    /// IMPORTANT: the epoch is read before the scope is looked up. The set has the files below a path; if another
    /// directory had that path by now, the files of the scope would be missing.
    pub fn new(
        source: &'a QuerySource,
        ask: &'a TimeQuery,
        under: &DrivePath,
        scope: Scope,
        epoch: u64,
    ) -> Option<Self> {
        if !source.namespace.tables.is_atomic() || ask.has_filter() {
            return None;
        }
        let files = || SubtreeFiles::new(&source.namespace, under);
        let set = source.folder_keys.set_of(&under.key(), ask.clock, epoch, files)?;
        Some(Self { source, ask, scope, set, rows: None, work: 0 })
    }

    /// Continues until it has read as many cells as the other strategy.
    pub async fn catch_up(&mut self, work: usize) -> Result<StrategyProgress<IndexPage>> {
        while self.work + self.rows.as_ref().map_or(0, IndexStrategy::work) < work {
            if let Some(rows) = &mut self.rows {
                match rows.step(&|cell| by_time(self.ask, cell)).await? {
                    StrategyProgress::Unfinished => continue,
                    ended => return Ok(ended),
                }
            }
            match self.source.folder_keys.state(self.set) {
                SetState::Dropped => return Ok(StrategyProgress::Void),
                SetState::Whole => self.rows = Some(self.rows()),
                SetState::Unfinished(scan) => {
                    // Another query of this folder continues it now.
                    let Ok(mut scan) = scan.try_lock() else { return Ok(StrategyProgress::Unfinished) };
                    let most = work.saturating_sub(self.work);
                    match self.read_folder(&mut scan, most).await {
                        _ if !self.source.folder_keys.is_valid(self.set) => return Ok(StrategyProgress::Void),
                        Err(DriveError::Contended) => return Ok(StrategyProgress::Void),
                        Err(error) => {
                            // The scan may be past what could not be read: the next query begins anew.
                            self.source.folder_keys.forget(self.set);
                            return Err(error);
                        }
                        Ok(()) => {}
                    }
                }
            }
        }
        Ok(StrategyProgress::Unfinished)
    }

    fn rows(&self) -> IndexStrategy<'a> {
        let (table, range) = (time_index::TABLE, time_range(self.ask));
        let (reverse, limit) = (self.ask.ascending, self.ask.limit);
        IndexStrategy::of_keys(
            self.source,
            IndexRange { table, range, reverse, limit, scope: self.scope.clone() },
            self.set,
        )
    }

    /// Reads some more of the folder, and ends the set with its last file.
    async fn read_folder(&mut self, scan: &mut FolderScan, most: usize) -> Result<()> {
        let Some(read) = scan.files.next(&self.source.namespace, most).await? else {
            self.source.folder_keys.finish(self.set, std::mem::take(&mut scan.found));
            return Ok(());
        };
        for file in &read.files {
            let (id, [modified, added]) = FileEntry::decode_times(&file.value)?;
            let time = match self.ask.clock {
                Clock::Modified => modified,
                Clock::Added => added,
            };
            scan.found.insert(time_index::key_bytes(self.ask.clock, time, id));
        }
        self.source.folder_keys.has_found(self.set, scan.found.len());
        self.work += read.work;
        Ok(())
    }
}
