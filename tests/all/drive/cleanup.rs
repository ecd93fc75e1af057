//! Clean-up in the background: a transient error does not end it, an impossible or unreadable item blocks no other, and
//! closing the drive does not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rowdrive::drive::{Drive, Node, Settings, Thresholds};
use rowdrive::schema::{CF, FileId, file, pending_unlink, subtree_op};
use rowdrive::table::{Change, Check, Column, ConditionalRow, Outcome, Plan, RowChange, RowQuery, RowRange, ScanQuery};
use tokio::sync::Notify;

use super::damage::change;
use super::fixture::{Fixture, SETTINGS, bytes, content, path, run};
use super::model::Op;
use crate::stepwise::Fault;

const LARGE: usize = 300_000;

const SET_UP: &[Op] =
    &[Op::Put("/a/f", 5), Op::Put("/a/c/g", LARGE), Op::Put("/a/c/h", LARGE + 1), Op::Put("/k", 6), Op::Mkdir("/b")];

/// Small batches, so that clean-up runs after the answer.
fn pieces(threshold: usize) -> Settings {
    Settings { limits: Thresholds::all(threshold), ..SETTINGS }
}

/// A single call of the store fails, a read or a write: the drive cleans up everything without a restart.
#[tokio::test]
async fn a_transient_error_does_not_end_the_clean_up() {
    for op in [Op::Remove("/a"), Op::Move("/a", "/b/a", false), Op::Delete("/a/c/g")] {
        for threshold in [1, 100] {
            let clean = Fixture::with(pieces(threshold), SET_UP).await;
            clean.idle().await;
            clean.store.scan_row_by_row();
            let begun = clean.store.calls();
            clean.run(op).await.unwrap();
            clean.idle().await;
            for call in 1..=clean.store.calls() - begun {
                let fixture = Fixture::with(pieces(threshold), SET_UP).await;
                fixture.idle().await;
                fixture.store.scan_row_by_row();
                fixture.store.at_call(fixture.store.calls() + call, Fault::Lose);
                let before = fixture.view().await;
                let done = fixture.run(op).await;
                let seen = fixture.view().await;
                assert!(seen == before || Ok(&seen) == before.after(op).as_ref(), "{op:?}, call {call} lost: {seen:?}");
                assert!(done.is_err() || seen != before, "{op:?}, call {call} lost");
                if !matches!(op, Op::Delete(_)) {
                    fixture.idle().await;
                    assert_eq!(fixture.view().await, seen, "{op:?}, call {call} lost");
                    fixture.nothing_left_over().await;
                }
            }
        }
    }
}

/// The content file of a file.
async fn content_file(fixture: &Fixture, at: &str) -> std::path::PathBuf {
    let Node::File { entry, .. } = fixture.drive.unrestricted().stat(&path(at)).await.unwrap() else {
        panic!("no file")
    };
    let id = entry.id.to_string();
    fixture.data.path().join("content").join(&id[..2]).join(id)
}

/// A folder at the path of a content file cannot be removed as a file.
#[tokio::test]
async fn a_content_file_that_cannot_be_removed_blocks_no_other() {
    for threshold in [1, 2, 100] {
        let fixture = Fixture::with(pieces(threshold), SET_UP).await;
        fixture.idle().await;
        let (stuck, other) = (content_file(&fixture, "/a/c/g").await, content_file(&fixture, "/a/c/h").await);
        std::fs::remove_file(&stuck).unwrap();
        std::fs::create_dir(&stuck).unwrap();
        assert_eq!(fixture.run(Op::Remove("/a")).await, Ok(()));
        for _ in 0..2_000 {
            if !other.exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!other.exists(), "thresholds {threshold}: the other content stays");
        std::fs::remove_dir(&stuck).unwrap();
        fixture.nothing_left_over().await;
    }
}

