//! The backup socket of a server: a silent client blocks no other.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::Run;
use crate::faults::client::program;
use crate::server::Server;

fn connect(data: &Path) -> UnixStream {
    let socket = UnixStream::connect(data.join("backup.sock")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

fn ask(mut socket: &UnixStream, what: &str) -> String {
    writeln!(socket, "{what}").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).expect("an answer");
    line
}

async fn running(server: &Server) -> String {
    let metrics = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    metrics.lines().find(|line| line.starts_with("rowdrive_backup_running ")).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_client_does_not_block_a_backup_and_a_second_backup_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let server = Server::start_on(&data, &["--memory", "32MiB"]);
    let _silent = connect(&data);
    let endless = connect(&data);
    (&endless).write_all(&[b'a'; 1_000]).unwrap();
    let first = connect(&data);
    assert_eq!(ask(&first, "checkpoint"), "{\"error\":null}\n");
    assert_eq!(running(&server).await, "rowdrive_backup_running 1");
    let mut command = program();
    command.arg("backup").arg(scratch.path().join("backups")).arg("--data").arg(&data).stdin(Stdio::null());
    let second = Run::from_output(command.output().unwrap());
    assert_eq!(second.code, Some(3), "{second:?}");
    assert!(second.err.contains("another backup of this drive is running"), "{second:?}");
    // The refusal does not close the connection: the first backup continues.
    assert!(data.join("db/checkpoint/CURRENT").is_file());
    writeln!(&first, "alive").unwrap();
    assert_eq!(ask(&first, "end"), "{\"error\":null}\n");
    drop(first);
    Run::from_output(command.output().unwrap()).is_done();
    assert_eq!(running(&server).await, "rowdrive_backup_running 0");
    assert_eq!(server.terminate(), Some(0));
}
