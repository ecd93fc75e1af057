//! What the texts of RocksDB's errors say: it has no kind for these.

/// Whether RocksDB says that the disk, or what a quota leaves of it, has no room.
pub(super) fn is_full(cause: &str) -> bool {
    cause.contains("No space left on device") || cause.contains("Disk quota exceeded")
}

/// Whether RocksDB refuses writes from now on, whatever is freed: it waits for room only where it knows that there
/// was none, and a log that could not be made leaves it without a place to write.
pub(super) fn is_full_for_good(cause: &str) -> bool {
    cause.contains("Disk quota exceeded") || cause.contains("While open a file for appending") && cause.contains(".log")
}

/// Whether the log, or the folder that names it, was not synced. A table whose sync failed is written once more, and so
/// is a manifest.
pub(super) fn is_failed_sync(cause: &str) -> bool {
    let file = cause.rsplit('/').next().unwrap_or_default();
    let is_again = [".sst", "MANIFEST-", ".dbtmp"].iter().any(|name| file.contains(name));
    !is_again && (cause.contains("While fdatasync") || cause.contains("While fsync"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_final_unless_its_file_is_written_once_more() {
        for file in ["/data/a.sst/db/000012.log", "a directory"] {
            for call in ["fsync", "fdatasync"] {
                let cause = format!("IO error: No space left on device: While {call}: {file}: No space left on device");
                assert!(is_failed_sync(&cause), "{cause}");
            }
        }
        for file in ["000013.sst", "MANIFEST-000005", "000014.dbtmp"] {
            let cause = format!("IO error: No space left on device: While fdatasync: /data/db/{file}: No space left");
            assert!(!is_failed_sync(&cause), "{cause}");
        }
        let append = "IO error: No space left on device: While appending to file: /data/db/000012.log: No space left";
        assert!(is_full(append) && !is_failed_sync(append) && !is_full_for_good(append));
    }
}
