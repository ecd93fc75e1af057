//! What a stranger can do to others by a share to upload by: nothing is held, kept from others, or learned.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use rowdrive::table::StoreError;
use serde_json::{Value, json};

use super::shares::{make, put, with_files};
use super::{ADMIN, Api, walk};
use crate::http::test_app::TestResponse;

/// A link to add so many bytes to `/home/tom/a`.
async fn upload(api: &Api, bytes: u64) -> (String, Value) {
    make(api, "tom", json!({"path": "/home/tom/a", "mode": "upload", "bytes": bytes})).await
}

async fn add(api: &Api, url: &str, name: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> TestResponse {
    api.app.send("PUT", &format!("{url}fs/{name}"), headers, body).await
}

/// A body of these pieces, before the second of which something happens.
fn with_pause([first, second]: [Vec<u8>; 2], pause: impl Future<Output = ()> + Send + 'static) -> Body {
    let second = stream::once(async move {
        pause.await;
        Ok(Bytes::from(second))
    });
    Body::from_stream(stream::iter([Ok::<_, Infallible>(Bytes::from(first))]).chain(second))
}

/// A body of which nothing comes.
fn nothing() -> Body {
    Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())
}

fn form(names: &[&str]) -> Vec<u8> {
    let fields = names.iter().map(|name| {
        format!("--limit\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{name}\"\r\n\r\nx\r\n")
    });
    (fields.collect::<String>() + "--limit--\r\n").into_bytes()
}

const FORM: [(&str, &str); 2] =
    [("origin", "http://localhost:8080"), ("content-type", "multipart/form-data; boundary=limit")];

#[tokio::test]
async fn an_upload_by_a_link_holds_no_file_of_the_quota() {
    let api = Arc::new(with_files().await);
    let (url, _) = upload(&api, 1_000).await;
    let files = async || api.by("tom", "GET", "/v1/session", Value::Null).await.json()["usage"]["files"].as_u64();
    let quota = json!({"quota": {"files": files().await.unwrap() + 1}});
    api.by(ADMIN, "PATCH", "/v1/users/tom", quota).await.is(200);
    let of_tom = api.clone();
    let pause = async move { put(&of_tom, "/v1/fs/home/tom/last", "x").await };
    add(&api, &url, "f", &[], with_pause([vec![1], vec![2]], pause)).await.is(507);
    // Then before the body.
    let refused = add(&api, &url, "f", &[("content-length", "2")], nothing());
    tokio::time::timeout(Duration::from_secs(20), refused).await.unwrap().is(507);
}

#[tokio::test]
async fn a_name_whose_numbers_are_taken_is_stored_within_some_lookups() {
    let api = with_files().await;
    let (url, _) = upload(&api, 1_000).await;
    put(&api, "/v1/fs/home/tom/a/p.jpg", "").await;
    for power in 1..64 {
        put(&api, &format!("/v1/fs/home/tom/a/p%20({}).jpg", 1u64 << power), "").await;
    }
    for _ in 0..3 {
        api.app.store.calls.lock().unwrap().clear();
        add(&api, &url, "p.jpg", &[], "x").await.is(201);
        let reads = api.app.store.calls.lock().unwrap().iter().filter(|call| **call == "get").count();
        assert!(reads < 120, "{reads}");
    }
    let sent = api.app.send("POST", &url, &FORM, form(&["one.jpg", "p.jpg", "two.jpg"])).await.is(201);
    assert!(sent.text().contains("<li>p.jpg: sent</li>"), "{sent:?}");
    let listed = api.by("tom", "GET", "/v1/fs/home/tom/a/?prefix=p", Value::Null).await.is(200);
    assert_eq!(listed.names().len(), 64 + 4);
}

