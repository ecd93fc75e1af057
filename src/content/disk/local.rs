//! This machine's file system.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::future::ready;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{OFlags, StatVfs, fcntl_getfl, fcntl_setfl, statvfs};
use rustix::io::Errno;

use super::{Disk, DiskFile, DiskFuture, FileSystemSpace, FolderEntry, Inodes};

/// Makes each call at once: it blocks, and its future is ready when it is returned.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalDisk;

fn done<'a, T: Send + 'a>(result: io::Result<T>) -> DiskFuture<'a, T> {
    Box::pin(ready(result))
}

impl Disk for LocalDisk {
    fn is_blocking(&self) -> bool {
        true
    }

    fn make_folder<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        done(match DirBuilder::new().mode(0o700).create(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            made => made,
        })
    }

    fn list<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, Vec<FolderEntry>> {
        let listed = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok(FolderEntry { name: entry.file_name(), is_file: entry.file_type()?.is_file() })
        };
        done(fs::read_dir(folder).and_then(|entries| entries.map(listed).collect()))
    }

    fn sync_folder<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, ()> {
        done(File::open(folder).and_then(|folder| folder.sync_all()))
    }

    fn create<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Arc<dyn DiskFile>> {
        let create = || {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            set_direct(&file)?;
            Ok(Arc::new(file) as Arc<dyn DiskFile>)
        };
        done(create())
    }

    fn open<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Arc<dyn DiskFile>> {
        done(File::open(path).map(|file| Arc::new(file) as Arc<dyn DiskFile>))
    }

    fn exists<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, bool> {
        done(fs::exists(path))
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> DiskFuture<'a, ()> {
        done(fs::rename(from, to))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        done(fs::remove_file(path))
    }

    fn space<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, FileSystemSpace> {
        let space = |stat: StatVfs| {
            let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
            let inodes = (stat.f_files > 0).then_some(Inodes { free: stat.f_favail, total: stat.f_files });
            FileSystemSpace { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks), inodes }
        };
        done(statvfs(folder).map(space).map_err(io::Error::from))
    }
}

impl DiskFile for File {
    fn size(&self) -> DiskFuture<'_, u64> {
        done(self.metadata().map(|metadata| metadata.len()))
    }

    fn read_at<'a>(&'a self, buffer: &'a mut [u8], at: u64) -> DiskFuture<'a, usize> {
        loop {
            match FileExt::read_at(self, buffer, at) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => return done(read),
            }
        }
    }

    fn write_direct<'a>(&'a self, data: &'a [u8], at: u64) -> DiskFuture<'a, ()> {
        done(match self.write_all_at(data, at) {
            // The file system needs another alignment, or the rest of a short write is not aligned. A write of another
            // piece may have cleared the flag already.
            Err(e) if Errno::from_io_error(&e) == Some(Errno::INVAL) => write_plainly(self, data, at),
            written => written,
        })
    }

    fn write<'a>(&'a self, data: &'a [u8], at: u64) -> DiskFuture<'a, ()> {
        done(write_plainly(self, data, at))
    }

    fn sync(&self) -> DiskFuture<'_, ()> {
        done(self.sync_data())
    }
}

/// Lets writes bypass the page cache, if the file system supports it.
fn set_direct(file: &File) -> io::Result<()> {
    match fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT) {
        Err(Errno::INVAL) => Ok(()),
        set => Ok(set?),
    }
}

fn write_plainly(file: &File, data: &[u8], at: u64) -> io::Result<()> {
    fcntl_setfl(file, fcntl_getfl(file)? - OFlags::DIRECT)?;
    file.write_all_at(data, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unaligned_write_falls_back_to_a_plain_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        set_direct(&file).unwrap();
        file.write_direct(b"odd", 5).await.unwrap();
        assert_eq!(fs::read(path).unwrap(), b"\0\0\0\0\0odd");
    }
}
