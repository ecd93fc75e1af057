//! The promises of an engine whose data outlives its process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rowdrive::table::limits::PAGE_CELLS;
use rowdrive::table::{Change, KeyLifecycle, Plan, RowQuery, StoreError, Tables, counter};

use super::engines::EngineUnderTest;
use super::plans::{
    all, delete, delete_family, dir, done, fill, finish, guarded, open, page, prepare, put, row, scan, spec, tables_of,
};

pub async fn tables_survive_a_restart(engine: &dyn EngineUnderTest) {
    drop(open(engine).await);
    let tables = Tables::new(engine.open());
    let other = spec("dir", KeyLifecycle::UniqueId, &["cf", "sub"]);
    assert!(matches!(tables.create(&other).await, Err(StoreError::OtherSpec(..))));
    drop(tables);
    open(engine).await;
}

pub async fn committed_survives_a_restart(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    fill(&tables, b"wide", "sub", 0..PAGE_CELLS).await;
    let plan = Plan {
        prepare: vec![row("file", "f", vec![put("c", "data", vec![7; 1 << 20])])],
        guarded: vec![dir("a", vec![put("cf", "q", "v")]), dir("b\0\x01", vec![put("sub", "\0\x01", "v")])],
        finish: vec![row("todo", "t", vec![put("cf", "q", "v")])],
        ..Plan::default()
    };
    done(&tables, plan).await;
    drop(tables);
    for _ in 0..2 {
        let tables = open(engine).await;
        assert_eq!(all(&tables, b"a").await, ["cf:q=v"]);
        assert_eq!(all(&tables, b"b\0\x01").await, ["sub:\\x00\\x01=v"]);
        assert_eq!(tables.cell("file", b"f", "c", b"data").await.unwrap().unwrap(), vec![7; 1 << 20]);
        assert!(tables.cell("todo", b"t", "cf", b"q").await.unwrap().is_some());
        assert_eq!(tables.page(&page("wide", "sub", PAGE_CELLS)).await.unwrap().cells.len(), PAGE_CELLS);
        assert_eq!(tables.scan(&scan(&["cf", "sub"], 10)).await.unwrap().len(), 3);
    }
}

pub async fn removed_stays_removed_after_a_restart(engine: &dyn EngineUnderTest) {
    let mut tables = open(engine).await;
    done(&tables, prepare(vec![row("index", "h", vec![put("cf", "1", "v"), put("cf", "2", "v")])])).await;
    fill(&tables, b"r", "sub", 0..500).await;
    for _ in 0..2 {
        done(&tables, finish(vec![row("index", "h", vec![delete("cf", "1")])])).await;
        done(&tables, guarded(vec![dir("r", vec![delete_family("sub"), put("sub", "x", "v")])])).await;
        drop(tables);
        tables = open(engine).await;
        assert_eq!(all(&tables, b"r").await, ["sub:x=v"]);
        let index_row = tables.get("index", b"h", &RowQuery::families(&["cf"])).await.unwrap();
        assert_eq!(super::plans::text(&index_row), ["cf:2=v"]);
    }
}

pub async fn committed_survives_a_kill(engine: &dyn EngineUnderTest) {
    let mut tables = open(engine).await;
    for n in 0..10 {
        done(&tables, guarded(vec![dir(format!("r{n}"), vec![put("cf", "q", "v")])])).await;
        fill(&tables, b"wide", "sub", n * 300..(n + 1) * 300).await;
        if n == 5 {
            done(&tables, guarded(vec![dir("wide", vec![delete_family("sub")])])).await;
        }
        tables = tables_of(engine.kill()).await;
        let rows = tables.scan(&scan(&["cf"], 100)).await.unwrap();
        assert_eq!(rows.len(), n + 1);
        let expected = if n < 5 { (n + 1) * 300 } else { (n - 5) * 300 };
        assert_eq!(tables.page(&page("wide", "sub", PAGE_CELLS)).await.unwrap().cells.len(), expected, "round {n}");
    }
}

