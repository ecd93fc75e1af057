//! The first user is made before any single call of an operation of nobody's.
//!
//! Nobody may do everything as long as there are no users. Once the first one is answered, nothing is committed that only
//! a drive without users allows, and no read shows what was stored since.

use std::sync::{Arc, Mutex};

use rowdrive::auth::Auth;
use rowdrive::engines::memory::Memory;
use rowdrive::migrate;
use rowdrive::table::Tables;

use super::base::ask;
use super::fixture::{ADMIN, new_user, now};
use crate::drive::fixture::{Fixture, SETTINGS, run, view};
use crate::drive::model::{Op, View};
use crate::stepwise::Stepwise;

const TREE: &[Op] =
    &[Op::Put("/a/f", 1), Op::Put("/a/c/g", 2), Op::Put("/a/c/h", 3), Op::Mkdir("/a/e"), Op::Mkdir("/t")];

/// A drive without users.
struct Case {
    fixture: Fixture,
    /// Through the store that the test watches.
    auth: Auth,
}

impl Case {
    async fn on(store: &Memory, atomic: bool) -> Self {
        let memory = Arc::new(store.clone());
        let store = if atomic { Stepwise::atomic(memory) } else { Stepwise::new(memory) };
        let fixture = Fixture::on(store, SETTINGS, &[]).await;
        let tables = Tables::new(fixture.store.clone());
        migrate::open(&tables).await.unwrap();
        Self { fixture, auth: Auth::new(tables, now) }
    }

    async fn ask(&self, asked: &str) -> String {
        ask(&self.fixture.drive.for_requester(self.auth.nobody()), asked).await
    }

    /// The answer if the first user is made before this call, and what was there then. `secret`: what is stored after it. None
    /// if the operation has no such call.
    async fn raced(&self, asked: &str, call: usize, secret: Option<Op>) -> Option<(String, View)> {
        let seen: Arc<Mutex<Option<View>>> = Arc::default();
        let (auth, watcher, theirs) =
            (self.auth.with_tables(self.fixture.tables.clone()), self.fixture.watcher.clone(), seen.clone());
        let store = self.fixture.store.clone();
        store.once_before_call(store.calls() + call, move || async move {
            auth.make_first_user(new_user(ADMIN)).await.unwrap();
            let found = view(&watcher).await;
            if let Some(secret) = secret {
                run(&watcher, secret).await.unwrap();
            }
            *theirs.lock().unwrap() = Some(found);
        });
        let answer = self.ask(asked).await;
        let found = seen.lock().unwrap().take();
        found.map(|found| (answer, found))
    }
}

async fn without_users() -> Memory {
    let memory = Arc::new(Memory::default());
    let fixture = Fixture::on(Stepwise::new(memory.clone()), SETTINGS, TREE).await;
    fixture.drive.close().await;
    (*memory).clone()
}

/// `known`: whether the process knows before that there are no users.
async fn change_races(store: &Memory, asked: &str, known: bool) {
    let alone = Case::on(store, false).await;
    let before = alone.fixture.view().await;
    assert_eq!(alone.ask(asked).await, "ok", "{asked}");
    let after = alone.fixture.view().await;
    let is_subtree = asked.ends_with("/c");
    let (mut call, mut refused) = (1, 0);
    loop {
        let case = Case::on(store, false).await;
        if known {
            assert!(!case.auth.has_users().await.unwrap());
        }
        let Some((answer, at_rival)) = case.raced(asked, call, None).await else { break };
        case.fixture.idle().await;
        let found = case.fixture.view().await;
        let is_right = match answer.as_str() {
            "ok" => at_rival == after && found == after,
            "401" => at_rival == before && found == before,
            // An operation on a subtree was aborted, and had no time for another attempt.
            "503" => is_subtree && at_rival == before && found == before,
            _ => false,
        };
        let log = case.fixture.store.log();
        assert!(is_right, "the first user before call {call} of {asked}: {answer}, {at_rival:?}, {found:?}\n{log:#?}");
        case.fixture.nothing_left_over().await;
        refused += usize::from(answer != "ok");
        call += 1;
    }
    let is_refused = refused > 0 || is_subtree;
    assert!(is_refused && call > 2, "{asked} has {call} calls, and was refused before {refused} of them");
}

#[tokio::test]
async fn nothing_of_nobodys_is_committed_after_the_first_user() {
    let store = without_users().await;
    for asked in [
        "put /a/f",
        "put /a/n/m/x",
        "mkdir /a/d",
        "delete /a/f",
        "rmdir /a/e",
        "move /a/f /t/f",
        "copy /a/f /t/f",
        "move /a/c /t/c",
        "remove /a/c",
    ] {
        change_races(&store, asked, true).await;
    }
    change_races(&store, "put /a/f", false).await;
}

#[tokio::test]
async fn no_read_of_nobodys_shows_what_was_stored_after_the_first_user() {
    let store = without_users().await;
    for atomic in [false, true] {
        for asked in ["stat /a/secret", "open /a/secret", "list /a", "time", "time /a", "find", "find /a"] {
            let before = Case::on(&store, atomic).await.ask(asked).await;
            for known in [true, false] {
                let mut call = 1;
                loop {
                    let case = Case::on(&store, atomic).await;
                    if known {
                        assert!(!case.auth.has_users().await.unwrap());
                    }
                    let Some((answer, _)) = case.raced(asked, call, Some(Op::Put("/a/secret", 90))).await else {
                        break;
                    };
                    let is_right = answer == before || answer == "401";
                    assert!(is_right, "the first user before call {call} of {asked}: {answer}, not {before}");
                    assert_eq!(case.ask(asked).await, "401", "{asked}, asked again");
                    call += 1;
                }
                assert!(call > 1, "{asked}");
            }
        }
    }
}
