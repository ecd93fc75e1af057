//! A drive with users, copied for each case: to make users is slow.

use std::sync::Arc;

use rowdrive::auth::{Auth, Credential, NewToken};
use rowdrive::drive::{Condition, DriveError, ListQuery, NameQuery, Node, TimeQuery, UserDrive};
use rowdrive::engines::memory::Memory;
use rowdrive::migrate;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::rights::Right::{self, Read, Share, Write};
use rowdrive::schema::secret::TokenScope;
use rowdrive::table::Tables;

use super::fixture::{World, now, path, rights};
use crate::drive::fixture::{Fixture, SETTINGS, find_all, put, refused, run, time_query};
use crate::drive::model::{Op, OpError};
use crate::stepwise::Stepwise;

/// Directories and files, with who was given what by an admin.
pub const TREE: &[Op] = &[
    Op::Put("/a/f", 1),
    Op::Put("/a/c/g", 2),
    Op::Put("/a/c/h", 3),
    Op::Mkdir("/a/e"),
    Op::Mkdir("/t"),
    Op::Put("/r/f", 4),
    Op::Put("/r/d/g", 5),
    Op::Put("/h/f", 6),
    Op::Put("/h/d/g", 7),
    Op::Put("/w/f", 8),
    Op::Put("/w/x/f", 9),
    Op::Put("/w/x/y/f", 10),
    Op::Put("/w/o/f", 11),
];

/// Tom's grants from the admin. That on `/t` he has from Max.
pub const GRANTS: &[(&str, Right)] = &[("/a", Write), ("/r", Read), ("/w/x/y", Read)];

/// A store, and who asks.
pub struct Base {
    store: Memory,
    pub admin: Credential,
    /// Has the grants.
    pub tom: Credential,
    /// Has none.
    pub eva: Credential,
    /// Tom's, for `/a/c` alone, to read.
    pub token: Credential,
}

/// A copy of the store, on which one case runs.
pub struct Case {
    pub fixture: Fixture,
    /// Through the store that the test watches.
    pub auth: Auth,
    /// Through the inner store.
    pub rival: Auth,
}

impl Base {
    pub async fn new() -> Self {
        let memory = Arc::new(Memory::default());
        let world = World::new((memory.clone(), tempfile::tempdir().unwrap())).await;
        let admin = world.admin().await;
        let (tom, eva) = (world.user(&admin, "tom").await, world.user(&admin, "eva").await);
        for op in TREE {
            run(&world.drive, *op).await.unwrap();
        }
        for (dir, right) in GRANTS {
            world.give(&admin, dir, "tom", &[*right]).await;
        }
        let max = world.user(&admin, "max").await;
        world.give(&admin, "/t", "max", &[Write, Share]).await;
        world.give(&max, "/t", "tom", &[Write]).await;
        let (_, dir) = *world.chain("/a/c").await.last().unwrap();
        let scope = Some(TokenScope { dir, rights: rights(&[Read]) });
        let token = world.token(&tom, NewToken { scope, ..NewToken::default() }).await;
        world.drive.close().await;
        Self { store: (*memory).clone(), admin, tom, eva, token }
    }

    pub async fn case(&self) -> Case {
        self.on(false).await
    }

    /// On an atomic store, or on one that applies plans step by step.
    pub async fn on(&self, atomic: bool) -> Case {
        Case::on(&self.store, atomic).await
    }
}

impl Case {
    /// On a copy of a store.
    pub async fn on(store: &Memory, atomic: bool) -> Self {
        let memory = Arc::new(store.clone());
        let store = if atomic { Stepwise::atomic(memory) } else { Stepwise::new(memory) };
        let fixture = Fixture::on(store, SETTINGS, &[]).await;
        let tables = Tables::new(fixture.store.clone());
        migrate::open(&tables).await.unwrap();
        let rival = Auth::new(fixture.tables.clone(), now);
        Self { fixture, auth: Auth::new(tables, now), rival }
    }

    /// The drive on the store that the test watches, for this requester.
    pub fn drive(&self, by: &Credential) -> UserDrive {
        self.fixture.drive.for_requester(self.auth.requester(by.clone()))
    }
}

/// The result of an operation as a text: what was found, or the status that HTTP has for the error.
pub async fn ask(drive: &UserDrive, asked: &str) -> String {
    let words: Vec<&str> = asked.split(' ').collect();
    let found = match words.as_slice() {
        ["stat", at] => drive.stat(&path(at)).await.map(|_| String::new()),
        ["list", at] => {
            let query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 100 };
            drive.list(&path(at), &query).await.map(|listing| paths(&listing.nodes))
        }
        ["open", at] => drive.open_file(&path(at)).await.map(|_| String::new()),
        ["time", under @ ..] => {
            let under = under.first().map(|at| path(at));
            let query = TimeQuery { under, ..time_query(Clock::Modified) };
            drive.files_by_time(&query).await.map(|page| paths(&page.nodes))
        }
        ["find", under @ ..] => {
            let under = under.first().map(|at| path(at));
            let query = NameQuery { under, ..find_all() };
            drive.files_by_name(&query).await.map(|page| paths(&page.nodes))
        }
        ["below", at] => drive.check_below(&path(at)).await.map(|()| String::new()),
        _ => change(drive, &words).await.map(|()| String::new()),
    };
    match found {
        Ok(text) if text.is_empty() => "ok".to_owned(),
        Ok(text) => text,
        Err(error) => status(error).to_owned(),
    }
}

async fn change(drive: &UserDrive, words: &[&str]) -> Result<(), DriveError> {
    match words {
        ["put", at] => put(drive, at, 20, Condition::default()).await,
        ["mkdir", at] => drive.mkdir(&path(at), "tom", true).await.map(|_| ()),
        ["delete", at] => drive.delete(&path(at), &Condition::default()).await,
        ["rmdir", at] => drive.rmdir(&path(at)).await,
        ["remove", at] => drive.delete_subtree(&path(at)).await,
        ["move", from, to] => drive.move_node(&path(from), &path(to), false).await.map(|_| ()),
        ["copy", from, to] => drive.copy_node(&path(from), &path(to), false, "tom").await.map(|_| ()),
        other => panic!("{other:?}"),
    }
}

fn paths(nodes: &[Node]) -> String {
    let mut paths: Vec<&str> = nodes.iter().map(|node| node.path().as_str()).collect();
    paths.sort_unstable();
    if paths.is_empty() { "none".to_owned() } else { paths.join(" ") }
}

fn status(error: DriveError) -> &'static str {
    match error {
        DriveError::Unauthorized => "401",
        DriveError::Forbidden => "403",
        DriveError::NotFound => "404",
        other => match refused("status".into(), other) {
            OpError::Conflict => "409",
            OpError::Unknown => "503",
            other => panic!("{other:?}"),
        },
    }
}
