//! The whole keyspace on one page: row keys, cell names and value formats, as pure functions.
//!
//! | table | row key | families and cells |
//! |---|---|---|
//! | [`dir`] | full path, `/` for the root, no trailing slash | `cf:id`, `cf:creator`, `cf:created`; `cf:state` only while an operation holds the row; `sub:d_<name>` = [`dir::DirEntry`], `sub:f_<name>` = [`dir::Entry`] |
//! | [`file`] | file id, 16 bytes | `cf:creator`, `cf:size`, `cf:type`, `cf:modified`, `cf:added`, `cf:digest`, `cf:content` = [`file::Attributes`]; `cf:dir`, `cf:name`, `cf:place` = [`file::Standing`]; `c:data` = content that is stored inline |
//! | [`dirid`] | directory id, 16 bytes | `cf:e` = [`dirid::DirLink`]: parent's id, name, the operation that put it there |
//! | [`time`] | clock (1 byte), inverted milliseconds (8), file id (16) | `cf:<place>` = [`time::TimeHint`] |
//! | [`owner`] | creator reversed, 0, clock (1 byte), inverted milliseconds (8), file id (16) | `cf:<place>` = [`owner::OwnerHint`] |
//! | [`name`] | folded name, 0, kind (1 byte), file id (16) | `cf:<place>` = [`name::NameHint`] |
//! | [`unlink`] | file id, 16 bytes | `cf:u` = a large content file that is to be removed |
//! | [`op`] | operation id, 16 bytes | `cf:phase` = [`op::Phase`]; `cf:what` = [`op::What`]: the record of an operation on a subtree |
//! | [`meta`] | a name | `cf:v` = its value: the schema's version |
//!
//! Every stored value starts with a version byte ([`value`]). One file holds a table's key, cells and bytes,
//! and pins them in its tests.

pub mod dir;
pub mod dirid;
pub mod file;
pub mod ids;
pub mod index;
pub mod meta;
pub mod name;
pub mod op;
pub mod owner;
pub mod path;
pub mod time;
pub mod timestamp;
pub mod unlink;
pub mod value;

/// The family of attributes, links and hints, in every table.
pub const CF: &str = "cf";

pub use ids::{DirId, FileId, OpId, Place};
pub use path::{DrivePath, Name, PathError};
pub use timestamp::Timestamp;
pub use value::ValueError;
