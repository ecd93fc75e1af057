//! Opens a folder: as a store, for reading, or what is left of a damaged one.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, getrlimit};

use super::commit::Committer;
use super::db::{Closing, Db};
use super::flush::Flushes;
use super::lock::{self, Folder};
use super::metrics::Reads;
use super::options::Tuning;
use super::pool::Pool;
use super::space::{self, Space};
use super::specs::Specs;
use super::{Rocks, RocksOptions, SKIP};
use crate::table::StoreError;
use crate::table::store::Result;

impl Rocks {
    /// Opens the store in this folder, which is made if it is missing (its parents too).
    ///
    /// Errors: `Failed` if the folder is in use by this process or another, or cannot be read or written;
    /// `Damaged` if what it holds is no sound store. Blocks for as long as the log takes to replay.
    pub fn open(dir: &Path, options: RocksOptions) -> Result<Self> {
        Self::open_in(Folder::take(dir, lock::SOON)?, options)
    }

    /// As [`open`](Self::open), in a folder that this process has already.
    pub fn open_in(folder: Folder, options: RocksOptions) -> Result<Self> {
        let space = Space::new(folder.dir());
        Self::open_with(folder, options, space, SKIP)
    }

    /// Opens the store that is in this folder, for reads alone. No file changes and none is made: what only the log
    /// holds is replayed in memory.
    ///
    /// Errors: as [`open`](Self::open); whatever would change the store is then [`StoreError::ReadOnly`], the making
    /// of a table that it lacks too.
    pub fn open_read_only(dir: &Path, options: RocksOptions) -> Result<Self> {
        let lock = Folder::take_as_it_is(dir, lock::SOON)?;
        let specs = Specs::load(dir)?;
        let tuning = Tuning::new(options.memory).with_handles(dir, handles());
        let opened = Db::open_read_only(dir, lock, &tuning, &specs)?;
        Self::start(opened, specs, tuning, Space::new(dir), SKIP)
    }

    /// Opens what is left of a damaged store, for reads alone. The folder is not changed; `copy` is a folder beside
    /// it that is made anew if RocksDB must write. Tells what is wrong, if anything, and how the rest is read.
    ///
    /// Errors: `Damaged` if nothing can be read, `Failed` if the folder is in use or there is no room for the copy.
    pub fn open_degraded(dir: &Path, copy: &Path, options: RocksOptions) -> Result<(Self, Option<String>)> {
        // Without `tables.json` it opens too, but as a store in which there is no table.
        let listed = Specs::load(dir).is_ok_and(|specs| !specs.tables().is_empty());
        let damage = match Self::open_read_only(dir, options) {
            Ok(sound) if listed => return Ok((sound, None)),
            Ok(_unlisted) => StoreError::Damaged(format!("{}: tables.json is missing or empty", dir.display())),
            Err(damage) => damage,
        };
        // A folder that is in use is told from a damaged one here.
        let lock = Folder::take_as_it_is(dir, lock::SOON)?;
        let (tuning, specs) = (Tuning::new(options.memory), Specs::load(dir).ok().filter(|_| listed));
        let (opened, how) = Db::open_degraded(dir, copy, lock, &tuning, specs.as_ref())?;
        let specs = specs.unwrap_or_else(|| Specs::none(dir));
        let rocks = Self::start(opened, specs, tuning, Space::new(dir), SKIP)?;
        Ok((Self { degraded: true, ..rocks }, Some(format!("{damage}; it is read {how}"))))
    }

    pub(super) fn open_with(folder: Folder, options: RocksOptions, space: Space, skip: u64) -> Result<Self> {
        let dir = &folder.dir().to_owned();
        let specs = Specs::load(dir)?;
        let tuning = Tuning::new(options.memory).with_disk(dir).with_handles(dir, handles());
        let (opened, cramped) = Db::open(folder, &tuning, &specs)?;
        let rocks = Self::start(opened, specs, tuning, space, skip)?;
        rocks.read_damaged_again()?;
        let bare = cramped || !space::keep_ballast(dir);
        Ok(Self { flushes: Flushes::new(cramped, bare), ..rocks })
    }

    fn start((db, closing): (Db, Closing), specs: Specs, tuning: Tuning, space: Space, skip: u64) -> Result<Self> {
        let db = Arc::new(db);
        Ok(Self {
            committer: Committer::start(db.clone(), skip)?,
            pool: Pool::new(db.clone()),
            db,
            specs: Arc::new(Mutex::new(specs)),
            tuning: Arc::new(tuning),
            space: Arc::new(space),
            reads: Reads::default(),
            skip,
            flushes: Flushes::default(),
            degraded: false,
            _closing: closing,
        })
    }
}

/// Files that the process may have open.
fn handles() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
