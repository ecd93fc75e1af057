//! Faults of a server or a file system that a real one does not show on demand.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::fake_server::{Fake, content, digest, directory, file, page, problem};
use super::tree::{self, bytes, write};
use super::{Run, command, export, import, rowdrive};
use crate::server::Server;

/// The names and bodies that a fake drive received, in order of arrival.
type Sent = Arc<Mutex<Vec<(String, Bytes)>>>;

/// An empty drive that verifies digests. `first` is called after the first part of each body, with the file's name and
/// the number of earlier files.
fn taking(first: impl Fn(&str, usize) + Clone + Send + Sync + 'static) -> (Fake, Sent) {
    let sent = Sent::default();
    let all = sent.clone();
    let fake = Fake::start(move |request: Request| {
        let (sent, first) = (all.clone(), first.clone());
        async move {
            let name = request.uri().path().trim_start_matches("/v1/fs/").to_owned();
            if request.method() == Method::GET {
                return page(&[], None);
            }
            if name.is_empty() || name.ends_with('/') {
                return "{}".into_response();
            }
            let said = request.headers()["repr-digest"].to_str().unwrap().to_owned();
            let mut body = request.into_body();
            let mut all = Vec::new();
            let before = sent.lock().unwrap().len();
            if let Some(Ok(part)) = body.frame().await {
                all.extend(part.into_data().unwrap());
            }
            first(&name, before);
            while let Some(part) = body.frame().await {
                match part {
                    Ok(part) => all.extend(part.into_data().unwrap()),
                    Err(_) => break,
                }
            }
            sent.lock().unwrap().push((name.clone(), all.clone().into()));
            if digest(&all) == said {
                file(&name, &all).to_string().into_response()
            } else {
                problem(400, "digest-mismatch")
            }
        }
    });
    (fake, sent)
}

#[test]
fn an_import_names_a_file_that_vanishes() {
    let scratch = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        write(&scratch.path().join(name), name.as_bytes(), 1);
    }
    let vanishing = scratch.path().join("b");
    let (fake, sent) = taking(move |name, _| {
        if name == "a" {
            fs::remove_file(&vanishing).unwrap();
        }
    });
    let run = rowdrive(&fake.address, &[&"import", &scratch.path(), &"--jobs", &"1"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    let failed = run.named("failed");
    assert!(failed.len() == 1 && failed[0].contains("/b: it cannot be read: No such file"), "{run:#?}");
    assert_eq!(*sent.lock().unwrap(), [("a".to_owned(), "a".into()), ("c".to_owned(), "c".into())]);
}

const BIG: usize = 32 << 20;

/// Writes one byte near the end of a file that is being sent.
fn scribble(path: &Path, byte: u8) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(BIG as u64 - 10)).unwrap();
    file.write_all(&[byte]).unwrap();
}

#[test]
fn a_file_that_changes_during_upload_is_read_again_or_named() {
    let scratch = tempfile::tempdir().unwrap();
    let big = scratch.path().join("big");
    for (times, cut) in [(1, false), (2, false), (1, true), (2, true)] {
        write(&big, &bytes(BIG, 1), 1);
        let path = big.clone();
        let calls = AtomicUsize::new(0);
        let calls = Arc::new(calls);
        let called = calls.clone();
        let (fake, sent) = taking(move |_, _| {
            let call = called.fetch_add(1, SeqCst);
            if call < times && cut {
                File::options().write(true).open(&path).unwrap().set_len((BIG >> (call + 1)) as u64).unwrap();
            } else if call < times {
                scribble(&path, 100 + call as u8);
            }
        });
        let run = import(&fake.address, scratch.path(), "/");
        let what = format!("{times} {cut}: {run:#?}");
        assert_eq!(calls.load(SeqCst), 2, "{what}");
        if times == 1 {
            run.is_done();
            assert!(sent.lock().unwrap().last().unwrap().1 == fs::read(&big).unwrap(), "{what}");
        } else {
            assert_eq!(run.code, Some(1), "{what}");
            assert_eq!(run.named("failed"), [format!("{}: it changes while it is read", big.display())], "{what}");
        }
    }
}

