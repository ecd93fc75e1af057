//! Counters: additions, and checks of their sums.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use rowdrive::table::{Change, Check, Column, ConditionalRow, Outcome, StoreError, Tables, counter};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, spawn_blocking};

use super::engines::EngineUnderTest;
use super::plans::{
    absent, all, delete, delete_family, dir, done, equals, guard, guarded, open, prepare, put, refused, row,
};

/// Callers that each have a thread.
const THREADS: i64 = 32;

fn add(amount: i64) -> Change {
    Change::add("cf", "n", amount)
}

fn column() -> Column {
    Column::new("cf", "n")
}

/// Adds to the counter of a row.
fn added(key: &'static str, amount: i64) -> ConditionalRow {
    dir(key, vec![add(amount)])
}

/// Adds to the counter of a row, if the sum is then at most the limit.
fn take(key: &'static str, amount: i64, limit: i64) -> ConditionalRow {
    guard("dir", key, vec![Check::fits(column(), amount, limit)], vec![add(amount)])
}

async fn sum(tables: &Tables, key: &str) -> i64 {
    counter::decode(tables.cell("dir", key.as_bytes(), "cf", b"n").await.unwrap().as_deref()).unwrap()
}

/// Runs one call on each of many threads.
fn on_threads<T, F>(call: impl Fn(i64) -> F) -> Vec<JoinHandle<T>>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = |call: F| {
        let handle = Handle::current();
        spawn_blocking(move || handle.block_on(call))
    };
    (0..THREADS).map(call).map(start).collect()
}

async fn ended<T>(calls: Vec<JoinHandle<T>>) -> Vec<T> {
    join_all(calls).await.into_iter().map(Result::unwrap).collect()
}

pub async fn an_addition_counts_from_the_value_or_from_zero(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    for (amount, expected) in [(0, 0), (5, 5), (-2, 3), (0, 3), (-3, 0), (i64::MAX, i64::MAX), (-1, i64::MAX - 1)] {
        done(&tables, guarded(vec![added("r", amount)])).await;
        assert_eq!(all(&tables, b"r").await.len(), 1, "a counter exists once a plan has added to it");
        assert_eq!(sum(&tables, "r").await, expected);
    }
    // In one plan: other cells, a counter in another family, and another family that is emptied.
    done(&tables, guarded(vec![dir("s", vec![put("sub", "q", "v"), put("cf", "n", counter::encode(40))])])).await;
    done(&tables, guarded(vec![dir("s", vec![delete_family("sub"), add(2), put("cf", "m", "v"), delete("cf", "l")])]))
        .await;
    assert_eq!(sum(&tables, "s").await, 42);
    done(&tables, guarded(vec![dir("s", vec![add(1), Change::add("sub", "n", 7), Change::add("cf", "o", 8)])])).await;
    assert_eq!(sum(&tables, "s").await, 43);
    for (family, qualifier, number) in [("sub", b"n", 7), ("cf", b"o", 8)] {
        let value = tables.cell("dir", b"s", family, qualifier).await.unwrap();
        assert_eq!(counter::decode(value.as_deref()), Ok(number));
    }
    // A row with a unique id has to exist.
    done(&tables, prepare(vec![row("file", "f", vec![put("cf", "size", "1")])])).await;
    done(&tables, guarded(vec![guard("file", "f", vec![equals("cf", "size", "1")], vec![add(7)])])).await;
    let value = tables.cell("file", b"f", "cf", b"n").await.unwrap();
    assert_eq!(counter::decode(value.as_deref()), Ok(7));
}

