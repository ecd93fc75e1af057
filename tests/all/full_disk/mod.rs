//! A disk that runs full under a real server: writes answer 507 and leave nothing, everything stored is still
//! served, deleting goes on, and room made is used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reqwest::{Client, StatusCode};

use crate::server::Server;

/// A server whose data folder is a small file system, mounted in a name space of its own.
pub fn serve_on_small_disk(data: &Path) -> Server {
    std::fs::create_dir(data).unwrap();
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-c", r#"mount -t tmpfs -o size=96m tmpfs "$0" && exec "$@""#]);
    command.arg(data).arg(env!("CARGO_BIN_EXE_rowdrive")).arg("serve").arg("--data").arg(data);
    command.args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    Server::wait_for(command, data)
}

/// Content that tells a file from others and does not compress.
fn content(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

struct Site {
    server: Server,
    client: Client,
    /// Sizes of the files that were acknowledged.
    stored: BTreeMap<usize, usize>,
    /// Digits of a name.
    digits: usize,
}

impl Site {
    fn url(&self, seed: usize) -> String {
        self.server.url(&format!("/v1/fs/full/{seed:0digits$}", digits = self.digits))
    }

    async fn put(&mut self, seed: usize, len: usize) -> StatusCode {
        let status = self.client.put(self.url(seed)).body(content(seed, len)).send().await.unwrap().status();
        if status == StatusCode::CREATED {
            self.stored.insert(seed, len);
        }
        status
    }

    async fn delete(&mut self, seed: usize) -> StatusCode {
        let status = self.client.delete(self.url(seed)).send().await.unwrap().status();
        if status == StatusCode::NO_CONTENT {
            self.stored.remove(&seed);
        }
        status
    }

    async fn text(&self, path: &str) -> (StatusCode, String) {
        let answer = self.client.get(self.server.url(path)).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// Whether `/readyz` and both gauges say so, sooner or later: RocksDB looks for room every few seconds.
    async fn says_that_it_writes(&self, writes: bool) {
        let wanted = if writes { StatusCode::OK } else { StatusCode::INSUFFICIENT_STORAGE };
        let begun = std::time::Instant::now();
        while self.text("/readyz").await.0 != wanted {
            assert!(begun.elapsed().as_secs() < 30, "/readyz is not {wanted}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let (_, metrics) = self.text("/metrics").await;
        for gauge in ["rowdrive_store_writable", "rowdrive_drive_writable"] {
            assert!(metrics.contains(&format!("\n{gauge} {}\n", u8::from(writes))), "{gauge} is not {writes}");
        }
    }

    /// Deletes, while another program takes whatever they free, until one finds no room either. Tells which: it may
    /// have happened or not.
    async fn delete_until_refused(&mut self, disk: &Disk) -> usize {
        for seed in self.stored.clone().into_keys() {
            disk.fill();
            match self.delete(seed).await {
                StatusCode::NO_CONTENT => {}
                status => {
                    assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
                    self.stored.remove(&seed);
                    self.says_that_it_writes(false).await;
                    return seed;
                }
            }
        }
        panic!("all deletes found room");
    }

    /// Deletes one of those that are left, in a time that an operator would wait.
    async fn deletes_again(&mut self) {
        let seed = *self.stored.last_key_value().unwrap().0;
        for _ in 0..300 {
            match self.delete(seed).await {
                StatusCode::NO_CONTENT => return,
                status => assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE),
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("the room that was made is not used");
    }

    /// Every acknowledged file is listed and comes back byte for byte, and no other is there.
    async fn all_is_there(&self) {
        let listed = self.client.get(self.server.url("/v1/fs/full/")).header("accept", "text/plain").send();
        let listed = listed.await.unwrap().text().await.unwrap();
        let mut names: Vec<usize> = listed.lines().map(|name| name.parse().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, self.stored.keys().copied().collect::<Vec<_>>());
        for (seed, len) in &self.stored {
            let got = self.client.get(self.url(*seed)).send().await.unwrap();
            assert_eq!(got.status(), StatusCode::OK);
            assert!(got.bytes().await.unwrap() == content(*seed, *len), "{seed} of {len} bytes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_serves_all_it_has() {
    let scratch = tempfile::tempdir().unwrap();
    let server = serve_on_small_disk(&scratch.path().join("data"));
    let mut site = Site { server, client: Client::new(), stored: BTreeMap::new(), digits: 1 };
    for seed in 0..10 {
        assert_eq!(site.put(100_000 + seed, 100_000).await, StatusCode::CREATED);
    }
    let mut full = 0;
    // Large files, then ever smaller ones into what they leave, then inline ones.
    for (seed, len) in [20_000_000, 8_000_000, 2_000_000, 300_000, 100_000, 1].into_iter().enumerate() {
        for n in 0..1_000 {
            match site.put(seed * 1_000 + n, len).await {
                StatusCode::CREATED => {}
                status => {
                    assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE, "{len} bytes");
                    full += 1;
                    break;
                }
            }
        }
    }
    // Only the smallest may still fit a thousand times.
    assert!(full >= 5 && site.stored.len() > 10, "{full}, {:?}", site.stored);
    site.all_is_there().await;

    for (seed, len) in site.stored.clone() {
        if len > 1_000_000 {
            let deleted = site.client.delete(site.url(seed)).send().await.unwrap().status();
            assert_eq!(deleted, StatusCode::NO_CONTENT);
            site.stored.remove(&seed);
        }
    }
    // Content is removed in the background.
    for n in 0.. {
        match site.put(9_000_000 + n, 8_000_000).await {
            StatusCode::CREATED => break,
            status => assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE),
        }
        assert!(n < 600, "the room that was made is not used");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    site.all_is_there().await;
    assert_eq!(site.server.terminate(), Some(0));
}

/// A small file system in a name space of its own, which outlives its servers.
struct Disk {
    /// Keeps the name space.
    keeper: Child,
    data: PathBuf,
}

impl Disk {
    fn mounted(data: &Path, size: &str) -> Self {
        std::fs::create_dir(data).unwrap();
        let mut keeper = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            keeper.arg("--map-root-user");
        }
        let mount = format!(r#"mount -t tmpfs -o size={size} tmpfs "$0" && echo mounted && exec sleep 600"#);
        keeper.args(["--mount", "sh", "-c", &mount]).arg(data).stdout(Stdio::piped());
        let mut keeper = keeper.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "mounted\n");
        Self { keeper, data: data.to_owned() }
    }

    /// A subcommand of the program, where the disk is to be seen.
    fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper.id().to_string(), "--mount", "--"]);
        command.arg(env!("CARGO_BIN_EXE_rowdrive")).arg(subcommand).arg("--data").arg(&self.data);
        command
    }

    fn serve(&self, memory: &str) -> Server {
        let mut command = self.command("serve");
        command.args(["--listen", "127.0.0.1:0", "--memory", memory]);
        Server::wait_for(command, &self.data)
    }

    /// The file system as its servers see it.
    fn inside(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", self.keeper.id(), self.data.display()))
    }

    /// The file in which another program takes room.
    fn taken(&self) -> PathBuf {
        self.inside().join("taken")
    }

    /// Takes whatever is free.
    fn fill(&self) {
        let mut taken = File::options().create(true).append(true).open(self.taken()).unwrap();
        loop {
            let stat = rustix::fs::statvfs(self.inside()).unwrap();
            if stat.f_bavail == 0 || taken.write_all(&vec![0; (stat.f_bavail * stat.f_frsize) as usize]).is_err() {
                break;
            }
        }
    }

    /// Gives so many bytes of it back.
    fn give_back(&self, bytes: u64) {
        let taken = File::options().write(true).open(self.taken()).unwrap();
        taken.set_len(taken.metadata().unwrap().len() - bytes).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Inline files until the disk is full, and a crash.
async fn fill_and_kill(disk: &Disk, memory: &str) -> Vec<usize> {
    let server = disk.serve(memory);
    let mut site = Site { server, client: Client::new(), stored: BTreeMap::new(), digits: 1 };
    for seed in 0..5_000 {
        match site.put(seed, 250_000).await {
            StatusCode::CREATED => {}
            status => {
                assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
                break;
            }
        }
    }
    site.server.kill();
    site.stored.into_keys().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_on_a_disk_that_uploads_have_filled_is_survived() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::mounted(&scratch.path().join("data"), "300m");
    let stored = fill_and_kill(&disk, "512MiB").await;
    assert!(stored.len() > 200, "{}", stored.len());
    for _ in 0..2 {
        let server = disk.serve("512MiB");
        let stored = stored.iter().map(|seed| (*seed, 250_000)).collect();
        let site = Site { server, client: Client::new(), stored, digits: 1 };
        site.all_is_there().await;
        site.server.kill();
    }
}

/// What others have taken of the disk since is not the reserve's to say.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_any_room_reads_and_deletes_and_then_takes_uploads_again() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::mounted(&scratch.path().join("data"), "300m");
    let mut site = start_on_a_full_disk(&disk, ["512MiB", "512MiB"], 100, 250_000).await;
    site.all_is_there().await;
    assert_eq!(site.put(1_000, 250_000).await, StatusCode::INSUFFICIENT_STORAGE);
    for seed in 0..50 {
        assert_eq!(site.client.delete(site.url(seed)).send().await.unwrap().status(), StatusCode::NO_CONTENT);
        site.stored.remove(&seed);
    }
    site.all_is_there().await;
    std::fs::remove_file(disk.taken()).unwrap();
    for n in 0.. {
        match site.put(2_000 + n, 250_000).await {
            StatusCode::CREATED => break,
            status => assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE),
        }
        assert!(n < 200, "the room that was made is not used");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    site.all_is_there().await;
    assert_eq!(site.server.terminate(), Some(0));
    let server = disk.serve("1GiB");
    let site = Site { server, ..site };
    site.all_is_there().await;
}

/// Bytes of the logs of a store.
fn log_bytes(db: &Path) -> u64 {
    let files = std::fs::read_dir(db).unwrap().filter_map(|file| Some(file.ok()?.path()));
    let logs = files.filter(|path| path.extension().is_some_and(|e| e == "log"));
    logs.filter_map(|log| Some(log.metadata().ok()?.len())).sum()
}

/// A start without room for tables of the log bounds neither; once there is room they are bounded again.
#[tokio::test(flavor = "multi_thread")]
async fn log_and_memory_are_bounded_again_once_a_start_on_a_full_disk_has_room() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::mounted(&scratch.path().join("data"), "300m");
    let mut site = start_on_a_full_disk(&disk, ["128MiB", "32MiB"], 60, 200_000).await;
    std::fs::remove_file(disk.taken()).unwrap();
    // Deletes alone are enough, and 5 KB are less than any buffer holds.
    assert_eq!(site.client.delete(site.url(0)).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    site.stored.remove(&0);
    let db = disk.inside().join("db");
    assert!(log_bytes(&db) < 1 << 20, "{} KiB of log after a delete", log_bytes(&db) >> 10);
    let mut longest = 0;
    for seed in 1_000..5_000 {
        assert_eq!(site.put(seed, 10_000).await, StatusCode::CREATED);
        longest = longest.max(log_bytes(&db));
    }
    // Twice what write buffers hold, which is about a sixth of the memory.
    assert!(longest < 14 << 20, "{} MiB of log", longest >> 20);
    site.all_is_there().await;
    assert_eq!(site.server.terminate(), Some(0));
}

/// RocksDB does not go on before as much is free as its largest write buffer holds.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_go_on_below_the_reserve_after_one_that_found_no_room() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::mounted(&scratch.path().join("data"), "300m");
    // Long names, so that deletes soon need more than is set aside for the log.
    let mut site = Site { server: disk.serve("32MiB"), client: Client::new(), stored: BTreeMap::new(), digits: 250 };
    for seed in 0..1_000 {
        assert_eq!(site.put(seed, 1_000).await, StatusCode::CREATED);
    }
    site.says_that_it_writes(true).await;
    let refused = site.delete_until_refused(&disk).await;
    // Of a reserve of 37 MiB.
    disk.give_back(20 << 20);
    site.deletes_again().await;
    assert_eq!(site.put(1_000, 1_000).await, StatusCode::INSUFFICIENT_STORAGE);
    std::fs::remove_file(disk.taken()).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(site.put(1_001, 1_000).await, StatusCode::CREATED);
    site.says_that_it_writes(true).await;
    site.delete(refused).await;
    site.all_is_there().await;
    assert_eq!(site.server.terminate(), Some(0));
}

/// For a few seconds RocksDB refuses what there is room for again: it looks for room now and then.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_are_refused_after_a_full_disk_leave_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::mounted(&scratch.path().join("data"), "300m");
    let mut site = Site { server: disk.serve("32MiB"), client: Client::new(), stored: BTreeMap::new(), digits: 250 };
    for seed in 0..1_000 {
        assert_eq!(site.put(seed, 1_000).await, StatusCode::CREATED);
    }
    let doubtful = site.delete_until_refused(&disk).await;
    std::fs::remove_file(disk.taken()).unwrap();
    let staged = || std::fs::read_dir(disk.inside().join("content/new")).unwrap().count();
    let mut refused = 0;
    while site.put(2_000, 300_000).await != StatusCode::CREATED {
        refused += 1;
        assert!(refused < 600, "the room that was made is not used");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(refused > 0);
    for n in 0.. {
        if staged() == 0 {
            break;
        }
        assert!(n < 200, "{} of {refused} refused uploads are left", staged());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    site.delete(doubtful).await;
    site.all_is_there().await;
    assert_eq!(site.server.terminate(), Some(0));
}

/// A server with `files` of `size` bytes that only its log holds, started when another program has taken all the room;
/// its memory before and then.
async fn start_on_a_full_disk(disk: &Disk, memory: [&str; 2], files: usize, size: usize) -> Site {
    let server = disk.serve(memory[0]);
    let mut site = Site { server, client: Client::new(), stored: BTreeMap::new(), digits: 1 };
    for seed in 0..files {
        assert_eq!(site.put(seed, size).await, StatusCode::CREATED);
    }
    site.server.kill();
    disk.fill();
    Site { server: disk.serve(memory[1]), ..site }
}

/// Where nothing is set aside for the log, the first delete may find no room.
#[tokio::test(flavor = "multi_thread")]
async fn room_that_is_made_after_a_start_on_a_full_disk_is_used_even_if_a_delete_failed() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::mounted(&scratch.path().join("data"), "300m");
    let mut site = start_on_a_full_disk(&disk, ["512MiB", "512MiB"], 100, 250_000).await;
    let ballast = disk.inside().join("db/ballast");
    assert!(!ballast.exists());
    site.delete_until_refused(&disk).await;
    // For what is in memory, and a reserve of 37 MiB.
    disk.give_back(70 << 20);
    site.deletes_again().await;
    for n in 0.. {
        match site.put(1_000 + n, 250_000).await {
            StatusCode::CREATED => break,
            status => assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE),
        }
        assert!(n < 200, "the room that was made is not used");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    site.says_that_it_writes(true).await;
    // Room is kept for the next start, too, now at the latest.
    std::fs::remove_file(disk.taken()).unwrap();
    for seed in 2_000.. {
        assert_eq!(site.put(seed, 1_000).await, StatusCode::CREATED);
        if ballast.metadata().is_ok_and(|ballast| ballast.len() > 4 << 20) {
            break;
        }
        assert!(seed < 2_200, "no room is kept for the next start");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(site.server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_full_disk_is_refused_and_deletes_go_on() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::mounted(&scratch.path().join("data"), "300m");
    let server = disk.serve("512MiB");
    let mut site = Site { server, client: Client::new(), stored: BTreeMap::new(), digits: 1 };
    for seed in 0..100 {
        assert_eq!(site.put(seed, 250_000).await, StatusCode::CREATED);
    }
    disk.fill();
    assert_eq!(site.delete(0).await, StatusCode::NO_CONTENT);
    let backup = disk.command("backup").arg(scratch.path().join("backup")).output().unwrap();
    assert_eq!(backup.status.code(), Some(3), "{backup:?}");
    let said = String::from_utf8(backup.stderr).unwrap();
    assert!(said.contains("are needed to write what is in memory"), "{said}");
    for seed in 1..10 {
        assert_eq!(site.delete(seed).await, StatusCode::NO_CONTENT);
    }
    site.all_is_there().await;
    std::fs::remove_file(disk.taken()).unwrap();
    site.says_that_it_writes(true).await;
    let backup = disk.command("backup").arg(scratch.path().join("backup")).output().unwrap();
    assert_eq!(backup.status.code(), Some(0), "{backup:?}");
    assert_eq!(site.server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_without_inodes_takes_small_files_and_deletes_and_starts() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Disk::mounted(&scratch.path().join("data"), "600m,nr_inodes=1000");
    let server = disk.serve("32MiB");
    let mut site = Site { server, client: Client::new(), stored: BTreeMap::new(), digits: 1 };
    let mut seed = 0;
    let refused = loop {
        seed += 1;
        match site.put(seed, 263_000).await {
            StatusCode::CREATED => {}
            status => break status,
        }
    };
    assert_eq!(refused, StatusCode::INSUFFICIENT_STORAGE);
    assert!((400..900).contains(&site.stored.len()), "{}", site.stored.len());
    let unsized_body =
        reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>(vec![1; 300_000])]));
    let refused = site.client.put(site.url(seed)).body(unsized_body).send().await.unwrap().status();
    assert_eq!(refused, StatusCode::INSUFFICIENT_STORAGE);
    for small in 10_000..10_200 {
        assert_eq!(site.put(small, 200_000).await, StatusCode::CREATED);
    }
    site.server.kill();
    let mut site = Site { server: disk.serve("32MiB"), ..site };
    site.all_is_there().await;
    for seed in 1..50 {
        assert_eq!(site.delete(seed).await, StatusCode::NO_CONTENT);
    }
    for n in 0.. {
        match site.put(20_000 + n, 263_000).await {
            StatusCode::CREATED => break,
            status => assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE),
        }
        assert!(n < 200, "the inodes that were freed are not used");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(site.server.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_beyond_the_limit_of_the_process_is_refused_and_ends_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -f 20000 && exec "$@""#, "sh", env!("CARGO_BIN_EXE_rowdrive"), "serve", "--data"]);
    command.arg(&data).args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    let server = Server::wait_for(command, &data);
    let mut site = Site { server, client: Client::new(), stored: BTreeMap::new(), digits: 1 };
    // 512 bytes each, or 1 KiB.
    assert_eq!(site.put(0, 30_000_000).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(site.put(1, 1_000_000).await, StatusCode::CREATED);
    site.all_is_there().await;
    assert_eq!(site.server.terminate(), Some(0));
}
