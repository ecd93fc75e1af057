//! The HTTP contract as types and texts, which server and client share. No IO.
//!
//! - [`account`]: the JSON of users, sessions, tokens and grants
//! - [`entry`]: the JSON of a file or directory, of a page of them, of a move or copy
//! - [`problem`]: the JSON of an error, and the kinds of errors
//! - [`unpack`]: the lines of the answer to a tar
//! - [`rights`]: the JSON of rights, and their words
//! - [`shown`]: how texts of others are shown; [`json_text`]: how texts are written in JSON
//! - [`digest`], [`etag`], [`path`]: the texts of headers and of request targets; [`header`]: names of headers

pub mod account;
pub mod digest;
pub mod entry;
pub mod etag;
pub mod header;
pub mod json_text;
pub mod path;
pub mod problem;
pub mod rights;
pub mod shown;
pub mod unpack;
