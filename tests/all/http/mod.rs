//! The drive over HTTP: through the real router in-process, and where bytes on the wire matter through a real
//! socket.

mod directories;
mod downloads;
mod errors;
mod eviction;
mod limits;
mod memory;
mod metrics;
mod move_copy;
mod openapi;
mod paths;
mod process;
mod queries;
mod reserve;
mod socket;
mod store_calls;
mod test_app;
mod uploads;
