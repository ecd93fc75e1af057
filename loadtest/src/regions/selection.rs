//! Which remedies and splits answer a question, for which table under which load.

use super::keys::KeyLayout;
use super::loads::Load;
use super::remedies::Remedy::{
    self, Ascending, Hash, HashFolder, HashHexadecimal, HashKey, None, Reverse, ReverseDigits, Salt,
};
use super::splits::Splitting::{self, Even, Growing, Hexadecimal, Quantiles};
use crate::report::model::ALL_TABLES;

type Loads = fn(Load) -> bool;
const IMPORT: Loads = |load| load == Load::Import;
const RATES: Loads = |load| matches!(load, Load::Rate(_));
const CAMERA: Loads = |load| matches!(load, Load::Camera | Load::CameraByFolder);
const NOW: Loads = |load| load == Load::ModifiedNow;
const USERS: Loads = |load| matches!(load, Load::Users(_) | Load::NewUsers(_));
const READS: Loads = |load| matches!(load, Load::Reads(_));

type Tables = &'static [(&'static str, &'static str)];
const BY_PATH: Tables = &[("fullpath", "rows"), ("uuid", "dir")];
const IN_ORDER: Tables = &[("rowkey-id", "rows"), ("fullpath", "rows"), ("dirid-name", "file"), ("uuid", "dir")];
const TIME: Tables = &[("uuid-indexed", "time")];
const OWNER: Tables = &[("uuid-indexed", "owner")];
const WHOLE_REQUESTS: Tables =
    &[("fullpath-indexed", ALL_TABLES), ("dirid-name", ALL_TABLES), ("uuid", ALL_TABLES), ("uuid-indexed", ALL_TABLES)];
const QUANTILES: &[Splitting] = &[Quantiles];

/// Loads, tables by layout and name, remedies, splits: each with each.
type Question = (Loads, Tables, &'static [Remedy], &'static [Splitting]);

const QUESTIONS: [Question; 22] = [
    // Whole requests; a layout of one table has no others.
    (|load| matches!(load, Load::Import | Load::Users(_)), WHOLE_REQUESTS, &[None, Hash(16)], QUANTILES),
    (|load| load == Load::Reads(0.99), &[("dirid-name", ALL_TABLES), ("uuid", ALL_TABLES)], &[None], QUANTILES),
    (NOW, &[("uuid-indexed", ALL_TABLES)], &[None, Hash(16)], QUANTILES),
    // Splits of plain keys; those at quantiles are in `cases`.
    (IMPORT, IN_ORDER, &[None], &[Even, Growing]),
    (IMPORT, &[("name", "rows"), ("uuid", "file"), ("tree", "rows")], &[None], &[Even, Growing]),
    (IMPORT, &[("uuid-indexed", "time"), ("uuid-indexed", "name")], &[None], &[Growing]),
    // Remedies for keys in order, and the splits that go with them.
    (IMPORT, IN_ORDER, &[Salt(4), Salt(16), Hash(4), Hash(16), HashKey], QUANTILES),
    (IMPORT, &[("rowkey-id", "rows"), ("fullpath", "rows")], &[Salt(16), Hash(16), HashKey], &[Even, Growing]),
    (IMPORT, &[("fullpath", "rows")], &[HashFolder(16)], &[Quantiles, Even]),
    (IMPORT, &[("rowkey-id", "rows"), ("fullpath", "rows")], &[HashHexadecimal], &[Hexadecimal, Even]),
    (IMPORT, &[("rowkey-id", "rows"), ("dirid-name", "file")], &[Reverse], &[Quantiles, Even]),
    (IMPORT, &[("rowkey-id", "rows")], &[ReverseDigits], &[Quantiles, Even]),
    // How many folders a second goes over.
    (RATES, &[("fullpath", "rows"), ("uuid", "dir"), ("uuid", "file"), ("tree", "rows")], &[None], QUANTILES),
    (RATES, &[("uuid", "dir")], &[HashKey], QUANTILES),
    // Names in order, and times in order.
    (CAMERA, &[("name", "rows"), ("uuid-indexed", "name")], &[None, Hash(16), Reverse], QUANTILES),
    (NOW, TIME, &[None, Ascending, Reverse, Salt(4), Salt(16), Hash(16), HashKey], QUANTILES),
    (NOW, TIME, &[None, Ascending, Hash(16)], &[Even, Growing]),
    (NOW, OWNER, &[None, Ascending, Hash(16)], QUANTILES),
    // Many users, and files that many read.
    (USERS, &[("dirid-name", "file"), ("fullpath", "rows"), ("uuid", "dir"), ("tree", "rows")], &[None], QUANTILES),
    (USERS, BY_PATH, &[Hash(16)], QUANTILES),
    (USERS, OWNER, &[None, Reverse], QUANTILES),
    (READS, &[("fullpath", "rows"), ("uuid", "dir"), ("tree", "rows")], &[None, Salt(16), HashKey], QUANTILES),
];

/// A table, how its keys are changed, and how it is split. For [`ALL_TABLES`] a server's load is of all rows of a
/// request.
pub struct Case {
    pub table: &'static str,
    pub remedy: Remedy,
    pub splitting: Splitting,
}

/// The cases of a layout under a load: each table of each layout while one tree is imported, and the questions.
pub fn cases(load: Load, layout: &KeyLayout) -> Vec<Case> {
    let plain = layout.tables.iter().map(|(table, _)| Case { table, remedy: None, splitting: Quantiles });
    let mut cases: Vec<Case> = plain.filter(|_| IMPORT(load)).collect();
    for (_, tables, remedies, splittings) in QUESTIONS.iter().filter(|(loads, ..)| loads(load)) {
        for (_, table) in tables.iter().filter(|(name, _)| *name == layout.name) {
            for remedy in *remedies {
                let case = |splitting: &Splitting| Case { table, remedy: *remedy, splitting: *splitting };
                cases.extend(splittings.iter().map(case));
            }
        }
    }
    cases
}
