//! Content through its public functions.

mod damage;
mod promotion;
mod reading;
mod uploads;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tempfile::TempDir;

use super::*;
use crate::schema::FileId;
use crate::schema::file::ContentLocation;

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
