//! The engines under test: how each is opened, and opened again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rowdrive::engines::memory;
use rowdrive::engines::rocks::{self, RocksOptions, TableFamily};
use rowdrive::table::Store;
use tempfile::TempDir;

use crate::stepwise;

/// An engine that can be held to the contract.
pub trait EngineUnderTest: Sync {
    /// Opens the store, empty the first time. It must not be open already.
    fn open(&self) -> Arc<dyn Store>;

    /// Leaves the store as a process that is killed would, and opens what is left of it. An engine that keeps
    /// nothing goes on as it is.
    fn kill(&self) -> Arc<dyn Store>;
}

/// The oracle. It lives as long as the engine under test.
#[derive(Default)]
pub struct Memory(Arc<memory::Memory>);

impl EngineUnderTest for Memory {
    fn open(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn kill(&self) -> Arc<dyn Store> {
        self.0.clone()
    }
}

/// The oracle step by step, with nothing going wrong.
pub struct Stepwise(Arc<stepwise::Stepwise>);

impl Default for Stepwise {
    fn default() -> Self {
        Self(stepwise::Stepwise::new(Arc::new(memory::Memory::default())))
    }
}

impl Stepwise {
    /// Each plan is one step.
    pub fn atomic() -> Self {
        Self(stepwise::Stepwise::atomic(Arc::new(memory::Memory::default())))
    }
}

impl EngineUnderTest for Stepwise {
    fn open(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn kill(&self) -> Arc<dyn Store> {
        self.0.stop();
        self.0.revive();
        self.0.clone()
    }
}

/// RocksDB in a folder of its own: the last one. Those that a kill left behind stay, for what still runs in them.
pub struct Rocks {
    dirs: Mutex<Vec<TempDir>>,
    kept: &'static [TableFamily],
}

impl Default for Rocks {
    fn default() -> Self {
        Self { dirs: Mutex::new(vec![tempfile::tempdir().unwrap()]), kept: &[] }
    }
}

impl Rocks {
    /// Keeps rows in memory.
    pub fn keeping() -> Self {
        let kept = &[("dir", "cf"), ("dir", "sub"), ("file", "cf"), ("file", "c"), ("index", "cf"), ("todo", "cf")];
        Self { kept, ..Self::default() }
    }

    fn open_in(&self, dir: &Path) -> Arc<dyn Store> {
        Arc::new(rocks::Rocks::open(dir, RocksOptions { memory: 32 << 20, kept: self.kept }).unwrap())
    }
}

impl EngineUnderTest for Rocks {
    fn open(&self) -> Arc<dyn Store> {
        self.open_in(self.dirs.lock().unwrap().last().unwrap().path())
    }

    fn kill(&self) -> Arc<dyn Store> {
        let mut dirs = self.dirs.lock().unwrap();
        let left = left_behind(dirs.last().unwrap().path());
        let store = self.open_in(left.path());
        dirs.push(left);
        store
    }
}

/// What a process that is killed now leaves in this folder: a copy of its files, which go on growing meanwhile.
fn left_behind(dir: &Path) -> TempDir {
    loop {
        let left = tempfile::tempdir().unwrap();
        let names = names(dir);
        let copied = names.iter().all(|name| fs::copy(dir.join(name), left.path().join(name)).is_ok());
        // Files that came or went while they were copied were perhaps not those of one moment.
        if copied && self::names(dir) == names {
            return left;
        }
    }
}

fn names(dir: &Path) -> BTreeSet<OsString> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}
