//! `docs/access.md` lists every event that the program writes into the audit log, and no other.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/access.md");
const CODE: &str = include_str!("../../../src/http/request/audit.rs");

/// The part of a text between the first of `from` and the next of `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split(from).nth(1).expect(from).split(to).next().unwrap()
}

#[test]
fn the_page_lists_every_event_of_the_audit_log() {
    // `Self::Login => "login",`
    let names = between(CODE, "fn name(self)", "\n    }\n");
    let written: BTreeSet<_> = names.split('"').skip(1).step_by(2).collect();
    // Each event is a row of the first table.
    let rows = between(between(PAGE, "## The audit log", "\n## "), "|---|---|---|---|\n", "\n\n");
    let cell = |row: &'static str| row.strip_prefix("| `").and_then(|row| row.split('`').next()).expect(row);
    let listed: Vec<_> = rows.lines().map(cell).collect();
    assert!(written.len() > 10, "{written:?}");
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), written);
    assert_eq!(listed.len(), written.len(), "one row for each: {listed:?}");
}
