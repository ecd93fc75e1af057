//! The HTTP contract as types and texts: what a server writes and a client reads, and the other way round. No IO.
//!
//! - [`entry`]: the JSON of a file or directory, of a page of them, of a move or copy
//! - [`problem`]: the JSON of an error, and the kinds that there are
//! - [`digest`], [`etag`], [`path`]: texts that stand in headers and in targets; [`header`]: names of headers

pub mod digest;
pub mod entry;
pub mod etag;
pub mod header;
pub mod path;
pub mod problem;