/// A file at the path of the folder of a committed upload: the content stays staged.
#[tokio::test(start_paused = true)]
async fn staged_content_of_unknown_outcome_is_retried_with_back_off_and_blocks_no_rows() {
    // The pauses are 2, 4, 8, 16 and then 20 ms each.
    const TRIES: usize = 14;
    let mut fixture = Fixture::with(pieces(1), SET_UP).await;
    fixture.idle().await;
    let final_path = content_file(&fixture, "/a/c/g").await;
    let Node::File { entry, .. } = fixture.drive.unrestricted().stat(&path("/a/c/g")).await.unwrap() else {
        panic!("no file")
    };
    fixture.drive.close().await;
    // The state that a process leaves if it stops between the commit and the end of its upload.
    let (folder, new) = (final_path.parent().unwrap(), fixture.data.path().join("content/new"));
    let staged = new.join(final_path.file_name().unwrap());
    let aside = fixture.data.path().join("aside");
    std::fs::rename(&final_path, &staged).unwrap();
    std::fs::rename(folder, &aside).unwrap();
    std::fs::write(folder, "in the way").unwrap();
    let left = Plan { finish: vec![pending_unlink::put(FileId::random())], ..Plan::default() };
    assert_eq!(fixture.tables.commit(left).await.unwrap(), Outcome::Committed);

    let (tries, row) = (Arc::new(AtomicUsize::new(0)), entry.id.key());
    let count = tries.clone();
    fixture.store.reading(move |read| {
        let many = read.table == file::TABLE && read.row == row && count.fetch_add(1, Ordering::SeqCst) >= 2 * TRIES;
        // A loop without pauses is stopped here, since it would keep the paused clock from advancing.
        async move {
            if many {
                std::future::pending().await
            }
        }
    });
    fixture.restart().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let tried = tries.load(Ordering::SeqCst);
    assert!((2..=TRIES).contains(&tried), "it was tried {tried} times");
    assert!(staged.exists());
    assert_eq!(fixture.count(pending_unlink::TABLE, "cf").await, 0, "rows of an earlier process stay");
    let mut metrics = Registry::default();
    fixture.drive.register(&mut metrics);
    let mut text = String::new();
    encode(&mut text, &metrics).unwrap();
    assert!(text.contains("cleanup_waiting 1\n"), "{text}");

    // The fault ends.
    fixture.store.reading(|_| async {});
    std::fs::remove_file(folder).unwrap();
    std::fs::rename(&aside, folder).unwrap();
    fixture.idle().await;
    assert!(final_path.exists() && !staged.exists());
    fixture.nothing_left_over().await;
}

/// A process has stopped between the commit and the end of its upload, and the file row is damaged since: its entry still
/// leads to the content.
#[tokio::test]
async fn staged_content_of_a_damaged_file_row_is_kept() {
    for damaged in [Some(b"\x01".as_slice()), None] {
        let mut fixture = Fixture::new(&[Op::Put("/a/f", LARGE)]).await;
        fixture.idle().await;
        let place = content_file(&fixture, "/a/f").await;
        let Node::File { entry, .. } = fixture.drive.unrestricted().stat(&path("/a/f")).await.unwrap() else {
            panic!("no file")
        };
        fixture.drive.close().await;
        let staged = fixture.data.path().join("content/new").join(place.file_name().unwrap());
        std::fs::rename(&place, &staged).unwrap();
        change(&fixture, (file::TABLE, CF, file::ATTRIBUTES), entry.id.key(), damaged).await;
        fixture.restart().await;
        fixture.idle().await;
        assert!(place.exists() && !staged.exists(), "{damaged:?}");
        let opened = fixture.drive.unrestricted().open_file(&path("/a/f")).await.unwrap();
        assert!(content(opened).await == bytes(LARGE), "{damaged:?}");
    }
}

