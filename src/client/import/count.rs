//! How much there is to upload: counted beside the upload, so that the time left can be told.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::FileType;

use crate::cli::local::{Folder, Found};
use crate::cli::transfer::{Tally, Total};

/// Dropping it ends the count.
pub struct Counting(Arc<AtomicBool>);

impl Drop for Counting {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

pub fn start(top: Arc<Folder>, tally: Arc<Tally>) -> Counting {
    let stop = Arc::new(AtomicBool::new(false));
    let counting = Counting(stop.clone());
    tokio::task::spawn_blocking(move || {
        let mut total = Total::default();
        let mut ahead: Vec<(Arc<Folder>, OsString)> = Vec::new();
        // What cannot be read is told where it is to be uploaded.
        let _ = count(&top, &mut total, &mut ahead, &stop);
        while let Some((parent, name)) = ahead.pop() {
            if stop.load(Relaxed) {
                return;
            }
            let _ = parent.folder(&name).and_then(|folder| count(&Arc::new(folder), &mut total, &mut ahead, &stop));
        }
        let _ = tally.total.set(total);
    });
    counting
}

fn count(
    folder: &Arc<Folder>,
    total: &mut Total,
    ahead: &mut Vec<(Arc<Folder>, OsString)>,
    stop: &AtomicBool,
) -> io::Result<()> {
    if folder.of_drive()?.is_some() {
        return Ok(()); // nothing of it is uploaded
    }
    for entry in folder.names()? {
        let (name, kind) = entry?;
        if stop.load(Relaxed) {
            break;
        }
        if !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Unknown) {
            continue;
        }
        match folder.find(&name)? {
            Some(Found::Folder) => ahead.push((folder.clone(), name)),
            Some(Found::File(version)) => {
                total.files += 1;
                total.bytes += version.size;
            }
            Some(Found::Other(_)) | None => {}
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
    async fn what_is_not_uploaded_is_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a", "below/b", "data/store-id", "data/db/CURRENT", "data/db/in-use", "data/content/new/c"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "content").unwrap();
        }
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let tally = Arc::new(Tally::new(1));
        let _counting = start(Arc::new(Folder::open(dir.path()).unwrap()), tally.clone());
        while tally.total.get().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(tally.total.get(), Some(&Total { files: 2, bytes: 14 }));
    }
}
