use std::ops::Bound;

use bytes::Bytes;

use super::*;
use crate::table::row::{Column, RowKey, RowRange};
use crate::table::spec::FamilySpec;

fn spec(name: &str, lifecycle: KeyLifecycle, families: &[&str]) -> TableSpec {
    let family = |name: &&str| FamilySpec {
        name: (*name).to_owned(),
        compression: Default::default(),
        bloom: false,
        cells: Default::default(),
    };
    TableSpec { name: name.to_owned(), lifecycle, families: families.iter().map(family).collect() }
}

/// A catalog with a table of each lifecycle: `return`, `made`, `once` and `late`.
fn catalog() -> Catalog {
    let catalog = Catalog::default();
    for (name, lifecycle) in [
        ("return", KeyLifecycle::Reusable),
        ("made", KeyLifecycle::UniqueId),
        ("once", KeyLifecycle::Immutable),
        ("late", KeyLifecycle::ImmutableLate),
    ] {
        catalog.add(&spec(name, lifecycle, &["cf", "sub"]));
    }
    catalog
}

type Answer = fn() -> Validity;

fn bytes(len: usize) -> Bytes {
    vec![b'x'; len].into()
}

fn over(what: &'static str, limit: usize) -> Validity {
    Err(RuleViolation::Limit { what, len: limit + 1, limit })
}

fn empty(what: &'static str) -> Validity {
    Err(RuleViolation::Empty { what })
}

fn no_family(table: &str) -> Validity {
    Err(RuleViolation::NoFamily(table.to_owned(), "nope".to_owned()))
}

fn no_table() -> Validity {
    Err(RuleViolation::NoTable("nope".to_owned()))
}

fn put() -> Change {
    Change::put("cf", "q", "v")
}

fn put_sub() -> Change {
    Change::put("sub", "q", "v")
}

fn delete() -> Change {
    Change::delete("cf", "q")
}

fn delete_family(family: &'static str) -> Change {
    Change::DeleteFamily { family }
}

fn row(table: &'static str, changes: Vec<Change>) -> RowChange {
    RowChange { table, row: "r".into(), changes }
}

fn guarded(table: &'static str, check: Check, changes: Vec<Change>) -> ConditionalRow {
    ConditionalRow { table, row: "r".into(), checks: vec![check], changes }
}

fn absent() -> Check {
    Check::Absent(Column::new("cf", "q"))
}

fn prepares(rows: Vec<RowChange>) -> Validity {
    catalog().validate_plan(&Plan { prepare: rows, ..Plan::default() })
}

fn guards(rows: Vec<ConditionalRow>) -> Validity {
    catalog().validate_plan(&Plan { guarded: rows, ..Plan::default() })
}

fn finishes(rows: Vec<RowChange>) -> Validity {
    catalog().validate_plan(&Plan { finish: rows, ..Plan::default() })
}

fn get(key: &[u8], query: &RowQuery) -> Validity {
    catalog().validate_row_query("return", key, query)
}

fn page(limit: usize, unchanged: Vec<Column>) -> PageQuery {
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    PageQuery { table: "return", row: "r".into(), family: "cf", from, to, limit, unchanged }
}

fn scan(limit: usize, query: RowQuery) -> ScanQuery {
    ScanQuery { table: "return", range: RowRange::all(), row_query: query, limit, reverse: false }
}

#[test]
fn an_empty_plan_is_allowed() {
    assert_eq!(catalog().validate_plan(&Plan::default()), Ok(()));
}

#[test]
fn names_of_tables_and_families_are_plain() {
    let check =
        |name: &str, families: &[&str]| Catalog::default().validate_spec(&spec(name, KeyLifecycle::Reusable, families));
    let names =
        |name: &str| Err(RuleViolation::Spec(name.to_owned(), "names of tables and families are a-z, 0-9, _ and -"));
    assert_eq!(check("a_table-9", &["cf", "c-f_0"]), Ok(()));
    for name in ["", "Dir", "a b", "a/b", "a.b", "a:b", "\u{e4}", "a\0"] {
        assert_eq!(check(name, &["cf"]), names(name), "{name:?}");
        assert_eq!(check("dir", &["cf", name]), names("dir"), "{name:?}");
    }
}

