//! Counts the files and bytes to upload, in parallel with the upload, for the estimate of the time left.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::FileType;

use crate::client::stats::{TransferStats, TransferTotal};
use crate::data_folder::part;
use crate::local_fs::{FsEntry, OpenFolder};

/// Stops the count when dropped.
pub struct CountGuard(Arc<AtomicBool>);

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

pub fn start(top: Arc<OpenFolder>, stats: Arc<TransferStats>) -> CountGuard {
    let stop = Arc::new(AtomicBool::new(false));
    let counting = CountGuard(stop.clone());
    tokio::task::spawn_blocking(move || {
        let mut total = TransferTotal::default();
        let mut queue: Vec<(Arc<OpenFolder>, OsString)> = Vec::new();
        // The planner reports what cannot be read.
        let _ = count(&top, &mut total, &mut queue, &stop);
        while let Some((parent, name)) = queue.pop() {
            if stop.load(Relaxed) {
                return;
            }
            let _ =
                parent.open_folder(&name).and_then(|folder| count(&Arc::new(folder), &mut total, &mut queue, &stop));
        }
        let _ = stats.total.set(total);
    });
    counting
}

fn count(
    folder: &Arc<OpenFolder>,
    total: &mut TransferTotal,
    queue: &mut Vec<(Arc<OpenFolder>, OsString)>,
    stop: &AtomicBool,
) -> io::Result<()> {
    if part::identify(folder)?.is_some() {
        return Ok(()); // nothing of it is uploaded
    }
    for entry in folder.entries()? {
        let (name, kind) = entry?;
        if stop.load(Relaxed) {
            break;
        }
        if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Unknown) {
            continue;
        }
        match folder.lookup(&name)? {
            Some(FsEntry::Folder) => queue.push((folder.clone(), name)),
            Some(FsEntry::File(version)) => {
                total.files += 1;
                total.bytes += version.size;
            }
            Some(FsEntry::Other(_)) | None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn only_uploaded_files_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a", "below/b", "data/store-id", "data/db/CURRENT", "data/db/in-use", "data/content/new/c"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "content").unwrap();
        }
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let stats = Arc::new(TransferStats::new(1));
        let _counting = start(Arc::new(OpenFolder::open(dir.path()).unwrap()), stats.clone());
        while stats.total.get().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(stats.total.get(), Some(&TransferTotal { files: 2, bytes: 14 }));
    }
}
