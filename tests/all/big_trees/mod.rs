//! Trees of the size that docs/promises.md names: moved, copied and deleted whole on the real engine, while watchers
//! read all the time. No reader sees a part of a change, and no request waits longer than one batch takes.
//!
//! - `tree`: the contents of the trees, and a drive for them
//! - `watch`: the watchers, and what they must never see

mod tree;
mod watch;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rowdrive::drive::{ListQuery, Node};
use rowdrive::engines::rocks::CommitStats;
use rowdrive::schema::{dir, dir_parent, file, index::by_name, index::by_time};
use uuid::Uuid;

use tree::{CONTENT, TestDrive, Tree, path};
use watch::{TreeChange, Watch};

/// An upper bound for the changes of one plan. A batch is full at 2,000 changes; the row that fills it adds a page of
/// 1,000 children and 4 cells of its own. A plan that removes the files of a deleted directory has fewer: 100 files,
/// each with five index entries and 11 cells, and a row for its content.
const PLAN_CHANGES: u64 = 1_999 + 1_004;
/// An upper bound for the bytes of one plan. A batch is full at 512 KiB; the row that fills it adds a page of 1,000
/// children, whose names and entries have fewer than 160 bytes in these trees. The batch does not count its checks:
/// each of its 100 rows has fewer than 64 bytes of them.
const PLAN_BYTES: u64 = (512 << 10) + 1_004 * 160 + 100 * 64;
/// Changes of an upload: its file row, its index entries, its directory entry.
const UPLOAD_CHANGES: u64 = 20;

