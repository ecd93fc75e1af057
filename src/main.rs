//! The program: parse, run, exit code.

mod cli;
mod client;
mod data_folder;
mod local_fs;

use std::process::ExitCode;

/// Also the allocator of RocksDB: with that of glibc, a thread that frees memory of another thread waits for it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
