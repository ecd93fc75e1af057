//! Remedies of hot spots: changes of row keys that spread load, by the names of HBase practice (HBase Reference
//! Guide, "Rowkey Design"), and their price for readers; and which answer a question, for which table and load.

use std::collections::BTreeSet;

use rand::RngExt;
use rand::rngs::StdRng;

use super::requests::{Access, Load, Table, hash};
use super::splits::{EVEN, GROWING, QUANTILES, Splitting};
use crate::report::model::{ALL_TABLES, READS_ALL};

/// A change of all row keys of a table.
#[derive(Clone, Copy)]
pub struct Remedy(
    pub &'static str,
    /// How many row keys or ranges a reader asks for to get a row, to list a folder, to scan a range: 0 if only a scan
    /// of the whole table answers. If a row may have several keys, a writer takes one at random: its salt.
    [u8; 3],
    /// What a key becomes with such a salt.
    fn(&[u8], u8) -> Vec<u8>,
);

pub const NONE: Remedy = Remedy("none", [1; 3], |key, _| key.to_vec());
// A prefix is one of 16 at the same distance: even splits lie between them.
pub const SALT_16: Remedy = Remedy("salt 16", [16; 3], |key, salt| prefixed(salt << 4, key));
pub const HASH_16: Remedy = Remedy("hash 16", [1, 16, 16], |key, _| prefixed(hash(key)[0] & 0xf0, key));
/// The files of a folder stay together.
pub const HASH_FOLDER: Remedy = Remedy("hash 16 of the folder", [1, 1, 16], |key, _| {
    let folder = key.rsplitn(2, |byte| *byte == b'/').nth(1).unwrap_or_default();
    prefixed(hash(folder)[0] & 0xf0, key)
});
pub const HASH_KEY: Remedy = Remedy("hash", [1, 0, 0], |key, _| hash(key).into());
// The bytes of the leading component backwards.
pub const REVERSE_NUMBER: Remedy = Remedy("reverse", [1, 1, 0], |key, _| reversed(key, 0, 8));
pub const REVERSE_TIME: Remedy = Remedy("reverse", [1, 1, 0], |key, _| reversed(key, 1, 9));
pub const REVERSE_NAME: Remedy = Remedy("reverse", [1, 1, 0], |key, _| {
    reversed(key, 0, key.iter().position(|byte| *byte == 0).unwrap_or(key.len()))
});
/// Undoes the drive's reversal.
pub const CREATOR_FORWARDS: Remedy = Remedy("creator not reversed", [1; 3], REVERSE_NAME.2);
/// A number as ten decimal digits, backwards.
pub const REVERSE_DIGITS: Remedy = Remedy("reverse decimal digits", [1, 1, 0], |key, _| {
    let number = key.first_chunk().map_or(0, |number| u64::from_be_bytes(*number));
    format!("{number:010}").bytes().rev().collect()
});
/// Undoes the drive's inversion of times: later times last. A time's key ends in eight bytes of time and an id.
pub const ASCENDING: Remedy = Remedy("times ascending", [1; 3], |key, _| {
    let time = key.len().saturating_sub(24)..key.len().saturating_sub(16);
    key.iter().enumerate().map(|(at, byte)| if time.contains(&at) { !byte } else { *byte }).collect()
});

fn prefixed(prefix: u8, key: &[u8]) -> Vec<u8> {
    [&[prefix], key].concat()
}

fn reversed(key: &[u8], start: usize, end: usize) -> Vec<u8> {
    let mut reversed = key.to_vec();
    reversed.get_mut(start..end).into_iter().for_each(<[u8]>::reverse);
    reversed
}

impl Remedy {
    /// What a get, a listing and a scan ask for, in a table that answers them so.
    pub fn reads(self, answers: [Option<usize>; 3]) -> [Option<u32>; 3] {
        answers.map(|figure| self.1.get(figure?).map(|asked| u32::from(*asked)))
    }

    /// How much more readers of tables that answer so ask for, in words.
    pub fn cost(self, tables: impl Iterator<Item = [Option<usize>; 3]>) -> String {
        let reads = tables.flat_map(|answers| ["get", "listing", "scan"].into_iter().zip(self.reads(answers)));
        let more = reads.filter_map(|(question, reads)| match reads? {
            0 => Some(format!("a {question} {READS_ALL}")),
            1 => None,
            reads => Some(format!("a {question} is {reads} reads")),
        });
        let absent = "a write that must not replace a row looks under all prefixes first".to_owned();
        let more: BTreeSet<_> = more.chain((self.1[0] > 1).then_some(absent)).collect();
        let more = more.into_iter().collect::<Vec<_>>().join("; ");
        if more.is_empty() { "nothing: a reader computes the key".to_owned() } else { more }
    }

    /// The keys that a client writes or reads instead of this one.
    pub fn apply(self, access: Access, key: &[u8], salts: &mut StdRng) -> Vec<Vec<u8>> {
        let all = 0..self.1[0];
        let salt = (access == Access::Write && all.len() > 1).then(|| salts.random_range(all.clone()));
        salt.map_or(all, |salt| salt..salt + 1).map(|salt| (self.2)(key, salt)).collect()
    }
}

