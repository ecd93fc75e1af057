//! A server that is killed while 32 clients of one user fill his quota, replace files of others and delete directories:
//! his usage never passes the quota, and a check counts the same.

use std::time::Duration;

use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use super::super::access::world::PASSWORD;
use super::ADMIN;
use crate::faults::client::{check_command, finishes_clean_up, program, run_clean_check};
use crate::faults::seed;
use crate::server::Server;

const CLIENTS: u64 = 32;
const BYTES: i64 = 4_000_000;
const FILES: i64 = 120;

/// One who sends requests with a token.
struct Sender {
    client: Client,
    address: String,
    token: String,
}

impl Sender {
    fn request(&self, method: Method, target: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{target}", self.address)).bearer_auth(&self.token)
    }

    /// One change after the other, until the server is gone. Returns how many were refused by the quota.
    async fn fill(&self, seed: u64) -> usize {
        let mut dice = StdRng::seed_from_u64(seed);
        let mut refused = 0;
        loop {
            let (dir, name) = (dice.random_range(0..4), dice.random_range(0..40));
            let size =
                if dice.random_bool(0.1) { dice.random_range(262_145..400_000) } else { dice.random_range(0..60_000) };
            let request = match dice.random_range(0..20) {
                0 => self.request(Method::DELETE, &format!("/v1/fs/home/tom/d{dir}/?recursive=true")),
                1 => self.request(Method::DELETE, &format!("/v1/fs/home/tom/d{dir}/{name}")),
                2 => {
                    let paths = json!({"from": format!("/home/tom/d{dir}"), "to": format!("/home/tom/d{}", dir + 1)});
                    self.request(Method::POST, if name < 20 { "/v1/move" } else { "/v1/copy" }).json(&paths)
                }
                3..6 => self.request(Method::PUT, &format!("/v1/fs/shared/{name}")).body(vec![7; size]),
                6..9 => {
                    let pieces = vec![vec![7; 10_000]; size / 10_000].into_iter().map(Ok::<_, std::io::Error>);
                    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
                    self.request(Method::PUT, &format!("/v1/fs/home/tom/d{dir}/{name}")).body(body)
                }
                _ => self.request(Method::PUT, &format!("/v1/fs/home/tom/d{dir}/{name}")).body(vec![7; size]),
            };
            match request.send().await {
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    assert!(
                        matches!(status, 200 | 201 | 204 | 404 | 409 | 503 | 507),
                        "{status}: {:?}",
                        answer.text().await
                    );
                    refused += usize::from(status == 507);
                }
                Err(_) => return refused,
            }
        }
    }
}

pub async fn send(server: &Server, user: &str, method: Method, target: &str, body: Value) -> Value {
    let request = Client::new().request(method, server.url(target));
    let request = if user.is_empty() {
        let line = std::fs::read_to_string(server.data.join("first-user-secret")).unwrap();
        let (name, secret) = line.trim().split_once(": ").unwrap();
        request.header(name, secret)
    } else {
        request.basic_auth(user, Some(PASSWORD))
    };
    let request = if body.is_null() { request } else { request.json(&body) };
    let answer = request.send().await.unwrap().error_for_status().unwrap();
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_never_passed_and_usage_is_exact_after_every_kill() {
    let kills = std::env::var("ROWDRIVE_QUOTA_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let mut dice = StdRng::seed_from_u64(seed());
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let server = Server::start_on(&data, &[]);
    let quota = json!({"bytes": BYTES, "files": FILES});
    send(&server, "", Method::POST, "/v1/users", json!({"name": ADMIN, "password": PASSWORD})).await;
    let tom = json!({"name": "tom", "password": PASSWORD, "quota": quota});
    send(&server, ADMIN, Method::POST, "/v1/users", tom).await;
    send(&server, ADMIN, Method::PUT, "/v1/fs/shared/", Value::Null).await;
    let grant = json!({"path": "/shared", "user": "tom", "rights": ["write"]});
    send(&server, ADMIN, Method::PUT, "/v1/grants", grant).await;
    let token = send(&server, "tom", Method::POST, "/v1/tokens", json!({"name": "t"})).await["secret"].clone();
    let token = token.as_str().unwrap().to_owned();
    assert_eq!(server.terminate_in_time(), Some(0));
    let mut refused = 0;
    for kill in 0..kills {
        let server = Server::start_on(&data, &["--memory", "64MiB"]);
        // Those of Tom that are replaced here are the admin's again.
        for name in 0..40 {
            let request =
                Client::new().put(server.url(&format!("/v1/fs/shared/{name}"))).basic_auth(ADMIN, Some(PASSWORD));
            request.body(vec![1; 1_000]).send().await.unwrap().error_for_status().unwrap();
        }
        let sender = Sender { client: Client::new(), address: server.address.clone(), token: token.clone() };
        let (first, killed): (u64, u64) = (dice.random(), dice.random_range(300..1_500));
        let filling = join_all((0..CLIENTS).map(|client| sender.fill(first ^ client)));
        let killing = async {
            tokio::time::sleep(Duration::from_millis(killed)).await;
            server.kill();
        };
        refused += tokio::join!(filling, killing).0.iter().sum::<usize>();
        run_clean_check(check_command(program(), &data)).unwrap_or_else(|wrong| panic!("kill {kill}: {wrong}"));
        let server = Server::start_on(&data, &[]);
        let usage = send(&server, ADMIN, Method::GET, "/v1/users/tom", Value::Null).await["usage"].clone();
        assert!(
            usage["bytes"].as_i64().unwrap() <= BYTES && usage["files"].as_i64().unwrap() <= FILES,
            "kill {kill}: {usage}"
        );
        println!("kill {kill}: {usage}, {refused} refused by now");
        assert_eq!(server.terminate_in_time(), Some(0));
    }
    assert!(refused > 10, "{refused}");
    finishes_clean_up(|| Server::start_on(&data, &[]), || check_command(program(), &data)).await.unwrap();
}
