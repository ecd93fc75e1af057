//! The parts of a response: JSON, headers, cursors, and problems.

pub mod account;
pub mod cookie;
pub mod cursor;
pub mod entry;
pub mod headers;
pub mod html;
pub mod http_date;
pub mod json;
pub mod list;
pub mod memory;
pub mod page;
pub mod password_form;
pub mod problem;
pub mod share_page;
pub mod upload_page;
pub mod watched;
pub mod written;
