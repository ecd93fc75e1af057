//! Random valid plans and reads, over so few rows and cells that they conflict.

use std::collections::HashSet;
use std::ops::Bound;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use rowdrive::table::{
    Change, Check, Column, ConditionalRow, PageQuery, Plan, RowChange, RowKey, RowQuery, RowRange, ScanQuery, counter,
};

const KEYS: [&[u8]; 5] = [b"a", b"a\0", b"a\0\x01", b"a\x01", b"\xff"];
const QUALIFIERS: [&[u8]; 4] = [b"\0", b"q", b"q\0", b"\xff"];
const TABLES: [&str; 4] = ["dir", "file", "index", "todo"];

/// The next step of a test.
#[derive(Clone, Debug)]
pub enum RandomStep {
    /// A plan. If it is refused and has `prepare` rows, the flag says whether they are committed again or removed.
    Commit(Plan, bool),
    /// Concurrent plans of guarded rows.
    AtOnce(Vec<Plan>),
    /// Many cells for one row.
    Fill(RowKey, usize),
    Ask(Question),
    Restart,
    Kill,
}

#[derive(Clone, Debug)]
pub enum Question {
    GetMany(&'static str, Vec<(RowKey, RowQuery)>),
    Page(PageQuery),
    Scan(ScanQuery),
}

pub fn steps() -> impl Strategy<Value = Vec<RandomStep>> {
    let step = prop_oneof![
        12 => (plan(), any::<bool>()).prop_map(|(plan, again)| RandomStep::Commit(plan, again)),
        3 => vec(vec(dir_row(), 1..3), 2..5).prop_map(|plans| RandomStep::AtOnce(plans.into_iter().map(guarded).collect())),
        1 => (key(), 90..130_usize).prop_map(|(key, cells)| RandomStep::Fill(key, cells)),
        10 => question().prop_map(RandomStep::Ask),
        1 => Just(RandomStep::Restart),
        1 => Just(RandomStep::Kill),
    ];
    vec(step, 1..50)
}

fn families(table: &str) -> &'static [&'static str] {
    match table {
        "dir" => &["cf", "sub"],
        "file" => &["cf", "c"],
        _ => &["cf"],
    }
}

fn table() -> impl Strategy<Value = &'static str> {
    select(&TABLES[..])
}

fn family(table: &str) -> impl Strategy<Value = &'static str> + use<> {
    select(families(table))
}

fn key() -> impl Strategy<Value = RowKey> + Clone {
    select(&KEYS[..]).prop_map(RowKey::from_static)
}

fn qualifier() -> impl Strategy<Value = Bytes> + Clone {
    select(&QUALIFIERS[..]).prop_map(Bytes::from_static)
}

fn value() -> impl Strategy<Value = Bytes> {
    select(&["0", "1", "22"][..]).prop_map(Bytes::from)
}

fn column(table: &str) -> impl Strategy<Value = Column> + use<> {
    (family(table), qualifier()).prop_map(|(family, qualifier)| Column { family, qualifier })
}

fn put(table: &str) -> impl Strategy<Value = Change> + use<> {
    (column(table), value()).prop_map(|(c, value)| Change::Put { family: c.family, qualifier: c.qualifier, value })
}

fn removal(table: &str) -> impl Strategy<Value = Change> + use<> {
    prop_oneof![
        3 => column(table).prop_map(|c| Change::Delete { family: c.family, qualifier: c.qualifier }),
        1 => family(table).prop_map(|family| Change::DeleteFamily { family }),
    ]
}

fn change(table: &str) -> impl Strategy<Value = Change> + use<> {
    prop_oneof![2 => put(table), 1 => removal(table)]
}

fn equals(table: &str) -> impl Strategy<Value = Check> + use<> {
    (column(table), value()).prop_map(|(column, value)| Check::Equals(column, value))
}

fn absent(table: &str) -> impl Strategy<Value = Check> + use<> {
    column(table).prop_map(Check::Absent)
}

fn check(table: &str) -> impl Strategy<Value = Check> + use<> {
    let family_empty = family(table).prop_map(Check::FamilyEmpty);
    // The last check always holds; without it, few plans would be committed.
    let always = Just(Check::Absent(Column::new("cf", "never")));
    prop_oneof![2 => equals(table), 2 => absent(table), 2 => family_empty, 5 => always]
}

/// The qualifier of a counter: no other change of these strategies names it.
const COUNTER: &str = "n";

/// A change of a counter. Some put a value that is none, or a number close to the end of its range.
fn counter_change() -> impl Strategy<Value = Change> {
    let value = prop_oneof![
        4 => (0..3_i64).prop_map(counter::encode),
        1 => Just(counter::encode(i64::MAX - 1)),
        1 => Just(Bytes::from_static(b"text")),
    ];
    prop_oneof![
        12 => (-2..4_i64).prop_map(|amount| Change::add("cf", COUNTER, amount)),
        2 => value.prop_map(|value| Change::put("cf", COUNTER, value)),
        1 => Just(Change::delete("cf", COUNTER)),
    ]
}