#[tokio::test]
async fn a_refused_upload_reads_the_same_whether_its_name_is_taken() {
    let api = with_files().await;
    let (url, _) = upload(&api, 10).await;
    put(&api, "/v1/fs/home/tom/a/taken", "").await;
    for power in 1..10 {
        put(&api, &format!("/v1/fs/home/tom/a/taken%20({})", 1 << power), "").await;
    }
    let digest = [("content-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:")];
    let refused = async |name: &'static str, why: &'static str| {
        api.app.store.calls.lock().unwrap().clear();
        match why {
            "digest" => drop(add(&api, &url, name, &digest, "x").await.problem(400, "digest-mismatch")),
            "told" => drop(add(&api, &url, name, &[("content-length", "11")], nothing()).await.is(507)),
            _ => {
                let pieces = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![7; 11]))]);
                drop(add(&api, &url, name, &[], Body::from_stream(pieces)).await.is(507));
            }
        }
        api.app.store.calls.lock().unwrap().clone()
    };
    for why in ["digest", "told", "sent"] {
        refused("free", why).await;
        assert_eq!(refused("taken", why).await, refused("free", why).await, "{why}");
    }
}

#[tokio::test]
async fn a_name_of_an_almost_too_long_path_is_refused_whether_it_is_taken_or_not() {
    let api = with_files().await;
    // 4,084 bytes: eleven are left for a name.
    let deep = format!("/home/tom{}/{}", ["/", &"d".repeat(255)].concat().repeat(15), "e".repeat(234));
    api.by("tom", "PUT", &format!("/v1/fs{deep}/?parents=true"), Value::Null).await.is(201);
    let (url, _) = make(&api, "tom", json!({"path": deep, "mode": "upload"})).await;
    put(&api, &format!("/v1/fs{deep}/taken"), "x").await;
    for name in ["taken", "free", "x"] {
        let refused = add(&api, &url, name, &[], "x").await.problem(400, "malformed");
        assert!(!refused.text().contains("4096") && !refused.text().contains("4,096"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_form_says_what_is_stored_whatever_ends_it() {
    let api = Arc::new(with_files().await);
    let (url, made) = upload(&api, 1_000).await;
    let (whole, first) = (form(&["one", "two"]), form(&["one"]).len() - 4);
    let pieces = || [whole[..first].to_vec(), whole[first..].to_vec()];
    let faults: [(fn() -> StoreError, _, _); 3] = [
        (|| StoreError::Busy, 503, "Too many writes are waiting"),
        (|| StoreError::Full("test".into()), 507, "There is no room for this"),
        (|| StoreError::Failed("test".into()), 500, "The server could not do this"),
    ];
    let told = |sent: &TestResponse, detail: &str| {
        let lines = format!("<li>one: sent</li>\n<li>The others: not sent. {detail}");
        assert!(sent.text().contains(&lines), "{sent:?}");
        assert!(sent.header("content-type").unwrap().starts_with("text/html"), "{sent:?}");
    };
    for (fault, status, detail) in faults {
        let store = api.app.store.clone();
        let pause = async move { *store.commits.lock().unwrap() = Some(fault) };
        let sent = api.app.send("POST", &url, &FORM, with_pause(pieces(), pause)).await.is(status);
        *api.app.store.commits.lock().unwrap() = None;
        told(&sent, detail);
        assert_eq!(sent.header("retry-after").is_some(), status == 503, "{sent:?}");
    }
    let (by, id) = (api.clone(), made["id"].as_str().unwrap().to_owned());
    let pause = async move {
        by.by("tom", "DELETE", &format!("/v1/shares/{id}"), Value::Null).await.is(204);
    };
    let sent = api.app.send("POST", &url, &FORM, with_pause(pieces(), pause)).await.is(404);
    told(&sent, "There is nothing here: the link is wrong, or it has ended.");
    assert!(walk(&api, "tom", "/v1/shares?limit=1", "shares").await.is_empty());
    let listed = api.by("tom", "GET", "/v1/fs/home/tom/a/?prefix=one", Value::Null).await.is(200);
    assert_eq!(listed.names().len(), 4);
}
