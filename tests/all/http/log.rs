//! The log of the program: lines of requests, of damage, of moves and copies, and the audit log.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::process::{ask, get, put};
use crate::server::terminate;

/// A server that logs to a file, and its address.
fn serve_with_log(scratch: &Path) -> (Child, PathBuf, String) {
    serve_with_filter(scratch, "")
}

/// As [`serve_with_log`], with this `RUST_LOG`.
fn serve_with_filter(scratch: &Path, filter: &str) -> (Child, PathBuf, String) {
    let log = scratch.join("log");
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowdrive"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(scratch.join("data"))
        .env("RUST_LOG", filter)
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let address = line.trim().split("http://").nth(1).unwrap().trim_end_matches('/').to_owned();
    (child, log, address)
}

/// The text of a log, and its parsed lines.
fn lines_of(log: &Path) -> (String, Vec<Value>) {
    let log = std::fs::read_to_string(log).unwrap();
    let lines = log.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    (log, lines)
}

/// Damages each content file. Returns their number.
fn damage_content(scratch: &Path) -> usize {
    let folders = std::fs::read_dir(scratch.join("data/content")).unwrap().map(|folder| folder.unwrap().path());
    let files: Vec<_> =
        folders.flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|f| f.unwrap().path()).collect();
    for file in &files {
        let mut bytes = std::fs::read(file).unwrap();
        bytes[1000] ^= 1;
        std::fs::write(file, bytes).unwrap();
    }
    files.len()
}

/// Sends JSON, or no body if it is null. `request`: method and target. `header`: a header line, or an empty text.
fn send(address: &str, request: &str, header: &str, body: &Value) -> String {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let header = if header.is_empty() { String::new() } else { format!("\r\n{header}") };
    let kind = "Content-Type: application/json";
    let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}{header}");
    ask(address, &format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

fn post(address: &str, target: &str, header: &str, body: &Value) -> String {
    send(address, &format!("POST {target}"), header, body)
}

fn basic(name: &str, password: &str) -> String {
    format!("Authorization: Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

#[test]
fn damage_is_logged_once_with_the_path_of_its_file() {
    let scratch = tempfile::tempdir().unwrap();
    // With errors alone in the log, too, its line names the request.
    let (mut child, log, address) = serve_with_filter(scratch.path(), "error");
    assert!(put(&address, "/v1/fs/d/photo.jpg", &"x".repeat(600_000)).starts_with("HTTP/1.1 201 "));
    assert_eq!(damage_content(scratch.path()), 1);
    let answer = get(&address, "/v1/fs/d/photo.jpg").to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 5"), "{answer}");
    let id = answer.split("x-request-id: ").nth(1).unwrap().lines().next().unwrap();
    terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (log, lines) = lines_of(&log);
    assert_eq!((lines.len(), &lines[0]["level"]), (1, &"ERROR".into()), "{log}");
    assert!(log.contains("/d/photo.jpg") && log.contains("block 0 does not match") && log.contains(id), "{log}");
}

#[test]
fn damage_in_a_copied_folder_is_logged_with_its_first_path_and_a_count() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut child, log, address) = serve_with_log(scratch.path());
    for name in ["1", "2", "3"] {
        let put = put(&address, &format!("/v1/fs/from/d/{name}"), &"x".repeat(600_000));
        assert!(put.starts_with("HTTP/1.1 201 "));
    }
    assert!(put(&address, "/v1/fs/from/e/sound", "sound").starts_with("HTTP/1.1 201 "));
    assert_eq!(damage_content(scratch.path()), 3);
    let answer = post(&address, "/v1/copy", "", &json!({"from": "/from", "to": "/to"}));
    assert!(answer.starts_with("HTTP/1.1 500 ") && answer.contains("/problems/damaged"), "{answer}");
    assert!(!answer.contains("/from") && !answer.contains("block"), "{answer}");
    assert!(get(&address, "/v1/fs/to/e/sound").ends_with("\r\n\r\nsound"));
    terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (log, lines) = lines_of(&log);
    let damaged: Vec<_> = lines.iter().filter(|line| line["fields"]["damaged"] == 3).collect();
    let errors: Vec<_> = lines.iter().filter(|line| line["level"] == "ERROR").collect();
    assert_eq!((damaged.len(), errors.len()), (1, 1), "{log}");
    assert!(damaged[0]["fields"]["path"].as_str().unwrap().contains("/from/d/"), "{log}");
    // Both lines belong to one request.
    assert!(damaged[0]["span"]["id"].is_string() && damaged[0]["span"] == errors[0]["span"], "{log}");
}

#[test]
fn every_log_line_is_json_for_any_request() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut child, log, address) = serve_with_log(scratch.path());
    let asked = ["/v1/fs/%0A%1B[31m\"x\\", "/v1/fs/\u{202e}照", "/healthz?secret=1"];
    for path in asked {
        get(&address, path);
    }
    terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (log, lines) = lines_of(&log);
    let access: Vec<_> = lines.iter().filter(|l| l["target"] == "access").map(|l| &l["fields"]).collect();
    assert_eq!(access.len(), asked.len(), "{log}");
    for (fields, status) in access.iter().zip([400, 404, 200]) {
        assert_eq!(fields["status"], status, "{fields}");
        assert!(fields["id"].is_string() && fields["ms"].is_number() && fields["bytes"].is_number(), "{fields}");
        assert_eq!(fields["method"], "GET");
    }
    assert!(!log.contains("secret=1") && !log.contains('\u{1b}') && !log.contains('\u{202e}'), "{log}");
}