type Loads = fn(Load) -> bool;
const IMPORT: Loads = |load| load == Load::Import;
const RATES: Loads = |load| matches!(load, Load::Rate(_));
const CAMERA: Loads = |load| load == Load::Camera;
const NOW: Loads = |load| load == Load::ModifiedNow;
const USERS: Loads = |load| matches!(load, Load::Users(_) | Load::NewUsers(_));
const READS: Loads = |load| matches!(load, Load::Reads(_));

type Tables = &'static [(&'static str, &'static str)];
const IN_ORDER: Tables = &[("rowkey-id", "rows"), ("fullpath", "rows"), ("dirid-name", "file"), ("uuid", "dir")];
const TIME: Tables = &[("uuid-indexed", "time")];
const WHOLE_REQUESTS: Tables =
    &[("fullpath-indexed", ALL_TABLES), ("dirid-name", ALL_TABLES), ("uuid", ALL_TABLES), ("uuid-indexed", ALL_TABLES)];

/// Loads, tables by layout and name, remedies, splits: each with each.
type Simulated = (Loads, Tables, &'static [Remedy], &'static [Splitting]);

const SIMULATED: [Simulated; 21] = [
    // Whole requests; a layout of one table has no others.
    (|load| matches!(load, Load::Import | Load::Users(_)), WHOLE_REQUESTS, &[NONE, HASH_16], &[QUANTILES]),
    (|load| load == Load::Reads(0.99), &[("dirid-name", ALL_TABLES), ("uuid", ALL_TABLES)], &[NONE], &[QUANTILES]),
    (NOW, &[("uuid-indexed", ALL_TABLES)], &[NONE, HASH_16], &[QUANTILES]),
    // Splits of plain keys; those at quantiles are in `cases`.
    (IMPORT, IN_ORDER, &[NONE], &[EVEN, GROWING]),
    (IMPORT, &[("name", "rows"), ("uuid", "file"), ("tree", "rows")], &[NONE], &[EVEN, GROWING]),
    (IMPORT, &[("uuid-indexed", "time"), ("uuid-indexed", "name")], &[NONE], &[GROWING]),
    // Remedies for keys in order, and the splits that go with them.
    (IMPORT, IN_ORDER, &[SALT_16, HASH_16, HASH_KEY], &[QUANTILES]),
    (IMPORT, &[("rowkey-id", "rows"), ("fullpath", "rows")], &[SALT_16, HASH_16, HASH_KEY], &[EVEN, GROWING]),
    (IMPORT, &[("fullpath", "rows")], &[HASH_FOLDER], &[QUANTILES, EVEN]),
    (IMPORT, &[("rowkey-id", "rows"), ("dirid-name", "file")], &[REVERSE_NUMBER], &[QUANTILES, EVEN]),
    (IMPORT, &[("rowkey-id", "rows")], &[REVERSE_DIGITS], &[QUANTILES, EVEN]),
    // How many folders a second goes over.
    (RATES, &[("fullpath", "rows"), ("uuid", "dir"), ("uuid", "file"), ("tree", "rows")], &[NONE], &[QUANTILES]),
    (RATES, &[("uuid", "dir")], &[HASH_KEY], &[QUANTILES]),
    // Names in order, and times in order.
    (CAMERA, &[("name", "rows"), ("uuid-indexed", "name")], &[NONE, HASH_16, REVERSE_NAME], &[QUANTILES]),
    (NOW, TIME, &[NONE, ASCENDING, REVERSE_TIME, SALT_16, HASH_16, HASH_KEY], &[QUANTILES]),
    (NOW, TIME, &[NONE, ASCENDING, HASH_16], &[EVEN, GROWING]),
    (NOW, &[("uuid-indexed", "owner")], &[NONE, ASCENDING, HASH_16], &[QUANTILES]),
    // Many users, and files that many read.
    (USERS, &[("dirid-name", "file"), ("fullpath", "rows"), ("uuid", "dir"), ("tree", "rows")], &[NONE], &[QUANTILES]),
    (USERS, &[("fullpath", "rows"), ("uuid", "dir")], &[HASH_16], &[QUANTILES]),
    (USERS, &[("uuid-indexed", "owner")], &[NONE, CREATOR_FORWARDS], &[QUANTILES]),
    (READS, &[("fullpath", "rows"), ("uuid", "dir"), ("tree", "rows")], &[NONE, SALT_16, HASH_KEY], &[QUANTILES]),
];

/// A table, how its keys are changed, and how it is split. For [`ALL_TABLES`] a server's load is of all rows of a
/// request.
pub type Case = (&'static str, Remedy, Splitting);

/// The cases of a layout under a load: each table of each layout while one tree is imported, and those of [`SIMULATED`].
pub fn cases(load: Load, layout: &str, tables: &[Table]) -> Vec<Case> {
    let plain = tables.iter().map(|table| (table.0, NONE, QUANTILES));
    let mut cases: Vec<Case> = plain.filter(|_| IMPORT(load)).collect();
    for (_, tables, remedies, splittings) in SIMULATED.iter().filter(|(loads, ..)| loads(load)) {
        for (_, table) in tables.iter().filter(|(name, _)| *name == layout) {
            for &remedy in *remedies {
                cases.extend(splittings.iter().map(|&splitting| (*table, remedy, splitting)));
            }
        }
    }
    cases
}