#[test]
fn a_server_that_stores_other_bytes_is_detected() {
    let scratch = tempfile::tempdir().unwrap();
    write(&scratch.path().join("f"), b"as it is", 1);
    let fake = Fake::start(async |request: Request| match *request.method() {
        Method::GET => page(&[], None),
        _ => file("f", b"as it os").to_string().into_response(),
    });
    let run = import(&fake.address, scratch.path(), "/");
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.named("failed")[0].ends_with("/f: the server has stored other bytes than were sent"), "{run:#?}");
}

/// A drive that answers 503 to its first requests for a file, with this `Retry-After`.
fn busy(times: usize, wait: &'static str) -> (Fake, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let fake = Fake::start(move |request: Request| {
        let count = count.clone();
        async move {
            if request.method() == Method::GET {
                return page(&[], None);
            }
            let is_file = !request.uri().path().ends_with('/');
            let _ = request.into_body().collect().await;
            if is_file && count.fetch_add(1, SeqCst) < times {
                return ([("Retry-After", wait)], problem(503, "busy")).into_response();
            }
            file("f", b"f").to_string().into_response()
        }
    });
    (fake, asked)
}

#[test]
fn a_client_waits_for_a_busy_server_as_long_as_retry_after_says() {
    let scratch = tempfile::tempdir().unwrap();
    write(&scratch.path().join("f"), b"f", 1);
    let (fake, asked) = busy(3, "0");
    import(&fake.address, scratch.path(), "/").is_done();
    assert_eq!(asked.load(SeqCst), 4);
    // A longer `Retry-After` than the client's limit: it does not try again.
    let (fake, asked) = busy(1, "3600");
    let run = import(&fake.address, scratch.path(), "/");
    assert_eq!((run.code, asked.load(SeqCst)), (Some(1), 1), "{run:#?}");
    assert!(run.named("failed")[0].ends_with("/f: As a test wants it (503)"), "{run:#?}");
}