pub async fn an_addition_fits_up_to_the_limit(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, guarded(vec![take("r", 10, 10)])).await;
    let refusal = refused(&tables, guarded(vec![take("r", 1, 10)])).await;
    assert_eq!((refusal.table, refusal.row.as_ref()), ("dir", b"r".as_ref()));
    assert_eq!((refusal.check, refusal.current), (Check::AtMost(column(), 9), Some(counter::encode(10))));
    assert_eq!(sum(&tables, "r").await, 10);
    done(&tables, guarded(vec![take("r", -3, 10)])).await;
    refused(&tables, guarded(vec![take("r", 4, 10)])).await;
    done(&tables, guarded(vec![take("r", 3, 10)])).await;
    // Above a lowered limit, less and the same fit without a check.
    refused(&tables, guarded(vec![take("r", 0, 4)])).await;
    done(&tables, guarded(vec![added("r", 0)])).await;
    done(&tables, guarded(vec![added("r", -1)])).await;
    assert_eq!(sum(&tables, "r").await, 9);
    // The ends of the range.
    refused(&tables, guarded(vec![take("r", i64::MAX, i64::MAX)])).await;
    done(&tables, guarded(vec![take("r", i64::MAX - 9, i64::MAX)])).await;
    done(&tables, guarded(vec![take("r", -i64::MAX, i64::MAX)])).await;
    assert_eq!(sum(&tables, "r").await, 0);
}

pub async fn a_number_is_checked_without_an_addition(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let check =
        |key: &'static str, limit| guarded(vec![guard("dir", key, vec![Check::AtMost(column(), limit)], vec![])]);
    done(&tables, check("none", 0)).await;
    assert_eq!(refused(&tables, check("none", -1)).await.current, None);
    assert_eq!(all(&tables, b"none").await.len(), 0, "a check creates no counter");
    done(&tables, guarded(vec![added("r", 5)])).await;
    for limit in [5, 6, i64::MAX] {
        done(&tables, check("r", limit)).await;
    }
    for limit in [4, 0, -1, i64::MIN] {
        assert_eq!(refused(&tables, check("r", limit)).await.current, Some(counter::encode(5)), "{limit}");
    }
    // Numbers are compared, and not bytes of their texts or their lowest bytes.
    done(&tables, guarded(vec![added("r", 251)])).await;
    refused(&tables, check("r", 255)).await;
    done(&tables, check("r", 256)).await;
}

pub async fn a_refused_plan_adds_nothing(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, guarded(vec![added("r", 1)])).await;
    let two = |check| {
        guarded(vec![added("r", 5), guard("dir", "s", vec![check], vec![add(6), put("sub", "q", "v")]), added("t", 7)])
    };
    refused(&tables, two(Check::AtMost(column(), -1))).await;
    refused(&tables, two(equals("cf", "id", "v"))).await;
    assert_eq!((sum(&tables, "r").await, sum(&tables, "t").await), (1, 0));
    assert!(all(&tables, b"s").await.is_empty());
    done(&tables, two(absent("cf", "id"))).await;
    assert_eq!((sum(&tables, "r").await, sum(&tables, "s").await, sum(&tables, "t").await), (6, 6, 7));
}

