//! The documentation matches the program: commands run as they are written, links lead to existing pages.
//!
//! - `sessions`: the commands of the pages, on a real server
//! - `examples`: the programs of `examples/`
//! - `links`: links and files that pages name
//! - `promises`: the tests that `docs/promises.md` names

mod examples;
mod links;
mod promises;
mod sessions;
