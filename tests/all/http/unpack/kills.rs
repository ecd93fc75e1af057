//! A server that is killed while it unpacks: what it reported is there, and every other member is whole or absent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Client;

use super::tar_of::{file, tar};
use crate::faults::client::{check_command, content, finishes_clean_up, program, read_all, run_clean_check};
use crate::faults::seed;
use crate::server::Server;

const KILLS: usize = 5;
const FILES: usize = 1_200;

/// Each file has a size of its own: see [`content`].
fn size(kill: usize, n: usize) -> usize {
    if n.is_multiple_of(100) { 300_000 + kill * FILES + n } else { kill * FILES + n }
}

/// Sends a tar, and returns the part of the answer that arrives before the server is killed.
fn unpack(server: &Server, kill: usize) -> std::thread::JoinHandle<String> {
    let members: Vec<_> = (0..FILES).map(|n| file(&format!("d{}/f{n}", n % 9), &content(size(kill, n)))).collect();
    let body = tar(&members);
    let mut socket = TcpStream::connect(&server.address).unwrap();
    let head =
        format!("PUT /v1/fs/k{kill}/?unpack=tar HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut sending = socket.try_clone().unwrap();
    std::thread::spawn(move || {
        let _killed = sending.write_all(head.as_bytes()).and_then(|()| sending.write_all(&body));
    });
    std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), [0; 65_536]);
        while let Ok(read @ 1..) = socket.read(&mut buffer) {
            all.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8_lossy(&all).into_owned()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_were_reported_survive_a_kill_and_none_is_half_there() {
    let mut dice = StdRng::seed_from_u64(seed());
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let mut reported = Vec::new();
    for kill in 0..KILLS {
        let server = Server::start_on(&data, &["--memory", "64MiB"]);
        let answer = unpack(&server, kill);
        tokio::time::sleep(Duration::from_millis(dice.random_range(10..200))).await;
        server.kill();
        let answer = answer.join().unwrap();
        for n in 0..FILES {
            let path = format!("/k{kill}/d{}/f{n}", n % 9);
            if answer.contains(&format!("{path}\",\"status\":201}}")) {
                reported.push((path, size(kill, n)));
            }
        }
        run_clean_check(check_command(program(), &data)).unwrap_or_else(|wrong| panic!("kill {kill}: {wrong}"));
    }
    println!("{KILLS} kills, {} members reported", reported.len());
    assert!(reported.len() > 100, "{}", reported.len());
    let server = Server::start_on(&data, &[]);
    // Each byte of each file is compared, and each file found by listing, stat, time and name.
    let seen = read_all(&Client::new(), &server.address).await.unwrap().files;
    for (path, size) in reported {
        assert_eq!(seen.get(&path), Some(&size), "{path}");
    }
    assert_eq!(server.terminate_in_time(), Some(0));
    finishes_clean_up(|| Server::start_on(&data, &[]), || check_command(program(), &data)).await.unwrap();
}
