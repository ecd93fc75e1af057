//! The disk: synced names and bytes are durable. At a stop each other change is kept, lost or torn.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::BoxFuture;
use rowdrive::content::disk::{Disk, DiskFile, DiskFuture, FolderEntry};

use super::scheduler::Simulation;

/// A disk writes this many bytes at once, or not at all.
const SECTOR: usize = 512;

#[derive(Clone)]
pub struct SimDisk {
    simulation: Arc<Simulation>,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Default)]
struct State {
    /// Folders, and whether their names are durable.
    folders: BTreeMap<PathBuf, bool>,
    names: BTreeMap<PathBuf, usize>,
    files: Vec<File>,
}

#[derive(Clone, Default)]
struct File {
    data: Arc<Vec<u8>>,
    /// Byte ranges that were written since the last sync.
    unsynced: Vec<Range<usize>>,
    /// Byte ranges that were written before a failed sync: no later sync makes them durable.
    forsaken: Vec<Range<usize>>,
    /// The sequence of the file's names; `None` before its creation and after its removal. A stop resets it to one of
    /// the names from `durable` on.
    names: Vec<Option<PathBuf>>,
    durable: usize,
    /// Names before this index existed when a sync of their folder failed: no later sync makes them durable.
    forsaken_names: usize,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}

#[derive(Debug)]
struct Open {
    disk: SimDisk,
    file: usize,
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl SimDisk {
    /// A disk with an empty durable folder.
    pub fn new(simulation: Arc<Simulation>, folder: &Path) -> Self {
        let state = State { folders: BTreeMap::from([(folder.to_owned(), true)]), ..State::default() };
        Self { simulation, state: Arc::new(Mutex::new(state)) }
    }

    /// A copy of the disk.
    pub fn fork(&self, simulation: Arc<Simulation>) -> Self {
        Self { simulation, state: Arc::new(Mutex::new(self.lock().clone())) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A call that only reads.
    async fn read_call<T>(&self, what: &str, path: &Path, read: impl FnOnce(&State) -> io::Result<T>) -> io::Result<T> {
        self.simulation.pass(what, || path.display().to_string()).await;
        self.fails(&[io::ErrorKind::Other])?;
        read(&self.lock())
    }

    /// A call that changes something.
    async fn change<T>(
        &self,
        what: &str,
        path: &Path,
        write: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        self.simulation.pass(what, || path.display().to_string()).await;
        self.fails(&[io::ErrorKind::Other, io::ErrorKind::StorageFull])?;
        let done = write(&mut self.lock());
        self.simulation.pass("done", String::new).await;
        done
    }

    fn fails(&self, kinds: &[io::ErrorKind]) -> io::Result<()> {
        if self.simulation.faults().disk && self.simulation.chance(10) {
            let kind = kinds[self.simulation.below(kinds.len() as u64) as usize];
            self.simulation.note(|| format!("fails: {kind}"));
            return Err(kind.into());
        }
        Ok(())
    }

    /// The process and the machine have stopped.
    pub fn stop(&self) {
        let state = &mut *self.lock();
        let below = |end: usize| self.simulation.below(end as u64) as usize;
        state.names.clear();
        let mut used = BTreeSet::new();
        for (number, file) in state.files.iter_mut().enumerate() {
            let at = file.durable + below(file.names.len() - file.durable);
            let name = file.names[at].clone();
            let unsynced = std::mem::take(&mut file.unsynced);
            for range in std::mem::take(&mut file.forsaken).into_iter().chain(unsynced) {
                tear(Arc::make_mut(&mut file.data), range, below);
            }
            if let Some(name) = &name {
                self.simulation.note(|| format!("after the stop: {}", name.display()));
                used.extend(name.parent().map(Path::to_owned));
                state.names.insert(name.clone(), number);
            }
            (file.names, file.durable, file.forsaken_names) = (vec![name], 0, 0);
        }
        state.folders.retain(|folder, durable| *durable || used.contains(folder) || below(2) == 0);
        state.folders.values_mut().for_each(|durable| *durable = true);
    }
}

/// An unsynced write at a stop: all, none or some of its sectors are kept.
fn tear(data: &mut Vec<u8>, range: Range<usize>, below: impl Fn(usize) -> usize) {
    let lost = match below(3) {
        0 => return,
        1 => range.clone(),
        _ => {
            let (one, other) = (range.start + below(range.len() + 1), range.start + below(range.len() + 1));
            one.min(other).next_multiple_of(SECTOR).min(range.end)..one.max(other)
        }
    };
    if lost.start >= lost.end {
        return;
    }
    // At the end of the file, its length may be lost too.
    if lost.end == data.len() && below(2) == 0 {
        data.truncate(lost.start);
    } else {
        let end = lost.end.min(data.len());
        data[lost.start.min(end)..end].fill(0);
    }
}

impl State {
    /// Gives the file another name, or removes it.
    fn rename(&mut self, from: &Path, to: Option<&Path>) -> io::Result<()> {
        self.has_parent(to.unwrap_or(from))?;
        let file = self.names.remove(from).ok_or_else(missing)?;
        self.files[file].names.push(to.map(Path::to_owned));
        if let Some(to) = to
            && let Some(replaced) = self.names.insert(to.to_owned(), file)
        {
            self.files[replaced].names.push(None);
        }
        Ok(())
    }

    fn has_parent(&self, path: &Path) -> io::Result<()> {
        let there = path.parent().is_some_and(|parent| self.folders.contains_key(parent));
        if there { Ok(()) } else { Err(missing()) }
    }

    fn sync(&mut self, folder: &Path) -> io::Result<()> {
        let _there = self.folders.get(folder).ok_or_else(missing)?;
        for file in &mut self.files {
            let last = file.last_change(folder);
            if last > file.forsaken_names {
                file.durable = file.durable.max(last);
            }
        }
        for (path, durable) in &mut self.folders {
            *durable |= path.parent() == Some(folder);
        }
        Ok(())
    }
}

impl File {
    /// The index of the last name that the file got or lost in this folder.
    fn last_change(&self, folder: &Path) -> usize {
        let is_in = |name: &Option<PathBuf>| name.as_ref().is_some_and(|name| name.parent() == Some(folder));
        let changes = self.names.windows(2).enumerate();
        changes.filter(|(_, pair)| pair.iter().any(is_in)).map(|(at, _)| at + 1).max().unwrap_or(0)
    }
}

impl Disk for SimDisk {
    fn is_blocking(&self) -> bool {
        false
    }

    fn make_folder<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        Box::pin(self.change("make_folder", path, |state| {
            state.has_parent(path)?;
            state.folders.entry(path.to_owned()).or_insert(false);
            Ok(())
        }))
    }

    fn list<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, Vec<FolderEntry>> {
        Box::pin(self.read_call("list", folder, |state| {
            let _there = state.folders.get(folder).ok_or_else(missing)?;
            let inside = |path: &PathBuf| path.parent() == Some(folder);
            let name = |path: &PathBuf| path.file_name().map(OsString::from).unwrap_or_default();
            let folders = state.folders.keys().filter(|path| inside(path));
            let folders = folders.map(|path| FolderEntry { name: name(path), is_file: false });
            let files = state.names.keys().filter(|path| inside(path));
            Ok(folders.chain(files.map(|path| FolderEntry { name: name(path), is_file: true })).collect())
        }))
    }

    fn sync_folder<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            let synced = self.change("sync_folder", folder, |state| state.sync(folder)).await;
            if synced.is_err() {
                for file in &mut self.lock().files {
                    file.forsaken_names = file.forsaken_names.max(file.last_change(folder));
                }
            }
            synced
        })
    }

    fn create<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Arc<dyn DiskFile>> {
        Box::pin(async move {
            let file = self.change("create", path, |state| {
                state.has_parent(path)?;
                if state.names.contains_key(path) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                let number = state.files.len();
                state.files.push(File { names: vec![None, Some(path.to_owned())], ..File::default() });
                state.names.insert(path.to_owned(), number);
                Ok(number)
            });
            Ok(Arc::new(Open { disk: self.clone(), file: file.await? }) as Arc<dyn DiskFile>)
        })
    }

    fn open<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Arc<dyn DiskFile>> {
        Box::pin(async move {
            let file = self.read_call("open", path, |state| state.names.get(path).copied().ok_or_else(missing)).await?;
            Ok(Arc::new(Open { disk: self.clone(), file }) as Arc<dyn DiskFile>)
        })
    }

    fn exists<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, bool> {
        Box::pin(
            self.read_call("exists", path, |state| {
                Ok(state.names.contains_key(path) || state.folders.contains_key(path))
            }),
        )
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> DiskFuture<'a, ()> {
        Box::pin(self.change("rename", from, |state| state.rename(from, Some(to))))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        Box::pin(self.change("remove", path, |state| state.rename(path, None)))
    }
}

