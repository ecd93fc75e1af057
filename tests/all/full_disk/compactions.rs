//! Deletes while RocksDB compacts tables on a full disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use reqwest::StatusCode;

use super::small_disk::{SmallDisk, TestServer};

/// A thread that looks at the free space of a file system all the time.
struct FreeSpaceWatch {
    ended: Arc<AtomicBool>,
    least: JoinHandle<u64>,
}

impl FreeSpaceWatch {
    fn start(dir: PathBuf) -> Self {
        let ended = Arc::<AtomicBool>::default();
        let end = ended.clone();
        let least = std::thread::spawn(move || {
            let mut least = u64::MAX;
            while !end.load(Ordering::Relaxed) {
                let stat = rustix::fs::statvfs(&dir).unwrap();
                least = least.min(stat.f_bavail * stat.f_frsize);
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            least
        });
        Self { ended, least }
    }

    /// The least bytes that were free.
    fn least(self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        self.least.join().unwrap()
    }
}

/// Uploads files of this many bytes until one is refused. Returns the first seed that is not stored.
async fn fill(test_server: &mut TestServer, first: usize, len: usize) -> usize {
    for seed in first..first + 10_000 {
        match test_server.put(seed, len).await {
            StatusCode::CREATED => {}
            status => {
                assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
                return seed;
            }
        }
    }
    panic!("the disk is not full");
}

/// Fills a disk with inline files again and again, and deletes some as soon as an upload is refused. The tables of these
/// files take most of the disk, and their compactions as much again.
async fn delete_at_once(mebibytes: u64, len: usize) {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), &format!("{mebibytes}m"));
    let mut test_server = TestServer::new(disk.serve("32MiB"), 1);
    let watch = FreeSpaceWatch::start(disk.inside());
    let mut next = 0;
    for round in 0..40 {
        next = fill(&mut test_server, next, len).await;
        // If an upload was let in and then found the disk full, RocksDB refuses writes from now on.
        for seed in test_server.stored.keys().copied().step_by(7).take(10).collect::<Vec<_>>() {
            assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT, "round {round}, file {seed}");
        }
    }
    test_server.all_is_there().await;
    // The reserve is an eighth. Deletes may take half of it before their log is flushed.
    let (least, reserve) = (watch.least(), (mebibytes << 20) / 8);
    assert!(least > reserve / 4, "{} KiB of {} in reserve were left", least >> 10, reserve >> 10);
    // The first round alone has filled the disk; how soon deleted files give space back is another test's.
    assert!(next > 100, "{next}");
    assert_eq!(test_server.server.terminate(), Some(0));
}

/// Their space comes back with a compaction, which has space for its output.
#[tokio::test(flavor = "multi_thread")]
async fn the_space_of_deleted_inline_files_is_used_again_without_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "96m");
    let mut test_server = TestServer::new(disk.serve("32MiB"), 1);
    let mut next = fill(&mut test_server, 0, 200_000).await;
    let first = test_server.stored.len();
    for round in 1..4 {
        // All but a few, and too few for a write buffer: nothing but the full disk makes RocksDB flush them.
        for seed in test_server.stored.keys().copied().skip(10).collect::<Vec<_>>() {
            assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT, "round {round}, file {seed}");
        }
        let begun = std::time::Instant::now();
        while test_server.stored.len() < first / 2 {
            next = fill(&mut test_server, next + 1, 200_000).await;
            assert!(begun.elapsed().as_secs() < 60, "{} of {first} files fit again", test_server.stored.len());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

/// Content of a large file is no cell: its upload alone makes RocksDB write the deletes, without which nothing is
/// compacted.
#[tokio::test(flavor = "multi_thread")]
async fn large_files_use_the_space_of_deleted_inline_files_without_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mounted(&scratch.path().join("data"), "96m");
    let mut test_server = TestServer::new(disk.serve("32MiB"), 1);
    let mut next = fill(&mut test_server, 0, 200_000).await;
    let stored = |test_server: &TestServer| test_server.stored.values().sum::<usize>();
    let first = stored(&test_server);
    for seed in test_server.stored.keys().copied().collect::<Vec<_>>() {
        assert_eq!(test_server.delete(seed).await, StatusCode::NO_CONTENT, "file {seed}");
    }
    let begun = std::time::Instant::now();
    while stored(&test_server) < first / 2 {
        next += 1;
        test_server.put(next, 2_000_000).await;
        assert!(begun.elapsed().as_secs() < 60, "{} of {first} bytes fit again", stored(&test_server));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    test_server.all_is_there().await;
    assert_eq!(test_server.server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn compactions_of_a_small_disk_leave_the_reserve_to_deletes() {
    delete_at_once(96, 200_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compactions_of_a_larger_disk_leave_the_reserve_to_deletes() {
    delete_at_once(400, 250_000).await;
}