#[test]
fn a_table_has_at_least_one_family_and_none_twice() {
    let check = |families: &[&str]| Catalog::default().validate_spec(&spec("dir", KeyLifecycle::Reusable, families));
    let once = Err(RuleViolation::Spec("dir".to_owned(), "a table has families, each named once"));
    assert_eq!(check(&[]), once);
    assert_eq!(check(&["cf", "sub", "cf"]), once);
}

#[test]
fn a_table_must_have_been_created() {
    assert_eq!(catalog().validate_row_query("nope", b"r", &RowQuery::families(&["cf"])), no_table());
    assert_eq!(catalog().validate_page_query(&PageQuery { table: "nope", ..page(1, vec![]) }), no_table());
    assert_eq!(
        catalog().validate_scan_query(&ScanQuery { table: "nope", ..scan(1, RowQuery::families(&["cf"])) }),
        no_table()
    );
    assert_eq!(prepares(vec![row("nope", vec![put()])]), no_table());
    assert_eq!(guards(vec![guarded("nope", absent(), vec![])]), no_table());
    assert_eq!(finishes(vec![row("nope", vec![delete()])]), no_table());
}

#[test]
fn a_family_must_belong_to_its_table() {
    let cells = RowQuery::cells(vec![Column::new("nope", "q")]);
    let families = RowQuery::families(&["cf", "nope"]);
    for query in [cells, families] {
        assert_eq!(get(b"r", &query), no_family("return"));
        assert_eq!(catalog().validate_scan_query(&scan(1, query)), no_family("return"));
    }
    assert_eq!(catalog().validate_page_query(&PageQuery { family: "nope", ..page(1, vec![]) }), no_family("return"));
    assert_eq!(catalog().validate_page_query(&page(1, vec![Column::new("nope", "q")])), no_family("return"));

    let changes = [Change::put("nope", "q", "v"), Change::delete("nope", "q"), delete_family("nope")];
    assert_eq!(prepares(vec![row("made", vec![changes[0].clone()])]), no_family("made"));
    for change in changes {
        assert_eq!(guards(vec![guarded("return", absent(), vec![change.clone()])]), no_family("return"));
        if !change.is_put() {
            assert_eq!(finishes(vec![row("made", vec![change])]), no_family("made"));
        }
    }
    let column = Column::new("nope", "q");
    for check in [Check::Absent(column.clone()), Check::Equals(column, "v".into()), Check::FamilyEmpty("nope")] {
        assert_eq!(guards(vec![guarded("return", check, vec![])]), no_family("return"));
    }
}

#[test]
fn a_row_key_has_1_to_8192_bytes() {
    let cases: [(usize, Answer); 4] = [
        (1, || Ok(())),
        (ROW_KEY_BYTES, || Ok(())),
        (ROW_KEY_BYTES + 1, || over("row key", ROW_KEY_BYTES)),
        (0, || empty("a row key")),
    ];
    for (len, answer) in cases {
        let key: RowKey = bytes(len);
        assert_eq!(get(&key, &RowQuery::families(&["cf"])), answer());
        assert_eq!(catalog().validate_page_query(&PageQuery { row: key.clone(), ..page(1, vec![]) }), answer());
        assert_eq!(prepares(vec![RowChange { row: key.clone(), ..row("made", vec![put()]) }]), answer());
        assert_eq!(guards(vec![ConditionalRow { row: key.clone(), ..guarded("return", absent(), vec![]) }]), answer());
        assert_eq!(finishes(vec![RowChange { row: key.clone(), ..row("made", vec![delete()]) }]), answer());
    }
    assert_eq!(ROW_KEY_BYTES, 8192);
}