/// Content staged for a plan that failed on a full disk is removed by the same process, once the store works again.
#[tokio::test(start_paused = true)]
async fn content_of_a_plan_that_failed_on_a_full_disk_is_cleaned_up_once_there_is_free_space() {
    for step in 1.. {
        let fixture = Fixture::new(&[Op::Put("/a/f", 5)]).await;
        fixture.idle().await;
        let begun = fixture.store.steps();
        fixture.store.at(begun + step, Fault::Fill);
        let done = fixture.run(Op::Put("/a/g", LARGE)).await;
        let new = || std::fs::read_dir(fixture.data.path().join("content/new")).unwrap().count();
        if done.is_ok() {
            assert!(step > 2, "no step of a plan hit a full disk");
            break;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(new(), 1, "step {step}: the outcome is still unknown");
        fixture.store.free_space();
        fixture.drive.idle().await;
        assert_eq!(new(), 0, "step {step}");
        // A file row without an entry may be left, and it keeps its content.
        let query = RowQuery::cells(vec![Column::new(CF, file::ATTRIBUTES)]);
        let scan =
            ScanQuery { table: file::TABLE, range: RowRange::all(), row_query: query, limit: 10, reverse: false };
        let kept = fixture.tables.scan(&scan).await.unwrap().len() - 1;
        assert_eq!((fixture.content_files(kept).await, fixture.view().await.files.len()), (kept, 1), "step {step}");
    }
}

#[tokio::test]
async fn pending_removals_beyond_the_memory_limit_are_listed_from_the_store() {
    let fixture = Fixture::with(pieces(1), &[]).await;
    fixture.idle().await;
    let resume = Arc::new(Notify::new());
    let go_on = resume.clone();
    // The garbage collector stops at its first call while more content is dropped.
    let stopped = Arc::new(AtomicUsize::new(0));
    let count = stopped.clone();
    fixture.store.before(move |step| {
        let (go_on, count) = (go_on.clone(), count.clone());
        async move {
            if step.what.starts_with("unlink")
                && step.what.contains(": delete ")
                && count.fetch_add(1, Ordering::SeqCst) == 0
            {
                go_on.notified().await;
            }
        }
    });
    for n in 0..8 {
        fixture.run(Op::Put("/f", LARGE + n)).await.unwrap();
    }
    resume.notify_one();
    fixture.nothing_left_over().await;
}

/// A directory whose clean-up takes many calls.
const WIDE: &[Op] = &[
    Op::Mkdir("/b"),
    Op::Put("/a/f", 5),
    Op::Put("/a/g", 6),
    Op::Put("/a/h", LARGE),
    Op::Put("/a/c/d/f", 7),
    Op::Put("/a/c/e/f", 8),
    Op::Put("/a/c/e/g", 9),
    Op::Put("/a/k/f", 10),
    Op::Put("/a/l/f", 11),
];

/// Closing does not wait for work after the answer, and the next start finishes it.
#[tokio::test]
async fn closing_does_not_wait_for_the_clean_up() {
    for op in [Op::Remove("/a"), Op::Move("/a", "/b/a", false)] {
        let mut closed_after_the_answer = 0;
        for call in (1..).step_by(3) {
            let mut fixture = Fixture::with(pieces(1), WIDE).await;
            fixture.idle().await;
            let before = fixture.view().await;
            fixture.store.scan_row_by_row();
            let begun = fixture.store.calls();
            // The drive is closed during this call.
            let (reached, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let (here, resume) = (reached.clone(), go_on.clone());
            fixture.store.once_before_call(begun + call, move || async move {
                here.notify_one();
                resume.notified().await;
            });
            let drive = fixture.drive.clone();
            let running = tokio::spawn(async move { run(&drive, op).await });
            let all = async {
                tokio::join!(fixture.drive.idle(), async {
                    while !running.is_finished() {
                        tokio::task::yield_now().await
                    }
                })
            };
            let came_there = tokio::select! {
                biased;
                () = reached.notified() => true,
                _ = all => false,
            };
            if !came_there {
                break;
            }
            tokio::task::yield_now().await;
            let answered = running.is_finished();
            let drive = fixture.drive.clone();
            let closing = tokio::spawn(async move { drive.close().await });
            tokio::task::yield_now().await;
            go_on.notify_one();
            closing.await.unwrap();
            assert_eq!(running.await.unwrap(), Ok(()), "{op:?}, closed at call {call}");
            let more = fixture.store.calls() - begun - call;
            assert!(!answered || more < 10, "{op:?}, closed at call {call}: {more} calls after it");
            closed_after_the_answer += usize::from(answered);
            fixture.restart().await;
            assert_eq!(Ok(fixture.view().await), before.after(op), "{op:?}, closed at call {call}");
            fixture.nothing_left_over().await;
        }
        assert!(closed_after_the_answer > 5, "{op:?}: {closed_after_the_answer}");
    }
}

fn row(table: &'static str, row: &'static str, qualifier: &'static [u8]) -> Plan {
    let change = Change::put(CF, qualifier, Bytes::from_static(b"?"));
    if table == pending_unlink::TABLE {
        return Plan { finish: vec![RowChange { table, row: row.into(), changes: vec![change] }], ..Plan::default() };
    }
    let checks = vec![Check::Absent(Column::new(CF, qualifier))];
    Plan { guarded: vec![ConditionalRow { table, row: row.into(), checks, changes: vec![change] }], ..Plan::default() }
}

/// An unreadable row does not block a start, and all other work is done.
#[tokio::test]
async fn an_unreadable_work_row_is_skipped_and_found_by_a_check() {
    for (table, qualifier) in
        [(subtree_op::TABLE, subtree_op::PHASE), (subtree_op::TABLE, subtree_op::WHAT), (pending_unlink::TABLE, b"u")]
    {
        for (stop, first) in [(true, "!"), (false, "~")] {
            let mut fixture = Fixture::with(pieces(1), SET_UP).await;
            fixture.idle().await;
            assert_eq!(fixture.run(Op::Remove("/a")).await, Ok(()));
            if stop {
                fixture.drive.close().await;
            }
            let mut spoilt = row(table, first, qualifier);
            if table == subtree_op::TABLE {
                // Both cells; one of them was written differently.
                let other = if qualifier == subtree_op::PHASE { subtree_op::WHAT } else { subtree_op::PHASE };
                let other = Change::put(CF, other, subtree_op::Phase::Committed.encode());
                spoilt.guarded[0].changes.push(other);
            }
            assert_eq!(fixture.tables.commit(spoilt).await.unwrap(), Outcome::Committed);
            fixture.restart().await;
            fixture.idle().await;
            let (_, findings) = fixture.check(false).await;
            let found: Vec<_> = findings.iter().map(|finding| (finding.table, finding.row.as_str())).collect();
            assert_eq!(found, [(table, first)], "{findings:#?}");
            assert_eq!(fixture.content_files(0).await, 0, "{table}: content is left");
            let drive: &Drive = &fixture.drive;
            drive.close().await;
        }
    }
}