/// Values that are no counters, and sums out of range.
pub async fn a_bad_counter_fails_its_plan_and_changes_nothing(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let (full, negative) = (counter::encode(i64::MAX), counter::encode(-2));
    let bad: [(&'static str, Option<Bytes>, i64); 8] = [
        ("short", Some("12345".into()), 1),
        ("long", Some("123456789".into()), 1),
        ("negative", Some(negative.clone()), 5),
        ("full", Some(full.clone()), 1),
        ("fuller", Some(full), i64::MAX),
        ("low", Some(counter::encode(3)), -4),
        ("lowest", Some(counter::encode(3)), i64::MIN),
        ("none", None, -1),
    ];
    for (key, value, amount) in bad {
        if let Some(value) = value.clone() {
            done(&tables, guarded(vec![dir(key, vec![put("cf", "n", value)])])).await;
        }
        let before = all(&tables, key.as_bytes()).await;
        let this = dir(key, vec![put("cf", "m", "v"), add(amount), put("sub", "q", "v")]);
        let failed = tables.commit(guarded(vec![added("a", 1), this, dir("z", vec![put("cf", "q", "v")])])).await;
        assert!(matches!(failed, Err(StoreError::BadCounter(_))), "{key}: {failed:?}");
        assert_eq!(all(&tables, key.as_bytes()).await, before, "{key}");
        assert!(all(&tables, b"a").await.is_empty() && all(&tables, b"z").await.is_empty(), "{key}");
    }
    for key in ["short", "long", "negative"] {
        let checks = |limit| vec![Check::AtMost(column(), limit)];
        let failed = tables.commit(guarded(vec![guard("dir", key, checks(i64::MAX), vec![])])).await;
        assert!(matches!(failed, Err(StoreError::BadCounter(_))), "{key}: {failed:?}");
        // A failed check before it counts first.
        let row = guard("dir", key, [vec![equals("cf", "id", "v")], checks(0)].concat(), vec![add(1)]);
        assert_eq!(refused(&tables, guarded(vec![row])).await.check, equals("cf", "id", "v"));
    }
    // The number is put anew, and counts again.
    let repair = guard("dir", "negative", vec![equals("cf", "n", negative)], vec![put("cf", "n", counter::encode(7))]);
    done(&tables, guarded(vec![repair])).await;
    done(&tables, guarded(vec![added("negative", -7), added("a", 1)])).await;
    assert_eq!((sum(&tables, "negative").await, sum(&tables, "a").await), (0, 1));
}

pub async fn a_counter_is_deleted_at_zero_and_begins_again(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let at_zero = || vec![equals("cf", "n", counter::encode(0))];
    let delete_at_zero = || guarded(vec![guard("dir", "r", at_zero(), vec![delete("cf", "n")])]);
    assert_eq!(refused(&tables, delete_at_zero()).await.current, None);
    done(&tables, guarded(vec![added("r", 2)])).await;
    assert_eq!(refused(&tables, delete_at_zero()).await.current, Some(counter::encode(2)));
    done(&tables, guarded(vec![added("r", -2)])).await;
    assert_eq!(all(&tables, b"r").await.len(), 1, "it stays at zero");
    done(&tables, delete_at_zero()).await;
    assert!(all(&tables, b"r").await.is_empty());
    done(&tables, guarded(vec![take("r", 3, 3)])).await;
    done(&tables, guarded(vec![dir("r", vec![delete_family("cf")])])).await;
    done(&tables, guarded(vec![take("r", 4, 4)])).await;
    assert_eq!(sum(&tables, "r").await, 4);
}

/// All that fits is taken, and no more: a reader never sees more, and each refusal is true.
pub async fn additions_of_many_threads_end_exactly_at_the_limit(engine: &dyn EngineUnderTest) {
    const AMOUNT: i64 = 7;
    const LIMIT: i64 = 1_000;
    let tables = open(engine).await;
    let ends = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (tables, ends) = (tables.clone(), ends.clone());
        async move {
            let mut last = 0;
            while !ends.load(Ordering::Acquire) {
                let now = sum(&tables, "r").await;
                assert!(last <= now && now <= LIMIT && now % AMOUNT == 0, "{last}, then {now}");
                last = now;
                tokio::task::yield_now().await;
            }
        }
    });
    let calls = on_threads(|_| {
        let tables = tables.clone();
        async move {
            let (mut taken, mut refusals) = (0, 0);
            while refusals < 3 {
                match tables.commit(guarded(vec![take("r", AMOUNT, LIMIT)])).await.unwrap() {
                    Outcome::Committed => taken += 1,
                    Outcome::Refused(refusal) => {
                        let number = counter::decode(refusal.current.as_deref()).unwrap();
                        assert!(number <= LIMIT && number + AMOUNT > LIMIT, "refused at {number}");
                        refusals += 1;
                    }
                }
            }
            taken
        }
    });
    let taken: i64 = ended(calls).await.into_iter().sum();
    ends.store(true, Ordering::Release);
    reader.await.unwrap();
    assert_eq!(taken, LIMIT / AMOUNT);
    assert_eq!(sum(&tables, "r").await, LIMIT / AMOUNT * AMOUNT);
}

