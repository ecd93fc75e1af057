//! Content through its front door.

use std::fs::{self, OpenOptions};
use std::future::Future;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tempfile::TempDir;

use super::disk::{DiskFile, DiskFuture, FileSystemSpace, FolderEntry};
use super::format::{BLOCK, TRAILER};
use super::*;
use crate::schema::file::{ContentLocation, Digest};
use crate::schema::{FileId, ValueError};

const MIB: usize = 1 << 20;

/// Bytes without a pattern, the same for each length.
fn noise(len: usize) -> Bytes {
    let mut state = len as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let step = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    step.flatten().take(len).collect()
}

async fn open() -> (TempDir, Content) {
    let dir = tempfile::tempdir().unwrap();
    let (content, found) = Content::open(dir.path()).await.unwrap();
    assert_eq!(found, []);
    (dir, content)
}

/// Uploads in chunks of this many bytes.
async fn upload(content: &Content, data: &Bytes, chunk: usize) -> StagedContent {
    let mut upload = content.upload();
    for chunk in data.chunks(chunk) {
        upload.write(data.slice_ref(chunk)).await.unwrap();
    }
    upload.finish().await.unwrap()
}

/// Uploads and keeps a content file.
async fn stored(content: &Content, data: &Bytes) -> FileId {
    let staged = upload(content, data, 300_000).await;
    let id = staged.id();
    assert_eq!(staged.location(), ContentLocation::Large);
    staged.keep();
    id
}

async fn body(content: &Content, staged: &StagedContent) -> Body {
    match staged.inline() {
        Some(cell) => Body::inline(cell).unwrap(),
        None => Body::Large(content.open_file(staged.id(), staged.size).await.unwrap()),
    }
}

/// Reads a range of a body: its bytes, and the error that ended the stream.
async fn read(body: Body, from: usize, to: usize) -> (Vec<u8>, Option<ContentError>) {
    let mut stream = Box::pin(body.stream(from as u64, to as u64));
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => {
                assert!(!chunk.is_empty() && chunk.len() <= MIB);
                bytes.extend_from_slice(&chunk);
            }
            Err(e) => {
                assert!(stream.next().await.is_none());
                return (bytes, Some(e));
            }
        }
    }
    (bytes, None)
}

/// Opens a content file and reads it whole. The error may come from opening it.
async fn read_file(content: &Content, id: FileId, size: usize) -> (Vec<u8>, Option<ContentError>) {
    match content.open_file(id, size as u64).await {
        Ok(file) => read(Body::Large(file), 0, size).await,
        Err(e) => (Vec::new(), Some(e)),
    }
}

fn staged_path(dir: &TempDir, id: FileId) -> PathBuf {
    dir.path().join("new").join(id.to_string())
}

