//! Forty operations of every kind, one after the other, for tests of faults at single system calls.

use reqwest::Client;

use super::client::send;
use super::oracle::Oracle;
use crate::drive::model::Op;

/// More than 256 KiB, so that it is a content file.
const LARGE: usize = 300_000;

/// The files before the script.
pub const BEFORE: [Op; 6] = [
    Op::Put("/old/f1", 11),
    Op::Put("/old/f2", LARGE + 12),
    Op::Put("/old/in/f3", 5_013),
    Op::Put("/old/in/f4", LARGE + 14),
    Op::Put("/old/in/deep/f5", 15),
    Op::Mkdir("/empty"),
];

pub const SCRIPT: [Op; 40] = [
    Op::Put("/a/f1", 21),
    Op::Put("/a/f2", LARGE + 22),
    Op::Put("/a/b/f3", 9_023),
    Op::Put("/a/b/f4", 3 * LARGE + 24),
    Op::Mkdir("/c"),
    // Each kind of content (inline or file) is replaced by each kind.
    Op::Put("/a/f1", 2_025),
    Op::Put("/a/f2", 2 * LARGE + 26),
    Op::Put("/a/f1", LARGE + 27),
    Op::Put("/a/f2", 28),
    Op::Put("/old/f2", LARGE + 29),
    Op::Move("/a/f1", "/c/f1", false),
    Op::Move("/a/f2", "/c/f2", false),
    Op::Move("/c/f1", "/c/f2", true),
    Op::Delete("/c/f2"),
    Op::Delete("/old/f1"),
    Op::Put("/c/f5", 30),
    Op::Put("/c/f6", LARGE + 31),
    Op::Copy("/c/f6", "/c/f7", false),
    Op::Copy("/c/f5", "/c/f6", true),
    Op::Delete("/c/f5"),
    Op::Move("/a", "/c/a", false),
    Op::Put("/c/a/f8", LARGE + 32),
    Op::Move("/old", "/a", false),
    Op::Put("/old/f9", 33),
    Op::Remove("/c/a"),
    Op::Put("/c/a/f10", LARGE + 34),
    Op::Mkdir("/d/e/g"),
    Op::Rmdir("/d/e/g"),
    Op::Put("/d/e/f11", 35),
    Op::Put("/d/e/f12", LARGE + 36),
    Op::Move("/d/e", "/e", false),
    Op::Move("/e/f12", "/d/f12", false),
    Op::Put("/d/f12", 2 * LARGE + 37),
    Op::Delete("/d/f12"),
    Op::Remove("/a/in"),
    Op::Put("/a/in/f13", 38),
    Op::Put("/a/in/f14", LARGE + 39),
    Op::Remove("/a"),
    Op::Rmdir("/empty"),
    Op::Put("/f15", 40),
];

/// Sends these operations one after the other until one gets no answer. Returns whether all got one.
pub async fn run(script: &[Op], oracle: &mut Oracle, client: &Client, server: &str) -> bool {
    for &op in script {
        let answer = send(client, server, op).await;
        oracle.record(op, answer);
        if answer.is_none() {
            return false;
        }
    }
    true
}
