//! What `/metrics` reports.

use std::collections::{BTreeMap, BTreeSet};

use rowdrive::table::StoreError;

use super::test_app::TestApp;
use crate::server::Server;

/// The samples by name and labels, as printed.
fn samples(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with("# EOF\n"), "cut: {text}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(of, value)| (of.to_owned(), value.parse().unwrap()))
        .collect()
}

/// The names of the metrics, from their `HELP` lines.
fn names(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

async fn exported(server: &Server) -> String {
    let answer = reqwest::get(server.url("/metrics")).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    answer.text().await.unwrap()
}

/// A server after one request of each kind.
async fn used() -> Server {
    let server = Server::start();
    let client = reqwest::Client::new();
    let put = async |path: &str, bytes: usize| {
        let answer = client.put(server.url(path)).body(vec![7; bytes]).send().await.unwrap();
        assert!(answer.status().is_success());
    };
    put("/v1/fs/a/small", 1_000).await;
    put("/v1/fs/a/large", 300_000).await;
    put("/v1/fs/a/large", 400_000).await;
    let get = async |path: &str| client.get(server.url(path)).send().await.unwrap().bytes().await.unwrap().len();
    assert_eq!(get("/v1/fs/a/small").await, 1_000);
    assert_eq!(get("/v1/fs/a/large").await, 400_000);
    get("/v1/fs/a/").await;
    get("/v1/fs/missing").await;
    get("/nowhere").await;
    let body = r#"{"from":"/a","to":"/b"}"#;
    let posted = client.post(server.url("/v1/move")).header("content-type", "application/json").body(body);
    assert_eq!(posted.send().await.unwrap().status(), 201);
    let deleted = client.delete(server.url("/v1/fs/b/?recursive=true")).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    server
}

#[tokio::test]
async fn requests_and_their_effects_are_counted() {
    let server = used().await;
    let found = samples(&exported(&server).await);
    for (of, value) in [
        (r#"rowdrive_http_requests_total{route="/v1/fs/{path}",method="PUT",status="201"}"#, 2.0),
        (r#"rowdrive_http_requests_total{route="/v1/fs/{path}",method="PUT",status="200"}"#, 1.0),
        (r#"rowdrive_http_requests_total{route="/v1/fs/{path}",method="GET",status="200"}"#, 2.0),
        (r#"rowdrive_http_requests_total{route="/v1/fs/{path}",method="GET",status="404"}"#, 1.0),
        (r#"rowdrive_http_requests_total{route="/v1/fs/{path}/",method="GET",status="200"}"#, 1.0),
        (r#"rowdrive_http_requests_total{route="/v1/fs/{path}/",method="DELETE",status="204"}"#, 1.0),
        (r#"rowdrive_http_requests_total{route="/v1/move",method="POST",status="201"}"#, 1.0),
        (r#"rowdrive_http_requests_total{route="none",method="GET",status="404"}"#, 1.0),
        (r#"rowdrive_http_request_seconds_count{route="/v1/fs/{path}",method="PUT"}"#, 3.0),
        ("rowdrive_http_received_bytes_total", 701_023.0),
        ("rowdrive_http_in_flight", 1.0),
        ("rowdrive_http_panics_total", 0.0),
        ("rowdrive_damage_found_total", 0.0),
        (r#"rowdrive_drive_files_stored_total{location="row"}"#, 1.0),
        (r#"rowdrive_drive_files_stored_total{location="file"}"#, 2.0),
        (r#"rowdrive_drive_stored_bytes_total{location="file"}"#, 700_000.0),
        (r#"rowdrive_drive_operations_ended_total{operation="move",how="done"}"#, 1.0),
        (r#"rowdrive_drive_operations_ended_total{operation="delete",how="done"}"#, 1.0),
        (r#"rowdrive_drive_operations{stage="preparing"}"#, 0.0),
        (r#"rowdrive_drive_operations{stage="finishing"}"#, 0.0),
        ("rowdrive_store_writable", 1.0),
        ("rowdrive_buffers_used_bytes", 0.0),
        ("rowdrive_buffers_waiting", 0.0),
        ("rowdrive_buffers_waited_total", 0.0),
    ] {
        assert_eq!(found.get(of), Some(&value), "{of} in {found:#?}");
    }
    let at_least = [
        ("rowdrive_http_sent_bytes_total", 401_000.0),
        ("rowdrive_store_commit_plans_sum", 7.0),
        ("rowdrive_store_commit_sync_seconds_count", 7.0),
        ("rowdrive_store_commit_bytes_total", 1_000.0),
        (r#"rowdrive_store_reads_total{from="memory"}"#, 10.0),
        ("rowdrive_store_disk_free_bytes", 1e6),
        ("rowdrive_store_cache_capacity_bytes", 5e8),
        ("rowdrive_buffers_bytes", 2e8),
        ("process_resident_memory_bytes", 1e6),
        ("process_open_fds", 5.0),
        ("process_start_time_seconds", 1.7e9),
    ];
    for (of, least) in at_least {
        assert!(found.get(of).is_some_and(|value| *value >= least), "{of} in {found:#?}");
    }
    assert_eq!(server.terminate(), Some(0));
}

/// docs/operating.md lists each metric once with its description: dashboards depend on the names.
#[tokio::test]
async fn the_documented_metrics_are_exactly_the_exported_ones() {
    let server = used().await;
    let exported = names(&exported(&server).await);
    let page = include_str!("../../../docs/operating.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows = rows.filter(|name| name.starts_with("rowdrive_") || name.starts_with("process_"));
    let documented: BTreeSet<_> = rows.map(str::to_owned).collect();
    // Plans are refused and connections closed only when something goes wrong.
    let seldom = ["rowdrive_http_connections_closed", "rowdrive_store_commit_refused"].map(str::to_owned);
    let exported: BTreeSet<_> = exported.into_iter().chain(seldom).collect();
    assert_eq!(documented, exported);
}

/// The server exports every name in the dashboard's queries.
#[tokio::test]
async fn the_dashboard_queries_only_exported_metrics() {
    let server = used().await;
    let text = exported(&server).await;
    let known: BTreeSet<_> = samples(&text).into_keys().map(|of| of.split('{').next().unwrap().to_owned()).collect();
    let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../../docs/grafana.json")).unwrap();
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let words = target["expr"].as_str().unwrap().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names = words.filter(|word| word.starts_with("rowdrive_") || word.starts_with("process_"));
            asked.extend(names.map(str::to_owned));
        }
    }
    assert!(asked.len() > 15, "{asked:?}");
    let seldom = ["rowdrive_http_connections_closed_total", "rowdrive_store_commit_refused_total"];
    let unknown: Vec<_> =
        asked.iter().filter(|name| !known.contains(*name) && !seldom.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?} of {known:#?}");
}

#[tokio::test]
async fn damage_found_by_a_request_is_counted_and_other_errors_are_not() {
    let app = TestApp::new().await;
    let found = async || {
        let answer = app.send("GET", "/metrics", &[], "").await;
        samples(std::str::from_utf8(&answer.body).unwrap())["rowdrive_damage_found_total"]
    };
    app.send("PUT", "/v1/fs/a", &[], "hello").await;
    *app.store.reads.lock().unwrap() = Some(|| StoreError::Failed("why".into()));
    assert_eq!(app.send("GET", "/v1/fs/a", &[], "").await.status, 500);
    assert_eq!(found().await, 0.0);
    *app.store.reads.lock().unwrap() = Some(|| StoreError::Damaged("why".into()));
    assert_eq!(app.send("GET", "/v1/fs/a", &[], "").await.status, 500);
    assert_eq!(found().await, 1.0);
}
