//! A server that is killed repeatedly during writes: after each start every acknowledged write is there, and every
//! other write is complete or absent.
//!
//! `ROWDRIVE_KILLS` sets the number of kills, for longer runs by hand.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Client;

use crate::faults::client::{check_command, finishes_clean_up, program, read_all, run_clean_check};
use crate::faults::writer::{SharedAnswers, Writer};
use crate::faults::{number, seed};
use crate::server::Server;

const CLIENTS: usize = 8;
const KILLS: u64 = 50;

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_every_kill() {
    let (kills, seed) = (number("ROWDRIVE_KILLS").unwrap_or(KILLS), seed());
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let mut writers: Vec<_> = (0..CLIENTS).map(|number| Writer::new(number, seed)).collect();
    let mut dice = StdRng::seed_from_u64(seed);
    let (mut in_flight, mut unfinished) = (0, 0);
    for kill in 0..kills {
        let server = Server::start_on(&data, &["--memory", "64MiB"]);
        let client = Client::new();
        let seen = read_all(&client, &server.address).await.unwrap_or_else(|wrong| panic!("kill {kill}: {wrong}"));
        for writer in &mut writers {
            writer.observe(&seen).unwrap_or_else(|wrong| panic!("kill {kill}: {wrong}"));
        }
        let answers = SharedAnswers::default();
        let work = |w: Writer| tokio::spawn(w.work(client.clone(), server.address.clone(), answers.clone()));
        let working: Vec<_> = writers.drain(..).map(work).collect();
        answers.reach(dice.random_range(1..60)).await;
        tokio::time::sleep(Duration::from_micros(dice.random_range(0..5_000))).await;
        server.kill();
        for writer in working {
            writers.push(writer.await.unwrap());
        }
        let left =
            run_clean_check(check_command(program(), &data)).unwrap_or_else(|wrong| panic!("kill {kill}: {wrong}"));
        unfinished += left["unsettled"].as_u64().unwrap();
        in_flight += writers.iter().filter(|writer| writer.unanswered.is_some()).count() as u64;
    }
    let acknowledged: usize = writers.iter().map(|writer| writer.oracle.acknowledged).sum();
    println!(
        "{kills} kills, {acknowledged} acknowledged writes, {in_flight} in flight; lost 0, half there 0, wrong 0, \
         stray 0; {unfinished} pieces of work left"
    );
    assert!(acknowledged as u64 > 10 * kills && in_flight > kills, "{acknowledged}, {in_flight}");
    let server = Server::start_on(&data, &[]);
    let seen = read_all(&Client::new(), &server.address).await.unwrap();
    writers.iter_mut().for_each(|writer| writer.observe(&seen).unwrap());
    assert_eq!(server.terminate_in_time(), Some(0));
    finishes_clean_up(|| Server::start_on(&data, &[]), || check_command(program(), &data)).await.unwrap();
}