impl Open {
    async fn write(&self, data: &[u8], at: usize) -> io::Result<()> {
        let end = at + data.len();
        let write = |state: &mut State| {
            let file = &mut state.files[self.file];
            let bytes = Arc::make_mut(&mut file.data);
            bytes.resize(bytes.len().max(end), 0);
            bytes[at..end].copy_from_slice(data);
            file.unsynced.push(at..end);
            Ok(())
        };
        self.disk.change("write", Path::new(""), write).await
    }
}

impl DiskFile for Open {
    fn size(&self) -> DiskFuture<'_, u64> {
        let size = |state: &State| Ok(state.files[self.file].data.len() as u64);
        Box::pin(self.disk.read_call("size", Path::new(""), size))
    }

    fn read_at<'a>(&'a self, buffer: &'a mut [u8], at: u64) -> DiskFuture<'a, usize> {
        Box::pin(self.disk.read_call("read", Path::new(""), move |state| {
            let data = &state.files[self.file].data;
            let rest = data.get(at as usize..).unwrap_or_default();
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        }))
    }

    fn write_direct<'a>(&'a self, data: &'a [u8], at: u64) -> DiskFuture<'a, ()> {
        Box::pin(Self::write(self, data, at as usize))
    }

    fn write<'a>(&'a self, data: &'a [u8], at: u64) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(Self::write(self, data, at as usize))
    }

    fn sync(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let sync = |state: &mut State| {
                state.files[self.file].unsynced.clear();
                Ok(())
            };
            let synced = self.disk.change("sync", Path::new(""), sync).await;
            if synced.is_err() {
                let file = &mut self.disk.lock().files[self.file];
                let unsynced = std::mem::take(&mut file.unsynced);
                file.forsaken.extend(unsynced);
            }
            synced
        })
    }
}
