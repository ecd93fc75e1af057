//! Uploads that are dropped, cancelled, renamed or refused.

use std::future::Future;

use futures_util::FutureExt;

use super::*;
use crate::budget::STRANGERS_SMALL;
use crate::client_net::ClientNet;
use crate::content::disk::{DiskFile, DiskFuture, FileSystemSpace, FolderEntry};
use crate::content::writer::BUFFER;

#[tokio::test]
async fn dropped_uploads_leave_nothing_and_kept_ones_stay() {
    let (dir, content) = open().await;
    let data = noise(3 * MIB);
    let mut begun = content.upload();
    begun.write(data.clone()).await.unwrap();
    assert_eq!(names(&dir.path().join("new")).len(), 1);
    drop(begun);
    until_nothing_is_staged(&dir).await;

    let staged = upload(&content, &data, MIB).await;
    assert_eq!(names(&dir.path().join("new")), [staged.id().to_string()]);
    drop(staged);
    until_nothing_is_staged(&dir).await;

    let id = stored(&content, &data).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(names(&dir.path().join("new")), [id.to_string()]);
}

/// A disk that reports so many bytes as free, by default none.
#[derive(Debug)]
struct FullDisk(LocalDisk, u64);

impl Disk for FullDisk {
    fn is_blocking(&self) -> bool {
        self.0.is_blocking()
    }

    fn make_folder<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        self.0.make_folder(path)
    }

    fn list<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, Vec<FolderEntry>> {
        self.0.list(folder)
    }

    fn sync_folder<'a>(&'a self, folder: &'a Path) -> DiskFuture<'a, ()> {
        self.0.sync_folder(folder)
    }

    fn create<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Arc<dyn DiskFile>> {
        self.0.create(path)
    }

    fn open<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Arc<dyn DiskFile>> {
        self.0.open(path)
    }

    fn exists<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, bool> {
        self.0.exists(path)
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> DiskFuture<'a, ()> {
        self.0.rename(from, to)
    }

    fn remove<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
        self.0.remove(path)
    }

    fn space<'a>(&'a self, _: &'a Path) -> DiskFuture<'a, FileSystemSpace> {
        Box::pin(std::future::ready(Ok(FileSystemSpace { free: self.1, total: 1 << 40, inodes: None })))
    }
}

#[tokio::test]
async fn inline_content_reserves_no_disk_space_and_a_content_file_does_whatever_was_declared() {
    let dir = tempfile::tempdir().unwrap();
    let (content, _) = Content::open_on(Arc::new(FullDisk(LocalDisk, 0)), dir.path()).await.unwrap();
    for size in [0, 1, INLINE] {
        let mut small = content.upload();
        small.reserve(Some(size as u64)).await.unwrap();
        small.write(noise(size)).await.unwrap();
        assert_eq!(small.finish().await.unwrap().location(), ContentLocation::Inline, "{size}");
    }
    for said in [Some(INLINE as u64 + 1), None] {
        let refused = content.upload().reserve(said).await;
        assert!(matches!(refused, Err(ContentError::Full(_))), "{said:?}: {refused:?}");
    }
    // A client sends more bytes than it declared.
    let mut more = content.upload();
    more.reserve(Some(5)).await.unwrap();
    more.write(noise(INLINE)).await.unwrap();
    assert!(matches!(more.write(noise(1)).await, Err(ContentError::Full(_))));
    assert!(names(&dir.path().join("new")).is_empty());
}

