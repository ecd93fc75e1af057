//! Many concurrent callers of a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::join_all;
use rowdrive::table::{Check, Outcome, Plan, StoreError, Tables};
use tokio::sync::Barrier;

use super::engines::EngineUnderTest;
use super::plans::{absent, all, delete_family, dir, done, equals, guard, guarded, open, put, scan, while_writing};

async fn number(tables: &Tables, key: &str) -> i64 {
    let value = tables.cell("dir", key.as_bytes(), "cf", b"n").await.unwrap().unwrap();
    std::str::from_utf8(&value).unwrap().parse().unwrap()
}

fn compare_and_set(key: &str, from: i64, to: i64) -> rowdrive::table::ConditionalRow {
    guard("dir", key.to_owned(), vec![equals("cf", "n", from.to_string())], vec![put("cf", "n", to.to_string())])
}

pub async fn increments_are_never_lost(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, guarded(vec![dir("r", vec![put("cf", "n", "0")])])).await;
    let (lost_races, all_have_read) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(8)));
    let tasks = (0..8).map(|_| {
        let (tables, lost_races, all_have_read) = (tables.clone(), lost_races.clone(), all_have_read.clone());
        tokio::spawn(async move {
            let mut counted = 0;
            let mut seen = number(&tables, "r").await;
            // Of the first updates, one wins.
            all_have_read.wait().await;
            while counted < 40 {
                // Yields, so that other callers run in between, however fast the engine is.
                tokio::task::yield_now().await;
                match tables.commit(guarded(vec![compare_and_set("r", seen, seen + 1)])).await.unwrap() {
                    Outcome::Committed => {
                        counted += 1;
                        seen += 1;
                    }
                    // Retries with the value that is in the refusal.
                    Outcome::Refused(refusal) => {
                        lost_races.fetch_add(1, Ordering::Relaxed);
                        let current = refusal.current.unwrap();
                        let current = std::str::from_utf8(&current).unwrap().parse().unwrap();
                        assert_ne!(current, seen);
                        seen = current;
                    }
                }
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    assert_eq!(number(&tables, "r").await, 8 * 40);
    assert!(lost_races.load(Ordering::Relaxed) > 0, "no two updates conflicted");
}

pub async fn exactly_one_of_many_creators_wins(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    for round in 0..20 {
        let key = format!("r{round}");
        let tasks = (0..8).map(|caller: usize| {
            let (tables, key) = (tables.clone(), key.clone());
            // Half of them create two rows, in either order.
            tokio::spawn(async move {
                let make = |key: String| {
                    guard("dir", key, vec![absent("cf", "id")], vec![put("cf", "id", caller.to_string())])
                };
                let rows = match caller % 4 {
                    0 => vec![make(key.clone()), make(format!("{key}-2"))],
                    1 => vec![make(format!("{key}-2")), make(key.clone())],
                    _ => vec![make(key.clone())],
                };
                tables.commit(guarded(rows)).await.unwrap() == Outcome::Committed
            })
        });
        let won: Vec<bool> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
        let winners: Vec<usize> = (0..8).filter(|caller| won[*caller]).collect();
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(all(&tables, key.as_bytes()).await, [format!("cf:id={}", winners[0])]);
        let second = all(&tables, format!("{key}-2").as_bytes()).await;
        let expected = if winners[0] % 4 < 2 { vec![format!("cf:id={}", winners[0])] } else { vec![] };
        assert_eq!(second, expected);
    }
}

pub async fn guarded_rows_change_at_one_instant(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let write = |n: usize| guarded(["a", "m", "z"].map(|key| dir(key, vec![put("cf", "n", n.to_string())])).to_vec());
    done(&tables, write(0)).await;
    let mut committed = 0;
    while_writing(&tables, write, async || {
        let seen = number(&tables, "m").await;
        // All checks are evaluated at one instant: if the first row passes, all rows do.
        let same = ["a", "m", "z"].map(|key| guard("dir", key, vec![equals("cf", "n", seen.to_string())], vec![]));
        match tables.commit(guarded(same.to_vec())).await.unwrap() {
            Outcome::Committed => committed += 1,
            Outcome::Refused(refusal) => assert_eq!(refusal.row, "a", "{refusal:?}"),
        }
    })
    .await;
    assert!(committed > 0, "the checks never found the rows unlocked");
}

pub async fn transfers_between_rows_keep_the_sum(engine: &dyn EngineUnderTest) {
    const ROWS: usize = 5;
    let tables = open(engine).await;
    let key = |n: usize| format!("r{}", n % ROWS);
    done(&tables, guarded((0..ROWS).map(|n| dir(key(n), vec![put("cf", "n", "100")])).collect())).await;
    let tasks = (0..6).map(|task| {
        let tables = tables.clone();
        tokio::spawn(async move {
            let mut moved = 0;
            for n in 0..60 {
                let (from, to) = (key(task + n), key(task + n + 1 + n % (ROWS - 1)));
                let (had, has) = (number(&tables, &from).await, number(&tables, &to).await);
                tokio::task::yield_now().await;
                let rows = vec![compare_and_set(&from, had, had - 1), compare_and_set(&to, has, has + 1)];
                moved += usize::from(tables.commit(guarded(rows)).await.unwrap() == Outcome::Committed);
            }
            moved
        })
    });
    let moved: usize = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    assert!(moved > 0);
    let mut sum = 0;
    for n in 0..ROWS {
        sum += number(&tables, &key(n)).await;
    }
    assert_eq!(sum, 100 * i64::try_from(ROWS).unwrap());
}

/// A directory is removed if it is empty, while files are created in it.
pub async fn concurrent_fill_and_remove_if_empty_never_both_succeed(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let (mut removed, mut filled) = (0, 0);
    for round in 0..40 {
        let key = format!("r{round}");
        done(&tables, guarded(vec![dir(key.clone(), vec![put("cf", "id", "1")])])).await;
        let live = || equals("cf", "id", "1");
        let remove = vec![delete_family("cf"), delete_family("sub")];
        let mut plans: Vec<Plan> = (0..4)
            .map(|n| guarded(vec![guard("dir", key.clone(), vec![live()], vec![put("sub", n.to_string(), "v")])]))
            .collect();
        let rmdir = guarded(vec![guard("dir", key.clone(), vec![live(), Check::FamilyEmpty("sub")], remove)]);
        plans.insert(round % 5, rmdir);
        let tasks = plans.into_iter().map(|plan| {
            let tables = tables.clone();
            tokio::spawn(async move { tables.commit(plan).await.unwrap() == Outcome::Committed })
        });
        let mut won: Vec<bool> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
        let left = all(&tables, key.as_bytes()).await;
        if won.remove(round % 5) {
            assert_eq!((left.len(), won.contains(&true)), (0, false), "{left:?}");
            removed += 1;
        } else {
            assert_eq!((left.len(), won.contains(&false)), (5, false), "{left:?}");
            filled += 1;
        }
    }
    assert_eq!(removed + filled, 40);
}

/// A caller drops its future while the plan is in flight.
pub async fn abandoned_commit_is_all_or_nothing(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    for n in 0..40 {
        let keys = [format!("a{n}"), format!("b{n}")];
        let row = |key: &String| dir(key.clone(), vec![put("cf", "q", "v"), put("sub", "q", "v")]);
        let mut commit = Box::pin(tables.commit(guarded(keys.iter().map(row).collect())));
        let _first_look = commit.as_mut().now_or_never();
        drop(commit);
        // Once a later plan is answered, the earlier one is finished.
        done(&tables, guarded(vec![dir("other", vec![put("cf", "q", "v")])])).await;
        let first = all(&tables, keys[0].as_bytes()).await;
        assert_eq!(first, all(&tables, keys[1].as_bytes()).await);
        assert!(matches!(first.len(), 0 | 2), "{first:?}");
    }
}

pub async fn many_plans_at_once_are_all_answered(engine: &dyn EngineUnderTest) {
    const PLANS: usize = 3_000;
    let tables = open(engine).await;
    let committed: Arc<Vec<AtomicBool>> = Arc::new((0..PLANS).map(|_| AtomicBool::new(false)).collect());
    let tasks = (0..PLANS).map(|n| {
        let (tables, committed) = (tables.clone(), committed.clone());
        tokio::spawn(async move {
            let plan =
                guarded(vec![guard("dir", format!("{n:04}"), vec![absent("cf", "q")], vec![put("cf", "q", "v")])]);
            match tables.commit(plan).await {
                Ok(outcome) => {
                    assert_eq!(outcome, Outcome::Committed);
                    committed[n].store(true, Ordering::Release);
                }
                // In this case nothing was written.
                Err(error) => assert!(matches!(error, StoreError::Busy), "{error}"),
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    let found = tables.scan(&scan(&["cf"], 5_000)).await.unwrap();
    let there: Vec<String> = found.iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect();
    let expected: Vec<String> =
        (0..PLANS).filter(|n| committed[*n].load(Ordering::Acquire)).map(|n| format!("{n:04}")).collect();
    assert_eq!(there, expected);
    assert!(expected.len() > PLANS / 10, "only {} of {PLANS} were accepted", expected.len());
}
