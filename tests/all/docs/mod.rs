//! The documentation matches the program: commands run as they are written, links lead to existing pages.
//!
//! - `sessions`: the commands of the pages, on a real server
//! - `examples`: the programs of `examples/`
//! - `network`: the page on other machines, by TLS and behind nginx
//! - `links`: links and files that pages name
//! - `promises`: the tests that `docs/promises.md` names
//! - `audit_log`: the events of the audit log

mod audit_log;
mod examples;
mod links;
mod network;
mod promises;
mod sessions;
