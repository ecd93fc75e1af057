//! A full disk below a real server: writes are answered 507 and leave nothing, all stored files are served, deletes
//! continue, and freed disk space is used again.

mod compactions;
mod migration;
mod small_disk;

use std::path::Path;
use std::process::Command;

use reqwest::StatusCode;

pub use self::small_disk::serve_on_small_disk;
use self::small_disk::{SmallDisk, TestServer};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_serves_all_stored_files() {
    let scratch = tempfile::tempdir().unwrap();
    let server = serve_on_small_disk(&scratch.path().join("data"));
    let mut test_server = TestServer::new(server, 1);
    for seed in 0..10 {
        assert_eq!(test_server.put(100_000 + seed, 100_000).await, StatusCode::CREATED);
    }
    let mut full = 0;
    // Large files, then smaller and smaller ones into the rest, then inline ones.
    for (seed, len) in [20_000_000, 8_000_000, 2_000_000, 300_000, 100_000, 1].into_iter().enumerate() {
        for n in 0..1_000 {
            match test_server.put(seed * 1_000 + n, len).await {
                StatusCode::CREATED => {}
                status => {
                    assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE, "{len} bytes");
                    full += 1;
                    break;
                }
            }
        }
    }
    // Every size except the smallest must have filled the disk.
    assert!(full >= 5 && test_server.stored.len() > 10, "{full}, {:?}", test_server.stored);
    test_server.all_is_there().await;

    for (seed, len) in test_server.stored.clone() {
        if len > 1_000_000 {
            assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT, "{seed}");
        }
    }
    // Content is removed in the background.
    test_server.put_until_accepted(9_000_000, 8_000_000, 600).await;
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

/// Uploads inline files until the disk is full, then kills the server.
async fn fill_and_kill(disk: &SmallDisk, memory: &str) -> Vec<usize> {
    let server = disk.serve(memory);
    let mut test_server = TestServer::new(server, 1);
    for seed in 0..5_000 {
        match test_server.put(seed, 250_000).await {
            StatusCode::CREATED => {}
            status => {
                assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
                break;
            }
        }
    }
    test_server.server.kill();
    test_server.stored.into_keys().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drive_survives_a_crash_on_a_disk_filled_by_uploads() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    let stored = fill_and_kill(&disk, "512MiB").await;
    assert!(stored.len() > 200, "{}", stored.len());
    for _ in 0..2 {
        let server = disk.serve("512MiB");
        let stored = stored.iter().map(|seed| (*seed, 250_000)).collect();
        let test_server = TestServer { stored, ..TestServer::new(server, 1) };
        test_server.all_is_there().await;
        test_server.server.kill();
    }
}

/// The reserve does not protect disk space from other programs.
#[tokio::test(flavor = "multi_thread")]
async fn a_drive_started_on_a_full_disk_reads_and_deletes_and_then_accepts_uploads_again() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    let mut test_server = start_on_a_full_disk(&disk, ["512MiB", "512MiB"], 100, 250_000).await;
    test_server.all_is_there().await;
    assert_eq!(test_server.put(1_000, 250_000).await, StatusCode::INSUFFICIENT_STORAGE);
    for seed in 0..50 {
        assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT);
    }
    test_server.all_is_there().await;
    std::fs::remove_file(disk.taken()).unwrap();
    test_server.put_until_accepted(2_000, 250_000, 200).await;
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
    let server = disk.serve("1GiB");
    let test_server = TestServer { server, ..test_server };
    test_server.all_is_there().await;
}

/// The size of a store's logs in bytes.
fn log_bytes(db: &Path) -> u64 {
    let files = std::fs::read_dir(db).unwrap().filter_map(|file| Some(file.ok()?.path()));
    let logs = files.filter(|path| path.extension().is_some_and(|e| e == "log"));
    logs.filter_map(|log| Some(log.metadata().ok()?.len())).sum()
}

/// A start without space to flush the log cannot limit log or memory; once there is space, both are limited again.
#[tokio::test(flavor = "multi_thread")]
async fn log_and_memory_are_bounded_again_once_a_full_disk_has_free_space() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    let mut test_server = start_on_a_full_disk(&disk, ["128MiB", "32MiB"], 60, 200_000).await;
    std::fs::remove_file(disk.taken()).unwrap();
    // The deletes alone must suffice; 5 KB are less than any write buffer.
    assert_eq!(test_server.delete(0).await, StatusCode::NO_CONTENT);
    let db = disk.inside().join("db");
    assert!(log_bytes(&db) < 1 << 20, "{} KiB of log after a delete", log_bytes(&db) >> 10);
    let mut longest = 0;
    for seed in 1_000..5_000 {
        assert_eq!(test_server.put(seed, 10_000).await, StatusCode::CREATED);
        longest = longest.max(log_bytes(&db));
    }
    // Twice the size of the write buffers, which is about a sixth of the memory.
    assert!(longest < 14 << 20, "{} MiB of log", longest >> 20);
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