#[test]
fn the_log_tells_what_is_moved_and_copied_and_to_where() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut child, log, address) = serve_with_log(scratch.path());
    assert!(put(&address, "/v1/fs/a%E2%80%AE/f", "x").starts_with("HTTP/1.1 201 "));
    for (route, to, status) in [("copy", "/g", "201"), ("move", "/g", "409"), ("move", "/../g", "400")] {
        let answer = post(&address, &format!("/v1/{route}"), "", &json!({"from": "/a\u{202e}/f", "to": to}));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (log, lines) = lines_of(&log);
    let told: Vec<_> = lines.iter().filter(|line| line["fields"]["from"].is_string()).collect();
    let access: Vec<_> = lines.iter().filter(|line| line["fields"]["method"] == "POST").collect();
    assert_eq!((told.len(), access.len()), (2, 3), "{log}");
    for (told, access) in told.iter().zip(access) {
        let fields = &told["fields"];
        assert_eq!([&fields["from"], &fields["to"]], ["/a%E2%80%AE/f", "/g"], "{log}");
        assert!(fields["overwrite"] == false && told["span"]["id"] == access["fields"]["id"], "{log}");
    }
}

#[test]
fn no_secret_that_is_sent_in_a_wrong_place_is_in_the_log() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut child, log, address) = serve_with_log(scratch.path());
    let first = std::fs::read_to_string(scratch.path().join("data/first-user-secret")).unwrap();
    let user = json!({"name": "eve", "password": "correct horse"});
    assert!(post(&address, "/v1/users", first.trim_end(), &user).starts_with("HTTP/1.1 201 "));
    let eve = basic("eve", "correct horse");
    let made = post(&address, "/v1/shares", &eve, &json!({"path": "/", "mode": "read"}));
    let share = made.split("\"url\":\"/s/").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let made = post(&address, "/v1/tokens", &eve, &json!({"name": "x"}));
    let token = made.split("\"secret\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    for secret in [&share, &token] {
        for mistaken in [
            "",
            "s/",
            "S/",
            "%73/",
            "s%2f",
            "/s/",
            "s//",
            "s/x/",
            "s/./",
            "s/../",
            "s/-/fs/",
            "drive/s/",
            "./s/",
            "x/../s/",
            "v1/s/",
            "s;x/",
            "%20s/",
            "v1/tokens/",
            "v1/sessions/",
            "v1/shares/",
            "v1/users/",
            "docs/",
        ] {
            get(&address, &format!("/{mistaken}{secret}/fs/"));
            get(&address, &format!("/{mistaken}{secret}"));
        }
        get(&address, &format!("/s/{share}/s/{secret}/"));
        ask(&address, &format!("{secret} / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        for name in [basic(secret, "x"), basic(secret, "rd_none"), basic("eve", secret)] {
            let refused = post(&address, "/v1/grants", &name, &json!({}));
            assert!(refused.split(' ').nth(1).is_some_and(|status| ["401", "405"].contains(&status)), "{refused}");
        }
        post(&address, "/v1/session", "", &json!({"user": secret, "password": "wrong horse"}));
    }
    terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (log, lines) = lines_of(&log);
    let count = |target: &str| lines.iter().filter(|line| line["target"] == target).count();
    assert!(count("access") > 90 && count("audit") > 8, "{log}");
    assert!(!log.contains(&share) && !log.contains(&token), "{log}");
    assert!(!log.contains("horse"), "{log}");
}

