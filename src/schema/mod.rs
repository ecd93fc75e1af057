//! The whole keyspace on one page: row keys, cell names and value formats, as pure functions.
//!
//! | table | module | row key | families and cells |
//! |---|---|---|---|
//! | `dir` | [`dir`] | full path, `/` for the root, no trailing slash | `cf:id`, `cf:creator`, `cf:created`; `cf:state` = [`dir::RowLock`] only while an operation locks the row; `sub:d_<name>` = [`dir::DirEntry`], `sub:f_<name>` = [`dir::FileEntry`] |
//! | `file` | [`mod@file`] | file id, 16 bytes | `cf:attributes` = [`file::Attributes`]; `cf:position` = [`file::FilePosition`]; `c:data` = content that is stored inline |
//! | `dirid` | [`dir_parent`] | directory id, 16 bytes | `cf:e` = [`dir_parent::DirParent`]: the parent's id, the name in it, the operation that wrote the row |
//! | `time` | [`index::by_time`] | clock (1 byte), inverted milliseconds (8), file id (16) | `cf:<stay id>` = [`index::by_time::TimeIndexEntry`] |
//! | `owner` | [`index::by_owner`] | creator reversed, 0, clock (1 byte), inverted milliseconds (8), file id (16) | `cf:<stay id>` = [`index::by_owner::OwnerIndexEntry`] |
//! | `name` | [`index::by_name`] | folded name, 0, kind (1 byte), file id (16) | `cf:<stay id>` = [`index::by_name::NameIndexEntry`] |
//! | `unlink` | [`pending_unlink`] | file id, 16 bytes | `cf:u`: a large content file to remove |
//! | `op` | [`subtree_op`] | operation id, 16 bytes | `cf:phase` = [`subtree_op::Phase`], `cf:what` = [`subtree_op::OpRecord`]: the record of an operation on a subtree |
//! | `account` | [`account`] | user name, or `*` for every user | `cf:stamp` = [`account::Stamp`], `cf:profile` = [`account::Profile`], `cf:password` = [`account::PasswordHash`], the counters `cf:bytes` and `cf:files`; `grant:<directory id><giver>` = [`grant::Grant`]; `session:s<id>`, `token:s<id>` = [`secret::Secret`], `session:u<id>`, `token:u<id>` = its last use; `share:s<id>` = [`share::Share`], `share:u<id>` = its counter |
//! | `username` | [`user_name`] | folded user name | `cf:name` = the name |
//! | `secret` | [`secret`] | SHA-256 of a session, token or share | `cf:owner` = [`secret::SecretOwner`] |
//! | `grant` | [`grant`] | `d`, directory id (16), user, 0, giver; and `g`, giver, 0, directory id, user | `cf:<grant id>`: an index entry |
//! | | [`share`] | `s`, id of a directory or file (16), user | `cf:<share id>`: an index entry |
//! | `meta` | [`meta`] | `schema` | `cf:v` = the schema's version; `cf:unfinished` while its last migration runs |
//! | | | `users` | `cf:admins` = the number of admins who can log in, once there was a user |
//!
//! Every stored value starts with a version byte ([`value`]), but a [counter](crate::table::counter). One file holds a
//! table's key, cells and bytes, and pins them in its tests.

pub mod account;
pub mod dir;
pub mod dir_parent;
pub mod file;
pub mod file_row;
pub mod grant;
pub mod ids;
pub mod index;
pub mod meta;
pub mod path;
pub mod pending_unlink;
pub mod rights;
pub mod secret;
pub mod share;
pub mod subtree_op;
pub mod timestamp;
pub mod usage;
pub mod user_name;
pub mod value;

/// The family of attributes, parent links and index entries, in every table.
pub const CF: &str = "cf";

/// Families that each request of a user reads, by his path and his credential, and that change seldom.
pub const READ_OFTEN: [(&str, &str); 8] = [
    (dir::TABLE, CF),
    (account::TABLE, CF),
    (account::TABLE, grant::GRANT),
    (account::TABLE, account::SESSION),
    (account::TABLE, account::TOKEN),
    (account::TABLE, account::SHARE),
    (secret::TABLE, CF),
    (user_name::TABLE, CF),
];

pub use ids::{DirId, FileId, OpId, StayId};
pub use path::{DrivePath, Name, PathError};
pub use timestamp::Timestamp;
pub use value::ValueError;
