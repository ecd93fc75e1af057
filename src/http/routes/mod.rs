//! The handlers, one file for each route.

pub mod by_name;
pub mod by_share;
pub mod by_time;
pub mod delete;
pub mod download;
pub mod grants;
pub mod health;
pub mod list;
pub mod login;
pub mod metrics;
pub mod move_copy;
pub mod openapi;
pub mod pattern;
pub mod session;
pub mod sessions;
pub mod share_form;
pub mod share_login;
pub mod share_upload;
pub mod shares;
pub mod start;
pub mod stat;
pub mod swagger_ui;
pub mod tokens;
pub mod unpack;
pub mod upload;
pub mod users;
