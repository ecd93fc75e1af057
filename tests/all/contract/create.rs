//! `create`: a table is created once, with its properties.

use futures_util::future::join_all;
use rowdrive::table::spec::{CellSize, Compression, FamilySpec};
use rowdrive::table::{KeyLifecycle, StoreError, TableSpec, Tables};

use super::engines::EngineUnderTest;
use super::plans::{all, dir, done, guarded, open, put, row, spec, tables_of};

pub async fn creating_a_table_again_leaves_it_unchanged(engine: &dyn EngineUnderTest) {
    let store = engine.open();
    let tables = tables_of(store.clone()).await;
    done(&tables, guarded(vec![dir("r", vec![put("cf", "q", "v")])])).await;
    let again = tables_of(store).await;
    assert_eq!(all(&again, b"r").await, ["cf:q=v"]);
}

pub async fn create_with_different_properties_is_refused(engine: &dyn EngineUnderTest) {
    let tables = open(engine).await;
    done(&tables, guarded(vec![dir("r", vec![put("cf", "q", "v")])])).await;
    let there = spec("dir", KeyLifecycle::Reusable, &["cf", "sub"]);
    let family = |change: fn(&mut FamilySpec)| {
        let mut other = there.clone();
        change(&mut other.families[0]);
        other
    };
    let others = [
        TableSpec { lifecycle: KeyLifecycle::UniqueId, ..there.clone() },
        spec("dir", KeyLifecycle::Reusable, &["cf"]),
        spec("dir", KeyLifecycle::Reusable, &["cf", "sub", "c"]),
        spec("dir", KeyLifecycle::Reusable, &["cf", "other"]),
        family(|f| f.compression = Compression::None),
        family(|f| f.bloom = !f.bloom),
        family(|f| f.cells = CellSize::Large),
    ];
    for other in others {
        let answer = tables.create(&other).await;
        assert!(matches!(&answer, Err(StoreError::OtherSpec(table, _)) if table == "dir"), "{other:?}: {answer:?}");
    }
    tables.create(&there).await.unwrap();
    assert_eq!(all(&tables, b"r").await, ["cf:q=v"]);
}

pub async fn concurrent_creates_make_one_table(engine: &dyn EngineUnderTest) {
    let store = engine.open();
    let specs = [spec("new", KeyLifecycle::Reusable, &["cf"]), spec("new", KeyLifecycle::Reusable, &["cf", "sub"])];
    let answers = join_all((0..8).map(|n| {
        let (tables, spec) = (Tables::new(store.clone()), specs[n % 2].clone());
        tokio::spawn(async move { tables.create(&spec).await })
    }))
    .await;
    let made: Vec<bool> = answers.into_iter().map(|answer| answer.unwrap().is_ok()).collect();
    assert!((0..8).all(|n| made[n] == made[n % 2]), "{made:?}");
    assert!(made[0] != made[1], "{made:?}");
}

pub async fn create_keeps_tables_and_families_apart(engine: &dyn EngineUnderTest) {
    let tables = Tables::new(engine.open());
    // These pairs must not collide, however an engine joins the names.
    let names: [(&'static str, &[&'static str]); 4] =
        [("a", &["b-c", "b_c", "b"]), ("a-b", &["c"]), ("a_b", &["c", "b"]), ("b", &["b", "c"])];
    let mut pairs = Vec::new();
    for (table, families) in names {
        tables.create(&spec(table, KeyLifecycle::UniqueId, families)).await.unwrap();
        pairs.extend(families.iter().map(|family| (table, *family)));
    }
    for (table, family) in &pairs {
        let value = format!("{table} {family}");
        let plan = super::plans::prepare(vec![row(table, format!("r-{family}"), vec![put(family, "q", value)])]);
        done(&tables, plan).await;
    }
    for (table, family) in &pairs {
        for (_, other) in &pairs {
            let key = format!("r-{other}");
            let found = tables.cell(table, key.as_bytes(), family, b"q").await.unwrap();
            let expected = (family == other).then(|| format!("{table} {family}"));
            assert_eq!(found.as_deref(), expected.as_deref().map(str::as_bytes), "{table} {family} in {key}");
        }
    }
}
