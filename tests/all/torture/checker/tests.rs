//! Histories that must be explained, and wrong histories that must not.

use super::*;

fn op(start: u64, end: u64, finds: Finds, leaves: Leaves) -> PathOp {
    PathOp { start, end, must: true, finds, leaves }
}

fn put(start: u64, end: u64, value: Value) -> PathOp {
    op(start, end, Finds::Anything, Leaves::One(Some(vec![Some(value)])))
}

fn create(start: u64, end: u64, value: Value) -> PathOp {
    PathOp { finds: Finds::Exactly(None), ..put(start, end, value) }
}

fn delete(start: u64, end: u64) -> PathOp {
    op(start, end, Finds::File, Leaves::One(Some(vec![None])))
}

fn read(start: u64, end: u64, state: State) -> PathOp {
    op(start, end, Finds::Exactly(state), Leaves::Same)
}

fn swap(start: u64, end: u64, old: Value, new: Value) -> PathOp {
    PathOp { finds: Finds::Exactly(Some(old)), ..put(start, end, new) }
}

fn perhaps(op: PathOp) -> PathOp {
    PathOp { must: false, ..op }
}

fn explained(ops: &[PathOp]) -> Vec<State> {
    check(None, ops).unwrap().into_iter().collect()
}

fn unexplained(ops: &[PathOp]) -> usize {
    match check(None, ops) {
        Err(Unexplained::Op { index, .. }) => index,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sequential_operations_are_linearisable() {
    let ops = [create(0, 1, 1), read(2, 3, Some(1)), swap(4, 5, 1, 2), delete(6, 7), read(8, 9, None)];
    assert_eq!(explained(&ops), [None]);
}

#[test]
fn concurrent_writes_may_take_effect_in_either_order() {
    let writes = [put(0, 10, 1), put(0, 10, 2)];
    assert_eq!(explained(&writes), [Some(1), Some(2)]);
    let [a, b] = writes;
    assert_eq!(explained(&[a.clone(), b.clone(), read(11, 12, Some(1))]), [Some(1)]);
    // A reader during both writes sees one value, and a later reader the other: then the other write is last.
    let ops = [a, b, read(2, 3, Some(2)), read(4, 5, Some(1)), read(11, 12, Some(2))];
    assert_eq!(unexplained(&ops), 4);
}

#[test]
fn a_stale_read_is_found() {
    assert_eq!(unexplained(&[put(0, 1, 1), put(2, 3, 2), read(4, 5, Some(1))]), 2);
    // A read that began before the second write ended may see either value.
    assert_eq!(explained(&[put(0, 1, 1), put(2, 5, 2), read(4, 6, Some(1))]), [Some(2)]);
}

#[test]
fn a_lost_write_is_found() {
    assert_eq!(unexplained(&[create(0, 1, 1), read(2, 3, None)]), 1);
    assert_eq!(unexplained(&[put(0, 1, 1), put(2, 3, 2), read(4, 5, Some(2)), read(6, 7, Some(1))]), 3);
}

#[test]
fn a_resurrected_file_is_found() {
    assert_eq!(unexplained(&[create(0, 1, 1), delete(2, 3), read(4, 5, Some(1))]), 2);
    // The same, from the result of a write instead of a read.
    assert_eq!(unexplained(&[create(0, 1, 1), delete(2, 3), swap(4, 5, 1, 2)]), 2);
}

#[test]
fn two_conditional_writes_that_replaced_the_same_version_are_found() {
    assert_eq!(unexplained(&[create(0, 1, 1), swap(2, 9, 1, 2), swap(2, 9, 1, 3)]), 2);
    assert_eq!(unexplained(&[create(0, 9, 1), create(0, 9, 2)]), 1);
    let refused = op(2, 3, Finds::Not(1), Leaves::Same);
    assert_eq!(unexplained(&[create(0, 1, 1), refused]), 1);
}

#[test]
fn an_operation_without_an_answer_may_happen_until_its_server_ends_or_never() {
    let unknown = perhaps(put(2, 20, 2));
    assert_eq!(explained(&[create(0, 1, 1), unknown.clone()]), [Some(1), Some(2)]);
    let seen = [create(0, 1, 1), unknown.clone(), read(4, 5, Some(1)), read(10, 11, Some(2))];
    assert_eq!(explained(&seen), [Some(2)]);
    // Once it was read, it has happened.
    let undone = [create(0, 1, 1), unknown.clone(), read(4, 5, Some(2)), read(10, 11, Some(1))];
    assert_eq!(unexplained(&undone), 3);
    // After its server's end it cannot happen.
    let late = [create(0, 1, 1), unknown.clone(), read(21, 22, Some(1)), read(23, 24, Some(2))];
    assert_eq!(unexplained(&late), 3);
    // It happens only once.
    let twice = [unknown, delete(3, 4), read(5, 6, None), read(7, 8, Some(2))];
    assert_eq!(unexplained(&twice), 3);
}

#[test]
fn a_move_writes_one_of_the_values_that_its_source_had() {
    let moved = op(2, 3, Finds::Exactly(None), Leaves::One(Some(vec![Some(1), Some(2)])));
    assert_eq!(explained(&[moved.clone(), read(4, 5, Some(2))]), [Some(2)]);
    assert_eq!(unexplained(&[moved.clone(), read(4, 5, None)]), 1);
    assert_eq!(unexplained(&[moved.clone(), read(4, 5, Some(2)), read(6, 7, Some(1))]), 2);
    // A move onto an existing file is refused.
    assert_eq!(unexplained(&[create(0, 1, 9), moved]), 1);
    let anything = op(2, 3, Finds::Anything, Leaves::One(None));
    assert_eq!(unexplained(&[anything, read(4, 5, Some(7)), read(6, 7, Some(8))]), 2);
}

#[test]
fn a_copy_adds_and_never_removes() {
    let copied = op(2, 3, Finds::Anything, Leaves::Added(Some(vec![None, Some(2)])));
    assert_eq!(explained(&[create(0, 1, 1), copied.clone()]), [Some(1), Some(2)]);
    assert_eq!(unexplained(&[create(0, 1, 1), copied, read(4, 5, None)]), 2);
}

#[test]
fn many_unknown_outcomes_at_once_are_decided() {
    let mut ops: Vec<_> = (1..=60).map(|value| perhaps(put(u64::from(value), 1_000, value))).collect();
    ops.extend((1..=60).map(|n| read(100 + 2 * u64::from(n), 101 + 2 * u64::from(n), Some(61 - n))));
    assert_eq!(explained(&ops).len(), 1);
    ops.push(read(500, 501, None));
    assert_eq!(unexplained(&ops), 120);
}

#[test]
fn eight_concurrent_writers_are_decided() {
    let mut ops: Vec<_> = (1..=8).map(|value| put(u64::from(value), 100, value)).collect();
    ops.extend((1..=8).map(|n| read(50 + u64::from(n), 100, Some(n))));
    assert_eq!(explained(&ops).len(), 8);
    ops.push(read(101, 102, None));
    assert_eq!(unexplained(&ops), 16);
}
