//! A copy of the store that is made during writes: it has every plan up to one instant, whole, and none after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

/// The number that the last plan put into all families, and the number of plans in each family.
async fn read(rocks: &Rocks) -> (usize, Vec<usize>) {
    let number = |value: Option<Bytes>| std::str::from_utf8(&value.unwrap()).unwrap().parse::<usize>().unwrap();
    let mut seen = Vec::new();
    for family in ["a", "b", "c"] {
        seen.push(number(value(rocks, "last", family, "q").await));
    }
    let mut rows = Vec::new();
    for family in ["a", "b", "c"] {
        rows.push(count(rocks, "all", family).await);
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "torn: {seen:?}");
    (seen[0], rows)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_has_exactly_the_plans_up_to_one_instant() {
    let dir = tempfile::tempdir().unwrap();
    let rocks = Arc::new(open(&dir.path().join("db")).await);
    let (written, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let set = |n: usize| {
        let last = ["a", "b", "c"].map(|family| put(family, "q", &n.to_string()));
        let all = ["a", "b", "c"].map(|family| put(family, &format!("{n:08}"), &"v".repeat(500)));
        changes(vec![changed("last", last.into()), changed("all", all.into())])
    };
    commit(&rocks, set(1)).await;
    written.store(1, Ordering::SeqCst);
    let writer = tokio::spawn({
        let (rocks, written, enough) = (rocks.clone(), written.clone(), enough.clone());
        async move {
            while !enough.load(Ordering::SeqCst) {
                let n = written.load(Ordering::SeqCst) + 1;
                // A row has a largest size, even if the reader is slow.
                if n > 5_000 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                commit(&rocks, set(n)).await;
                written.store(n, Ordering::SeqCst);
            }
        }
    });
    for round in 0..8 {
        let to = dir.path().join(format!("copy {round}"));
        let before = written.load(Ordering::SeqCst);
        rocks.checkpoint(&to).await.unwrap();
        let after = written.load(Ordering::SeqCst) + 1;
        // The path exists already: the copy there does not change.
        assert!(rocks.checkpoint(&to).await.is_err());
        for read_only in [true, false] {
            let copy = if read_only { Rocks::open_read_only(&to, options()).unwrap() } else { open(&to).await };
            let (last, rows) = read(&copy).await;
            assert!((before..=after).contains(&last), "{last} of {before}..={after}");
            assert_eq!(rows, [last; 3], "plans before the last are missing");
        }
    }
    enough.store(true, Ordering::SeqCst);
    writer.await.unwrap();
}
