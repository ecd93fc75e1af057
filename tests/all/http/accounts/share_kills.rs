//! A server that is killed while 32 strangers fill a share to upload by, all with files of one name: what is there is what
//! the share has counted, and nothing that was answered is lost.

use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Body, Client, Method};
use serde_json::{Value, json};

use super::super::access::world::PASSWORD;
use super::ADMIN;
use super::quota_kills::send;
use crate::faults::client::{check_command, program, run_clean_check};
use crate::faults::seed;
use crate::server::Server;

const CLIENTS: u64 = 32;
const BYTES: u64 = 6_000_000;

/// What strangers were told.
#[derive(Default)]
struct Told {
    stored: Vec<u64>,
    refused: usize,
}

/// One file after the other, until the server is gone.
async fn fill(link: &str, seed: u64) -> Told {
    let (client, mut dice, mut told) = (Client::new(), StdRng::seed_from_u64(seed), Told::default());
    loop {
        let size =
            if dice.random_bool(0.1) { dice.random_range(262_145..400_000) } else { dice.random_range(0..60_000) };
        let request = client.put(format!("{link}fs/photo.jpg"));
        let request = if dice.random_bool(0.3) {
            let pieces = vec![vec![7; 10_000]; size / 10_000].into_iter().map(Ok::<_, std::io::Error>);
            request.body(Body::wrap_stream(futures_util::stream::iter(pieces)))
        } else {
            request.body(vec![7; size])
        };
        let Ok(answer) = request.send().await else { return told };
        let status = answer.status().as_u16();
        let Ok(body) = answer.text().await else { return told };
        match status {
            201 => told.stored.push(serde_json::from_str::<Value>(&body).unwrap()["size"].as_u64().unwrap()),
            507 => told.refused += 1,
            503 => {}
            _ => panic!("{status}: {body}"),
        }
    }
}

/// The sizes of the files in a directory, in order.
async fn sizes(server: &Server, path: &str) -> Vec<u64> {
    let list = send(server, "tom", Method::GET, &format!("/v1/fs{path}/?limit=10000"), Value::Null).await;
    assert!(list["next"].is_null());
    let mut sizes: Vec<u64> =
        list["entries"].as_array().unwrap().iter().map(|entry| entry["size"].as_u64().unwrap()).collect();
    sizes.sort_unstable();
    sizes
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_share_has_counted_is_there_after_every_kill() {
    let kills = std::env::var("ROWDRIVE_QUOTA_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let mut dice = StdRng::seed_from_u64(seed());
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let server = Server::start_on(&data, &[]);
    send(&server, "", Method::POST, "/v1/users", json!({"name": ADMIN, "password": PASSWORD})).await;
    send(&server, ADMIN, Method::POST, "/v1/users", json!({"name": "tom", "password": PASSWORD})).await;
    assert_eq!(server.terminate_in_time(), Some(0));
    let (mut stored, mut refused) = (0, 0);
    for kill in 0..kills {
        let server = Server::start_on(&data, &["--memory", "64MiB"]);
        let path = format!("/home/tom/{kill}");
        send(&server, "tom", Method::PUT, &format!("/v1/fs{path}/"), Value::Null).await;
        let asked = json!({"path": path, "mode": "upload", "bytes": BYTES});
        let made = send(&server, "tom", Method::POST, "/v1/shares", asked).await;
        let link = server.url(made["url"].as_str().unwrap());
        let (first, killed): (u64, u64) = (dice.random(), dice.random_range(200..1_500));
        let filling = join_all((0..CLIENTS).map(|client| fill(&link, first ^ client)));
        let killing = async {
            tokio::time::sleep(Duration::from_millis(killed)).await;
            server.kill();
        };
        let told = tokio::join!(filling, killing).0;
        run_clean_check(check_command(program(), &data)).unwrap_or_else(|wrong| panic!("kill {kill}: {wrong}"));
        let server = Server::start_on(&data, &[]);
        let mut there = sizes(&server, &path).await;
        let shares = send(&server, "tom", Method::GET, &format!("/v1/shares?path={path}"), Value::Null).await;
        let used = BYTES - shares["shares"][0]["bytes"].as_u64().unwrap();
        assert_eq!(there.iter().sum::<u64>(), used, "kill {kill}");
        for size in told.iter().flat_map(|told| &told.stored) {
            // What was not answered may be there too.
            let at = there.binary_search(size).unwrap_or_else(|_| panic!("kill {kill}: {size} bytes are lost"));
            there.remove(at);
            stored += 1;
        }
        refused += told.iter().map(|told| told.refused).sum::<usize>();
        println!("kill {kill}: {used} bytes, {} files without an answer, {refused} refused by now", there.len());
        assert_eq!(server.terminate_in_time(), Some(0));
    }
    assert!(stored > 10 && refused > 10, "{stored} stored, {refused} refused");
}
