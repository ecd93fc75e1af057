//! The format of a content file, and damaged files: no wrong byte is ever returned.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::content::format::{BLOCK, TRAILER};

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