const PLACES: [&str; 4] = ["/home", "/archive", "/copies", "/elsewhere"];
const OLD: &str = "/home/tree";
const NEW: &str = "/archive/moved";
const COPY: &str = "/copies/tree";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_of_100_000_files_moves_and_is_deleted_atomically() {
    stays_whole("100,000 files", Tree::wide(100_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_tree_of_10_000_directories_moves_and_is_deleted_atomically() {
    let tree = Tree::deep();
    assert!(tree.directories.len() > 10_000);
    stays_whole("10,000 directories", tree).await;
}

async fn stays_whole(title: &str, tree: Tree) {
    let tree = Arc::new(tree);
    let test_drive = TestDrive::new().await;
    let start = Instant::now();
    for place in PLACES {
        test_drive.drive.unrestricted().mkdir(&path(place, ""), "eva", false).await.unwrap();
    }
    let ids = Arc::new(test_drive.make(OLD, &tree).await);
    eprintln!("{title}: made in {:.1} s", start.elapsed().as_secs_f64());
    let test_drive = test_drive.reopened().await;

    let drive = test_drive.drive.clone();
    let moved = async { drive.unrestricted().move_node(&path(OLD, ""), &path(NEW, ""), false).await.map(|_| ()) };
    let mut uploads =
        watched(title, "move", &test_drive, Watch::new(&drive, &tree, &ids, OLD, TreeChange::Moves { to: NEW }), moved)
            .await;

    let copied =
        async { drive.unrestricted().copy_node(&path(NEW, ""), &path(COPY, ""), false, "eva").await.map(|_| ()) };
    uploads +=
        watched(title, "copy", &test_drive, Watch::new(&drive, &tree, &ids, NEW, TreeChange::Stays), copied).await;
    let copies = is_whole(&test_drive, COPY, &tree).await;
    assert!(ids.iter().all(|(below, id)| copies[below] != *id), "a copy is what it is a copy of");

    let deleted = async { drive.unrestricted().delete_subtree(&path(NEW, "")).await };
    uploads +=
        watched(title, "delete", &test_drive, Watch::new(&drive, &tree, &ids, NEW, TreeChange::Vanishes), deleted)
            .await;
    assert_eq!(is_whole(&test_drive, COPY, &tree).await, copies);

    // Only the copy is left, and the files that were uploaded meanwhile.
    let files = tree.files.len() + uploads as usize;
    let directories = tree.directories.len() + PLACES.len();
    for (table, rows) in [(file::TABLE, files), (by_name::TABLE, files), (by_time::TABLE, 2 * files)] {
        assert_eq!(test_drive.rows(table).await, rows, "rows of {table}");
    }
    for (table, rows) in [(dir_parent::TABLE, directories), (dir::TABLE, directories + 1)] {
        assert_eq!(test_drive.rows(table).await, rows, "rows of {table}");
    }
}

/// Runs the operation while watchers read and files are uploaded, and prints its cost.
async fn watched(
    title: &str,
    what: &str,
    test_drive: &TestDrive,
    watch: Arc<Watch>,
    operation: impl Future<Output = rowdrive::drive::Result<()>>,
) -> u64 {
    let before = test_drive.rocks.commit_stats();
    let watchers = watch.begin();
    // Each watcher has seen the tree before the operation.
    while watch.reads.fewest() == 0 && !watchers.iter().any(|watcher| watcher.is_finished()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let start = Instant::now();
    operation.await.unwrap();
    let answered = start.elapsed();
    watch.answered();
    test_drive.finished().await;
    let finished = start.elapsed();
    watch.end(watchers).await;
    let after = test_drive.rocks.commit_stats();
    let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let reads = &watch.reads;
    eprintln!(
        "{title}: {what} answered after {:.2} s, finished after {:.2} s; {} groups, the longest used the commit thread \
         for {:.1} ms ({:.1} ms of them a sync)\n  reads: {} pairs of stats, {} listings ({} found it gone), {} queries; \
         {} uploads, the longest {} ms",
        answered.as_secs_f64(),
        finished.as_secs_f64(),
        after.groups - before.groups,
        after.longest_group.as_secs_f64() * 1e3,
        after.longest_sync.as_secs_f64() * 1e3,
        counted(&reads.stats),
        counted(&reads.listings),
        counted(&reads.gone),
        counted(&reads.queries),
        counted(&reads.uploads),
        counted(&reads.longest_upload),
    );
    assert!(reads.fewest() >= 2, "before and after: {reads:?}");
    batches_are_bounded(&after);
    counted(&reads.uploads)
}

/// Each plan and each commit group is at most one batch, so that no request waits long for the commit thread.
fn batches_are_bounded(commits: &CommitStats) {
    let CommitStats { most_changes_of_plan, most_bytes_of_plan, most_changes_of_group, .. } = commits;
    assert!(*most_changes_of_plan <= PLAN_CHANGES, "{commits:?}");
    assert!(*most_bytes_of_plan <= PLAN_BYTES, "{commits:?}");
    // The operation sends one plan at a time, and the uploader too.
    assert!(*most_changes_of_group <= PLAN_CHANGES + UPLOAD_CHANGES, "{commits:?}");
}

/// Asserts that the whole tree is there with its contents. Returns the ids of all files and directories.
async fn is_whole(test_drive: &TestDrive, base: &str, tree: &Tree) -> HashMap<String, Uuid> {
    let mut ids = HashMap::from([(
        String::new(),
        tree::id(&test_drive.drive.unrestricted().stat(&path(base, "")).await.unwrap()),
    )]);
    for below in &tree.directories {
        let mut query = ListQuery { kind: None, prefix: String::new(), after: None, limit: 10_000 };
        loop {
            let page = test_drive.drive.unrestricted().list(&path(base, below), &query).await.unwrap();
            for node in &page.nodes {
                if let Node::File { entry, .. } = node {
                    assert_eq!(entry.attributes.size, CONTENT.len() as u64);
                }
                ids.insert(node.path().as_str().strip_prefix(base).unwrap().to_owned(), tree::id(node));
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    let mut paths: Vec<_> = ids.keys().collect();
    let mut wanted: Vec<_> = tree.directories.iter().chain(&tree.files).collect();
    paths.sort_unstable();
    wanted.sort_unstable();
    assert!(paths == wanted, "{} of {} are at {base}", paths.len(), wanted.len());
    ids
}
