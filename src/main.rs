//! The program: parse, run, exit code.

mod cli;
mod client;
mod data_folder;
mod local_fs;

use std::process::ExitCode;

/// RocksDB's too: with glibc's, threads that free what others have allocated wait for each other.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
