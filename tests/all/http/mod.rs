//! The drive over HTTP: through the real router in-process, or through a real socket if bytes on the wire matter.

mod access;
mod accounts;
mod directories;
mod downloads;
mod errors;
mod eviction;
mod frequent;
mod limits;
mod log;
mod login;
mod memory;
mod metrics;
mod move_copy;
mod openapi;
mod paths;
mod process;
mod proxies;
mod queries;
mod reserve;
mod socket;
mod store_calls;
mod test_app;
mod tls;
mod transport;
mod unpack;
mod uploads;