#[test]
fn the_audit_log_has_logins_refusals_and_changes_but_no_secret() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut child, log, address) = serve_with_log(scratch.path());
    let post = |target: &str, header: &str, body: Value| post(&address, target, header, &body);
    let (right, wrong) = ("correct horse", "incorrect horse");
    let by_eve = basic("eve", right);
    let begin = |answer: String| answer.split(' ').nth(1).unwrap().to_owned();
    let file = scratch.path().join("data/first-user-secret");
    let secret = std::fs::read_to_string(&file).unwrap().trim_end().to_owned();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let statuses = [
        post("/v1/users", "", json!({"name": "eve", "password": right})),
        post("/v1/users", &secret, json!({"name": "eve", "password": right})),
        post("/v1/session", "", json!({"user": "eve", "password": right})),
        post("/v1/session", "", json!({"user": "EVE", "password": wrong})),
        post("/v1/session", "", json!({"user": "not / a name", "password": wrong})),
        post("/v1/session", "", json!({"user": "battery-horse", "password": wrong})),
        post("/v1/tokens", "Authorization: Bearer rd_none", json!({"name": "x"})),
        post("/v1/tokens", &by_eve, json!({"name": "x"})),
        post("/v1/users", &by_eve, json!({"name": "tom", "password": right})),
        post("/v1/users", &basic("tom", right), json!({"name": "max", "password": right})),
        post("/v1/tokens", &basic("rd_none", "x"), json!({"name": "x"})),
    ]
    .map(begin);
    assert_eq!(statuses, ["403", "201", "204", "401", "401", "401", "401", "201", "201", "403", "401"]);
    assert!(!file.exists());
    let made = post("/v1/shares", &by_eve, json!({"path": "/", "mode": "read"}));
    let secret = made.split("\"url\":\"/s/").nth(1).unwrap().split('/').next().unwrap().to_owned();
    for path in ["fs/", "fs/", "fs/none", "none"] {
        get(&address, &format!("/s/{secret}/{path}"));
    }
    terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (log, lines) = lines_of(&log);
    let audit: Vec<_> = lines.iter().filter(|line| line["target"] == "audit").collect();
    let said = |name: &str| audit.iter().map(|line| line["fields"][name].clone()).collect::<Vec<_>>();
    let null = Value::Null;
    let of_users = ["user-made", "login", "refused", "refused", "refused", "refused", "token-made", "user-made"];
    let events = [&of_users[..], &["refused", "share-made", "share-used"]].concat();
    assert_eq!(said("event"), events, "{log}");
    // In any spelling; of what is no user nothing.
    let eve = json!("eve");
    let users = [&null, &eve, &eve, &null, &null, &null, &eve, &eve, &null, &eve, &null];
    assert_eq!(said("user").iter().collect::<Vec<_>>(), users, "{log}");
    let refused = lines.iter().filter(|line| line["target"] == "access" && line["fields"]["status"] == 403);
    assert_eq!(refused.map(|line| line["fields"]["user"].clone()).collect::<Vec<_>>(), [null, json!("tom")], "{log}");
    let paths = lines.iter().filter(|line| line["target"] == "access").map(|line| line["fields"]["path"].clone());
    let share = format!("/s/{}/fs/", said("credential")[10].as_str().unwrap());
    assert_eq!(paths.filter(|path| *path == share.as_str()).count(), 2, "{log}");
    assert!(!log.contains(&secret), "{log}");
    assert!(said("address").iter().all(|address| address == "127.0.0.1"), "{log}");
    assert!(audit.iter().all(|line| line["span"]["id"].is_string()), "{log}");
    assert!(said("credential")[1].is_string() && said("credential")[6].is_null(), "{log}");
    assert!(said("object")[0] == "eve" && said("object")[6].is_string(), "{log}");
    assert!(!log.contains("horse") && !log.contains("rd_"), "{log}");
}

