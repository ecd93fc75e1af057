//! Which mitigations and splits answer a question, for which table under which load.

use super::keys::Layout;
use super::loads::Load::{self, AtRate, CameraNames, JustModified, NewUsers, OneTree, Reads, Users};
use super::mitigations::Mitigation::{
    self, Ascending, Hash, HashFolder, HashHexadecimal, HashKey, None, Reverse, ReverseDigits, Salt,
};
use super::simulation::{ALL_TABLES, Case};
use super::splits::Splitting::{self, Decimal, Even, Growing, Hexadecimal, Quantiles};

/// In the order of the report.
pub const LOADS: [Load; 11] = [
    OneTree,
    AtRate(200),
    AtRate(2_000),
    AtRate(20_000),
    CameraNames(false),
    CameraNames(true),
    JustModified,
    Users(64),
    NewUsers,
    Reads(0.99),
    Reads(1.2),
];
const RATES: &[Load] = &[AtRate(200), AtRate(2_000), AtRate(20_000)];
const CAMERA: &[Load] = &[CameraNames(false), CameraNames(true)];
const USERS: &[Load] = &[Users(64), NewUsers];
const READS: &[Load] = &[Reads(0.99), Reads(1.2)];

type Tables = &'static [(&'static str, &'static str)];
const BY_PATH: Tables = &[("fullpath", "rows"), ("uuid", "dir")];
const IN_ORDER: Tables = &[("rowkey-id", "rows"), ("fullpath", "rows"), ("dirid-name", "file"), ("uuid", "dir")];
const TIME: Tables = &[("uuid-indexed", "time")];
const OWNER: Tables = &[("uuid-indexed", "owner")];
const WHOLE: Tables =
    &[("fullpath-indexed", ALL_TABLES), ("dirid-name", ALL_TABLES), ("uuid", ALL_TABLES), ("uuid-indexed", ALL_TABLES)];
const QUANTILES: &[Splitting] = &[Quantiles];

/// Loads, tables by layout and name, mitigations, splits: each with each.
type Question = (&'static [Load], Tables, &'static [Mitigation], &'static [Splitting]);

const QUESTIONS: [Question; 23] = [
    // Whole requests; a layout of one table has no others.
    (&[OneTree, Users(64)], WHOLE, &[None, Hash(16)], QUANTILES),
    (&[Reads(0.99)], &[("dirid-name", ALL_TABLES), ("uuid", ALL_TABLES)], &[None], QUANTILES),
    (&[JustModified], &[("uuid-indexed", ALL_TABLES)], &[None, Hash(16)], QUANTILES),
    // Splits of plain keys.
    (&[OneTree], IN_ORDER, &[None], &[Quantiles, Even, Growing]),
    (&[OneTree], &[("name", "rows"), ("uuid", "file"), ("tree", "rows")], &[None], &[Quantiles, Even, Growing]),
    (&[OneTree], &[("uuid-indexed", "time"), ("uuid-indexed", "name")], &[None], &[Quantiles, Growing]),
    // Mitigations for keys in order, and the splits that go with them.
    (&[OneTree], IN_ORDER, &[Salt(4), Salt(16), Hash(4), Hash(16), HashKey], QUANTILES),
    (&[OneTree], &[("rowkey-id", "rows"), ("fullpath", "rows")], &[Salt(16), Hash(16), HashKey], &[Even, Growing]),
    (&[OneTree], &[("rowkey-id", "rows"), ("fullpath", "rows")], &[HashHexadecimal], &[Hexadecimal, Even]),
    (&[OneTree], &[("fullpath", "rows"), ("dirid-name", "file")], &[HashFolder], QUANTILES),
    (&[OneTree], &[("rowkey-id", "rows"), ("dirid-name", "file")], &[Reverse], &[Quantiles, Even]),
    (&[OneTree], &[("rowkey-id", "rows")], &[ReverseDigits], &[Decimal, Even]),
    // How many folders a second goes over.
    (RATES, &[("fullpath", "rows"), ("uuid", "dir"), ("uuid", "file"), ("tree", "rows")], &[None], QUANTILES),
    (RATES, &[("fullpath", "rows")], &[HashFolder], QUANTILES),
    (RATES, &[("uuid", "dir")], &[HashKey], QUANTILES),
    // Names in order, and times in order.
    (CAMERA, &[("name", "rows"), ("uuid-indexed", "name")], &[None, Hash(16), Reverse], QUANTILES),
    (&[JustModified], TIME, &[None, Ascending, Reverse, Salt(4), Salt(16), Hash(16), HashKey], QUANTILES),
    (&[JustModified], TIME, &[None, Ascending, Hash(16)], &[Even, Growing]),
    (&[JustModified], OWNER, &[None, Ascending, Hash(16)], QUANTILES),
    // Many users, and files that many read.
    (USERS, &[("dirid-name", "file"), ("fullpath", "rows"), ("uuid", "dir"), ("tree", "rows")], &[None], QUANTILES),
    (USERS, BY_PATH, &[Hash(16)], QUANTILES),
    (USERS, OWNER, &[None, Reverse], QUANTILES),
    (READS, &[("fullpath", "rows"), ("uuid", "dir"), ("tree", "rows")], &[None, Salt(16), HashKey], QUANTILES),
];

/// The cases of a layout under a load.
pub fn cases(load: Load, layout: &Layout) -> Vec<Case> {
    let mut cases = Vec::new();
    for (_, tables, mitigations, splittings) in QUESTIONS.iter().filter(|(loads, ..)| loads.contains(&load)) {
        for (_, table) in tables.iter().filter(|(name, _)| *name == layout.name) {
            for mitigation in *mitigations {
                let case = |splitting: &Splitting| Case { table, mitigation: *mitigation, splitting: *splitting };
                cases.extend(splittings.iter().map(case));
            }
        }
    }
    cases
}
