//! Faults of what lies below a running server: the real program, a disk that fails, and an oracle of every answer.
//!
//! - [`errors`]: calls to the disk that fail; [`full_disk_cycles`]: a full disk, with restarts in it
//! - [`flips`]: bytes that changed at rest, and files that are gone
//! - [`kills`]: killed at any call that writes, syncs or renames
//! - [`power`]: the power cut of a real file system
//! - [`oracle`]: what may be there; [`client`]: what is there; [`writer`]: a client with a folder of its own;
//!   [`disk`]: a small file system; [`script`]: forty operations of every kind
//!
//! Each has a short form, which `make test` runs, and a long one: docs/testing.md.

pub mod client;
mod disk;
mod errors;
mod flips;
mod full_disk_cycles;
mod kills;
pub mod oracle;
mod power;
mod script;
pub mod writer;

/// The number in an environment variable, if it is set.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// What all that is random grows from: `ROWDRIVE_SEED`, or another one each time. It is printed.
pub fn seed() -> u64 {
    let seed = number("ROWDRIVE_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    println!("ROWDRIVE_SEED={seed}");
    seed
}