#[test]
fn the_audit_log_says_what_was_set_of_a_user_and_which_rights_were_given() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut child, log, address) = serve_with_log(scratch.path());
    let secret = std::fs::read_to_string(scratch.path().join("data/first-user-secret")).unwrap();
    let eve = basic("eve", "correct horse");
    let must_send = |request: &str, header: &str, body: Value| {
        let answer = send(&address, request, header, &body);
        assert!(answer.starts_with("HTTP/1.1 20"), "{request} {answer}");
    };
    must_send("POST /v1/users", secret.trim_end(), json!({"name": "eve", "password": "correct horse"}));
    let home = "/all pictures";
    must_send("POST /v1/users", &eve, json!({"name": "tom", "password": "battery horse", "home": home}));
    must_send("POST /v1/users", &eve, json!({"name": "max", "password": "battery horse", "admin": true, "home": null}));
    let (quota, none) = (json!({"bytes": 1_000, "files": null}), Value::Null);
    for change in [
        json!({"disabled": true, "admin": false}),
        json!({"password": "staple horse", "display": "Horse"}),
        json!({"quota": quota, "disabled": false}),
        json!({}),
    ] {
        must_send("PATCH /v1/users/max", &eve, change);
    }
    for rights in [json!(["write"]), json!(["share", "write"])] {
        must_send("PUT /v1/grants", &eve, json!({"path": home, "user": "max", "rights": rights}));
    }
    must_send("DELETE /v1/grants?path=/all%20pictures&user=max", &eve, none.clone());
    terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (log, lines) = lines_of(&log);
    let audit = lines.iter().filter(|line| line["target"] == "audit").map(|line| &line["fields"]);
    let said: Vec<_> = audit.map(|line| ["event", "object", "change"].map(|name| line[name].clone())).collect();
    let expected = [
        ["user-made", "eve", "admin=true home=/home/eve"],
        ["user-made", "tom", "admin=false home=/all pictures"],
        ["user-made", "max", "admin=true"],
        ["user-changed", "max", "admin=false disabled=true"],
        ["user-changed", "max", "display password"],
        ["user-changed", "max", "disabled=false quota.bytes=1000 quota.files=none"],
        ["user-changed", "max", ""],
        ["grant-given", "max /all pictures", "rights=read,write"],
        ["grant-given", "max /all pictures", "rights=read,write,share"],
        ["grant-taken", "max /all pictures", ""],
    ];
    // What is not set is no field.
    let expected = expected.map(|texts| texts.map(|text| if text.is_empty() { none.clone() } else { json!(text) }));
    assert_eq!(said, expected, "{log}");
    assert!(!log.to_lowercase().contains("horse"), "{log}");
}