#[test]
fn a_qualifier_has_1_to_1024_bytes() {
    let cases: [(usize, Answer); 4] = [
        (1, || Ok(())),
        (QUALIFIER_BYTES, || Ok(())),
        (QUALIFIER_BYTES + 1, || over("qualifier", QUALIFIER_BYTES)),
        (0, || empty("a qualifier")),
    ];
    for (len, answer) in cases {
        let column = Column::new("cf", bytes(len));
        let query = RowQuery::cells(vec![column.clone()]);
        assert_eq!(get(b"r", &query), answer());
        assert_eq!(catalog().validate_scan_query(&scan(1, query)), answer());
        assert_eq!(catalog().validate_page_query(&page(1, vec![column.clone()])), answer());
        for check in [Check::Absent(column.clone()), Check::Equals(column.clone(), "v".into())] {
            assert_eq!(guards(vec![guarded("return", check, vec![])]), answer());
        }
        for change in [Change::put("cf", bytes(len), "v"), Change::delete("cf", bytes(len))] {
            assert_eq!(guards(vec![guarded("return", absent(), vec![change])]), answer());
        }
        assert_eq!(prepares(vec![row("made", vec![Change::put("cf", bytes(len), "v")])]), answer());
        assert_eq!(finishes(vec![row("made", vec![Change::delete("cf", bytes(len))])]), answer());
    }
    assert_eq!(QUALIFIER_BYTES, 1024);
}

#[test]
fn a_value_has_1_byte_to_1_mib() {
    let cases: [(usize, Answer); 4] = [
        (1, || Ok(())),
        (CELL_BYTES, || Ok(())),
        (CELL_BYTES + 1, || over("cell", CELL_BYTES)),
        (0, || empty("a cell's value")),
    ];
    for (len, answer) in cases {
        let put = Change::put("cf", "q", bytes(len));
        assert_eq!(prepares(vec![row("made", vec![put.clone()])]), answer());
        assert_eq!(guards(vec![guarded("return", absent(), vec![put.clone()])]), answer());
        assert_eq!(finishes(vec![row("late", vec![put])]), answer());
        let equals = Check::Equals(Column::new("cf", "q"), bytes(len));
        assert_eq!(guards(vec![guarded("return", equals, vec![])]), answer());
    }
    assert_eq!(CELL_BYTES, 1 << 20);
}

#[test]
fn a_read_selects_at_least_one_cell_and_at_most_a_page() {
    assert_eq!(get(b"r", &RowQuery::default()), empty("what to read"));
    assert_eq!(catalog().validate_scan_query(&scan(1, RowQuery::default())), empty("what to read"));

    let cells = |count| RowQuery::cells(vec![Column::new("cf", "q"); count]);
    assert_eq!(get(b"r", &cells(PAGE_CELLS)), Ok(()));
    assert_eq!(get(b"r", &cells(PAGE_CELLS + 1)), over("queried cells", PAGE_CELLS));
    assert_eq!(PAGE_CELLS, 10_001);
}

#[test]
fn a_page_its_unchanged_cells_and_a_scan_are_bounded() {
    let unchanged = |count| vec![Column::new("cf", "q"); count];
    assert_eq!(catalog().validate_page_query(&page(PAGE_CELLS, unchanged(UNCHANGED_CELLS))), Ok(()));
    assert_eq!(catalog().validate_page_query(&page(PAGE_CELLS + 1, unchanged(0))), over("page", PAGE_CELLS));
    assert_eq!(
        catalog().validate_page_query(&page(1, unchanged(UNCHANGED_CELLS + 1))),
        over("unchanged cells", UNCHANGED_CELLS)
    );
    let families = || RowQuery::families(&["cf"]);
    assert_eq!(catalog().validate_scan_query(&scan(PAGE_CELLS, families())), Ok(()));
    assert_eq!(catalog().validate_scan_query(&scan(PAGE_CELLS + 1, families())), over("scan", PAGE_CELLS));
    assert_eq!(UNCHANGED_CELLS, 4);
}

