//! `rowdrive backup` and `rowdrive restore`: what a backup contains that is made during writes, and what a restore
//! returns.
//!
//! `ROWDRIVE_BACKUPS` sets the number of backups in a row, for longer runs by hand.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client, StatusCode};

use super::backup_folder::backups;
use super::{Run, tree};
use crate::drive::model::{Op, View};
use crate::faults::client::{check_command, program, read_all, run_clean_check, send};
use crate::faults::oracle::within;
use crate::faults::{number, seed};
use crate::server::Server;

const BACKUPS: u64 = 6;

fn backup(data: &Path, to: &Path) -> Command {
    let mut command = program();
    command.arg("backup").arg(to).arg("--data").arg(data).args(["--memory", "32MiB"]).stdin(Stdio::null());
    command
}

fn restore(from: &Path, data: &Path) -> Command {
    let mut command = program();
    command.arg("restore").arg(from).arg("--data").arg(data).args(["--memory", "32MiB"]).stdin(Stdio::null());
    command
}

fn run(mut command: Command) -> Run {
    Run::from_output(command.output().unwrap())
}

/// All files below a folder, with their inodes.
fn files(at: &Path) -> BTreeMap<PathBuf, u64> {
    let paths = tree::names(at).into_iter().filter(|path| path.is_file());
    paths.map(|path| (path.strip_prefix(at).unwrap().to_owned(), fs::metadata(&path).unwrap().ino())).collect()
}

/// A client with its own folder, which remembers every state of that folder.
struct BackupWriter {
    folder: &'static str,
    /// The states after each acknowledged operation. One more operation may be in flight.
    states: Mutex<Vec<View>>,
    under_way: Mutex<Option<View>>,
}

impl BackupWriter {
    fn new(number: usize) -> Arc<Self> {
        let folder = Box::leak(format!("/w{number}").into_boxed_str());
        Arc::new(Self { folder, states: Mutex::new(vec![View::default()]), under_way: Mutex::default() })
    }

    fn draw(&self, dice: &mut StdRng, sizes: &mut usize) -> Op {
        let path = |below: &str| -> &'static str { Box::leak(format!("{}/{below}", self.folder).into_boxed_str()) };
        let (directories, names) = (["a", "b", "a/x", "b/y"], ["f", "a/f", "b/f", "a/x/f", "a/fg", "b/y/f"]);
        let file = path(names[dice.random_range(0..names.len())]);
        let directory = path(directories[dice.random_range(0..directories.len())]);
        let target = path(directories[dice.random_range(0..directories.len())]);
        *sizes += 1;
        match dice.random_range(0..100) {
            0..30 => Op::Put(file, *sizes),
            30..60 => Op::Put(file, 300_000 + *sizes),
            60..70 => Op::Delete(file),
            70..80 if !target.starts_with(directory) => Op::Move(directory, target, false),
            80..88 => Op::Remove(directory),
            _ => Op::Mkdir(directory),
        }
    }

    async fn work(self: Arc<Self>, server: String, seed: u64, number: usize, stop: Arc<AtomicBool>) {
        let (client, mut dice) = (Client::new(), StdRng::seed_from_u64(seed ^ number as u64));
        let mut sizes = 1_000 * number;
        while !stop.load(SeqCst) {
            let op = self.draw(&mut dice, &mut sizes);
            let now = self.states.lock().unwrap().last().unwrap().clone();
            let after = now.after(op).ok();
            self.under_way.lock().unwrap().clone_from(&after);
            let status = send(&client, &server, op).await.expect("the server answers");
            assert_eq!(status.is_success(), after.is_some(), "{op:?} answers {status}");
            if let Some(after) = after {
                self.states.lock().unwrap().push(after);
            }
            *self.under_way.lock().unwrap() = None;
        }
    }

    fn known(&self) -> usize {
        self.states.lock().unwrap().len() - 1
    }

