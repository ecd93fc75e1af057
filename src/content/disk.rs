//! The file system below a content folder: every call that content makes of it, and nothing more.
//!
//! A job is a few calls in a row ([`Disk::blocks`] says how it runs). [`Local`] makes them on this machine's file
//! system. Another implementation may delay, refuse and lose them.

mod local;

use std::ffi::OsString;
use std::fmt::Debug;
use std::future::{Future, ready};
use std::io;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
pub use local::Local;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

pub use super::room::{Inodes, Space};

/// A call on its way.
pub type Call<'a, T> = BoxFuture<'a, io::Result<T>>;

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: OsString,
    pub is_file: bool,
}

pub trait Disk: Debug + Send + Sync + 'static {
    /// Whether a call blocks its thread and is done when its future is first polled. Then a whole job runs on one
    /// thread of the blocking pool; else it is a task like any other.
    fn blocks(&self) -> bool;

    /// Makes a folder (mode 0700), not durably; one that is there is fine. Its parent must be there.
    fn make_folder<'a>(&'a self, path: &'a Path) -> Call<'a, ()>;

    /// The names in a folder, in any order.
    fn list<'a>(&'a self, folder: &'a Path) -> Call<'a, Vec<Listed>>;

    /// Makes names in this folder, and removals from it, durable.
    fn sync_folder<'a>(&'a self, folder: &'a Path) -> Call<'a, ()>;

    /// Makes a file (mode 0600) that is not there yet, and opens it for writing.
    fn create<'a>(&'a self, path: &'a Path) -> Call<'a, Arc<dyn DiskFile>>;

    /// Opens a file for reading.
    fn open<'a>(&'a self, path: &'a Path) -> Call<'a, Arc<dyn DiskFile>>;

    fn exists<'a>(&'a self, path: &'a Path) -> Call<'a, bool>;

    /// Not durable before both folders are synced.
    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> Call<'a, ()>;

    /// Removes a file. Who has it open reads on.
    fn remove<'a>(&'a self, path: &'a Path) -> Call<'a, ()>;

    /// What is free on the file system of a folder. It takes no time to speak of, and need not be part of a job.
    fn space<'a>(&'a self, folder: &'a Path) -> Call<'a, Space> {
        let _ = folder;
        Box::pin(ready(Err(io::ErrorKind::Unsupported.into())))
    }
}

/// A file that is open.
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// Bytes.
    fn size(&self) -> Call<'_, u64>;

    /// How many bytes were read; 0 at the end only.
    fn read_at<'a>(&'a self, buffer: &'a mut [u8], at: u64) -> Call<'a, usize>;

    /// Writes a piece that is aligned and large: past the page cache, where the file system knows how to.
    fn write_direct<'a>(&'a self, data: &'a [u8], at: u64) -> Call<'a, ()>;

    /// Writes what is neither. No direct write may come after it.
    fn write<'a>(&'a self, data: &'a [u8], at: u64) -> Call<'a, ()>;

    /// Makes data and size durable. The name is the folder's.
    fn sync(&self) -> Call<'_, ()>;
}

impl dyn Disk {
    /// Starts a job. Like one on the blocking pool it runs to its end, whether or not anybody waits for it.
    pub fn start<T: Send + 'static>(&self, job: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        if self.blocks() {
            tokio::task::spawn_blocking(move || Handle::current().block_on(job))
        } else {
            tokio::spawn(job)
        }
    }
}