#[test]
fn a_plan_has_4_mib_at_most_over_all_its_parts() {
    // The limit counts row key, qualifier and value of each row, and the check of a conditional row.
    let rest = 3 * 2 + (1 + 1 + 1 + 1 + 3);
    let plan = |over: usize| {
        let put = |len| vec![Change::put("cf", "q", bytes(len))];
        let named = |row: &'static str, table, changes| RowChange { table, row: row.into(), changes };
        Plan {
            prepare: vec![named("a", "made", put(CELL_BYTES)), named("b", "made", put(CELL_BYTES))],
            guarded: vec![ConditionalRow {
                table: "return",
                row: "r".into(),
                checks: vec![
                    Check::Absent(Column::new("cf", "q")),
                    Check::Equals(Column::new("cf", "q"), "abc".into()),
                ],
                changes: put(CELL_BYTES - rest + over - 1),
            }],
            finish: vec![named("d", "late", put(CELL_BYTES))],
            ..Plan::default()
        }
    };
    assert_eq!(plan(0).bytes(), PLAN_BYTES - 1);
    assert_eq!(catalog().validate_plan(&plan(0)), Ok(()));
    assert_eq!(catalog().validate_plan(&plan(1)), Ok(()));
    assert_eq!(catalog().validate_plan(&plan(2)), over("plan", PLAN_BYTES));
    assert_eq!(PLAN_BYTES, 4 << 20);
}

#[test]
fn a_plan_has_150_conditional_rows_at_most() {
    let rows = |count: usize| {
        let row = |n: usize| ConditionalRow { row: n.to_string().into(), ..guarded("return", absent(), vec![put()]) };
        (0..count).map(row).collect::<Vec<_>>()
    };
    assert_eq!(guards(rows(GUARDED_ROWS)), Ok(()));
    assert_eq!(guards(rows(GUARDED_ROWS + 1)), over("guarded rows", GUARDED_ROWS));
    assert_eq!(GUARDED_ROWS, 150);
}

#[test]
fn a_row_of_a_plan_changes_something_and_a_conditional_one_checks_something() {
    assert_eq!(prepares(vec![row("made", vec![])]), empty("a row without checks or changes"));
    assert_eq!(finishes(vec![row("made", vec![])]), empty("a row without checks or changes"));
    let unchecked = ConditionalRow { checks: Vec::new(), ..guarded("return", absent(), vec![put()]) };
    assert_eq!(guards(vec![unchecked]), empty("a guarded row's list of checks"));
}

/// What each lifecycle allows, by part of the plan and kind of change.
#[test]
fn every_lifecycle_allows_its_own_changes_in_every_part() {
    let kinds = [
        ("put", vec![put()]),
        ("delete", vec![delete()]),
        ("family", vec![delete_family("cf")]),
        ("mixed", vec![Change::put("cf", "q", "v"), Change::delete("cf", "r")]),
        ("nothing", vec![]),
    ];
    let equals = || Check::Equals(Column::new("cf", "q"), "v".into());
    // Columns: put, delete, delete family, put and delete, check only.
    let allowed = [
        ("return", "prepare", "no no no no -"),
        ("return", "absent", "ok ok ok ok ok"),
        ("return", "equals", "ok ok ok ok ok"),
        ("return", "family-empty", "ok ok ok ok ok"),
        ("return", "finish", "no no no no -"),
        ("made", "prepare", "ok no no no -"),
        ("made", "absent", "ok no no no ok"),
        ("made", "equals", "ok ok ok ok ok"),
        ("made", "family-empty", "no no no no ok"),
        ("made", "finish", "no ok ok no -"),
        ("once", "prepare", "ok no no no -"),
        ("once", "absent", "no no no no no"),
        ("once", "equals", "no no no no no"),
        ("once", "family-empty", "no no no no no"),
        ("once", "finish", "no ok ok no -"),
        ("late", "prepare", "no no no no -"),
        ("late", "absent", "no no no no no"),
        ("late", "equals", "no no no no no"),
        ("late", "family-empty", "no no no no no"),
        ("late", "finish", "ok ok ok no -"),
    ];
    for (table, part, answers) in allowed {
        for ((kind, changes), expected) in kinds.iter().zip(answers.split(' ')) {
            let changes = changes.clone();
            let answer = match part {
                "prepare" => prepares(vec![row(table, changes)]),
                "finish" => finishes(vec![row(table, changes)]),
                "absent" => guards(vec![guarded(table, absent(), changes)]),
                "equals" => guards(vec![guarded(table, equals(), changes)]),
                _ => guards(vec![guarded(table, Check::FamilyEmpty("cf"), changes)]),
            };
            let found = match answer {
                Ok(()) => "ok",
                Err(RuleViolation::Lifecycle { table: named, .. }) if named == table => "no",
                Err(RuleViolation::Empty { .. }) => "-",
                Err(other) => panic!("{table} {part} {kind}: {other}"),
            };
            assert_eq!(found, expected, "{table} {part} {kind}");
        }
    }
}

