//! Small files of an import, which are sent in batches: what the server does not confirm is sent by itself.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http_body_util::BodyExt;

use super::fake_server::{Fake, digest, file, page, problem};
use super::tree::{bytes, write};
use super::{Run, import};

/// Names and contents that arrived, in batches and alone; directories have no content.
#[derive(Default)]
struct Arrived {
    batches: Vec<BTreeMap<String, Vec<u8>>>,
    alone: Vec<(String, Vec<u8>)>,
}

/// An empty drive. `batch` answers a tar with these members, `alone` a single file.
fn drive(
    batch: impl Fn(&[String], usize) -> Response + Send + Sync + 'static,
    alone: impl Fn(&str, &[u8]) -> Response + Send + Sync + 'static,
) -> (Fake, Arc<Mutex<Arrived>>) {
    let arrived = Arc::<Mutex<Arrived>>::default();
    let (all, answers) = (arrived.clone(), Arc::new((batch, alone)));
    let fake = Fake::start(move |request: Request| {
        let (all, answers) = (all.clone(), answers.clone());
        async move {
            if request.method() == Method::GET {
                return page(&[], None);
            }
            let uri = request.uri().clone();
            let name = uri.path().trim_start_matches("/v1/fs/").to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            if uri.query() == Some("unpack=tar") {
                assert_eq!(name, "up/");
                let members = members(&body);
                let names: Vec<String> = members.keys().cloned().collect();
                let number = {
                    let mut all = all.lock().unwrap();
                    all.batches.push(members);
                    all.batches.len()
                };
                return answers.0(&names, number);
            }
            if name.ends_with('/') {
                return "{}".into_response();
            }
            all.lock().unwrap().alone.push((name.clone(), body.to_vec()));
            answers.1(&name, &body)
        }
    });
    (fake, arrived)
}

/// The members of a tar, with the digest of each verified.
fn members(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(tar);
    let found = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = String::from_utf8(entry.path_bytes().to_vec()).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if entry.header().entry_type().is_file() {
            let records = entry.pax_extensions().unwrap().unwrap().map(Result::unwrap);
            let records: BTreeMap<_, _> = records.map(|of| (of.key().unwrap(), of.value().unwrap())).collect();
            assert_eq!(records["ROWDRIVE.repr-digest"], digest(&content));
            assert_eq!(records["mtime"], "1767323045.678");
        }
        (name, content)
    });
    found.collect()
}

fn lines(names: &[String], status: u16) -> String {
    names.iter().map(|name| format!("{{\"path\":\"/up/{name}\",\"status\":{status}}}\n")).collect()
}

fn ndjson(body: impl Into<Body>) -> Response {
    ([("Content-Type", "application/x-ndjson")], body.into()).into_response()
}

fn stores(name: &str, content: &[u8]) -> Response {
    (StatusCode::CREATED, file(name, content).to_string()).into_response()
}

const FILES: usize = 300;

/// Small files in some folders, and a large one.
fn sample(at: &Path) {
    for n in 0..FILES {
        write(&at.join(format!("d{}/{n}", n % 7)), &bytes(n, 1), 1_767_323_045_678_000_000);
    }
    write(&at.join("large"), &bytes(300_000, 1), 1_767_323_045_678_000_000);
}

#[track_caller]
fn is_whole(run: &Run) {
    run.is_done();
    let all = FILES * (FILES - 1) / 2 + 300_000;
    let summary =
        format!("{} files sent ({all} bytes), 0 were there; 7 folders made; 0 skipped, 0 renamed, 0 failed", FILES + 1);
    assert_eq!(run.last(), summary, "{run:#?}");
}

#[test]
fn small_files_and_folders_are_sent_in_batches_and_large_files_alone() {
    let scratch = tempfile::tempdir().unwrap();
    sample(scratch.path());
    let (fake, arrived) =
        drive(|names, _| ndjson(lines(names, 201) + "{\"done\":true,\"count\":0,\"failed\":0}\n"), stores);
    is_whole(&import(&fake.address, scratch.path(), "/up"));
    let arrived = arrived.lock().unwrap();
    let in_batches: BTreeMap<_, _> = arrived.batches.iter().flatten().collect();
    assert_eq!((in_batches.len(), arrived.alone.len()), (FILES + 7, 1));
    assert!((2..30).contains(&arrived.batches.len()), "{}", arrived.batches.len());
    assert!((0..FILES).all(|n| *in_batches[&format!("d{}/{n}", n % 7)] == bytes(n, 1)));
}

#[test]
fn a_server_that_unpacks_no_tar_gets_every_file_alone() {
    let scratch = tempfile::tempdir().unwrap();
    sample(scratch.path());
    for answer in [|| problem(400, "malformed"), || "{}".into_response(), || problem(404, "no-such-route")] {
        let (fake, arrived) = drive(move |_, _| answer(), stores);
        is_whole(&import(&fake.address, scratch.path(), "/up"));
        let arrived = arrived.lock().unwrap();
        // One for each batch that was under way when the first answer came.
        assert!(arrived.batches.len() <= 4, "{}", arrived.batches.len());
        assert_eq!(arrived.alone.len(), FILES + 1);
    }
}

#[test]
fn what_has_no_line_is_sent_again_alone_and_counted_once() {
    let scratch = tempfile::tempdir().unwrap();
    sample(scratch.path());
    let (fake, arrived) = drive(
        |names, number| {
            let half = lines(&names[..names.len() / 2], 201);
            // The same line twice, a line of no member, the half of one.
            let odd = lines(&names[..1], 201) + &lines(&["no such".to_owned()], 201) + "{\"path\":\"/up/";
            match number % 4 {
                0 => ndjson(half + &odd),
                1 => ndjson(half + "{\"done\":false,\"count\":1,\"failed\":0,\"status\":400}\n"),
                2 => {
                    ndjson(Body::from_stream(stream::iter([Ok(Bytes::from(half)), Err(std::io::Error::other("cut"))])))
                }
                _ => problem(503, "busy"),
            }
        },
        stores,
    );
    is_whole(&import(&fake.address, scratch.path(), "/up"));
    let arrived = arrived.lock().unwrap();
    assert!(arrived.alone.len() > FILES / 3 && arrived.alone.len() < FILES, "{}", arrived.alone.len());
}

#[test]
fn a_member_that_is_refused_is_named_with_the_answer_to_the_file_alone() {
    let scratch = tempfile::tempdir().unwrap();
    sample(scratch.path());
    let (fake, _) = drive(
        |names, _| {
            let (bad, good): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|name| name == "d3/3");
            ndjson(lines(&good, 201) + &lines(&bad, 409))
        },
        |name, content| if name == "up/d3/3" { problem(409, "is-directory") } else { stores(name, content) },
    );
    let run = import(&fake.address, scratch.path(), "/up");
    assert_eq!(run.code, Some(1), "{run:#?}");
    let named = format!("{}/d3/3: As a test wants it (409)", scratch.path().display());
    assert_eq!(run.named("failed"), [named], "{run:#?}");
    assert!(run.last().starts_with(&format!("{FILES} files sent")), "{run:#?}");
}
