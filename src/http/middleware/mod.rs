//! The middleware of every request: [`access_log`] (request id, log line, metrics) and [`host_check`] (the server's own
//! names, and writes from the server's own pages).

pub mod access_log;
mod host_check;
