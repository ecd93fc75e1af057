//! Content is read back exactly as it was uploaded.

use super::*;
use crate::content::format::BLOCK;
use crate::schema::ValueError;
use crate::schema::file::Digest;

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
    let staged = upload.finish().await.unwrap();
    assert_eq!(staged.inline().unwrap(), "\x01abc");
    let id = FileId::random();
    staged.rename(id).await.unwrap();
    assert_eq!(staged.id(), id);
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
