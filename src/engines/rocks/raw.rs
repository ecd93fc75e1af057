//! The types of the `rocksdb` crate that the engine uses, and what its errors mean.

use std::sync::Arc;

use rocksdb::{
    BoundColumnFamily, DBRawIteratorWithThreadMode, DBWithThreadMode, ErrorKind, MultiThreaded, SnapshotWithThreadMode,
};

use crate::table::StoreError;

pub(super) type RocksDb = DBWithThreadMode<MultiThreaded>;
pub(super) type FamilyHandle<'a> = Arc<BoundColumnFamily<'a>>;
pub(super) type Snapshot<'a> = SnapshotWithThreadMode<'a, RocksDb>;
pub(super) type CellIterator<'a> = DBRawIteratorWithThreadMode<'a, RocksDb>;

/// Why a read failed.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The read would have to access the disk, or to skip more tombstones than allowed: repeat it on the pool.
    Incomplete,
    Store(StoreError),
}

pub(super) type ReadResult<T> = std::result::Result<T, ReadError>;

impl From<rocksdb::Error> for ReadError {
    fn from(error: rocksdb::Error) -> Self {
        match error.kind() {
            ErrorKind::Incomplete => Self::Incomplete,
            ErrorKind::Corruption => Self::Store(StoreError::Damaged(error.into_string())),
            // An SST file is missing. RocksDB opens some files at their first read only.
            ErrorKind::IOError if error.as_ref().contains("No such file or directory") => {
                Self::Store(StoreError::Damaged(error.into_string()))
            }
            _ => Self::Store(StoreError::Failed(error.into_string())),
        }
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Incomplete => Self::Failed("a read was cut short".into()),
            ReadError::Store(error) => error,
        }
    }
}

/// The name of the column family that holds this family of this table.
pub(super) fn family_name(table: &str, family: &str) -> String {
    let mut name = String::with_capacity(table.len() + 1 + family.len());
    name.push_str(table);
    name.push(':');
    name.push_str(family);
    name
}
