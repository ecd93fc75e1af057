//! Classifies errors of RocksDB by their messages: its C API shows neither the subcode nor the severity of an error.
//!
//! Tests make the real conditions, so that a new version of RocksDB with other messages fails them: a full file system
//! in `tests/all/full_disk`; a failed sync, an exhausted quota and a lack of inodes in `tests/all/write_errors.rs`;
//! damaged SST files in `src/engines/rocks/tests/damaged_files.rs`.

/// Whether the disk is full, or a quota exhausted.
pub(super) fn is_full(cause: &str) -> bool {
    cause.contains("No space left on device") || cause.contains("Disk quota exceeded")
}

/// Whether RocksDB refuses all writes from now on, even after space is freed. It recovers from `ENOSPC` only, not from
/// an exhausted quota, and not if it could not create a WAL file.
pub(super) fn is_full_for_good(cause: &str) -> bool {
    cause.contains("Disk quota exceeded") || cause.contains("While open a file for appending") && cause.contains(".log")
}

/// Whether a sync of the WAL or of its folder has failed. RocksDB writes an SST file or a `MANIFEST` again after a
/// failed sync.
pub(super) fn is_failed_sync(cause: &str) -> bool {
    let file = cause.rsplit('/').next().unwrap_or_default();
    let is_again = [".sst", "MANIFEST-", ".dbtmp"].iter().any(|name| file.contains(name));
    !is_again && (cause.contains("While fdatasync") || cause.contains("While fsync"))
}

/// The number of the SST file that could not be read, if an error of RocksDB is about one.
pub(super) fn damaged_sst(cause: &str) -> Option<u64> {
    let is_missing = cause.contains("No such file") && cause.contains("While open a file for random read");
    if !(cause.starts_with("Corruption") || cause.contains("While pread") || is_missing) {
        return None;
    }
    // A folder on the path may be called `x.sst`.
    cause.match_indices(".sst").find_map(|(at, _)| cause.get(..at)?.rsplit('/').next()?.parse().ok())
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

    #[test]
    fn a_table_that_cannot_be_read_is_named_by_its_number() {
        for cause in [
            "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /a.sst/db/000012.sst offset 0",
            "IO error: Input/output error: While pread offset 4096 len 100: /a/db/000012.sst: Input/output error",
            "IO error: No such file or directory: While open a file for random read: /a/db/000012.sst: No such file",
        ] {
            assert_eq!(damaged_sst(cause), Some(12), "{cause}");
        }
        for cause in [
            "Corruption: block checksum mismatch",
            "Corruption: bad entry in /a/db/MANIFEST-000012",
            "IO error: No space left on device: While appending to file: /a/db/000012.sst: No space left on device",
            "IO error: Too many open files: While open a file for random read: /a/db/000012.sst: Too many open files",
        ] {
            assert_eq!(damaged_sst(cause), None, "{cause}");
        }
    }
}