    /// Asserts that the restored folder equals one of its states since number `since`.
    fn has_been(&self, since: usize, seen: &View) -> Result<(), String> {
        let mut possible = self.states.lock().unwrap()[since..].to_vec();
        possible.extend(self.under_way.lock().unwrap().clone());
        let seen = within(seen, self.folder);
        if possible.contains(&seen) {
            return Ok(());
        }
        Err(format!(
            "{}: {seen:?} was none of its {} states, of which the first was {:?}",
            self.folder,
            possible.len(),
            possible.first()
        ))
    }
}

/// The files that a server on a restored folder shows, after a check without findings.
async fn seen(data: &Path) -> View {
    run_clean_check(check_command(program(), data)).unwrap();
    let server = Server::start_on(data, &["--memory", "32MiB"]);
    let seen = read_all(&Client::new(), &server.address).await.unwrap();
    assert_eq!(server.terminate(), Some(0));
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_made_under_load_is_the_drive_at_one_instant() {
    let (many, seed) = (number("ROWDRIVE_BACKUPS").unwrap_or(BACKUPS), seed());
    let mut dice = StdRng::seed_from_u64(seed);
    let scratch = tempfile::tempdir().unwrap();
    // On another file system, so that files are copied; the backups in the second folder use hard links.
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    assert_ne!(fs::metadata(scratch.path()).unwrap().dev(), fs::metadata(elsewhere.path()).unwrap().dev());
    let targets = [elsewhere.path().join("backups"), scratch.path().join("backups")];
    let data = scratch.path().join("data");
    let server = Server::start_on(&data, &["--memory", "32MiB"]);
    let writers: Vec<_> = (0..4).map(BackupWriter::new).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let work = |(number, writer): (usize, &Arc<BackupWriter>)| {
        tokio::spawn(writer.clone().work(server.address.clone(), seed, number, stop.clone()))
    };
    let working: Vec<_> = writers.iter().enumerate().map(work).collect();
    let (mut killed, mut restored) = (0, 0);
    // The duration of a backup, to interrupt one anywhere in it.
    let mut lasted = Duration::from_millis(300);
    for round in 0..many {
        let to = &targets[usize::try_from(round % 2).unwrap()];
        tokio::time::sleep(Duration::from_millis(dice.random_range(0..300))).await;
        let before = backups_of(to);
        // Interrupted twice at a random moment: every complete backup stays, and the next run continues.
        for _ in 0..2 {
            let mut breaking = backup(&data, to);
            // Removing old backups here would be no loss.
            breaking.args(["--keep", "1000"]);
            let mut child = breaking.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            tokio::time::sleep(dice.random_range(Duration::ZERO..lasted)).await;
            child.kill().unwrap();
            killed += usize::from(!child.wait().unwrap().success());
            assert!(backups_of(to).starts_with(&before), "a complete backup is gone");
        }
        let since: Vec<_> = writers.iter().map(|writer| writer.known()).collect();
        let (data_of_backup, to_of_backup) = (data.clone(), to.clone());
        let started = Instant::now();
        let made = tokio::task::spawn_blocking(move || run(backup(&data_of_backup, &to_of_backup))).await.unwrap();
        made.is_done();
        lasted = started.elapsed();
        // A copy of the last backup in another folder, as on another machine.
        let (there, again) = (scratch.path().join("there"), scratch.path().join("again"));
        let moved = Command::new("cp").arg("-a").arg(backups(to).last().unwrap()).arg(&there).status().unwrap();
        assert!(moved.success());
        run(restore(&there, &again)).is_done();
        let seen = seen(&again).await;
        for (writer, since) in writers.iter().zip(since) {
            writer.has_been(since, &seen).unwrap_or_else(|wrong| panic!("backup {round}: {wrong}\n{made:?}"));
        }
        restored += seen.files.len();
        fs::remove_dir_all(&there).unwrap();
        fs::remove_dir_all(&again).unwrap();
    }
    stop.store(true, SeqCst);
    for worker in working {
        worker.await.unwrap();
    }
    println!("{many} backups, {killed} broken off, {restored} files restored");
    assert!(restored > 0 && killed > 0);
    assert_eq!(server.terminate(), Some(0));
    run_clean_check(check_command(program(), &data)).unwrap();
    // The original drive is gone: only the last backups are left.
    fs::remove_dir_all(&data).unwrap();
    run(restore(&targets[0], &data)).is_done();
    seen(&data).await;
}

fn backups_of(to: &Path) -> Vec<PathBuf> {
    if to.exists() { backups(to) } else { Vec::new() }
}

/// Uploads some files. Two of them have a content file.
async fn some_files(server: &Server) {
    let client = Client::new();
    for (path, size) in [("a/small", 1_000), ("a/large", 600_000), ("b/large", 300_000)] {
        let put = client.put(server.url(&format!("/v1/fs/{path}"))).body(tree::bytes(size, 1));
        assert!(put.send().await.unwrap().status().is_success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_backup_copies_only_new_files_and_removes_old_backups() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to) = (scratch.path().join("data"), scratch.path().join("backups"));
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let server = Server::start_on(&data, &[]);
    some_files(&server).await;
    let content = |at: &Path| files(&at.join("content")).into_keys().collect::<Vec<_>>();
    for to in [&to, &elsewhere.path().join("backups")] {
        run(backup(&data, to)).is_done();
        let again = run(backup(&data, to));
        again.is_done();
        // A second checkpoint may have one more table file, with writes that were in the log at the first. It has no
        // new content file.
        let (first, second) = (files(&backups(to)[0]), files(&backups(to)[1]));
        let is_content = |path: &&PathBuf| path.starts_with("content");
        assert_eq!(first.keys().filter(is_content).count(), 2);
        for (path, inode) in first.iter().filter(|(path, _)| is_content(path)) {
            assert_eq!(second.get(path), Some(inode), "{} was copied again", path.display());
        }
        let tables = first.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "sst"));
        let kept = tables.clone().filter(|(path, inode)| second.get(*path) == Some(inode)).count();
        assert_eq!(kept, tables.count(), "no table file has changed");
    }
    // A deleted file is absent from the next backups.
    let deleted = Client::new().delete(server.url("/v1/fs/a/large")).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    let mut third = backup(&data, &to);
    run({
        third.args(["--keep", "2", "--verify"]);
        third
    })
    .is_done();
    let left = backups(&to);
    assert_eq!(left.len(), 2);
    assert_eq!((content(&left[0]).len(), content(&left[1]).len()), (2, 1));
    // Each backup is a complete drive, independent of the other backups.
    fs::remove_dir_all(&left[0]).unwrap();
    run(restore(&to, &scratch.path().join("again"))).is_done();
    assert_eq!(seen_names(&scratch.path().join("again")).await, ["/a/small", "/b/large"]);
    assert_eq!(server.terminate(), Some(0));
}

