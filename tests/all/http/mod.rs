//! The drive over HTTP: through the real router in-process, and where bytes on the wire matter through a real
//! socket.

mod budget;
mod content;
mod costs;
mod described;
mod directories;
mod edge;
mod errors;
mod evicting;
mod metrics;
mod paths;
mod process;
mod queries;
mod relocating;
mod reserve;
mod site;
mod socket;
mod uploads;