/// The state of such a start ends below the reserve too, also with a log that is not worth a flush otherwise: no table is
/// compacted before.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_log_is_written_to_tables_once_it_fits_after_a_start_on_a_full_disk() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    let mut test_server = start_on_a_full_disk(&disk, ["128MiB", "32MiB"], 10, 200_000).await;
    let db = disk.inside().join("db");
    assert!(log_bytes(&db) > 2_000_000, "{} bytes of log before a delete", log_bytes(&db));
    // Out of a reserve of 37 MiB.
    disk.give_back(20 << 20);
    assert_eq!(test_server.delete(0).await, StatusCode::NO_CONTENT);
    assert!(log_bytes(&db) < 1 << 20, "{} bytes of log after a delete", log_bytes(&db));
    assert_eq!(test_server.put(1_000, 1_000).await, StatusCode::INSUFFICIENT_STORAGE);
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

/// RocksDB continues only when the size of its largest write buffer is free.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_continue_below_the_reserve_after_one_failed_on_a_full_disk() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    // With long names, deletes soon need more space than is set aside for the log.
    let mut test_server = TestServer::new(disk.serve("32MiB"), 250);
    for seed in 0..2_500 {
        assert_eq!(test_server.put(seed, 1_000).await, StatusCode::CREATED);
    }
    test_server.says_that_it_writes(true).await;
    let refused = test_server.delete_until_refused(&disk).await;
    // Out of a reserve of 37 MiB.
    disk.give_back(20 << 20);
    test_server.deletes_again().await;
    assert_eq!(test_server.put(5_000, 1_000).await, StatusCode::INSUFFICIENT_STORAGE);
    std::fs::remove_file(disk.taken()).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(test_server.put(5_001, 1_000).await, StatusCode::CREATED);
    test_server.says_that_it_writes(true).await;
    test_server.delete(refused).await;
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

/// RocksDB checks for free space every few seconds, and refuses writes until then.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_refused_after_a_full_disk_leave_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    let mut test_server = TestServer::new(disk.serve("32MiB"), 250);
    for seed in 0..2_500 {
        assert_eq!(test_server.put(seed, 1_000).await, StatusCode::CREATED);
    }
    let doubtful = test_server.delete_until_refused(&disk).await;
    std::fs::remove_file(disk.taken()).unwrap();
    let staged = || std::fs::read_dir(disk.inside().join("content/new")).unwrap().count();
    let mut refused = 0;
    while test_server.put(5_000, 300_000).await != StatusCode::CREATED {
        refused += 1;
        assert!(refused < 600, "the freed disk space is not used");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(refused > 0);
    for n in 0.. {
        if staged() == 0 {
            break;
        }
        assert!(n < 200, "{} of {refused} refused uploads are left", staged());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    test_server.delete(doubtful).await;
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

/// Starts a server on a full disk, with `files` of `size` bytes that are only in its log. `memory`: before and after
/// the start.
async fn start_on_a_full_disk(disk: &SmallDisk, memory: [&str; 2], files: usize, size: usize) -> TestServer {
    start_with_names(disk, memory, files, size, 1).await
}

/// As [`start_on_a_full_disk`], with names of this many digits.
async fn start_with_names(disk: &SmallDisk, memory: [&str; 2], files: usize, size: usize, digits: usize) -> TestServer {
    let server = disk.serve(memory[0]);
    let mut test_server = TestServer::new(server, digits);
    for seed in 0..files {
        assert_eq!(test_server.put(seed, size).await, StatusCode::CREATED);
    }
    test_server.server.kill();
    disk.fill();
    TestServer { server: disk.serve(memory[1]), ..test_server }
}

/// A compaction, or another program, may take what the start has left. A part of the log is allocated before.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_continue_after_a_start_on_a_full_disk_although_the_last_space_is_taken() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    let mut test_server = start_on_a_full_disk(&disk, ["512MiB", "512MiB"], 100, 250_000).await;
    for seed in 0..50 {
        disk.fill();
        assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT, "{seed}");
    }
    test_server.all_is_there().await;
    // At a second start, which finds only what the first one has allocated.
    assert_eq!(test_server.server.terminate(), Some(0));
    let mut test_server = TestServer { server: disk.serve("512MiB"), ..test_server };
    for seed in 50..60 {
        disk.fill();
        assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT, "{seed}");
    }
    // After the flush that ends the state, too.
    disk.give_back(80 << 20);
    test_server.put_until_accepted(1_000, 250_000, 200).await;
    for seed in 60..90 {
        disk.fill();
        assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT, "{seed}");
    }
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