async fn seen_names(data: &Path) -> Vec<String> {
    let server = Server::start_on(data, &[]);
    let found = super::rowdrive(&server.address, &[&"find", &"*"]);
    found.is_done();
    assert_eq!(server.terminate(), Some(0));
    let mut names: Vec<_> = found.out.lines().map(|line| line.rsplit('\t').next().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Waits for a change in the background.
async fn until(reached: impl Fn() -> bool) {
    let started = Instant::now();
    while !reached() {
        assert!(started.elapsed() < Duration::from_secs(60), "it does not come to pass");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_deleted_during_a_backup_is_kept_until_it_is_copied_or_the_backup_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let server = Server::start_on(&data, &[]);
    some_files(&server).await;
    let content = || files(&data.join("content")).len();
    let ask = |what: &str| {
        let mut socket = UnixStream::connect(data.join("backup.sock")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        writeln!(socket, "{what}").unwrap();
        socket
    };
    let answered = |socket: &UnixStream| {
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).unwrap();
        line
    };
    let mut socket = ask("checkpoint");
    assert_eq!(answered(&socket), "{\"error\":null}\n");
    for path in ["a/large", "b/large"] {
        let deleted = Client::new().delete(server.url(&format!("/v1/fs/{path}"))).send().await.unwrap();
        assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    }
    // Enough time for a removal that would not wait for the backup.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(content(), 2);
    assert!(data.join("db/checkpoint/CURRENT").is_file());
    writeln!(socket, "end").unwrap();
    assert_eq!(answered(&socket), "{\"error\":null}\n");
    until(|| content() == 0).await;
    // A killed backup retains neither content nor disk space.
    some_files(&server).await;
    let killed = ask("checkpoint");
    assert_eq!(answered(&killed), "{\"error\":null}\n");
    drop(killed);
    let deleted = Client::new().delete(server.url("/v1/fs/?recursive=true")).send().await.unwrap();
    assert!(deleted.status().is_client_error());
    let deleted = Client::new().delete(server.url("/v1/fs/a/?recursive=true")).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    until(|| content() == 1 && !data.join("db/checkpoint").exists()).await;
    // An unknown request on the socket gets no answer. A server stops on a signal during a backup too.
    let mut other = ask("everything");
    let mut said = String::new();
    other.read_to_string(&mut said).unwrap();
    assert!(said.contains("no known command"), "{said}");
    let socket = ask("checkpoint");
    answered(&socket);
    assert_eq!(server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_drive_can_be_backed_up_and_a_damaged_backup_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, to, again) = (scratch.path().join("data"), scratch.path().join("backups"), scratch.path().join("again"));
    let server = Server::start_on(&data, &[]);
    some_files(&server).await;
    assert_eq!(server.terminate(), Some(0));
    run(backup(&data, &to)).is_done();
    assert!(!data.join("db/checkpoint").exists());
    let made = backups(&to).pop().unwrap();
    run_clean_check(check_command(program(), &data)).unwrap();
    let table = |of: &Path, ending: &str| {
        tree::names(of).into_iter().find(|path| path.to_str().unwrap().ends_with(ending) && path.is_file()).unwrap()
    };
    let large = tree::names(&made.join("content")).into_iter().find(|path| path.is_file()).unwrap();
    for path in [table(&made.join("db"), ".sst"), large] {
        let whole = fs::read(&path).unwrap();
        // On one disk the drive and its backup share the file: to damage only one of them, the test gives it a file of
        // its own.
        fs::remove_file(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 3] ^= 1;
        fs::write(&path, flipped).unwrap();
        let refused = run(restore(&to, &again));
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains(" is damaged: it is not as the backup wrote it"), "{refused:?}");
        // A server does not accept an incomplete folder as a drive.
        let mut serve = program();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&again);
        let serve = Run::from_output(serve.output().unwrap());
        assert_eq!(serve.code, Some(3), "{serve:?}");
        assert!(serve.err.contains("a restore into it has not finished"), "{serve:?}");
        fs::write(&path, whole).unwrap();
    }
    run(restore(&to, &again)).is_done();
    assert_eq!(seen_names(&again).await, ["/a/large", "/a/small", "/b/large"]);
    // A restore never overwrites existing files.
    let before = files(&again);
    for full in [&again, &data] {
        let refused = run(restore(&to, full));
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains("is not empty"), "{refused:?}");
    }
    assert_eq!(files(&again), before);
    for (from, why) in [(scratch.path().join("data/db"), "is no backup"), (scratch.path().join("none"), "No such file")]
    {
        let refused = run(restore(&from, &scratch.path().join("new")));
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
    let inside = run(backup(&data, &data.join("backups")));
    assert!(inside.code == Some(3) && inside.err.contains("lies in the data folder of a drive"), "{inside:?}");
    // A damaged drive can be backed up too, and older backups stay.
    let lost = tree::names(&data.join("content")).into_iter().find(|path| path.is_file()).unwrap();
    fs::remove_file(&lost).unwrap();
    let mut damaged = backup(&data, &to);
    damaged.args(["--keep", "1"]);
    let damaged = run(damaged);
    assert_eq!((damaged.code, backups(&to).len()), (Some(1), 2), "{damaged:?}");
    assert!(damaged.out.contains("large"), "{damaged:?}");
    // The older backup has the lost file.
    let whole = run(restore(&to, &scratch.path().join("whole")));
    whole.is_done();
}