#[test]
fn an_import_stops_early_on_a_full_drive() {
    let scratch = tempfile::tempdir().unwrap();
    for name in 0..500 {
        write(&scratch.path().join(name.to_string()), b"x", 1);
    }
    let fake = Fake::start(async |request: Request| match *request.method() {
        Method::GET => page(&[], None),
        _ if request.uri().path().ends_with('/') => "{}".into_response(),
        _ => problem(507, "disk-full"),
    });
    let run = rowdrive(&fake.address, &[&"import", &scratch.path(), &"--jobs", &"4"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().contains("; given up, ") && (4..100).contains(&run.named("failed").len()), "{run:#?}");
}

#[test]
fn files_already_on_the_drive_show_that_not_everything_fails() {
    let scratch = tempfile::tempdir().unwrap();
    // The drive already has every second file, with the time of `file`.
    let there: Vec<Value> = (0..40).step_by(2).map(|n| file(&format!("{n:02}"), b"x")).collect();
    for n in 0..40 {
        write(&scratch.path().join(format!("{n:02}")), b"x", 1_767_323_045_678_000_000);
    }
    let fake = Fake::start(move |request: Request| {
        let there = there.clone();
        async move {
            match *request.method() {
                Method::GET => page(&there, None),
                _ if request.uri().path().ends_with('/') => "{}".into_response(),
                _ => problem(507, "disk-full"),
            }
        }
    });
    let run = rowdrive(&fake.address, &[&"import", &scratch.path(), &"--jobs", &"1"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().contains(" 20 were there;") && run.last().ends_with(" 20 failed"), "{run:#?}");
}

/// Another program stores a file of the same name meanwhile, or the answer to the first try is lost.
#[test]
fn a_file_that_appears_during_an_import_is_not_overwritten() {
    let scratch = tempfile::tempdir().unwrap();
    for name in ["mine", "theirs"] {
        write(&scratch.path().join(name), b"x", 1_767_323_045_678_000_000);
    }
    let fake = Fake::start(async |request: Request| match (request.method(), request.uri().path()) {
        (&Method::GET, "/v1/stat/mine") => file("mine", b"x").to_string().into_response(),
        (&Method::GET, "/v1/stat/theirs") => file("theirs", b"other").to_string().into_response(),
        (&Method::GET, _) => page(&[], None),
        (_, path) if path.ends_with('/') => "{}".into_response(),
        _ if request.headers().get("if-none-match").is_some_and(|value| value == "*") => {
            problem(412, "precondition-failed")
        }
        _ => panic!("it would overwrite"),
    });
    let run = rowdrive(&fake.address, &[&"import", &scratch.path(), &"--no-overwrite"]);
    run.is_done();
    assert_eq!(run.last(), "0 files sent (0 bytes), 1 were there; 1 skipped, 0 renamed, 0 failed", "{run:#?}");
    assert!(run.named("skipped")[0].contains("/theirs: the drive has another file"), "{run:#?}");
}

/// Names that no drive may have.
const EVIL: [&str; 8] = ["..", ".", "", "a/b", "/etc/x", "a\nb", "e\u{301}", "../outside"];

#[test]
fn names_from_a_server_cannot_escape_the_target_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("in/to");
    fs::create_dir_all(&to).unwrap();
    let fake = Fake::start(async |request: Request| {
        let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default());
        match path.as_str() {
            "/v1/stat/" => directory("").to_string().into_response(),
            // In two pages, so that both must be checked.
            "/v1/fs/" if query.contains("cursor=more") => {
                let files: Vec<Value> = EVIL.iter().chain(&["good"]).map(|name| file(name, b"x")).collect();
                page(&files, None)
            }
            "/v1/fs/" => page(&EVIL.map(directory), Some("more")),
            path if path.ends_with('/') => page(&[file("deeper", b"x")], None),
            _ => content(Body::from("x"), &digest(b"x"), 1),
        }
    });
    let run = export(&fake.address, "/", &to);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().starts_with("1 files fetched (1 bytes)") && run.last().ends_with(" 16 failed"), "{run:#?}");
    let there: Vec<String> = tree::seen(scratch.path()).into_keys().collect();
    assert_eq!(there, ["in", "in/to", "in/to/good"]);
}