pub async fn plans_are_whole_after_a_kill(engine: &dyn EngineUnderTest) {
    let mut tables = open(engine).await;
    for round in 0..5 {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writer = tokio::spawn({
            let (tables, acknowledged) = (tables.clone(), acknowledged.clone());
            async move {
                for n in 1.. {
                    let (old, new) = (format!("{round}-{}", n - 1), format!("{round}-{n}"));
                    let cells =
                        |key: &'static str| dir(key, vec![delete("sub", old.clone()), put("sub", new.clone(), "v")]);
                    let index_row = row("index", new.clone(), vec![put("cf", "1", "v")]);
                    let plan =
                        Plan { prepare: vec![index_row], guarded: vec![cells("a"), cells("b")], ..Plan::default() };
                    done(&tables, plan).await;
                    acknowledged.store(n, Ordering::Release);
                }
            }
        });
        while acknowledged.load(Ordering::Acquire) < 20 {
            tokio::task::yield_now().await;
        }
        let before = acknowledged.load(Ordering::Acquire);
        let left = tables_of(engine.kill()).await;
        writer.abort();
        assert!(writer.await.is_err_and(|e| e.is_cancelled()), "nothing was in flight at the kill");
        tables = left;
        // Both rows name the same plan, which is the last acknowledged one or a later one, and its prepared row exists.
        let found = all(&tables, b"a").await;
        assert_eq!(found, all(&tables, b"b").await);
        let name = found.last().unwrap().strip_prefix("sub:").unwrap().strip_suffix("=v").unwrap().to_owned();
        let (_, number) = name.split_once('-').unwrap();
        assert!(number.parse::<usize>().unwrap() >= before, "{name} although {before} was acknowledged");
        assert!(tables.cell("index", name.as_bytes(), "cf", b"1").await.unwrap().is_some());
        done(&tables, guarded(["a", "b"].map(|key| dir(key, vec![delete_family("sub")])).to_vec())).await;
    }
}

/// Each plan adds to two rows. After a kill both have the same sum: of all acknowledged additions, and of none that was
/// not sent. The sum is the same after another kill.
pub async fn each_addition_counts_once_after_kills(engine: &dyn EngineUnderTest) {
    const WRITERS: usize = 8;
    let mut tables = open(engine).await;
    let mut before = 0;
    for round in 0..4 {
        let (sent, acknowledged) = (Arc::new(AtomicUsize::new(before)), Arc::new(AtomicUsize::new(before)));
        let writers = [(); WRITERS].map(|()| {
            let (tables, sent, acknowledged) = (tables.clone(), sent.clone(), acknowledged.clone());
            tokio::spawn(async move {
                for _ in 1_usize.. {
                    sent.fetch_add(1, Ordering::SeqCst);
                    let rows = ["a", "b"].map(|key| dir(key, vec![Change::add("cf", "n", 1)]));
                    done(&tables, guarded(rows.to_vec())).await;
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        while acknowledged.load(Ordering::SeqCst) < before + 50 {
            tokio::task::yield_now().await;
        }
        let at_least = acknowledged.load(Ordering::SeqCst);
        let left = tables_of(engine.kill()).await;
        let at_most = sent.load(Ordering::SeqCst);
        for writer in writers {
            writer.abort();
            assert!(writer.await.is_err_and(|e| e.is_cancelled()), "a writer failed");
        }
        before = sum(&left, "a").await;
        assert!((at_least..=at_most).contains(&before), "round {round}: {at_least} <= {before} <= {at_most}");
        tables = tables_of(engine.kill()).await;
        for key in ["a", "b"] {
            assert_eq!((sum(&left, key).await, sum(&tables, key).await), (before, before), "round {round}, {key}");
        }
    }
}

async fn sum(tables: &Tables, key: &str) -> usize {
    let value = tables.cell("dir", key.as_bytes(), "cf", b"n").await.unwrap();
    counter::decode(value.as_deref()).unwrap().try_into().unwrap()
}