/// With long names, deletes soon need more space than is set aside for the log.
#[tokio::test(flavor = "multi_thread")]
async fn space_freed_after_a_start_on_a_full_disk_is_used_even_if_a_delete_failed() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    let mut test_server = start_with_names(&disk, ["512MiB", "512MiB"], 6_000, 5_000, 250).await;
    let ballast = disk.inside().join("db/ballast");
    assert!(!ballast.exists());
    test_server.delete_until_refused(&disk).await;
    // For the write buffers, and a reserve of 37 MiB.
    disk.give_back(70 << 20);
    test_server.deletes_again().await;
    test_server.put_until_accepted(10_000, 250_000, 400).await;
    test_server.says_that_it_writes(true).await;
    // From now on, space is reserved for the next start, too.
    std::fs::remove_file(disk.taken()).unwrap();
    for seed in 20_000.. {
        assert_eq!(test_server.put(seed, 1_000).await, StatusCode::CREATED);
        if ballast.metadata().is_ok_and(|ballast| ballast.len() > 4 << 20) {
            break;
        }
        assert!(seed < 20_200, "no disk space is reserved for the next start");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(test_server.server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_full_disk_is_refused_and_deletes_continue() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "300m");
    let server = disk.serve("512MiB");
    let mut test_server = TestServer::new(server, 1);
    for seed in 0..100 {
        assert_eq!(test_server.put(seed, 250_000).await, StatusCode::CREATED);
    }
    disk.fill();
    assert_eq!(test_server.delete(0).await, StatusCode::NO_CONTENT);
    let backup = disk.command("backup").arg(scratch.path().join("backup")).output().unwrap();
    assert_eq!(backup.status.code(), Some(3), "{backup:?}");
    let said = String::from_utf8(backup.stderr).unwrap();
    assert!(said.contains("are needed to write what is in memory"), "{said}");
    for seed in 1..10 {
        assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT);
    }
    test_server.all_is_there().await;
    std::fs::remove_file(disk.taken()).unwrap();
    test_server.says_that_it_writes(true).await;
    let backup = disk.command("backup").arg(scratch.path().join("backup")).output().unwrap();
    assert_eq!(backup.status.code(), Some(0), "{backup:?}");
    assert_eq!(test_server.server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_without_inodes_accepts_small_files_and_deletes_and_starts() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "600m,nr_inodes=1000");
    let server = disk.serve("32MiB");
    let mut test_server = TestServer::new(server, 1);
    let mut seed = 0;
    let refused = loop {
        seed += 1;
        match test_server.put(seed, 263_000).await {
            StatusCode::CREATED => {}
            status => break status,
        }
    };
    assert_eq!(refused, StatusCode::INSUFFICIENT_STORAGE);
    assert!((400..900).contains(&test_server.stored.len()), "{}", test_server.stored.len());
    let unsized_body =
        reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(vec![1; 300_000])]));
    let refused = test_server.client.put(test_server.url(seed)).body(unsized_body).send().await.unwrap().status();
    assert_eq!(refused, StatusCode::INSUFFICIENT_STORAGE);
    for small in 10_000..10_200 {
        assert_eq!(test_server.put(small, 200_000).await, StatusCode::CREATED);
    }
    test_server.server.kill();
    let mut test_server = TestServer { server: disk.serve("32MiB"), ..test_server };
    test_server.all_is_there().await;
    for seed in 1..50 {
        assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT);
    }
    test_server.put_until_accepted(20_000, 263_000, 200).await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_beyond_the_file_size_limit_is_refused_and_the_server_runs_on() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -f 20000 && exec "$@""#, "sh", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--data"]);
    command.arg(&data).args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    let server = Server::wait_for(command, &data);
    let mut test_server = TestServer::new(server, 1);
    // 512 bytes each, or 1 KiB.
    assert_eq!(test_server.put(0, 30_000_000).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(test_server.put(1, 1_000_000).await, StatusCode::CREATED);
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}