/// A drive with a single file; `answer` returns its content.
fn giving(size: usize, answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> (Fake, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let fake = Fake::start(move |request: Request| {
        let (answer, count) = (answer.clone(), count.clone());
        async move {
            match request.uri().path() {
                "/v1/stat/" => directory("").to_string().into_response(),
                "/v1/fs/" => page(&[file("f", &bytes(size, 1))], None),
                "/v1/stat/f" => file("f", &bytes(size, 1)).to_string().into_response(),
                _ => {
                    count.fetch_add(1, SeqCst);
                    answer()
                }
            }
        }
    });
    (fake, asked)
}

#[test]
fn wrong_or_truncated_content_is_never_published_under_a_name() {
    for size in [1000, 3 << 20] {
        let scratch = tempfile::tempdir().unwrap();
        write(&scratch.path().join("f"), b"as it was", 1);
        let said = digest(&bytes(size, 1));
        let flipped = {
            let (mut flipped, said) = (bytes(size, 1), said.clone());
            flipped[size / 2] ^= 1;
            giving(size, move || content(flipped.clone().into(), &said, size))
        };
        let broken = {
            let (half, said) = (Bytes::from(bytes(size / 2, 1)), said.clone());
            giving(size, move || {
                let cut = stream::iter([Ok(half.clone()), Err(std::io::Error::other("cut"))]);
                content(Body::from_stream(cut), &said, size)
            })
        };
        let other = giving(size, move || content(bytes(size, 1).into(), &digest(b"other"), size));
        for ((fake, asked), times, why) in [
            (flipped, 3, "the received content does not match its digest"),
            (broken, 3, "the connection breaks in the middle of it"),
            (other, 1, "its digest differs from that in the list"),
        ] {
            let run = export(&fake.address, "/", scratch.path());
            assert_eq!((run.code, asked.load(SeqCst)), (Some(1), times), "{why}: {run:#?}");
            assert!(run.named("failed")[0].contains(why), "{why}: {run:#?}");
            assert_eq!(fs::read(scratch.path().join("f")).unwrap(), b"as it was");
            assert_eq!(tree::temporaries(scratch.path()), [""; 0], "{why}");
        }
    }
}

const HANGING: usize = 4 << 20;

/// A drive that sends half of a file and then stalls.
fn hanging() -> Fake {
    let (fake, _) = giving(HANGING, || {
        let half = stream::iter([Ok::<_, std::io::Error>(Bytes::from(bytes(HANGING / 2, 1)))]).chain(stream::pending());
        content(Body::from_stream(half), &digest(&bytes(HANGING, 1)), HANGING)
    });
    fake
}

/// Starts an export that has created its temporary file and waits for more bytes.
fn waiting(fake: &Fake, to: &Path) -> (Child, PathBuf) {
    let before = tree::temporaries(to);
    let mut exporting = command(&fake.address, &[&"export", &"/", &to]).stdout(Stdio::piped()).spawn().unwrap();
    loop {
        let new = tree::temporaries(to).into_iter().find(|name| !before.contains(name));
        if let Some(name) = new.filter(|name| fs::metadata(to.join(name)).is_ok_and(|meta| meta.len() > 0)) {
            return (exporting, to.join(name));
        }
        assert!(exporting.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_export_removes_only_the_partial_files_of_a_killed_export() {
    let (server, fake, scratch) = (Server::start(), hanging(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    write(&from.join("f"), &bytes(HANGING, 1), 1);
    import(&server.address, &from, "/").is_done();
    fs::create_dir(&to).unwrap();
    let mine = to.join(".rowdrive-export-mine");
    fs::write(&mine, b"of that name, and not a left-over").unwrap();
    let (mut killed, left) = waiting(&fake, &to);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left.exists());
    let (mut living, partial) = waiting(&fake, &to);
    assert!(!left.exists());
    export(&server.address, "/", &to).is_done();
    assert!(partial.exists() && mine.exists() && to.join("f").exists());
    living.kill().unwrap();
    living.wait().unwrap();
    export(&server.address, "/", &to).is_done();
    fs::remove_file(mine).unwrap();
    tree::are_equal(&from, &to);
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
}

#[test]
fn an_interrupted_transfer_prints_its_summary_and_leaves_no_partial_file() {
    let (fake, scratch) = (hanging(), tempfile::tempdir().unwrap());
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::create_dir(&to).unwrap();
    let (exporting, temporary) = waiting(&fake, &to);
    interrupt(&exporting);
    let run = Run::from_output(exporting.wait_with_output().unwrap());
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().ends_with("; interrupted: run it again to go on"), "{run:#?}");
    assert!(!temporary.exists() && tree::seen(&to).is_empty());

    write(&from.join("f"), &bytes(1 << 20, 1), 1);
    let (come, coming) = std::sync::mpsc::channel();
    let come = Mutex::new(come);
    let fake = Fake::start(move |request: Request| {
        let is_file = !request.uri().path().ends_with('/');
        if is_file {
            come.lock().unwrap().send(()).unwrap();
        }
        async move {
            match *request.method() {
                Method::GET => page(&[], None),
                _ if is_file => std::future::pending().await,
                _ => "{}".into_response(),
            }
        }
    });
    let importing = command(&fake.address, &[&"import", &from]).stdout(Stdio::piped()).spawn().unwrap();
    coming.recv().unwrap();
    interrupt(&importing);
    let run = Run::from_output(importing.wait_with_output().unwrap());
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().starts_with("0 files sent") && run.last().contains("; interrupted: "), "{run:#?}");
}
