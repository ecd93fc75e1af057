//! The names of the files and folders that make a folder a data folder or a backup.

/// The tables.
pub const DB: &str = "db";
/// The tables, until a restore has copied all of them.
pub const RESTORED_DB: &str = "db.restoring";
/// Content files.
pub const CONTENT: &str = "content";
/// In `content/`: uploads that are not complete.
pub const STAGING: &str = "new";

/// In the data folder, as long as there are no users: what the first one is made with.
pub const FIRST_USER_SECRET: &str = "first-user-secret";
/// In the data folder and in `db/`: a file with the id of the store.
pub const STORE_ID: &str = "store-id";
/// In `content/`: an empty folder, whose name is this prefix and the id of the store.
pub const ID_FOLDER: &str = "store-";
/// The prefix of that folder until the first start has created all tables.
pub const NEW_ID_FOLDER: &str = "making-";
/// In `db/`: the id of the drive that it was restored from.
pub const RESTORED_FROM: &str = "restored-from";

/// In `db/`: a file with the id of the last start.
pub const LAST_START: &str = "last-start";
/// In `content/`: an empty folder, whose name is this prefix and the id of the last start.
pub const START_FOLDER: &str = "start-";

/// In a data folder that a restore fills, and in its `db/`: the marker of an incomplete restore.
pub const RESTORING: &str = "restoring";
/// In a backup: its description.
pub const MANIFEST: &str = "backup.json";

/// In `db/`: RocksDB's pointer to its current manifest.
pub const CURRENT: &str = "CURRENT";
/// In `db/`: the specifications of the tables.
pub const TABLES: &str = "tables.json";
/// In `db/`, and in a folder of backups: locked by the process that uses it.
pub const LOCK: &str = "in-use";
