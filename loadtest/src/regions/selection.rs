//! Which remedies and splits answer a question, for which table under which load.

use super::keys::Layout;
use super::loads::Load;
use super::remedies::{
    ASCENDING, CREATOR_FORWARDS, HASH_4, HASH_16, HASH_FOLDER, HASH_HEXADECIMAL, HASH_KEY, NONE, REVERSE_DIGITS,
    REVERSE_NAME, REVERSE_NUMBER, REVERSE_TIME, Remedy, SALT_4, SALT_16,
};
use super::splits::{EVEN, GROWING, HEXADECIMAL, QUANTILES, Splitting};
use crate::report::model::ALL_TABLES;

type Loads = fn(Load) -> bool;
const IMPORT: Loads = |load| load == Load::Import;
const RATES: Loads = |load| matches!(load, Load::Rate(_));
const CAMERA: Loads = |load| matches!(load, Load::Camera | Load::CameraByFolder);
const NOW: Loads = |load| load == Load::ModifiedNow;
const USERS: Loads = |load| matches!(load, Load::Users(_) | Load::NewUsers(_));
const READS: Loads = |load| matches!(load, Load::Reads(_));

type Tables = &'static [(&'static str, &'static str)];
const IN_ORDER: Tables = &[("rowkey-id", "rows"), ("fullpath", "rows"), ("dirid-name", "file"), ("uuid", "dir")];
const TIME: Tables = &[("uuid-indexed", "time")];
const OWNER: Tables = &[("uuid-indexed", "owner")];
const WHOLE_REQUESTS: Tables =
    &[("fullpath-indexed", ALL_TABLES), ("dirid-name", ALL_TABLES), ("uuid", ALL_TABLES), ("uuid-indexed", ALL_TABLES)];

/// Loads, tables by layout and name, remedies, splits: each with each.
type Question = (Loads, Tables, &'static [Remedy], &'static [Splitting]);

const QUESTIONS: [Question; 22] = [
    // Whole requests; a layout of one table has no others.
    (|load| matches!(load, Load::Import | Load::Users(_)), WHOLE_REQUESTS, &[NONE, HASH_16], &[QUANTILES]),
    (|load| load == Load::Reads(0.99), &[("dirid-name", ALL_TABLES), ("uuid", ALL_TABLES)], &[NONE], &[QUANTILES]),
    (NOW, &[("uuid-indexed", ALL_TABLES)], &[NONE, HASH_16], &[QUANTILES]),
    // Splits of plain keys; those at quantiles are in `cases`.
    (IMPORT, IN_ORDER, &[NONE], &[EVEN, GROWING]),
    (IMPORT, &[("name", "rows"), ("uuid", "file"), ("tree", "rows")], &[NONE], &[EVEN, GROWING]),
    (IMPORT, &[("uuid-indexed", "time"), ("uuid-indexed", "name")], &[NONE], &[GROWING]),
    // Remedies for keys in order, and the splits that go with them.
    (IMPORT, IN_ORDER, &[SALT_4, SALT_16, HASH_4, HASH_16, HASH_KEY], &[QUANTILES]),
    (IMPORT, &[("rowkey-id", "rows"), ("fullpath", "rows")], &[SALT_16, HASH_16, HASH_KEY], &[EVEN, GROWING]),
    (IMPORT, &[("fullpath", "rows")], &[HASH_FOLDER], &[QUANTILES, EVEN]),
    (IMPORT, &[("rowkey-id", "rows"), ("fullpath", "rows")], &[HASH_HEXADECIMAL], &[HEXADECIMAL, EVEN]),
    (IMPORT, &[("rowkey-id", "rows"), ("dirid-name", "file")], &[REVERSE_NUMBER], &[QUANTILES, EVEN]),
    (IMPORT, &[("rowkey-id", "rows")], &[REVERSE_DIGITS], &[QUANTILES, EVEN]),
    // How many folders a second goes over.
    (RATES, &[("fullpath", "rows"), ("uuid", "dir"), ("uuid", "file"), ("tree", "rows")], &[NONE], &[QUANTILES]),
    (RATES, &[("uuid", "dir")], &[HASH_KEY], &[QUANTILES]),
    // Names in order, and times in order.
    (CAMERA, &[("name", "rows"), ("uuid-indexed", "name")], &[NONE, HASH_16, REVERSE_NAME], &[QUANTILES]),
    (NOW, TIME, &[NONE, ASCENDING, REVERSE_TIME, SALT_4, SALT_16, HASH_16, HASH_KEY], &[QUANTILES]),
    (NOW, TIME, &[NONE, ASCENDING, HASH_16], &[EVEN, GROWING]),
    (NOW, OWNER, &[NONE, ASCENDING, HASH_16], &[QUANTILES]),
    // Many users, and files that many read.
    (USERS, &[("dirid-name", "file"), ("fullpath", "rows"), ("uuid", "dir"), ("tree", "rows")], &[NONE], &[QUANTILES]),
    (USERS, &[("fullpath", "rows"), ("uuid", "dir")], &[HASH_16], &[QUANTILES]),
    (USERS, OWNER, &[NONE, CREATOR_FORWARDS], &[QUANTILES]),
    (READS, &[("fullpath", "rows"), ("uuid", "dir"), ("tree", "rows")], &[NONE, SALT_16, HASH_KEY], &[QUANTILES]),
];

/// A table, how its keys are changed, and how it is split. For [`ALL_TABLES`] a server's load is of all rows of a
/// request.
pub type Case = (&'static str, Remedy, Splitting);

/// The cases of a layout under a load: each table of each layout while one tree is imported, and the questions.
pub fn cases(load: Load, (layout, tables): Layout) -> Vec<Case> {
    let plain = tables.iter().map(|table| (table.0, NONE, QUANTILES));
    let mut cases: Vec<Case> = plain.filter(|_| IMPORT(load)).collect();
    for (_, tables, remedies, splittings) in QUESTIONS.iter().filter(|(loads, ..)| loads(load)) {
        for (_, table) in tables.iter().filter(|(name, _)| *name == layout) {
            for &remedy in *remedies {
                cases.extend(splittings.iter().map(|&splitting| (*table, remedy, splitting)));
            }
        }
    }
    cases
}
