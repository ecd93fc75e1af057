//! The effects of operations on directories on the paths below them.

use super::*;

fn record(start: u64, end: u64, effect: Effect) -> OpRecord {
    OpRecord { start, end, client: 0, server: 0, certain: true, effect }
}

fn put(start: u64, end: u64, path: &str, value: Value) -> OpRecord {
    record(start, end, Effect::Step { path: path.into(), finds: Finds::Anything, leaves: Some(Some(value)) })
}

fn moved(start: u64, end: u64, from: &str, to: &str) -> OpRecord {
    record(start, end, Effect::Moved { from: from.into(), to: to.into() })
}

fn files(files: &[(&str, Value)]) -> BTreeMap<Path, Value> {
    files.iter().map(|(path, value)| ((*path).into(), *value)).collect()
}

/// The kinds of findings by path, given the files at the first and at the last idle moment.
fn wrong(
    first: &[(&str, Value)],
    records: &[OpRecord],
    deaths: &[u64],
    last: &[(&str, Value)],
) -> Vec<(String, &'static str)> {
    let (first, last) = (files(first), files(last));
    let wrong = Histories::new(&first, records, deaths, &last, 1_000).wrong();
    wrong.into_iter().map(|wrong| (wrong.path.to_string(), wrong.kind)).collect()
}

#[test]
fn a_directory_moves_with_the_contents_that_were_in_it() {
    let records = [put(1, 2, "/a/f", 1), moved(3, 4, "/a", "/b")];
    assert_eq!(wrong(&[("/a/g", 2)], &records, &[], &[("/b/f", 1), ("/b/g", 2)]), []);
    let lost = wrong(&[("/a/g", 2)], &records, &[], &[("/b/f", 1)]);
    assert_eq!(lost, [("/b/g".to_owned(), "lost")]);
    let both = wrong(&[], &records, &[], &[("/b/f", 1), ("/a/f", 1)]);
    assert_eq!(both, [("/a/f".to_owned(), "returned")]);
    let another = wrong(&[("/b/h", 9)], &records, &[], &[("/b/f", 9)]);
    assert!(another.iter().any(|(path, _)| path == "/b/f"), "{another:?}");
}

#[test]
fn contents_are_tracked_through_several_moves() {
    let records = [moved(1, 2, "/a", "/b"), put(3, 4, "/b/f", 2), moved(5, 6, "/b", "/c"), moved(7, 8, "/c", "/a")];
    assert_eq!(wrong(&[("/a/f", 1)], &records, &[], &[("/a/f", 2)]), []);
    assert_eq!(wrong(&[("/a/f", 1)], &records, &[], &[("/a/f", 1)]).len(), 1);
}

#[test]
fn a_recursive_delete_removes_every_file_and_no_later_one() {
    let removed = record(3, 6, Effect::Removed { below: "/a".into() });
    let records = [put(1, 2, "/a/d/f", 1), removed, put(7, 8, "/a/d/g", 2)];
    assert_eq!(wrong(&[], &records, &[], &[("/a/d/g", 2)]), []);
    assert_eq!(wrong(&[], &records, &[], &[]), [("/a/d/g".to_owned(), "lost")]);
    let back = wrong(&[], &records, &[], &[("/a/d/f", 1), ("/a/d/g", 2)]);
    assert_eq!(back, [("/a/d/f".to_owned(), "returned")]);
    // A directory whose name has the same prefix is not affected.
    assert_eq!(wrong(&[("/ab/f", 3)], &records, &[], &[("/ab/f", 3), ("/a/d/g", 2)]), []);
}

#[test]
fn a_copied_directory_contains_everything_that_did_not_change() {
    let copied = record(3, 6, Effect::Copied { from: "/a".into(), to: "/b".into() });
    let first = [("/a/f", 1), ("/b/g", 2)];
    assert_eq!(wrong(&first, std::slice::from_ref(&copied), &[], &[("/a/f", 1), ("/b/f", 1), ("/b/g", 2)]), []);
    let missing = wrong(&first, std::slice::from_ref(&copied), &[], &[("/a/f", 1), ("/b/g", 2)]);
    assert_eq!(missing, [("/b/f".to_owned(), "lost")]);
    // An interrupted copy may have copied any part.
    let cut = OpRecord { certain: false, ..copied };
    assert_eq!(wrong(&first, &[cut], &[], &[("/a/f", 1), ("/b/g", 2)]), []);
}

#[test]
fn an_operation_without_an_answer_ends_with_its_server() {
    let unknown = OpRecord { certain: false, ..put(1, 2, "/f", 1) };
    assert_eq!(wrong(&[], std::slice::from_ref(&unknown), &[10], &[("/f", 1)]), []);
    assert_eq!(wrong(&[], std::slice::from_ref(&unknown), &[10], &[]), []);
    let read = |start, state| {
        record(start, start + 1, Effect::Step { path: "/f".into(), finds: Finds::Exactly(state), leaves: None })
    };
    let records = [unknown.clone(), OpRecord { server: 1, ..read(20, None) }];
    assert_eq!(wrong(&[], &records, &[10], &[("/f", 1)]), [("/f".to_owned(), "returned")]);
    let records = [unknown.clone(), OpRecord { server: 1, ..read(20, None) }];
    assert_eq!(wrong(&[], &records, &[30], &[("/f", 1)]), []);
    // A request to a server that had ended never arrived.
    let late = OpRecord { start: 11, end: 12, ..unknown };
    assert_eq!(wrong(&[], &[late], &[10], &[("/f", 1)]), [("/f".to_owned(), "returned")]);
}
