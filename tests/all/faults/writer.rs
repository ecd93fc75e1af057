//! A client that works in a folder of its own until the server has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Client;

use super::client::send;
use super::oracle::{Oracle, within};
use crate::drive::model::{Op, View};

/// A client with a folder of its own: it knows the folder's contents from its answers.
pub struct Writer {
    pub folder: &'static str,
    /// Paths in the folder; the first ones are directories.
    paths: Vec<&'static str>,
    dice: StdRng,
    pub oracle: Oracle,
    /// When the unanswered operation was sent.
    pub unanswered: Option<Instant>,
    sizes: usize,
}

/// The state that concurrent writers share.
#[derive(Clone, Default)]
pub struct SharedAnswers {
    number: Arc<AtomicU64>,
    doubtful: Arc<AtomicBool>,
}

impl SharedAnswers {
    /// From now on no answer counts: a sync may have reported success wrongly.
    pub fn doubt(&self) {
        self.doubtful.store(true, Ordering::SeqCst);
    }

    /// Waits until this many answers have arrived.
    pub async fn reach(&self, number: u64) {
        for _ in 0..60_000 {
            if self.number.load(Ordering::Relaxed) >= number {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the server does not answer");
    }
}

/// The number of directories in [`Writer::paths`].
const DIRECTORIES: usize = 4;

impl Writer {
    pub fn new(number: usize, seed: u64) -> Self {
        let folder = format!("/c{number}");
        let below = ["a", "b", "a/x", "b/a", "f", "a/f", "b/f", "a/x/f", "b/a/f"];
        // Paths of the model are `'static`.
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        Self {
            paths: below.iter().map(|path| leak(format!("{folder}/{path}"))).collect(),
            folder: leak(folder),
            dice: StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number as u64)),
            oracle: Oracle::new(View::default()),
            unanswered: None,
            sizes: 1_000 * number,
        }
    }

    fn draw(&mut self) -> Op {
        let (directories, files) = self.paths.split_at(DIRECTORIES);
        let mut one = |of: &[&'static str]| of[self.dice.random_range(0..of.len())];
        let (directory, file, other) = (one(directories), one(files), one(files));
        let target = one(directories);
        self.sizes += 1;
        match self.dice.random_range(0..100) {
            0..40 => Op::Put(file, self.sizes),
            40..55 => Op::Put(file, 300_000 + self.sizes),
            55..65 => Op::Delete(file),
            65..75 if file != other => Op::Move(file, other, true),
            75..88 if !target.starts_with(directory) => Op::Move(directory, target, false),
            88..93 => Op::Remove(directory),
            _ => Op::Mkdir(directory),
        }
    }

    /// Works until the server answers no more.
    pub async fn work(mut self, client: Client, server: String, answers: SharedAnswers) -> Self {
        loop {
            let op = self.draw();
            let sent = Instant::now();
            let answer = send(&client, &server, op).await;
            let answer = answer.filter(|_| !answers.doubtful.load(Ordering::SeqCst));
            self.oracle.record(op, answer);
            let Some(status) = answer else {
                self.unanswered = Some(sent);
                return self;
            };
            // No other client works in this folder, so nothing blocks an operation.
            assert!(!status.is_server_error(), "{op:?} answers {status}");
            answers.number.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Compares the folder on the drive with the answers.
    pub fn observe(&mut self, seen: &View) -> Result<(), String> {
        self.oracle.observe(within(seen, self.folder))
    }
}