fn promoted_path(dir: &TempDir, id: FileId) -> PathBuf {
    let id = id.to_string();
    dir.path().join(&id[..2]).join(id)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until background removals have emptied `new/`.
async fn until_nothing_is_staged(dir: &TempDir) {
    for _ in 0..2_000 {
        if names(&dir.path().join("new")).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("left: {:?}", names(&dir.path().join("new")));
}

fn flip(path: &Path, at: u64, bit: u8) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
}

fn is_damaged(error: &Option<ContentError>, id: FileId) -> bool {
    matches!(error, Some(ContentError::Damaged { id: of, .. }) if *of == id)
}

#[tokio::test]
async fn content_of_every_size_reads_back_unchanged() {
    let (dir, content) = open().await;
    let sizes = [0, 1, 4096, INLINE - 1, INLINE, INLINE + 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 4097];
    for size in sizes {
        let data = noise(size);
        for chunk in [1000, 65_536, INLINE + 1, 8 * MIB] {
            let staged = upload(&content, &data, chunk).await;
            assert_eq!(staged.size, size as u64);
            assert_eq!(staged.digest, format::digest(&data), "{size} in {chunk}");
            let large = size > INLINE;
            assert_eq!(staged.location(), if large { ContentLocation::Large } else { ContentLocation::Inline });
            assert_eq!(staged.inline().is_some(), !large);
            let body = body(&content, &staged).await;
            assert_eq!((body.len(), body.is_empty()), (size as u64, size == 0));
            let (bytes, error) = read(body, 0, size).await;
            assert!(error.is_none() && bytes == data, "{size} in {chunk}: {error:?}");
        }
    }
    until_nothing_is_staged(&dir).await;
}

#[tokio::test]
async fn ranges_at_block_boundaries_return_exactly_their_bytes() {
    let (_dir, content) = open().await;
    for size in [1, INLINE, INLINE + 1, MIB, 2 * MIB + 5] {
        let data = noise(size);
        let staged = upload(&content, &data, MIB).await;
        let body = body(&content, &staged).await;
        let mut edges: Vec<_> = (0..=size).step_by(BLOCK).flat_map(|e| [e.saturating_sub(1), e, e + 1]).collect();
        edges.extend([size - 1, size, size + 1, size + BLOCK, usize::MAX]);
        edges.sort();
        edges.dedup();
        for &from in &edges {
            for &to in &edges {
                let (bytes, error) = read(body.clone(), from, to).await;
                let expected = data.get(from..to.min(size)).unwrap_or_default();
                assert!(error.is_none() && bytes == expected, "{from}..{to} of {size}: {error:?}");
            }
        }
    }
}

#[test]
fn only_a_valid_cell_is_read_as_inline_content() {
    let small = Body::inline(Bytes::from_static(b"\x01abc")).unwrap();
    assert!(matches!(small, Body::Inline(bytes) if bytes == "abc"));
    assert!(Body::inline(Bytes::from_static(b"\x01")).unwrap().is_empty());
    let newer = Body::inline(Bytes::from_static(b"\x02abc"));
    assert!(matches!(newer, Err(ContentError::Cell(ValueError::Newer { found: 2, known: 1, .. }))));
    for cell in ["", "\0abc"] {
        let damaged = Body::inline(Bytes::from_static(cell.as_bytes()));
        assert!(matches!(damaged, Err(ContentError::Cell(ValueError::Damaged { .. }))));
    }
}

#[tokio::test]
async fn an_inline_cell_is_a_version_byte_and_the_bytes() {
    let (_dir, content) = open().await;
    let mut upload = content.upload();
    upload.write("ab".into()).await.unwrap();
    upload.write("c".into()).await.unwrap();
    let mut staged = upload.finish().await.unwrap();
    assert_eq!(staged.inline().unwrap(), "\x01abc");
    let id = FileId::random();
    staged.rename(id).await.unwrap();
    assert_eq!(staged.id(), id);
}

#[tokio::test]
async fn a_content_file_is_data_then_checksums_then_trailer() {
    let (dir, content) = open().await;
    let data = noise(MIB + BLOCK + 7);
    let id = stored(&content, &data).await;
    let file = fs::read(staged_path(&dir, id)).unwrap();
    let mut sums = format::BlockChecksums::new();
    sums.add(&data);
    assert!(file == [&data[..], &sums.done().2].concat());
    assert_eq!(staged_path(&dir, id).metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn no_flipped_bit_gives_a_wrong_byte() {
    let (dir, content) = open().await;
    let data = noise(INLINE + 1);
    let id = stored(&content, &data).await;
    let path = staged_path(&dir, id);
    let len = path.metadata().unwrap().len();
    assert_eq!(len, (data.len() + 8 + TRAILER) as u64);

    let samples = (0..data.len() as u64).step_by(13_107).chain([1, BLOCK as u64 - 1, BLOCK as u64]);
    for at in samples.chain(data.len() as u64..len) {
        for bit in 0..8 {
            flip(&path, at, bit);
            let (bytes, error) = read_file(&content, id, data.len()).await;
            assert!(is_damaged(&error, id), "bit {bit} of {at}: {error:?}");
            // Only a whole block before the damaged one may have been sent.
            let good = if (BLOCK as u64..data.len() as u64).contains(&at) { BLOCK } else { 0 };
            assert!(bytes == data[..good], "bit {bit} of {at}: {}", bytes.len());
            flip(&path, at, bit);
        }
    }
    let (bytes, error) = read_file(&content, id, data.len()).await;
    assert!(error.is_none() && bytes == data);
}

#[tokio::test]
async fn a_damaged_block_ends_a_read_after_the_intact_blocks_and_affects_no_other_range() {
    let (dir, content) = open().await;
    let data = noise(5 * MIB + 77);
    let id = stored(&content, &data).await;
    for block in 0..=20 {
        let at = (block * BLOCK + 50) as u64;
        flip(&staged_path(&dir, id), at, 3);
        let (bytes, error) = read_file(&content, id, data.len()).await;
        assert!(is_damaged(&error, id) && bytes == data[..block * BLOCK], "block {block}: {error:?}");
        assert!(error.unwrap().to_string().contains(&format!("block {block} ")));

        let file = Body::Large(content.open_file(id, data.len() as u64).await.unwrap());
        let from = (block + 1) * BLOCK;
        let (after, error) = read(file.clone(), from, data.len()).await;
        assert!(error.is_none() && after == data.get(from..).unwrap_or_default());
        let (before, error) = read(file.clone(), 3, block * BLOCK).await;
        assert!(error.is_none() && before == data.get(3..block * BLOCK).unwrap_or_default());
        // The range leaves the flipped bit out, but a checksum covers the whole block.
        let (part, error) = read(file, block * BLOCK + 51, block * BLOCK + 60).await;
        assert!(is_damaged(&error, id) && part.is_empty());
        flip(&staged_path(&dir, id), at, 3);
    }
}

#[tokio::test]
async fn swapped_blocks_are_damage() {
    let (dir, content) = open().await;
    let data = noise(3 * BLOCK);
    let id = stored(&content, &data).await;
    let file = OpenOptions::new().write(true).open(staged_path(&dir, id)).unwrap();
    file.write_all_at(&data[BLOCK..2 * BLOCK], 0).unwrap();
    file.write_all_at(&data[..BLOCK], BLOCK as u64).unwrap();
    let (bytes, error) = read_file(&content, id, data.len()).await;
    assert!(is_damaged(&error, id) && bytes.is_empty());
}

#[tokio::test]
async fn a_file_of_another_length_is_damage() {
    let (dir, content) = open().await;
    let data = noise(2 * MIB + 3);
    let id = stored(&content, &data).await;
    let path = staged_path(&dir, id);
    let whole = fs::read(&path).unwrap();
    let cuts = (whole.len() - 70..whole.len()).chain([0, 1, 23, 24, BLOCK, MIB, data.len() / 2]);
    for len in cuts {
        fs::write(&path, &whole[..len]).unwrap();
        let (bytes, error) = read_file(&content, id, data.len()).await;
        assert!(is_damaged(&error, id) && bytes.is_empty(), "cut to {len}: {error:?}");
    }
    for more in [1, 4, TRAILER, 4096, BLOCK] {
        let more = whole.iter().chain(&whole).take(whole.len() + more).copied().collect::<Vec<_>>();
        fs::write(&path, more).unwrap();
        assert!(is_damaged(&read_file(&content, id, data.len()).await.1, id));
    }
    fs::write(&path, &whole).unwrap();
    for size in [0, 1, data.len() - 1, data.len() + 1, usize::MAX] {
        assert!(is_damaged(&read_file(&content, id, size).await.1, id), "asked for {size}");
    }
    assert!(read_file(&content, id, data.len()).await.1.is_none());
}

#[tokio::test]
async fn a_file_that_is_cut_off_while_it_is_read_gives_no_wrong_byte() {
    let (dir, content) = open().await;
    let data = noise(4 * MIB);
    let id = stored(&content, &data).await;
    let body = Body::Large(content.open_file(id, data.len() as u64).await.unwrap());
    let file = OpenOptions::new().write(true).open(staged_path(&dir, id)).unwrap();
    file.set_len((2 * MIB + BLOCK + 10) as u64).unwrap();
    let (bytes, error) = read(body, 5, data.len()).await;
    assert!(is_damaged(&error, id) && bytes == data[5..2 * MIB + BLOCK], "{} {error:?}", bytes.len());
    assert!(error.unwrap().to_string().contains("cut off"));
}

#[tokio::test]
async fn a_content_file_is_found_staged_and_promoted() {
    let (dir, content) = open().await;
    let data = noise(MIB + 9);
    let size = data.len();
    let id = stored(&content, &data).await;
    assert_eq!(read_file(&content, id, size).await.0, data);
    content.promote(id).await.unwrap();
    assert_eq!(names(&dir.path().join("new")), [""; 0]);
    assert!(promoted_path(&dir, id).is_file());
    assert_eq!(read_file(&content, id, size).await.0, data);
    content.promote(id).await.unwrap();
    assert_eq!(read_file(&content, id, size).await.0, data);
    content.remove(&[id]).await.unwrap();
    let gone = content.open_file(id, size as u64).await;
    assert!(matches!(gone, Err(ContentError::Gone(of)) if of == id));
    content.promote(id).await.unwrap();
}

#[tokio::test]
async fn readers_find_a_content_file_while_it_is_promoted() {
    let (_dir, content) = open().await;
    let data = noise(INLINE + 1);
    for _ in 0..50 {
        let id = stored(&content, &data).await;
        let promoter = content.clone();
        let promotion = tokio::spawn(async move { promoter.promote(id).await });
        while !promotion.is_finished() {
            content.open_file(id, data.len() as u64).await.unwrap();
        }
        promotion.await.unwrap().unwrap();
        content.open_file(id, data.len() as u64).await.unwrap();
    }
}

#[tokio::test]
async fn a_reader_continues_after_the_file_is_removed() {
    let (dir, content) = open().await;
    let data = noise(6 * MIB + 1);
    let id = stored(&content, &data).await;
    let file = content.open_file(id, data.len() as u64).await.unwrap();
    let mut stream = Box::pin(Body::Large(file).stream(0, u64::MAX));
    let mut bytes = stream.next().await.unwrap().unwrap().to_vec();
    content.remove(&[id]).await.unwrap();
    assert!(!staged_path(&dir, id).exists());
    while let Some(chunk) = stream.next().await {
        bytes.extend(chunk.unwrap());
    }
    assert!(bytes == data);
}

#[tokio::test]
async fn removal_covers_staged_and_promoted_files_and_can_be_repeated() {
    let (dir, content) = open().await;
    let data = noise(INLINE + 1);
    let mut ids = Vec::new();
    for i in 0..6 {
        let id = stored(&content, &data).await;
        if i % 2 == 0 {
            content.promote(id).await.unwrap();
        }
        ids.push(id);
    }
    let left = ids.pop().unwrap();
    ids.push(FileId::random());
    for _ in 0..2 {
        content.remove(&ids).await.unwrap();
        assert!(ids.iter().all(|&id| !staged_path(&dir, id).exists() && !promoted_path(&dir, id).exists()));
        assert_eq!(read_file(&content, left, data.len()).await.0, data);
    }
    content.remove(&[]).await.unwrap();
}

#[tokio::test]
async fn opening_lists_the_files_that_were_not_promoted() {
    let (dir, content) = open().await;
    let data = noise(INLINE + 1);
    let (a, b) = (stored(&content, &data).await, stored(&content, &data).await);
    content.promote(a).await.unwrap();
    let new = dir.path().join("new");
    let other = FileId::random().to_string();
    fs::write(new.join("notes.txt"), "").unwrap();
    fs::write(new.join(other.to_uppercase()), "").unwrap();
    fs::write(new.join(other.replace('-', "")), "").unwrap();
    fs::create_dir(new.join(&other)).unwrap();
    let (again, found) = Content::open(dir.path()).await.unwrap();
    assert_eq!(found, [b]);
    assert_eq!(names(&new).len(), 5);
    assert_eq!(read_file(&again, a, data.len()).await.0, data);
}

#[tokio::test]
async fn opening_creates_the_folders() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("content");
    for _ in 0..2 {
        Content::open(&at).await.unwrap();
        assert_eq!(names(&at), ["new"]);
        for path in [at.clone(), at.join("new")] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
    assert!(Content::open(&dir.path().join("a/b")).await.is_err());
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(Content::open(&dir.path().join("file")).await.is_err());
}

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

/// A disk that reports no free space.
#[derive(Debug)]
struct FullDisk(LocalDisk);

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
        Box::pin(std::future::ready(Ok(FileSystemSpace { free: 0, total: 1 << 40, inodes: None })))
    }
}

#[tokio::test]
async fn inline_content_reserves_no_disk_space_and_a_content_file_does_whatever_was_declared() {
    let dir = tempfile::tempdir().unwrap();
    let (content, _) = Content::open_on(Arc::new(FullDisk(LocalDisk)), dir.path()).await.unwrap();
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

        let mut staged = self::upload(&content, &data, MIB).await;
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
    let mut staged = upload(&content, &data, MIB).await;
    let id = FileId::random();
    staged.rename(id).await.unwrap();
    assert_eq!(staged.id(), id);
    assert_eq!(names(&dir.path().join("new")), [id.to_string()]);
    assert_eq!(read_file(&content, id, data.len()).await.0, data);
    drop(staged);
    until_nothing_is_staged(&dir).await;
}

#[tokio::test]
async fn a_body_can_be_copied_into_an_upload() {
    let (_dir, content) = open().await;
    let data = noise(3 * MIB + 11);
    let id = stored(&content, &data).await;
    let file = content.open_file(id, data.len() as u64).await.unwrap();
    let mut source = Box::pin(Body::Large(file).stream(0, u64::MAX));
    let mut copy = content.upload();
    while let Some(chunk) = source.next().await {
        copy.write(chunk.unwrap()).await.unwrap();
    }
    let staged = copy.finish().await.unwrap();
    assert_eq!((staged.size, staged.digest), (data.len() as u64, format::digest(&data)));
    assert_eq!(read_file(&content, staged.id(), data.len()).await.0, data);
}

#[tokio::test]
async fn concurrent_uploads_do_not_mix() {
    let (_dir, content) = open().await;
    let uploads = (1..=12).map(|i| {
        let content = content.clone();
        tokio::spawn(async move {
            let data = noise(i * 200_001);
            let staged = upload(&content, &data, 50_000).await;
            let body = body(&content, &staged).await;
            (read(body, 0, data.len()).await.0 == data, staged.digest == format::digest(&data))
        })
    });
    for upload in uploads.collect::<Vec<_>>() {
        assert_eq!(upload.await.unwrap(), (true, true));
    }
}

#[test]
fn the_digest_is_sha_256() {
    let known = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let Digest(bytes) = format::digest(b"");
    assert_eq!(bytes.iter().map(|b| format!("{b:02x}")).collect::<String>(), known);
}
