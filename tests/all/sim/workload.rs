//! The requests of clients: drawn from a seed, on so few paths that they conflict.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rowdrive::content::INLINE;
use rowdrive::drive::Thresholds;

use super::scheduler::Faults;
use crate::drive::model::Op as Change;

/// Names of directories, and sometimes of files.
const DIRECTORIES: [&str; 7] = ["/a", "/b", "/a/d", "/b/d", "/a/d/e", "/d", "/b/d/e"];
/// Names of files only.
const FILES: [&str; 8] = ["/f", "/a/f", "/a/g", "/b/f", "/a/d/f", "/b/d/f", "/a/d/e/f", "/d/f"];

/// One request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientOp {
    Change(Change),
    /// Replaces the existing version, if it is still the same.
    Replace(&'static str, usize),
    Stat(&'static str),
    Read(&'static str),
    List(&'static str, usize),
    /// Files by time, below this directory.
    Time(&'static str, usize),
    Name(&'static str, usize),
}

/// Everything that a seed decides before the first call.
pub struct Work {
    pub clients: usize,
    /// By client.
    pub ops: Vec<(usize, ClientOp)>,
    pub set_up: Vec<Change>,
    pub faults: Faults,
    /// How long writers wait for each other, in ms.
    pub patience: u64,
    /// The batch sizes of the drive.
    pub limits: Thresholds,
    /// Whether the last life ends without a stop.
    pub ends_well: bool,
}

impl Work {
    pub fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed ^ 0x5eed);
        let some_large = rng.random_range(0..5) == 0;
        let store = rng.random_range(0..3) == 0;
        let mut faults = Faults {
            stops: [0, 0, 1, 1, 2][rng.random_range(0..5)],
            store,
            late: store && rng.random(),
            leaves: rng.random_range(0..4) == 0,
            disk: some_large && rng.random_range(0..3) == 0,
            leave: rng.random_range(0..4) == 0,
            by_row: true,
        };
        let set_up = vec![
            Change::Put("/a/f", 1),
            Change::Put("/a/d/f", size(&mut rng, 2, some_large)),
            Change::Put("/b/f", 3),
            Change::Mkdir("/b/d"),
        ];
        let clients = [2, 4, 8, 16, 16][rng.random_range(0..5)];
        let each = (48 / clients).min(8);
        let mut ops = Vec::new();
        for number in 0..clients * each {
            ops.push((number % clients, draw(&mut rng, 10 + number, some_large)));
        }
        let patience = [15, 100, 2000][rng.random_range(0..3)];
        let limits = match rng.random_range(0..5) {
            0 => Thresholds::DEFAULT,
            1 | 2 => Thresholds::all(1),
            more => Thresholds::all(more - 1),
        };
        let ends_well = rng.random();
        faults.by_row = rng.random();
        Self { clients, ops, set_up, faults, patience, limits, ends_well }
    }
}

/// A size that no other version has. Most are a few bytes, some are content files, and few of those have many blocks.
fn size(rng: &mut StdRng, version: usize, some_large: bool) -> usize {
    match rng.random_range(0..100) {
        0..35 if some_large => INLINE + version,
        35..37 if some_large => (1 << 20) + INLINE + version,
        _ => version,
    }
}

fn directory(rng: &mut StdRng) -> &'static str {
    DIRECTORIES.choose(rng).copied().unwrap_or("/a")
}

fn file(rng: &mut StdRng) -> &'static str {
    FILES.choose(rng).copied().unwrap_or("/f")
}

fn any(rng: &mut StdRng) -> &'static str {
    if rng.random_range(0..4) == 0 { directory(rng) } else { file(rng) }
}

fn draw(rng: &mut StdRng, version: usize, some_large: bool) -> ClientOp {
    let size = size(rng, version, some_large);
    match rng.random_range(0..100) {
        0..18 => ClientOp::Change(Change::Put(any(rng), size)),
        18..23 => ClientOp::Change(Change::New(any(rng), size)),
        23..27 => ClientOp::Replace(file(rng), size),
        27..33 => ClientOp::Change(Change::Mkdir(directory(rng))),
        33..37 => ClientOp::Change(Change::Rmdir(directory(rng))),
        37..43 => ClientOp::Change(Change::Delete(any(rng))),
        43..52 => ClientOp::Change(Change::Remove(directory(rng))),
        52..64 => ClientOp::Change(Change::Move(directory(rng), directory(rng), rng.random())),
        64..71 => ClientOp::Change(Change::Move(file(rng), any(rng), rng.random())),
        71..75 => ClientOp::Change(Change::Copy(file(rng), any(rng), rng.random())),
        75..82 => ClientOp::Stat(any(rng)),
        82..89 => ClientOp::Read(file(rng)),
        89..94 => ClientOp::List(directory(rng), rng.random_range(1..4)),
        94..97 => ClientOp::Time(directory(rng), rng.random_range(1..5)),
        _ => ClientOp::Name(directory(rng), rng.random_range(1..5)),
    }
}
