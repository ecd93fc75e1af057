//! Damaged files in an earlier backup or on the drive: a later backup has the intact copy, wherever it is, or reports
//! that none exists.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use reqwest::{Client, StatusCode};
use rowdrive::migrate;
use rowdrive::schema::{CF, file};
use rowdrive::table::{Change, Check, Column, ConditionalRow, Outcome, Plan, RowQuery, RowRange, ScanQuery, Tables};
use tempfile::TempDir;

use super::backup_folder::{backups, run};
use super::tree;
use crate::migrate::rocks;
use crate::server::Server;

/// A running drive, and a folder for its backups on another file system, so that the two share no files.
struct Setup {
    scratch: TempDir,
    elsewhere: TempDir,
    data: PathBuf,
    to: PathBuf,
    server: Server,
}

impl Setup {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let (data, to) = (scratch.path().join("data"), elsewhere.path().join("backups"));
        let server = Server::start_on(&data, &["--memory", "32MiB"]);
        Self { scratch, elsewhere, data, to, server }
    }
}

/// The large content file of the last backup.
fn content(to: &Path) -> PathBuf {
    let mut found = tree::names(&backups(to).pop().unwrap().join("content"));
    found.retain(|path| fs::metadata(path).unwrap().len() >= 600_000 && path.is_file());
    found.pop().unwrap()
}

/// Changes a byte as a failing disk does: the size stays, and the modification time too if `keep_time`.
fn rot(path: &Path, keep_time: bool) -> u64 {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 100_000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 100_000).unwrap();
    if keep_time {
        file.set_modified(modified).unwrap();
    }
    file.metadata().unwrap().ino()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_damaged_in_a_backup_is_copied_again_from_the_drive() {
    let Setup { scratch, elsewhere: _elsewhere, data, to, server } = Setup::new();
    put(&server, "large", tree::bytes(600_000, 1)).await;
    run("backup", &to, &data, &[]).is_done();
    for (keep_time, more) in [(true, &["--verify"][..]), (true, &[]), (false, &["--verify"]), (false, &[])] {
        let rotten = rot(&content(&to), keep_time);
        let made = run("backup", &to, &data, more);
        made.is_done();
        let said = if keep_time { "the earlier backup is damaged" } else { "of an earlier backup, differs" };
        assert!(made.out.contains(said), "{made:?}");
        assert!(made.out.contains("copied again"), "{made:?}");
        assert_ne!(fs::metadata(content(&to)).unwrap().ino(), rotten);
        let again = scratch.path().join("again");
        run("restore", &to, &again, &[]).is_done();
        fs::remove_dir_all(&again).unwrap();
    }
    // An intact file is hard-linked even if its time differs.
    let intact = content(&to);
    File::options().write(true).open(&intact).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let made = run("backup", &to, &data, &[]);
    made.is_done();
    assert!(!made.out.contains("damaged"), "{made:?}");
    assert_eq!(fs::metadata(content(&to)).unwrap().ino(), fs::metadata(&intact).unwrap().ino());
    // If the copy on the drive is damaged, the backup reports it and keeps the earlier intact copy.
    let own = tree::names(&data.join("content"))
        .into_iter()
        .find(|path| path.is_file() && path.metadata().unwrap().len() >= 600_000);
    rot(&own.unwrap(), false);
    let made = run("backup", &to, &data, &[]);
    assert_eq!(made.code, Some(1), "{made:?}");
    assert!(made.out.contains("the drive has no sound one"), "{made:?}");
    // The next backup links no file of that backup.
    let bad = fs::metadata(content(&to)).unwrap().ino();
    let made = run("backup", &to, &data, &[]);
    assert_eq!(made.code, Some(1), "{made:?}");
    assert_ne!(fs::metadata(content(&to)).unwrap().ino(), bad);
    assert_eq!(server.terminate(), Some(0));
}

async fn put(server: &Server, name: &str, bytes: Vec<u8>) {
    let put = Client::new().put(server.url(&format!("/v1/fs/{name}"))).body(bytes).send().await.unwrap();
    assert_eq!(put.status(), StatusCode::CREATED);
}

/// The content files of a drive or a backup with at least this many bytes.
fn large(data: &Path, least: u64) -> Vec<PathBuf> {
    let mut found = tree::names(&data.join("content"));
    found.retain(|path| path.is_file() && path.metadata().unwrap().len() >= least);
    found
}

