//! Content files before and after their promotion out of `new/`: reads, removal, and the next start.

use std::os::unix::fs::PermissionsExt;

use super::*;

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