/// As uploads under way: each caller adds one, and takes it away later.
pub async fn additions_that_are_taken_back_never_pass_the_limit_together(engine: &dyn EngineUnderTest) {
    const LIMIT: i64 = 5;
    let tables = open(engine).await;
    let (under_way, refusals) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicUsize::new(0)));
    let calls = on_threads(|_| {
        let (tables, under_way, refusals) = (tables.clone(), under_way.clone(), refusals.clone());
        async move {
            for _ in 0..4 {
                while let Outcome::Refused(refusal) = tables.commit(guarded(vec![take("r", 1, LIMIT)])).await.unwrap() {
                    refusals.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(refusal.current, Some(counter::encode(LIMIT)));
                    tokio::task::yield_now().await;
                }
                let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
                assert!(now <= LIMIT, "{now} at once");
                // The first callers stay until there are too many.
                while refusals.load(Ordering::SeqCst) == 0 && under_way.load(Ordering::SeqCst) <= LIMIT {
                    tokio::task::yield_now().await;
                }
                under_way.fetch_sub(1, Ordering::SeqCst);
                done(&tables, guarded(vec![added("r", -1)])).await;
            }
        }
    });
    ended(calls).await;
    assert_eq!(sum(&tables, "r").await, 0);
}

/// Each plan adds to a row and takes from another, in either order of the rows: no addition is lost, and none refuses
/// another.
pub async fn additions_to_several_rows_are_of_one_instant(engine: &dyn EngineUnderTest) {
    const EACH: i64 = 1_000;
    let keys = ["a", "b", "c"];
    let tables = open(engine).await;
    done(&tables, guarded(keys.map(|key| added(key, EACH)).to_vec())).await;
    let calls = on_threads(|n| {
        let tables = tables.clone();
        async move {
            let mut moved = [0; 3];
            for round in 0..6 {
                let from = (n + round) as usize % 3;
                let to = (from + 1 + n as usize % 2) % 3;
                let amount = 1 + n % 4;
                done(&tables, guarded(vec![added(keys[from], -amount), added(keys[to], amount)])).await;
                moved[from] -= amount;
                moved[to] += amount;
                // Together the rows have always the same, so they never have less.
                let (a, b) = (sum(&tables, "a").await, sum(&tables, "b").await);
                let at_most =
                    |key: &'static str, limit| guard("dir", key, vec![Check::AtMost(column(), limit)], vec![]);
                let less = vec![at_most("a", a), at_most("b", b), at_most("c", 3 * EACH - 1 - a - b)];
                refused(&tables, guarded(less)).await;
            }
            moved
        }
    });
    let moved = ended(calls).await;
    for (at, key) in keys.into_iter().enumerate() {
        assert_eq!(sum(&tables, key).await, EACH + moved.iter().map(|moved| moved[at]).sum::<i64>(), "{key}");
    }
}

/// Many plans of one caller at once: an engine with groups has them in one.
pub async fn all_additions_at_once_count(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let plans = (1..=300).map(|amount| tables.commit(guarded(vec![added("r", amount), take("s", 1, 200)])));
    let outcomes: Vec<Outcome> = join_all(plans).await.into_iter().map(Result::unwrap).collect();
    let committed = (1..=300).zip(outcomes).filter(|(_, outcome)| *outcome == Outcome::Committed);
    let amounts: Vec<i64> = committed.map(|(amount, _)| amount).collect();
    assert_eq!(amounts.len(), 200);
    assert_eq!((sum(&tables, "r").await, sum(&tables, "s").await), (amounts.iter().sum::<i64>(), 200));
}