/// A drive that was damaged during a copy to another disk, which does not keep times.
#[tokio::test(flavor = "multi_thread")]
async fn the_digest_decides_between_the_drive_and_an_earlier_backup() {
    let Setup { scratch, elsewhere: _elsewhere, data, to, server } = Setup::new();
    put(&server, "large", tree::bytes(600_000, 1)).await;
    assert_eq!(server.terminate(), Some(0));
    run("backup", &to, &data, &[]).is_done();
    let intact = fs::read(content(&to)).unwrap();
    rot(&large(&data, 600_000)[0], false);
    for made in 2..4 {
        let backup = run("backup", &to, &data, &["--keep", "1"]);
        assert_eq!((backup.code, backups(&to).len()), (Some(1), made), "{backup:?}");
        assert!(backup.out.contains("the drive has no sound one"), "{backup:?}");
        assert!(backup.out.contains("has a sound one, which was used"), "{backup:?}");
        assert!(fs::read(content(&to)).unwrap() == intact);
    }
    // The intact copy may be in any earlier backup, also in one of a damaged drive.
    for gone in &backups(&to)[..2] {
        fs::remove_dir_all(gone).unwrap();
    }
    let backup = run("backup", &to, &data, &[]);
    assert_eq!(backup.code, Some(1), "{backup:?}");
    assert!(fs::read(content(&to)).unwrap() == intact);
    run("restore", &to, &scratch.path().join("again"), &[]).is_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_content_does_not_block_the_rest_of_the_backup() {
    let Setup { scratch, elsewhere: _elsewhere, data, to, server } = Setup::new();
    for size in [300_000, 400_000, 500_000] {
        put(&server, &format!("f{size}"), tree::bytes(size, 1)).await;
    }
    assert_eq!(server.terminate(), Some(0));
    let lost = large(&data, 500_000).remove(0);
    let aside = scratch.path().join("aside");
    fs::rename(&lost, &aside).unwrap();
    // A folder has no bytes to read, and a link to itself cannot be followed: like a bad sector.
    for unreadable in ["folder", "link"] {
        let to = to.join(unreadable);
        let spoil = || match unreadable {
            "folder" => fs::create_dir(&lost).unwrap(),
            _ => std::os::unix::fs::symlink(&lost, &lost).unwrap(),
        };
        let mend = || fs::remove_dir(&lost).or_else(|_| fs::remove_file(&lost)).unwrap();
        spoil();
        let backup = run("backup", &to, &data, &[]);
        assert_eq!((backup.code, backups(&to).len()), (Some(1), 1), "{backup:?}");
        let name = lost.strip_prefix(&data).unwrap().display();
        assert!(backup.out.contains(&format!("{name} cannot be read on the drive: ")), "{backup:?}");
        assert!(backup.out.contains("f500000"), "{backup:?}");
        assert_eq!(large(&backups(&to)[0], 300_000).len(), 2);
        // Once an earlier backup has the file, the backup takes that copy.
        mend();
        fs::copy(&aside, &lost).unwrap();
        run("backup", &to, &data, &[]).is_done();
        mend();
        spoil();
        let backup = run("backup", &to, &data, &[]);
        assert_eq!((backup.code, backups(&to).len()), (Some(1), 3), "{backup:?}");
        assert!(backup.out.contains("has a sound one, which was used"), "{backup:?}");
        let again = scratch.path().join("again");
        run("restore", &to, &again, &[]).is_done();
        assert_eq!(large(&again, 300_000).len(), 3);
        fs::remove_dir_all(&again).unwrap();
        mend();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_of_a_damaged_drive_do_not_displace_the_last_intact_one() {
    let Setup { scratch: _scratch, elsewhere: _elsewhere, data, to, server } = Setup::new();
    put(&server, "photo", tree::bytes(600_000, 1)).await;
    put(&server, "other", tree::bytes(300_000, 2)).await;
    let keep = |many: &str| run("backup", &to, &data, &["--keep", many]);
    keep("2").is_done();
    let photo = large(&data, 600_000).remove(0);
    fs::remove_file(&photo).unwrap();
    for _ in 0..3 {
        assert_eq!(keep("2").code, Some(1));
    }
    // Deleting the damaged file also removes its report.
    let deleted = Client::new().delete(server.url("/v1/fs/photo")).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    keep("2").is_done();
    let left = backups(&to);
    assert!(left[0].join(photo.strip_prefix(&data).unwrap()).is_file(), "{left:?}");
    assert_eq!(left.len(), 5);
    // Later backups remove old ones as usual.
    keep("2").is_done();
    assert_eq!(backups(&to).len(), 2);
    assert_eq!(server.terminate(), Some(0));
}

fn tables(data: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(data.join("db")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "sst")).collect();
    found.sort();
    found
}

/// Waits until compaction has ended.
async fn wait_until_compacted(data: &Path) {
    let mut before = Vec::new();
    while before != tables(data) {
        before = tables(data);
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    }
}

/// Flips a bit in a table file of the drive, as a disk may between two reads.
fn rot_table(data: &Path) -> PathBuf {
    let table = tables(data).into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    assert!(table.metadata().unwrap().len() > 1_000_000);
    rot(&table, true);
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_table_on_the_drive_does_not_displace_the_intact_copy() {
    let Setup { scratch, elsewhere, data, to, server } = Setup::new();
    for number in 0..20 {
        put(&server, &format!("d/{number}"), tree::bytes(100_000, number)).await;
    }
    assert_eq!(server.terminate(), Some(0));
    // A new start writes the log to table files.
    let server = Server::start_on(&data, &["--memory", "32MiB"]);
    wait_until_compacted(&data).await;
    run("backup", &to, &data, &["--keep", "1"]).is_done();
    let table = rot_table(&data);
    let name = format!("db/{} is damaged on the drive", table.file_name().unwrap().to_str().unwrap());
    for made in 2..4 {
        let backup = run("backup", &to, &data, &["--keep", "1"]);
        assert_eq!((backup.code, backups(&to).len()), (Some(1), made), "{backup:?}");
        assert!(backup.out.contains(&name) && backup.out.contains("is sound and was used"), "{backup:?}");
        let again = scratch.path().join("again");
        run("restore", &to, &again, &[]).is_done();
        fs::remove_dir_all(&again).unwrap();
    }
    // If no backup has the table, the backup names it, and the rest can be restored.
    let (to, again) = (elsewhere.path().join("others"), scratch.path().join("again"));
    for made in 1..3 {
        let backup = run("backup", &to, &data, &["--keep", "1"]);
        assert_eq!((backup.code, backups(&to).len()), (Some(1), made), "{backup:?}");
        assert!(backup.out.contains("damaged on the drive, and no earlier backup has a sound one"), "{backup:?}");
        assert!(backup.out.contains(table.file_name().unwrap().to_str().unwrap()), "{backup:?}");
    }
    let restored = run("restore", &to, &again, &[]);
    assert_eq!(restored.code, Some(1), "{restored:?}");
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn content_missing_from_the_drive_is_taken_from_an_earlier_backup() {
    let Setup { scratch, elsewhere, data, to, server } = Setup::new();
    put(&server, "photo", tree::bytes(600_000, 1)).await;
    put(&server, "other", tree::bytes(300_000, 2)).await;
    run("backup", &to, &data, &[]).is_done();
    let intact = fs::read(content(&to)).unwrap();
    let photo = large(&data, 600_000).remove(0);
    // First the file, then its folder too.
    for (made, gone) in [(2, photo.as_path()), (3, photo.parent().unwrap())] {
        if gone.is_dir() {
            fs::remove_dir_all(gone).unwrap()
        } else {
            fs::remove_file(gone).unwrap()
        }
        let more = if made == 2 { &["--keep", "1"][..] } else { &["--keep", "1", "--verify"] };
        let backup = run("backup", &to, &data, more);
        assert_eq!((backup.code, backups(&to).len()), (Some(1), made), "{backup:?}");
        assert!(backup.out.contains("/photo") && backup.out.contains("has a sound one, which was used"), "{backup:?}");
        assert!(fs::read(content(&to)).unwrap() == intact);
        let again = scratch.path().join("again");
        run("restore", &to, &again, &[]).is_done();
        fs::remove_dir_all(&again).unwrap();
    }
    // If no backup has the file, the backup names it.
    let backup = run("backup", &elsewhere.path().join("others"), &data, &[]);
    assert!(backup.code == Some(1) && backup.out.contains("/photo"), "{backup:?}");
    assert!(!backup.out.contains("which was used"), "{backup:?}");
    assert_eq!(server.terminate(), Some(0));
}

/// Of the stopped drive: gives the only file row another value of its attributes, or none.
async fn damage_file_row(data: &Path, value: Option<&'static [u8]>) {
    let rocks = rocks(&data.join("db"));
    let tables = Tables::new(rocks.clone());
    migrate::open(&tables).await.unwrap();
    let (table, row_query) = (file::TABLE, RowQuery::families(&[CF]));
    let all = ScanQuery { table, range: RowRange::all(), row_query, limit: 2, reverse: false };
    let [(row, found)] = tables.scan(&all).await.unwrap().try_into().unwrap();
    let checks = vec![Check::Equals(Column::new(CF, file::POSITION), found.get(CF, file::POSITION).unwrap().clone())];
    let changes = vec![match value {
        Some(value) => Change::put(CF, file::ATTRIBUTES, value),
        None => Change::delete(CF, file::ATTRIBUTES),
    }];
    let guarded = vec![ConditionalRow { table, row, checks, changes }];
    assert_eq!(tables.commit(Plan { guarded, ..Plan::default() }).await.unwrap(), Outcome::Committed);
    rocks.close().await;
}

/// The entry of the file still leads to the content.
#[tokio::test(flavor = "multi_thread")]
async fn the_content_of_a_damaged_file_row_is_in_the_backup() {
    for value in [Some(b"\x01".as_slice()), None] {
        let Setup { scratch, elsewhere: _elsewhere, data, to, server } = Setup::new();
        put(&server, "photo", tree::bytes(600_000, 1)).await;
        assert_eq!(server.terminate(), Some(0));
        damage_file_row(&data, value).await;
        // It waits until no other process has the lock, as a child of another test may for a moment.
        let server = Server::start_on(&data, &["--memory", "32MiB"]);
        let backup = run("backup", &to, &data, &[]);
        assert_eq!((backup.code, backups(&to).len()), (Some(1), 1), "{backup:?}");
        assert!(backup.out.contains("/photo"), "{backup:?}");
        assert_eq!(large(&backups(&to)[0], 600_000).len(), 1, "{value:?}: {backup:?}");
        assert_eq!(server.terminate(), Some(0));
        let again = scratch.path().join("again");
        let restored = run("restore", &to, &again, &[]);
        assert_eq!(restored.code, Some(1), "{restored:?}");
        let server = Server::start_on(&again, &["--memory", "32MiB"]);
        let got = Client::new().get(server.url("/v1/fs/photo")).send().await.unwrap();
        assert!(got.bytes().await.unwrap() == tree::bytes(600_000, 1), "{value:?}");
        assert_eq!(server.terminate(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlistable_folder_does_not_block_the_rest_of_the_backup() {
    let Setup { scratch, elsewhere: _elsewhere, data, to, server } = Setup::new();
    for size in [300_000, 400_000, 500_000] {
        put(&server, &format!("f{size}"), tree::bytes(size, 1)).await;
    }
    assert_eq!(server.terminate(), Some(0));
    let lost = large(&data, 500_000).remove(0).parent().unwrap().to_owned();
    let name = lost.strip_prefix(&data).unwrap().to_owned();
    let within = fs::read_dir(&lost).unwrap().count();
    let aside = scratch.path().join("aside");
    // A link to itself cannot be listed, like a folder that the disk cannot read.
    let spoil = || {
        fs::rename(&lost, &aside).unwrap();
        std::os::unix::fs::symlink(&lost, &lost).unwrap();
    };
    let mend = || {
        fs::remove_file(&lost).unwrap();
        fs::rename(&aside, &lost).unwrap();
    };
    spoil();
    let backup = run("backup", &to, &data, &[]);
    assert_eq!((backup.code, backups(&to).len()), (Some(1), 1), "{backup:?}");
    assert!(backup.out.contains(&format!("{} cannot be listed on the drive: ", name.display())), "{backup:?}");
    assert!(backup.out.contains("f500000"), "{backup:?}");
    assert_eq!(large(&backups(&to)[0], 300_000).len(), 3 - within);
    // Once an earlier backup has the files of the folder, the backup takes them from there.
    mend();
    run("backup", &to, &data, &[]).is_done();
    spoil();
    let backup = run("backup", &to, &data, &[]);
    assert_eq!((backup.code, backups(&to).len()), (Some(1), 3), "{backup:?}");
    assert!(backup.out.contains("has a sound one, which was used"), "{backup:?}");
    let again = scratch.path().join("again");
    run("restore", &to, &again, &[]).is_done();
    assert_eq!(large(&again, 300_000).len(), 3);
    mend();
    // Files that cannot be examined in an earlier backup are copied again.
    let earlier = backups(&to)[1].join(&name);
    fs::remove_dir_all(&earlier).unwrap();
    std::os::unix::fs::symlink(&earlier, &earlier).unwrap();
    run("backup", &to, &data, &[]).is_done();
    assert_eq!(large(&backups(&to)[3], 300_000).len(), 3);
}