#[test]
fn a_counter_is_named_by_one_change_of_its_row() {
    let add = || Change::add("cf", "q", 1);
    let no = || Err(RuleViolation::Counter("return".to_owned()));
    let adds = |changes| guards(vec![guarded("return", absent(), changes)]);
    for other in [add(), put(), delete(), delete_family("cf")] {
        assert_eq!(adds(vec![other.clone(), add()]), no(), "{other:?}");
        assert_eq!(adds(vec![add(), put_sub(), other.clone()]), no(), "{other:?}");
    }
    let beside = [Change::put("cf", "r", "v"), Change::delete("cf", "s"), Change::add("cf", "t", -1), put_sub(), add()];
    assert_eq!(adds(beside.to_vec()), Ok(()));
    assert_eq!(adds(vec![delete_family("sub"), add()]), Ok(()));
    // The same cell of another row is another counter.
    let other = ConditionalRow { row: "s".into(), ..guarded("return", absent(), vec![put(), delete()]) };
    assert_eq!(guards(vec![guarded("return", absent(), vec![add()]), other]), Ok(()));
}

#[test]
fn only_guarded_rows_add_to_counters() {
    let add = |family| Change::add(family, "q", 1);
    let at_most = |family| Check::AtMost(Column::new(family, "q"), 5);
    for table in ["return", "made", "once", "late"] {
        let no = || Err(RuleViolation::Counter(table.to_owned()));
        assert_eq!(prepares(vec![row(table, vec![Change::put("cf", "r", "v"), add("cf")])]), no());
        assert_eq!(finishes(vec![row(table, vec![Change::delete("cf", "r"), add("cf")])]), no());
    }
    assert_eq!(guards(vec![guarded("return", at_most("cf"), vec![add("cf")])]), Ok(()));
    assert_eq!(guards(vec![guarded("return", at_most("nope"), vec![])]), no_family("return"));
    assert_eq!(guards(vec![guarded("return", at_most("cf"), vec![add("nope")])]), no_family("return"));
    assert_eq!(guards(vec![guarded("return", absent(), vec![Change::add("cf", "", 1)])]), empty("a qualifier"));
    // A missing counter is at most 5 too, so the check finds no row.
    let found = Check::Equals(Column::new("cf", "r"), "v".into());
    assert_eq!(guards(vec![guarded("made", found, vec![add("cf")])]), Ok(()));
    for (table, check) in [("made", at_most("cf")), ("made", absent()), ("once", absent()), ("late", absent())] {
        let answer = guards(vec![guarded(table, check, vec![add("cf")])]);
        assert!(matches!(answer, Err(RuleViolation::Lifecycle { .. })), "{table}: {answer:?}");
    }
}

#[test]
fn one_check_that_finds_a_row_with_a_unique_id_is_enough() {
    let mut change = guarded("made", absent(), vec![delete_family("cf")]);
    change.checks.push(Check::Equals(Column::new("cf", "r"), "v".into()));
    assert_eq!(guards(vec![change]), Ok(()));
}

