//! Migration 5 on a small disk.

use std::path::Path;
use std::process::Command;

use reqwest::{Client, StatusCode};
use rowdrive::migrate::{self, MigrateError};
use rowdrive::schema::file;
use rowdrive::table::Tables;

use super::small_disk::SmallDisk;
use crate::migrate::schema_1::OldTree;
use crate::migrate::{cells, rocks};
use crate::server::Server;
use crate::stepwise::{Fault, Stepwise};

/// A store of schema 4 with these files, whose rows are packed in part if `is_begun`.
async fn make_store(db: &Path, old: &OldTree, is_begun: bool) {
    let rocks = rocks(db);
    let tables = Tables::new(rocks.clone());
    migrate::up_to(&tables, 1).await.unwrap();
    old.store(&tables).await;
    migrate::up_to(&tables, 4).await.unwrap();
    if is_begun {
        let store = Stepwise::new(rocks.clone());
        // The mark, the plans of one page of rows, and some of the next one.
        store.at(12, Fault::Stop);
        assert!(matches!(migrate::up(&Tables::new(store)).await, Err(MigrateError::Store(_))));
        let left = cells(&tables, file::TABLE).await;
        let files = old.paths().len();
        assert!((2 * files + 1..10 * files).contains(&left), "{left} cells");
    }
    rocks.close().await;
}

fn serve(disk: &SmallDisk, more: &[&str]) -> Command {
    let mut command = disk.command("serve");
    command.args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]).args(more);
    command
}

async fn are_there(server: &Server, old: &OldTree) {
    let client = Client::new();
    for file in old.paths() {
        let got = client.get(server.url(&format!("/v1/fs{file}"))).send().await.unwrap();
        assert_eq!(got.status(), StatusCode::OK, "{file}");
    }
}

/// The MiB that a refused start wants to be free, of "MiB left, 12 MiB are kept in reserve".
fn wanted(said: &str) -> u64 {
    let (_, rest) = said.split_once("MiB left, ").unwrap();
    rest.split_once(" MiB are kept").unwrap().0.parse().unwrap()
}

/// It does not begin without the space that it may take. After that, other programs may still fill the disk.
#[tokio::test(flavor = "multi_thread")]
async fn packing_waits_for_disk_space_and_loses_nothing() {
    // Their rows do not fit in what a start on a full disk frees for itself.
    let old = OldTree::many(9_000);
    for (is_begun, said) in [(false, "The store still has schema version 4"), (true, "Nothing is lost")] {
        let scratch = tempfile::tempdir().unwrap();
        let disk = SmallDisk::mounted(&scratch.path().join("data"), "96m");
        make_store(&disk.inside().join("db"), &old, is_begun).await;
        disk.fill();
        let refused = Server::try_wait_for(serve(&disk, &[]), &disk.data).err().unwrap();
        assert_eq!(refused.code, Some(3), "{refused:?}");
        let parts = [said, "the disk is full", " files", " MiB must be free"];
        assert!(parts.iter().all(|part| refused.said.contains(part)), "{is_begun}: {refused:?}");
        if !is_begun {
            // Room for a plan, but not for the rows, which may take 8 MiB more.
            let for_plan = wanted(&refused.said);
            disk.give_back((for_plan + 3) << 20);
            let refused = Server::try_wait_for(serve(&disk, &[]), &disk.data).err().unwrap();
            assert!(refused.code == Some(3) && refused.said.contains(said), "{refused:?}");
            assert!(wanted(&refused.said) > for_plan + 3, "{refused:?}");
            disk.fill();
        }
        let degraded = Server::wait_for(serve(&disk, &["--degraded"]), &disk.data);
        are_there(&degraded, &old).await;
        assert_eq!(degraded.terminate(), Some(0));
        std::fs::remove_file(disk.taken()).unwrap();
        let server = Server::wait_for(serve(&disk, &[]), &disk.data);
        are_there(&server, &old).await;
        assert_eq!(server.terminate(), Some(0));
        let tables = Tables::new(rocks(&disk.inside().join("db")));
        migrate::open(&tables).await.unwrap();
        assert_eq!(cells(&tables, file::TABLE).await, 2 * old.paths().len());
    }
}
