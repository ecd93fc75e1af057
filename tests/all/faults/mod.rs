//! Faults of the storage below a running server: the real program, a failing disk, and an oracle that knows every
//! answer.
//!
//! - [`errors`]: disk calls that fail; [`flushes`]: flushes that find a full disk; [`full_disk_cycles`]: a full disk,
//!   with restarts
//! - [`flips`]: bytes that changed in a stopped store, and files that are missing
//! - [`kills`]: a kill before any call that writes, syncs or renames
//! - [`power`]: power cuts of a real file system
//! - [`oracle`]: the states that a drive may have; [`client`]: the state that it has; [`writer`]: a client with a
//!   folder of its own; [`disk`]: a small file system; [`script`]: forty operations of every kind; [`strace`]: makes
//!   system calls fail
//!
//! Each has a short form, which `make test` runs, and a long form: see docs/testing.md.

pub mod client;
mod disk;
mod errors;
mod flips;
mod flushes;
mod full_disk_cycles;
mod kills;
pub mod oracle;
mod power;
mod script;
mod strace;
pub mod writer;

/// The number in an environment variable, if it is set.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// The seed of all random choices: `ROWDRIVE_SEED`, or a new one each time. It is printed.
pub fn seed() -> u64 {
    let seed = number("ROWDRIVE_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    println!("ROWDRIVE_SEED={seed}");
    seed
}