#[test]
fn a_row_is_named_once_over_all_parts() {
    let twice = |table: &str| Err(RuleViolation::RowTwice(table.to_owned()));
    let equals = || guarded("made", Check::Equals(Column::new("cf", "q"), "v".into()), vec![]);
    let made = || row("made", vec![put()]);
    let gone = || row("made", vec![delete_family("cf")]);
    let plan =
        |prepare, guarded, finish| catalog().validate_plan(&Plan { prepare, guarded, finish, ..Plan::default() });

    assert_eq!(plan(vec![made(), made()], vec![], vec![]), twice("made"));
    assert_eq!(plan(vec![], vec![equals(), equals()], vec![]), twice("made"));
    assert_eq!(plan(vec![], vec![], vec![gone(), gone()]), twice("made"));
    assert_eq!(plan(vec![made()], vec![equals()], vec![]), twice("made"));
    assert_eq!(plan(vec![made()], vec![], vec![gone()]), twice("made"));
    assert_eq!(plan(vec![], vec![equals()], vec![gone()]), twice("made"));

    // The same key in two tables, or another key in one table, is a different row.
    let other = RowChange { row: "s".into(), ..gone() };
    assert_eq!(plan(vec![made()], vec![guarded("return", absent(), vec![])], vec![other]), Ok(()));
}

#[test]
fn an_immutable_cell_is_named_once_over_all_parts() {
    let twice = || Err(RuleViolation::CellTwice("once".to_owned()));
    let plan = |prepare: Vec<RowChange>, finish| catalog().validate_plan(&Plan { prepare, finish, ..Plan::default() });
    let new = |q: &'static str| row("once", vec![Change::put("cf", q, "v")]);
    let old = |q: &'static str| row("once", vec![Change::delete("cf", q)]);

    assert_eq!(plan(vec![new("a"), new("b")], vec![old("c"), old("d")]), Ok(()));
    assert_eq!(plan(vec![new("a"), new("a")], vec![]), twice());
    assert_eq!(plan(vec![row("once", vec![put(), put()])], vec![]), twice());
    assert_eq!(plan(vec![new("a")], vec![old("a")]), twice());
    assert_eq!(plan(vec![], vec![old("a"), old("a")]), twice());
    assert_eq!(plan(vec![], vec![row("once", vec![delete(), delete()])]), twice());

    // The same qualifier in another family, row or table is a different cell.
    let elsewhere = vec![
        row("once", vec![Change::delete("sub", "a")]),
        RowChange { row: "s".into(), ..old("a") },
        row("late", vec![Change::delete("cf", "a")]),
    ];
    assert_eq!(plan(vec![new("a")], elsewhere), Ok(()));
}

#[test]
fn an_immutable_family_is_removed_without_naming_its_cells() {
    let twice = || Err(RuleViolation::CellTwice("once".to_owned()));
    let plan = |prepare: Vec<RowChange>, finish| catalog().validate_plan(&Plan { prepare, finish, ..Plan::default() });
    let gone = |family| row("once", vec![delete_family(family)]);

    assert_eq!(plan(vec![row("once", vec![put()])], vec![gone("cf")]), twice());
    assert_eq!(plan(vec![], vec![row("once", vec![delete()]), gone("cf")]), twice());
    assert_eq!(plan(vec![], vec![gone("cf"), row("once", vec![delete()])]), twice());
    assert_eq!(plan(vec![], vec![row("once", vec![delete_family("cf"), delete()])]), twice());
    assert_eq!(plan(vec![], vec![gone("cf"), gone("cf")]), twice());

    assert_eq!(plan(vec![], vec![gone("cf"), gone("sub")]), Ok(()));
    assert_eq!(plan(vec![row("once", vec![Change::put("sub", "q", "v")])], vec![gone("cf")]), Ok(()));
    assert_eq!(plan(vec![row("once", vec![put()])], vec![RowChange { row: "s".into(), ..gone("cf") }]), Ok(()));
}