fn dir_row() -> impl Strategy<Value = ConditionalRow> {
    let counted = (option::of(counter_change()), option::of(-2..4_i64));
    (key(), vec(check("dir"), 1..3), vec(change("dir"), 0..5), counted).prop_map(
        |(row, mut checks, mut changes, (counted, limit))| {
            checks.extend(limit.map(|limit| Check::AtMost(Column::new("cf", COUNTER), limit)));
            // A plan does not add to a counter and empty its family.
            if matches!(counted, Some(Change::Add { .. })) {
                changes.retain(|change| *change != Change::DeleteFamily { family: "cf" });
            }
            changes.extend(counted);
            ConditionalRow { table: "dir", row, checks, changes }
        },
    )
}

fn file_row() -> impl Strategy<Value = ConditionalRow> {
    let changed = (vec(equals("file"), 1..2), vec(change("file"), 0..4));
    let made = (vec(absent("file"), 1..3), vec(put("file"), 0..4));
    (key(), prop_oneof![changed, made]).prop_map(|(row, (checks, changes))| ConditionalRow {
        table: "file",
        row,
        checks,
        changes,
    })
}

fn rows(tables: &'static [&'static str], puts: bool) -> impl Strategy<Value = Vec<RowChange>> {
    let row = (select(tables), key()).prop_flat_map(move |(table, row)| {
        let changes = if puts { put(table).boxed() } else { removal(table).boxed() };
        vec(changes, 1..4).prop_map(move |changes| RowChange { table, row: row.clone(), changes })
    });
    vec(row, 0..3)
}

fn plan() -> impl Strategy<Value = Plan> {
    let guarded = prop_oneof![4 => vec(dir_row(), 0..3), 1 => vec(file_row(), 1..3)];
    let finish = prop_oneof![3 => rows(&["file", "index", "todo"], false), 1 => rows(&["todo"], true)];
    (rows(&["file", "index"], true), guarded, finish)
        .prop_map(|(prepare, guarded, finish)| allowed(Plan { prepare, guarded, finish, ..Plan::default() }))
}

fn guarded(rows: Vec<ConditionalRow>) -> Plan {
    allowed(Plan { guarded: rows, ..Plan::default() })
}

/// Removes changes that would name a row, or an immutable cell, twice.
fn allowed(mut plan: Plan) -> Plan {
    let mut rows = HashSet::new();
    let mut cells = HashSet::new();
    let mut once = |row: &mut RowChange| {
        if row.table == "file" {
            return rows.insert((row.table, row.row.clone()));
        }
        // These tables have only one family: the whole family is removed only if the plan names the row nowhere else.
        row.changes.retain(|change| match change {
            Change::DeleteFamily { .. } => rows.insert((row.table, row.row.clone())),
            _ => true,
        });
        let whole = row.changes.iter().any(|change| matches!(change, Change::DeleteFamily { .. }));
        if whole {
            row.changes.truncate(1);
            row.changes[0] = Change::DeleteFamily { family: "cf" };
            return !cells.iter().any(|(table, key, _)| *table == row.table && *key == row.row);
        }
        let gone = rows.contains(&(row.table, row.row.clone()));
        row.changes.retain(|c| !gone && cells.insert((row.table, row.row.clone(), c.qualifier().cloned())));
        !row.changes.is_empty()
    };
    plan.prepare.retain_mut(&mut once);
    plan.finish.retain_mut(&mut once);
    plan.guarded.retain(|guarded| rows.insert((guarded.table, guarded.row.clone())));
    plan
}

fn bound(of: impl Strategy<Value = Bytes> + Clone + 'static) -> impl Strategy<Value = Bound<Bytes>> {
    prop_oneof![of.clone().prop_map(Bound::Included), of.prop_map(Bound::Excluded), Just(Bound::Unbounded),]
}

fn query(table: &str) -> impl Strategy<Value = RowQuery> + use<> {
    let families = prop_oneof![3 => vec(family(table), 1..3), 1 => vec(family(table), 0..1)];
    (column(table), vec(column(table), 0..3), families).prop_map(|(one, mut cells, families)| {
        // A read asks for at least one cell or family.
        if families.is_empty() {
            cells.push(one);
        }
        RowQuery { cells, families }
    })
}

fn question() -> impl Strategy<Value = Question> {
    let rows = table().prop_flat_map(|table| {
        vec((key(), query(table)), 1..4).prop_map(move |queries| Question::GetMany(table, queries))
    });
    let page = table().prop_flat_map(|table| {
        let bounds = (bound(qualifier()), bound(qualifier()));
        (key(), family(table), bounds, 0..6_usize, vec(column(table), 0..4)).prop_map(
            move |(row, family, (from, to), limit, unchanged)| {
                // Sometimes more rows than an engine skips in one step.
                let limit = if limit == 5 { 1_000 } else { limit };
                Question::Page(PageQuery { table, row, family, from, to, limit, unchanged })
            },
        )
    });
    let scan = table().prop_flat_map(|table| {
        let bounds = (bound(key()), bound(key()));
        (bounds, query(table), 0..7_usize, any::<bool>()).prop_map(move |((from, to), query, limit, reverse)| {
            Question::Scan(ScanQuery { table, range: RowRange { from, to }, row_query: query, limit, reverse })
        })
    });
    prop_oneof![2 => rows, 2 => page, 3 => scan]
}
