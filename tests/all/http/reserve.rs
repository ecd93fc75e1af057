//! Uploads never use the reserved space of a small disk: deletes continue.

use std::process::Command;
use std::time::Duration;

use rustix::fs::statvfs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::socket::read_until;
use crate::full_disk::serve_on_small_disk;
use crate::server::Server;

/// A seventh of the disk of 96 MiB.
const RESERVE: u64 = (96 << 20) / 7;

struct Small {
    server: Server,
    _scratch: tempfile::TempDir,
}

impl Small {
    fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let server = serve_on_small_disk(&scratch.path().join("data"));
        Self { server, _scratch: scratch }
    }

    /// A server with one part on the small disk, its tables or its content.
    fn with_small(part: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        std::fs::create_dir_all(data.join(part)).unwrap();
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        let mount = format!(r#"mount -t tmpfs -o size=96m tmpfs "$0/{part}" && exec "$@""#);
        command.args(["--mount", "sh", "-c", &mount]);
        command.arg(&data).arg(env!("CARGO_BIN_EXE_rowdrive")).arg("serve").arg("--data").arg(&data);
        command.args(["--listen", "127.0.0.1:0", "--memory", "32MiB"]);
        Self { server: Server::wait_for(command, &data), _scratch: scratch }
    }

    /// The free bytes on the server's disk, which is mounted for this server only.
    fn free(&self) -> u64 {
        free(&self.seen())
    }

    /// The path of the data folder inside the server's name space.
    fn seen(&self) -> String {
        format!("/proc/{}/root{}", self.server.id(), self.server.data.display())
    }

    /// Takes all but 1 MiB of this part's disk, as another program may. Returns the path of the file.
    async fn take(&self, part: &str) -> String {
        let (folder, taken) = (format!("{}/{part}", self.seen()), format!("{}/{part}/taken", self.seen()));
        std::fs::write(&taken, vec![1; (free(&folder) - (1 << 20)) as usize]).unwrap();
        // The store checks for free space every 100 ms.
        tokio::time::sleep(Duration::from_millis(200)).await;
        taken
    }

    /// Sends a request head, and returns the connection.
    async fn begin(&self, name: &str, headers: &str) -> TcpStream {
        let mut socket = TcpStream::connect(&self.server.address).await.unwrap();
        let head = format!("PUT /v1/fs/{name} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        socket
    }

    /// The status of an upload that waits for 100 Continue.
    async fn asked(&self, name: &str, length: u64) -> (String, TcpStream) {
        let mut socket = self.begin(name, &format!("Expect: 100-continue\r\nContent-Length: {length}")).await;
        let answer = read_until(&mut socket, "\r\n\r\n").await;
        (answer.split(' ').nth(1).unwrap_or_default().to_owned(), socket)
    }

    async fn delete_all(&self, names: std::ops::Range<usize>) {
        let client = reqwest::Client::new();
        for name in names {
            let deleted = client.delete(self.server.url(&format!("/v1/fs/d/{name}"))).send().await.unwrap();
            assert_eq!(deleted.status(), 204, "{name}, {} KiB free", self.free() >> 10);
        }
    }
}

fn free(folder: &str) -> u64 {
    let stat = statvfs(folder).unwrap();
    stat.f_bavail * stat.f_frsize
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_does_not_fit_is_refused_before_it_is_sent() {
    let small = Small::start();
    let free = small.free() - RESERVE;
    assert_eq!(small.asked("much", free + (4 << 20)).await.0, "507");
    // Space that is reserved for one upload is not given to another, until the first one ends.
    let (status, first) = small.asked("half", free / 2).await;
    assert_eq!(status, "100");
    assert_eq!(small.asked("other-half", free * 5 / 8).await.0, "507");
    // A small file needs no reservation.
    let put = reqwest::Client::new().put(small.server.url("/v1/fs/small")).body("x").send().await.unwrap();
    assert_eq!(put.status(), 201);
    drop(first);
    for _ in 0..400 {
        let (status, _socket) = small.asked("other-half", free * 5 / 8).await;
        if status == "100" {
            return;
        }
        assert_eq!(status, "507");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the reserved space of an upload that broke off is not released");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_declares_all_free_space_does_not_block_others() {
    let small = Small::start();
    let free = small.free() - RESERVE;
    let (status, mut slow) = small.asked("slow", free - (4 << 20)).await;
    assert_eq!(status, "100");
    slow.write_all(&[7; 1024]).await.unwrap();
    // They fill the space that the first one left, as far as they fit.
    let mut more = Vec::new();
    for _ in 0..8 {
        more.push(small.asked("more", 1 << 20).await);
    }
    let client = reqwest::Client::new();
    let put = client.put(small.server.url("/v1/fs/other")).body(vec![1; 2 << 20]).send().await.unwrap();
    assert_eq!(put.status(), 201);
    // An upload larger than the free space is refused as before.
    assert_eq!(small.asked("too-much", free).await.0, "507");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_unknown_length_stops_before_the_reserve() {
    let small = Small::start();
    let client = reqwest::Client::new();
    for name in 0..60 {
        let put = client.put(small.server.url(&format!("/v1/fs/d/{name}"))).body(vec![b'x'; 100]).send().await.unwrap();
        assert_eq!(put.status(), 201);
    }
    let socket = small.begin("endless", "Transfer-Encoding: chunked").await;
    let (mut answer, mut body) = socket.into_split();
    let sender = tokio::spawn(async move {
        let piece = [format!("{:x}\r\n", 1 << 16).into_bytes(), vec![7; 1 << 16], b"\r\n".to_vec()].concat();
        while body.write_all(&piece).await.is_ok() {}
        body
    });
    let mut response = vec![0; 20];
    let mut least = small.free();
    let mut final_response = Box::pin(timeout(Duration::from_secs(60), answer.read_exact(&mut response)));
    while timeout(Duration::from_millis(1), &mut final_response).await.is_err() {
        least = least.min(small.free());
    }
    drop(final_response);
    // The write-ahead log of the tables grows a little meanwhile.
    assert!(least > RESERVE - (1 << 20), "{} KiB were free", least >> 10);
    assert!(response.starts_with(b"HTTP/1.1 507 "), "{}", String::from_utf8_lossy(&response));
    small.delete_all(0..30).await;
    drop(answer);
    drop(sender.await.unwrap());
    small.delete_all(30..60).await;
    assert_eq!(small.asked("after", 1 << 20).await.0, "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_upload_does_not_use_the_reserve() {
    let small = Small::start();
    let client = reqwest::Client::new();
    for name in 0..40 {
        let put = client.put(small.server.url(&format!("/v1/fs/d/{name}"))).body(vec![b'x'; 100]).send().await.unwrap();
        assert_eq!(put.status(), 201);
    }
    // It has reserved all free space, and sends all but the last bytes.
    let length = small.free() - RESERVE - (3 << 20);
    let mut upload = small.begin("big", &format!("Content-Length: {length}")).await;
    let piece = vec![7; 1 << 16];
    for _ in 0..(length >> 16) - 1 {
        upload.write_all(&piece).await.unwrap();
    }
    for _ in 0..200 {
        if small.free() < RESERVE + (6 << 20) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(small.free() > RESERVE && small.free() < RESERVE + (6 << 20), "{} KiB free", small.free() >> 10);
    assert_eq!(small.asked("more", 4 << 20).await.0, "507");
    small.delete_all(0..40).await;
}

/// The upload needs a row too.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_refused_before_it_is_sent_if_the_disk_of_the_tables_is_full() {
    let small = Small::with_small("db");
    assert_eq!(small.asked("before", 50 << 20).await.0, "100");
    let taken = small.take("db").await;
    for length in [1, 50 << 20] {
        assert_eq!(small.asked("big", length).await.0, "507", "{length} bytes");
    }
    std::fs::remove_file(taken).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(small.asked("after", 50 << 20).await.0, "100");
}

/// Its bytes are stored in the tables.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_upload_needs_no_space_on_the_disk_of_the_content() {
    let small = Small::with_small("content");
    let _taken = small.take("content").await;
    let client = reqwest::Client::new();
    let put = async |name: &str, bytes: usize| {
        let put = client.put(small.server.url(&format!("/v1/fs/{name}"))).body(vec![7; bytes]);
        put.send().await.unwrap().status().as_u16()
    };
    for (name, bytes, status) in [("small", 1_000, 201), ("cell", 256 << 10, 201), ("file", (256 << 10) + 1, 507)] {
        assert_eq!(put(name, bytes).await, status, "{bytes} bytes");
    }
    let body = r#"{"from":"/small","to":"/copy"}"#;
    let copy = client.post(small.server.url("/v1/copy")).header("content-type", "application/json").body(body);
    assert_eq!(copy.send().await.unwrap().status(), 201);
}