#[tokio::test]
async fn what_a_stranger_tells_holds_no_disk_space() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FullDisk(LocalDisk, 172 << 20);
    let (content, _) = Content::open_on(Arc::new(disk), dir.path()).await.unwrap();
    let reserved = async |upload: Upload, length: u64| {
        let mut upload = upload;
        upload.reserve(Some(length)).await.map(|()| upload)
    };
    // 100 MiB are free beyond the reserve.
    let of_stranger = || content.upload().of_stranger(Budget::unlimited());
    let strangers = [64 << 20, 100 << 20, 64 << 20].map(|length| reserved(of_stranger(), length));
    let strangers = futures_util::future::try_join_all(strangers).await.unwrap();
    let more = reserved(of_stranger(), 101 << 20).await;
    assert!(matches!(more, Err(ContentError::Full(_))), "refused before it is sent");
    let other = reserved(content.upload(), 90 << 20).await.unwrap();
    assert!(matches!(reserved(content.upload(), 90 << 20).await, Err(ContentError::Full(_))));
    drop((strangers, other));
}

#[tokio::test]
async fn an_upload_of_a_stranger_has_a_buffer_once_it_is_large() {
    const { assert!(INLINE <= STRANGERS_SMALL && STRANGERS_SMALL < BUFFER) };
    let dir = tempfile::tempdir().unwrap();
    let (content, _) = Content::open(dir.path()).await.unwrap();
    let strangers = Budget::new(64 << 20).of_stranger(ClientNet::NONE);
    let large = strangers.try_take(3 << 20).unwrap();
    let mut upload = content.upload().of_stranger(strangers.clone());
    upload.reserve(None).await.unwrap();
    for _ in 0..2 {
        upload.grow(INLINE / 2).await;
        upload.write(noise(INLINE / 2)).await.unwrap();
    }
    assert!(upload.grow(1).now_or_never().is_none(), "other strangers have all buffers");
    drop(large);
    upload.grow(1).await;
    upload.write(noise(1)).await.unwrap();
    assert!(strangers.try_take(3 << 20).is_none());
    assert_eq!(upload.finish().await.unwrap().location(), ContentLocation::Large);
    assert!(strangers.try_take(3 << 20).is_some());
}

/// Polls a future this many times, with pauses, then drops it.
async fn cancelled<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if let Some(done) = future.as_mut().now_or_never() {
            return Some(done);
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    None
}

#[tokio::test]
async fn an_upload_cancelled_anywhere_leaves_nothing() {
    let (dir, content) = open().await;
    let data = noise(4 * MIB + 5);
    for polls in 0..20 {
        let mut upload = content.upload();
        let written = cancelled(upload.write(data.clone()), polls).await;
        // If a part of a write was lost, the rest must not be stored as if it were the whole.
        let expected = match written {
            Some(written) => Some(written.map(|()| data.len() as u64).unwrap()),
            None => (polls == 0).then_some(0),
        };
        assert_eq!(upload.write("x".into()).await.is_ok(), expected.is_some(), "{polls}");
        let size = upload.finish().await.ok().map(|staged| staged.size);
        assert_eq!(size, expected.map(|size| size + 1), "{polls}");

        let mut upload = content.upload();
        upload.write(data.clone()).await.unwrap();
        cancelled(upload.finish(), polls).await;

        let staged = self::upload(&content, &data, MIB).await;
        cancelled(staged.rename(FileId::random()), polls).await;
        drop(staged);
    }
    until_nothing_is_staged(&dir).await;
}

#[test]
fn an_upload_dropped_after_its_runtime_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let staged = runtime.block_on(async {
        let (content, _) = Content::open(dir.path()).await.unwrap();
        upload(&content, &noise(MIB), MIB).await
    });
    drop(runtime);
    drop(staged);
    assert_eq!(names(&dir.path().join("new")), [""; 0]);
}

#[tokio::test]
async fn a_renamed_upload_has_its_new_name_only() {
    let (dir, content) = open().await;
    let data = noise(INLINE + 1);
    let staged = upload(&content, &data, MIB).await;
    let id = FileId::random();
    staged.rename(id).await.unwrap();
    assert_eq!(staged.id(), id);
    assert_eq!(names(&dir.path().join("new")), [id.to_string()]);
    assert_eq!(read_file(&content, id, data.len()).await.0, data);
    drop(staged);
    until_nothing_is_staged(&dir).await;
}
