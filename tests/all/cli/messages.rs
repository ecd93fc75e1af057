//! What the commands say of a refusal: in their own words, and what to do about it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use rowdrive::api::problem::NO_RIGHT;
use serde_json::json;

use super::fake_server::{Fake, directory, problem};
use super::rowdrive;
use super::tree::write;
use super::users::{Drive, secret};

#[test]
fn a_token_that_the_server_does_not_know_is_named_with_its_file() {
    let drive = Drive::new();
    let token = secret(drive.folder.path(), "phone.token", "rd_0123456789");
    let refused = drive.run(&[&"ls", &"/", &"--token-file", &token]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for part in ["(401)", token.to_str().unwrap(), "ROWDRIVE_TOKEN_FILE", "rowdrive token add"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    assert!(!refused.err.contains("rd_0123456789"), "{refused:?}");
}

#[test]
fn who_has_no_right_is_told_what_he_may_do() {
    let drive = Drive::new();
    drive.add("tom");
    drive.by("eve", &[&"mkdir", &"/pictures"]).is_done();
    drive.by("eve", &[&"grant", &"set", &"/pictures", &"tom", &"read"]).is_done();
    let rights = "; tom may read, write and share in /home/tom, read in /pictures\n";
    let refused = drive.by("tom", &[&"mkdir", &"/pictures/new"]);
    assert!(refused.code == Some(1) && refused.err.ends_with(&format!("(403){rights}")), "{refused:?}");
    // What is for admins is no right on a folder.
    let refused = drive.by("tom", &[&"user", &"list"]);
    assert!(refused.code == Some(1) && !refused.err.contains(rights), "{refused:?}");
}

/// As with the cp of a shell.
#[test]
fn who_copies_onto_a_folder_is_told_to_write_the_new_path_in_full() {
    let drive = Drive::new();
    drive.add("tom");
    let from = drive.folder.path().join("from");
    write(&from.join("f"), b"x", 1);
    drive.by("tom", &[&"import", &from, &"/home/tom"]).is_done();
    drive.by("tom", &[&"mkdir", &"/home/tom/sub"]).is_done();
    for (command, to, status) in [("cp", "/home/tom/sub", "(409)"), ("mv", "/home/tom", "(403)")] {
        let refused = drive.by("tom", &[&command, &"/home/tom/f", &to]);
        let inside = format!("{status}; {to} is a folder: to put it in there, write the new path in full, as in ");
        assert!(refused.code == Some(1) && refused.err.contains(&inside), "{refused:?}");
        assert!(refused.err.ends_with(&format!("{to}/f\n")), "{refused:?}");
    }
    // A token says what it may do itself.
    let token = drive.folder.path().join("token");
    drive
        .by("tom", &[&"token", &"add", &"t", &"--path", &"/home/tom/sub", &"--rights", &"read", &"--out", &token])
        .is_done();
    let refused = drive.run(&[&"mkdir", &"/home/tom/sub/new", &"--token-file", &token]);
    assert!(refused.err.ends_with("(403); this token may read in /home/tom/sub\n"), "{refused:?}");
}

#[test]
fn a_copy_that_is_broken_off_says_that_a_part_may_be_there_and_is_completed() {
    let drive = Drive::new();
    drive.add("tom");
    let from = drive.folder.path().join("from");
    for name in ["f", "g", "h"] {
        write(&from.join(name), &[b'x'; 1000], 1);
    }
    drive.by("tom", &[&"import", &from, &"/home/tom/a"]).is_done();
    drive.by("eve", &[&"user", &"quota", &"tom", &"--bytes", &"5000"]).is_done();
    let refused = drive.by("tom", &[&"cp", &"/home/tom/a", &"/home/tom/b"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let part = "; /home/tom/b may hold a part of the copy now, which the same command with --overwrite completes\n";
    assert!(refused.err.contains("(507)") && refused.err.ends_with(part), "{refused:?}");
    // Of a file there is no part, and what is refused at once has none either.
    drive.by("eve", &[&"user", &"quota", &"tom", &"--bytes", &"0"]).is_done();
    for [from, to] in [["/home/tom/a/f", "/home/tom/i"], ["/home/tom/a", "/home/tom/b"]] {
        let refused = drive.by("tom", &[&"cp", &from, &to]);
        assert!(refused.code == Some(1) && !refused.err.contains("may hold"), "{refused:?}");
    }
    drive.by("eve", &[&"user", &"quota", &"tom", &"--bytes", &"none"]).is_done();
    drive.by("tom", &[&"cp", &"/home/tom/a", &"/home/tom/b", &"--overwrite"]).is_done();
    assert_eq!(drive.printed("tom", &[&"ls", &"/home/tom/b"]), "f\ng\nh\n");
}

/// Its right has ended after it had made the folder: it was no copy onto a folder.
#[test]
fn a_copy_that_is_forbidden_in_the_middle_says_that_a_part_may_be_there() {
    let is_begun = Arc::new(AtomicBool::new(false));
    let fake = Fake::start(move |request: Request| {
        let is_begun = is_begun.clone();
        async move {
            match request.uri().path() {
                "/v1/copy" => {
                    is_begun.store(true, Ordering::Relaxed);
                    let body = json!({ "type": "/problems/forbidden", "status": 403, "detail": NO_RIGHT });
                    (StatusCode::FORBIDDEN, body.to_string()).into_response()
                }
                "/v1/stat/to" if is_begun.load(Ordering::Relaxed) => directory("to").to_string().into_response(),
                _ => problem(404, "not-found"),
            }
        }
    });
    let refused = rowdrive(&fake.address, &[&"cp", &"/from", &"/to"]);
    let part = "(403); /to may hold a part of the copy now, which the same command with --overwrite completes\n";
    assert!(refused.code == Some(1) && refused.err.ends_with(part), "{refused:?}");
}

#[test]
fn a_copy_or_move_that_has_lost_its_server_says_what_may_be_done() {
    let fake = Fake::start(|request: Request| async move {
        // A panic closes the connection.
        assert!(!["/v1/copy", "/v1/move"].contains(&request.uri().path()), "the connection breaks");
        problem(404, "not-found")
    });
    let copied = "the copy may be done, or /to may hold a part of the copy now, which the same command with --overwrite \
                  completes";
    for (command, outcome) in [("cp", copied), ("mv", "the move may be done: look before you repeat it")] {
        let broken = rowdrive(&fake.address, &[&command, &"/from", &"/to"]);
        assert!(broken.code == Some(3) && broken.err.ends_with(&format!("; {outcome}\n")), "{broken:?}");
    }
}

const FILES: usize = 40;

fn write_files(at: &Path) {
    for name in 0..FILES {
        write(&at.join(format!("{name:02}")), b"x", 1);
    }
    write(&at.join("tom/f"), b"x", 1);
}

#[test]
fn an_import_to_where_the_user_may_write_nothing_ends_at_the_first_refusal() {
    let drive = Drive::new();
    drive.add("tom");
    let from = drive.folder.path().join("from");
    write_files(&from);
    drive.by("eve", &[&"mkdir", &"/pictures/tom"]).is_done();
    drive.by("eve", &[&"grant", &"set", &"/pictures", &"tom", &"read"]).is_done();
    let run = drive.by("tom", &[&"import", &from, &"/pictures"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    let failed = run.named("failed");
    let is_told = |line: &str| line.starts_with("/pictures on the drive, and all below it: You have no right to this");
    assert!(failed.len() == 1 && is_told(failed[0]), "{run:#?}");
    assert!(run.last().starts_with("0 files sent ") && run.last().contains(" 1 failed; given up"), "{run:#?}");

    // Where he may write somewhere below, the refused files are named, and the others are sent.
    drive.by("eve", &[&"grant", &"set", &"/pictures/tom", &"tom", &"write"]).is_done();
    let run = drive.by("tom", &[&"import", &from, &"/pictures"]);
    assert_eq!(run.code, Some(1), "{run:#?}");
    assert!(run.last().starts_with("1 files sent (1 bytes)"), "{run:#?}");
    assert!(run.last().ends_with(&format!(" {FILES} failed")), "{run:#?}");
    assert_eq!(run.named("failed").len(), FILES, "{run:#?}");
    assert_eq!(drive.printed("tom", &[&"ls", &"/pictures/tom"]), "f\n");
}
