//! The result of several changes of one row.

use rowdrive::table::{Change, Check, Tables};

use super::engines::EngineUnderTest;
use super::plans::{
    absent, all, delete, delete_family, dir, done, equals, fill, guard, guarded, open, page, put, qualifier, refused,
    scan,
};

/// The row after these changes, on a row with known cells.
async fn after(tables: &Tables, changes: Vec<Change>) -> Vec<String> {
    done(tables, guarded(vec![dir("r", vec![delete_family("cf"), delete_family("sub")])])).await;
    done(tables, guarded(vec![dir("r", vec![put("cf", "a", "0"), put("cf", "b", "0"), put("sub", "a", "0")])])).await;
    done(tables, guarded(vec![dir("r", changes)])).await;
    all(tables, b"r").await
}

pub async fn changes_happen_in_their_order(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let (a0, b0, s0) = ("cf:a=0", "cf:b=0", "sub:a=0");
    assert_eq!(after(&tables, vec![put("cf", "a", "1"), put("cf", "a", "2")]).await, ["cf:a=2", b0, s0]);
    assert_eq!(after(&tables, vec![put("cf", "a", "1"), delete("cf", "a")]).await, [b0, s0]);
    assert_eq!(after(&tables, vec![delete("cf", "a"), put("cf", "a", "1")]).await, ["cf:a=1", b0, s0]);
    assert_eq!(after(&tables, vec![delete_family("cf"), put("cf", "c", "1")]).await, ["cf:c=1", s0]);
    assert_eq!(after(&tables, vec![put("cf", "c", "1"), delete_family("cf")]).await, [s0]);
    assert_eq!(after(&tables, vec![put("sub", "c", "1"), delete_family("cf")]).await, [s0, "sub:c=1"]);
    assert_eq!(after(&tables, vec![delete("sub", "a"), put("cf", "a", "1")]).await, ["cf:a=1", b0]);
    assert_eq!(after(&tables, vec![]).await, [a0, b0, s0]);
    let twice =
        vec![put("cf", "c", "1"), delete_family("cf"), put("cf", "d", "1"), delete_family("cf"), put("cf", "e", "1")];
    assert_eq!(after(&tables, twice).await, ["cf:e=1", s0]);
}

pub async fn changes_of_missing_cells_are_no_error(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, guarded(vec![dir("none", vec![delete("cf", "q"), delete_family("sub"), delete_family("cf")])])).await;
    assert!(tables.scan(&scan(&["cf", "sub"], 10)).await.unwrap().is_empty());
}

/// Keys next to the row that is emptied: these rows must not change.
const NEIGHBOURS: [&[u8]; 6] = [b"q\xff", b"r\0", b"r\0\0", b"r\x01", b"r\x01a", b"s"];

/// Sizes of a family before it is removed: small, large, and around the numbers at which an engine may change its
/// method.
const SIZES: [usize; 7] = [1, 2, 99, 100, 101, 130, 3_000];

async fn neighbours(tables: &Tables) {
    for key in NEIGHBOURS {
        done(tables, guarded(vec![dir(key, vec![put("cf", "q", "v"), put("sub", "q", "v")])])).await;
    }
}

pub async fn delete_family_removes_all_of_one_family_of_any_size(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    neighbours(&tables).await;
    for size in SIZES {
        fill(&tables, b"r", "sub", 0..size).await;
        done(&tables, guarded(vec![dir("r", vec![put("cf", "q", "v")])])).await;
        done(&tables, guarded(vec![dir("r", vec![delete_family("sub")])])).await;
        assert_eq!(all(&tables, b"r").await, ["cf:q=v"], "{size} cells");
        for key in NEIGHBOURS {
            assert_eq!(all(&tables, key).await, ["cf:q=v", "sub:q=v"], "{} beside {size}", key.escape_ascii());
        }
    }
}

pub async fn put_after_delete_family_survives(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    for size in SIZES {
        fill(&tables, b"r", "sub", 0..size).await;
        // A cell that existed, at either end of the family, and a new one.
        let last = qualifier(size - 1);
        let mut changes = vec![put("sub", "early", "v"), delete_family("sub")];
        changes.extend([put("sub", qualifier(0), "new"), put("sub", last.clone(), "new"), put("sub", "x", "new")]);
        done(&tables, guarded(vec![dir("r", changes)])).await;
        let mut expected = vec![format!("sub:{}=new", qualifier(0)), format!("sub:{last}=new"), "sub:x=new".to_owned()];
        expected.dedup();
        assert_eq!(all(&tables, b"r").await, expected, "{size} cells");
        // The family can be removed again.
        done(&tables, guarded(vec![dir("r", vec![delete_family("sub")])])).await;
        assert!(all(&tables, b"r").await.is_empty(), "{size} cells");
    }
}

pub async fn delete_family_removes_earlier_puts_of_the_same_row(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    for size in SIZES {
        let mut changes: Vec<_> = (0..size).map(|n| put("sub", qualifier(n), "v")).collect();
        changes.extend([put("cf", "q", "v"), delete_family("sub")]);
        done(&tables, guarded(vec![dir("r", changes)])).await;
        assert_eq!(all(&tables, b"r").await, ["cf:q=v"], "{size} cells");
    }
}

pub async fn row_without_cells_is_absent_and_can_be_written_again(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    for n in 0..3 {
        let made =
            guard("dir", "r", vec![absent("cf", "id")], vec![put("cf", "id", n.to_string()), put("sub", "q", "v")]);
        done(&tables, guarded(vec![made.clone()])).await;
        assert_eq!(refused(&tables, guarded(vec![made])).await.current, Some(n.to_string().into()));
        let gone = vec![delete_family("cf"), delete("sub", "q")];
        done(&tables, guarded(vec![guard("dir", "r", vec![equals("cf", "id", n.to_string())], gone)])).await;
        assert!(all(&tables, b"r").await.is_empty());
        assert!(tables.scan(&scan(&["cf", "sub"], 10)).await.unwrap().is_empty());
        assert!(tables.page(&page("r", "sub", 1)).await.unwrap().cells.is_empty());
    }
}

pub async fn family_is_empty_after_many_deletes(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    let empty = || guarded(vec![guard("dir", "r", vec![Check::FamilyEmpty("sub")], vec![])]);
    // More deleted cells than an engine may skip in one read.
    for part in 0..5 {
        fill(&tables, b"r", "sub", part * 5_000..(part + 1) * 5_000).await;
        let gone = (part * 5_000..(part + 1) * 5_000).map(|n| delete("sub", qualifier(n))).collect();
        done(&tables, guarded(vec![dir("r", gone)])).await;
    }
    done(&tables, empty()).await;
    fill(&tables, b"r", "sub", 24_999..25_000).await;
    refused(&tables, empty()).await;
}
