//! Users, tokens, grants and shares by the commands, and the commands as a user.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fake_server::{Fake, page};
use super::{Run, command, rowdrive};
use crate::server::Server;

const PASSWORD: &str = "correct horse battery";

/// A file with a secret, which its owner alone may read.
pub fn secret(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn joined<'a>(first: &[&'a dyn AsRef<OsStr>], rest: &[&'a dyn AsRef<OsStr>]) -> Vec<&'a dyn AsRef<OsStr>> {
    [first, rest].concat()
}

/// A drive whose first user is Eve, and a file with the password that all users have.
pub struct Drive {
    server: Server,
    pub folder: tempfile::TempDir,
    password: PathBuf,
}

impl Drive {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (password, data) = (secret(folder.path(), "password", PASSWORD), folder.path().join("drive"));
        let first: &[&dyn AsRef<OsStr>] = &[&"user", &"add", &"eve", &"--display", &"Eve E.", &"--data", &data];
        let first = rowdrive("127.0.0.1:1", &joined(first, &[&"--new-password-file", &password]));
        assert_eq!(first.code, Some(0), "{first:?}");
        Self { server: Server::start_on(&data, &[]), folder, password }
    }

    pub fn run(&self, arguments: &[&dyn AsRef<OsStr>]) -> Run {
        rowdrive(&self.server.address, arguments)
    }

    /// As a user, by his password.
    pub fn by(&self, user: &str, arguments: &[&dyn AsRef<OsStr>]) -> Run {
        let who: [&dyn AsRef<OsStr>; 4] = [&"--user", &user, &"--password-file", &self.password];
        self.run(&[arguments, &who].concat())
    }

    pub fn printed(&self, user: &str, arguments: &[&dyn AsRef<OsStr>]) -> String {
        let run = self.by(user, arguments);
        run.is_done();
        run.out
    }

    pub fn add(&self, name: &str) {
        self.printed("eve", &[&"user", &"add", &name, &"--new-password-file", &self.password]);
    }
}

#[test]
fn an_admin_makes_changes_and_removes_users() {
    let drive = Drive::new();
    let printed = |arguments: &[&dyn AsRef<OsStr>]| drive.printed("eve", arguments);
    let new: [&dyn AsRef<OsStr>; 2] = [&"--new-password-file", &drive.password];
    assert_eq!(printed(&joined(&[&"user", &"add", &"tom"], &new)), "tom\n");
    printed(&joined(&[&"user", &"add", &"guest", &"--no-home"], &new));
    let max = drive.by("eve", &joined(&[&"user", &"add", &"max", &"--home", &"/w/max", &"--admin"], &new));
    assert!(max.code == Some(0) && max.err.contains("max has all rights on /w/max"), "{max:?}");
    let json = printed(&joined(&[&"user", &"add", &"ann", &"--json"], &new));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["name"], "ann");
    assert_eq!(printed(&[&"user", &"list"]), USERS);
    assert!(drive.printed("max", &[&"ls", &"/w"]).contains("max/"));
    assert_eq!(printed(&[&"user", &"disable", &"TOM"]), "tom  disabled\n");
    let refused = drive.by("tom", &[&"ls", &"/"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    // It has sent a name and a password, and so is not told to.
    assert!(refused.err.contains("(401)") && !refused.err.contains("--"), "{refused:?}");
    assert_eq!(printed(&[&"user", &"enable", &"tom"]), "tom\n");
    drive.by("tom", &[&"ls", &"/home/tom"]).is_done();
    let removed = printed(&[&"user", &"remove", &"tom"]);
    assert!(removed.starts_with("tom is removed") && removed.contains("His files stay"), "{removed}");
    assert_eq!(drive.by("tom", &[&"ls", &"/home/tom"]).code, Some(1));
    let refused = drive.by("ann", &[&"user", &"list"]);
    assert!(refused.code == Some(1) && refused.err.contains("(403)"), "{refused:?}");
    // Nobody, and a name alone, is nobody any more.
    for server in ["", "tom@"] {
        let url = format!("http://{server}{}", drive.server.address);
        let refused = Run::from_output(command("unused", &[&"ls", &"/", &"--server", &url]).output().unwrap());
        let is_told =
            refused.err.contains("(401)") && refused.err.contains("--user") && refused.err.contains("--token-file");
        assert!(refused.code == Some(2) || is_told, "{refused:?}");
    }
}

/// Eve has made the homes, and is their creator.
const USERS: &str = "ann  0 B  0 files and folders\neve  admin  Eve E.  0 B  6 files and folders\n\
    guest  0 B  0 files and folders\nmax  admin  0 B  0 files and folders\ntom  0 B  0 files and folders\n";

#[test]
fn an_admin_makes_others_admins_and_takes_it_back() {
    let drive = Drive::new();
    drive.add("tom");
    for arguments in [["promote", "tom"], ["demote", "eve"]] {
        let refused = drive.by("tom", &[&"user", &arguments[0], &arguments[1]]);
        assert!(refused.code == Some(1) && refused.err.contains("(403)"), "{refused:?}");
    }
    let last = drive.by("eve", &[&"user", &"demote", &"eve"]);
    assert!(last.code == Some(1) && last.err.contains("user promote"), "{last:?}");
    assert_eq!(drive.printed("eve", &[&"user", &"promote", &"TOM"]), "tom  admin\n");
    assert_eq!(drive.printed("tom", &[&"user", &"demote", &"eve"]), "eve  Eve E.\n");
    assert_eq!(drive.by("eve", &[&"user", &"list"]).code, Some(1));
    let json = drive.printed("tom", &[&"user", &"promote", &"eve", &"--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["admin"], true);
    assert_eq!(drive.printed("tom", &[&"user", &"remove", &"eve", &"--json"]), "");
}

#[test]
fn an_admin_shows_and_sets_quotas() {
    let drive = Drive::new();
    drive.add("tom");
    let file = drive.folder.path().join("f");
    fs::write(&file, vec![b'x'; 2048]).unwrap();
    let quota =
        |arguments: &[&dyn AsRef<OsStr>]| drive.printed("eve", &joined(&[&"user", &"quota", &"tom"], arguments));
    assert_eq!(quota(&[]), "tom  0 B  0 files and folders\n");
    assert_eq!(quota(&[&"--bytes", &"3KiB"]), "tom  0 B of 3.00 KiB  0 files and folders\n");
    assert_eq!(quota(&[&"--files", &"5"]), "tom  0 B of 3.00 KiB  0 of 5 files and folders\n");
    let folder = drive.folder.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::rename(&file, folder.join("f")).unwrap();
    drive.printed("tom", &[&"import", &folder, &"/home/tom"]);
    let is = "tom  2.00 KiB of 3.00 KiB  1 of 5 files and folders\n";
    assert_eq!(drive.printed("tom", &[&"user", &"quota", &"TOM"]), is, "his own");
    assert!(drive.printed("eve", &[&"user", &"list"]).ends_with(is));
    let json: serde_json::Value = serde_json::from_str(&quota(&[&"--json", &"--bytes", &"none"])).unwrap();
    assert_eq!(json["quota"], serde_json::json!({"bytes": null, "files": 5}));
    assert_eq!(quota(&[&"--files", &"none", &"--bytes", &"0"]), "tom  2.00 KiB of 0 B  1 files and folders\n");
    let refused = drive.by("tom", &[&"cp", &"/home/tom/f", &"/home/tom/g"]);
    let is_told = refused.err.contains("(507)") && refused.err.contains("rowdrive user quota");
    assert!(refused.code == Some(1) && is_told && !refused.err.contains("/v1/"), "{refused:?}");
    let refused = drive.by("tom", &[&"user", &"quota", &"tom", &"--bytes", &"none"]);
    assert!(refused.code == Some(1) && refused.err.contains("(403)"), "{refused:?}");
    for wrong in [
        &[&"--bytes" as &dyn AsRef<OsStr>, &"much"][..],
        &[&"--bytes", &"-5"],
        &[&"--files", &"-1"],
        &[&"--files", &"1KiB"],
    ] {
        let refused = drive.by("eve", &joined(&[&"user", &"quota", &"tom"], wrong));
        assert!(refused.code == Some(2) && refused.err.contains("write a number of"), "{refused:?}");
    }
}

/// What would be part of another address, or none.
#[test]
fn what_can_be_no_name_and_no_id_is_not_sent() {
    let nobody = "127.0.0.1:1";
    for bad in ["", ".", "..", "a/b", "%2e%2e", "x y"] {
        let commands: [&[&dyn AsRef<OsStr>]; 15] = [
            &[&"share", &"remove", &bad],
            &[&"share", &"remove", &"00000000-0000-4000-8000-000000000000", &"--of", &bad],
            &[&"share", &"list", &"--of", &bad],
            &[&"token", &"remove", &bad],
            &[&"token", &"list", &"--of", &bad],
            &[&"grant", &"set", &"/d", &bad, &"read"],
            &[&"grant", &"remove", &"/d", &bad],
            &[&"grant", &"list", &"--to", &bad],
            &[&"user", &"add", &bad],
            &[&"user", &"passwd", &bad],
            &[&"user", &"disable", &bad],
            &[&"user", &"promote", &bad],
            &[&"user", &"demote", &bad],
            &[&"user", &"remove", &bad],
            &[&"user", &"quota", &bad],
        ];
        for command in commands {
            let refused = rowdrive(nobody, command);
            let is_told =
                refused.err.contains("write the id as the list shows it") || refused.err.contains("a user name");
            assert!(refused.code == Some(2) && is_told, "{bad:?}: {refused:?}");
        }
    }
}

#[test]
fn a_user_gives_himself_a_new_password_with_the_old_one_and_an_admin_everybody() {
    let drive = Drive::new();
    drive.add("tom");
    let other = secret(drive.folder.path(), "other", "staple of paper");
    let new: [&dyn AsRef<OsStr>; 2] = [&"--new-password-file", &other];
    assert_eq!(drive.printed("tom", &joined(&[&"user", &"passwd"], &new)), "tom\n");
    assert_eq!(drive.by("tom", &[&"ls", &"/home/tom"]).code, Some(1), "the old one");
    let by_new = drive.run(&[&"ls", &"/home/tom", &"--user", &"tom", &"--password-file", &other]);
    by_new.is_done();
    let refused =
        drive.run(&joined(&[&"user", &"passwd", &"eve", &"--user", &"tom", &"--password-file", &other], &new));
    assert!(refused.code == Some(1) && refused.err.contains("(403)"), "{refused:?}");
    // She needs no old one, also not for her own.
    let old: [&dyn AsRef<OsStr>; 2] = [&"--new-password-file", &drive.password];
    assert_eq!(drive.printed("eve", &joined(&[&"user", &"passwd", &"TOM"], &old)), "tom\n");
    drive.by("tom", &[&"ls", &"/home/tom"]).is_done();
    assert_eq!(drive.printed("eve", &joined(&[&"user", &"passwd"], &new)), "eve  admin  Eve E.\n");
    let missing =
        drive.run(&joined(&[&"user", &"passwd", &"none", &"--user", &"eve", &"--password-file", &other], &new));
    assert!(missing.code == Some(1) && missing.err.contains("(404)"), "{missing:?}");
}

#[test]
fn all_commands_work_as_the_user_of_a_token() {
    let drive = Drive::new();
    drive.add("tom");
    let token = drive.folder.path().join("tom.token");
    let made = drive.printed("tom", &[&"token", &"add", &"laptop", &"--out", &token]);
    assert!(made.contains("  laptop  account  made 20") && !made.contains("rd_"), "{made}");
    assert_eq!(fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    let from = drive.folder.path().join("from");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("f"), "content").unwrap();
    let to = drive.folder.path().join("to");
    let run = |arguments: &[&dyn AsRef<OsStr>]| {
        let run = drive.run(&[arguments, &[&"--token-file", &token]].concat());
        run.is_done();
        run.out
    };
    run(&[&"import", &from, &"/home/tom/d"]);
    assert_eq!(run(&[&"ls", &"/home/tom/d"]), "f\n");
    run(&[&"cp", &"/home/tom/d/f", &"/home/tom/d/g"]);
    run(&[&"mv", &"/home/tom/d/g", &"/home/tom/d/h"]);
    assert!(run(&[&"stat", &"/home/tom/d/h"]).contains("creator   tom\n"));
    assert_eq!(run(&[&"find", &"h"]), "/home/tom/d/h\n");
    run(&[&"rm", &"/home/tom/d/h"]);
    run(&[&"export", &"/home/tom/d", &to]);
    assert_eq!(fs::read_to_string(to.join("f")).unwrap(), "content");
    // The variable names the file; a user on the command line goes before it.
    let with_variable = |arguments: &[&dyn AsRef<OsStr>]| {
        let mut command = command(&drive.server.address, arguments);
        Run::from_output(command.env("ROWDRIVE_TOKEN_FILE", &token).output().unwrap())
    };
    with_variable(&[&"ls", &"/home/tom"]).is_done();
    let by_eve = with_variable(&[&"user", &"list", &"--user", &"eve", &"--password-file", &drive.password]);
    by_eve.is_done();
    // It is listed, and ended.
    let listed = run(&[&"token", &"list"]);
    assert_eq!(listed, made);
    assert_eq!(drive.printed("eve", &[&"token", &"list", &"--of", &"tom"]), made);
    let id = listed.split(' ').next().unwrap().to_owned();
    let taken = drive.by("tom", &[&"token", &"add", &"other", &"--out", &token]);
    assert!(taken.code == Some(3) && taken.err.contains("cannot be made"), "{taken:?}");
    assert_eq!(run(&[&"token", &"list"]), made, "no token without its file");
    run(&[&"token", &"remove", &id]);
    assert_eq!(drive.run(&[&"ls", &"/", &"--token-file", &token]).code, Some(1));
}

#[test]
fn grants_and_narrow_tokens_are_made_listed_and_taken_back() {
    let drive = Drive::new();
    drive.add("tom");
    let empty = drive.folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    drive.printed("eve", &[&"import", &empty, &"/photos"]);
    assert_eq!(
        drive.printed("eve", &[&"grant", &"set", &"/photos", &"tom", &"write,share"]),
        "/photos  tom  read,write,share\n"
    );
    assert_eq!(drive.printed("eve", &[&"grant", &"set", &"/photos", &"*", &"read"]), "/photos  *  read\n");
    assert_eq!(drive.printed("tom", &[&"grant", &"set", &"/photos", &"eve", &"read"]), "/photos  eve  read  by tom\n");
    let all = "/photos  *  read\n/photos  eve  read  by tom\n/photos  tom  read,write,share\n";
    assert_eq!(drive.printed("tom", &[&"grant", &"list", &"/photos"]), all);
    assert_eq!(drive.printed("tom", &[&"grant", &"list"]), "/photos  eve  read  by tom\n");
    assert_eq!(drive.printed("eve", &[&"grant", &"list", &"--to", &"*"]), "/photos  *  read\n");
    drive.printed("eve", &[&"grant", &"remove", &"/photos", &"*"]);
    assert_eq!(drive.printed("eve", &[&"grant", &"list", &"/photos", &"--to", &"*"]), "");
    let narrow: [&dyn AsRef<OsStr>; 7] =
        [&"token", &"add", &"camera", &"--path", &"/photos", &"--rights", &"read,write"];
    let token = drive.printed("tom", &narrow);
    assert!(token.starts_with("rd_") && token.lines().count() == 1, "{token}");
    let listed = drive.printed("tom", &[&"token", &"list"]);
    assert!(listed.contains("  camera  /photos  read,write  made 20"), "{listed}");
    let file = secret(drive.folder.path(), "token", token.trim());
    drive.run(&[&"import", &empty, &"/photos/new", &"--token-file", &file]).is_done();
    assert_eq!(drive.run(&[&"ls", &"/home/tom", &"--token-file", &file]).code, Some(1));
    for wrong in [
        &[&"grant" as &dyn AsRef<OsStr>, &"set", &"/photos", &"tom", &"own"][..],
        &[&"token", &"add", &"x", &"--rights", &"read"],
    ] {
        assert_eq!(drive.by("eve", wrong).code, Some(2));
    }
}

/// What a request of a stranger prints: the body, and the status in a line of its own.
fn curl(arguments: &[&dyn AsRef<OsStr>]) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--write-out", "\n%{http_code}"]);
    let run = Run::from_output(curl.args(arguments.iter().map(|argument| argument.as_ref())).output().unwrap());
    run.is_done();
    let (body, status) = run.out.rsplit_once('\n').unwrap();
    (body.to_owned(), status.to_owned())
}

/// Or uploads could hold it for hours after a restart, and nobody could log in.
#[test]
fn the_memory_for_passwords_is_taken_before_the_first_one() {
    let drive = Drive::new();
    let token = drive.folder.path().join("token");
    drive.by("eve", &[&"token", &"add", &"t", &"--out", &token]).is_done();
    let Drive { server, folder, .. } = drive;
    drop(server);
    let server = Server::start_on(&folder.path().join("drive"), &["--memory", "1GiB"]);
    let bearer = format!("Authorization: Bearer {}", fs::read_to_string(token).unwrap().trim());
    let (metrics, status) = curl(&[&"--header", &bearer, &format!("http://{}/metrics", server.address)]);
    assert_eq!(status, "200", "{metrics}");
    assert!(metrics.contains(&format!("\nrowdrive_buffers_used_bytes {}\n", 64 << 20)), "{metrics}");
}

#[test]
fn links_are_made_listed_and_ended() {
    let drive = Drive::new();
    drive.add("tom");
    let file = drive.folder.path().join("f.txt");
    fs::write(&file, "content").unwrap();
    let tom = |arguments: &[&dyn AsRef<OsStr>]| drive.printed("tom", arguments);
    let end = "2099-12-31T23:59:59.000Z";
    let added: [&dyn AsRef<OsStr>; 8] =
        [&"share", &"add", &"/home/tom/", &"--upload", &"--bytes", &"1KiB", &"--expires", &end];
    let added = drive.by("tom", &added);
    added.is_done();
    let upload = added.out.strip_suffix('\n').unwrap();
    assert!(upload.starts_with(&format!("http://{}/s/", drive.server.address)) && upload.ends_with('/'), "{upload}");
    let (sent, status) = curl(&[&"--upload-file", &file, &format!("{upload}fs/f.txt")]);
    assert_eq!((sent.as_str(), status.as_str()), (r#"{"name":"f.txt","size":7}"#, "201"));
    assert_eq!(curl(&[&format!("{upload}fs/f.txt")]).1, "404");
    // One to read, with a password.
    let read: [&dyn AsRef<OsStr>; 4] = [&"share", &"add", &"/home/tom/f.txt", &"--downloads"];
    let locked: [&dyn AsRef<OsStr>; 4] = [&"2", &"--new-password-file", &drive.password, &"--json"];
    let made: serde_json::Value = serde_json::from_str(&tom(&joined(&read, &locked))).unwrap();
    let read = format!("http://{}{}fs/f.txt", drive.server.address, made["url"].as_str().unwrap());
    assert_eq!(curl(&[&read]).1, "401");
    assert_eq!(curl(&[&"--user", &format!("any:{PASSWORD}"), &read]), ("content".to_owned(), "200".to_owned()));
    // They are listed, those of others by an admin.
    let listed = tom(&[&"share", &"list"]);
    let mut lines: Vec<_> = listed.lines().map(|line| line.split_once("  ").unwrap()).collect();
    lines.sort_by_key(|(_, text)| text.len());
    let told: Vec<_> = added.err.lines().collect();
    assert!(told.len() == 2 && told[0].contains(lines[1].0), "its id alone: {}", added.err);
    assert!(told[1].contains("this machine alone"), "{}", added.err);
    // When each was made is between both.
    let texts: Vec<_> = lines
        .iter()
        .map(|(_, text)| {
            let (before, made) = text.split_once("  made ").unwrap();
            let (time, after) = made.split_at("2099-12-31T23:59:59.000Z".len());
            assert!(time.starts_with("20") && time.ends_with('Z'), "{text}");
            [before, after].concat()
        })
        .collect();
    let expected = [
        "/home/tom/f.txt  read  by tom  1 downloads left  with a password".to_owned(),
        format!("/home/tom  upload  by tom  1017 B left  until {end}"),
    ];
    assert_eq!(texts, expected);
    assert_eq!(drive.printed("eve", &[&"share", &"list", &"--of", &"tom"]), listed);
    assert_eq!(tom(&[&"share", &"list", &"/home/tom"]).lines().count(), 1);
    // Each is ended alone.
    tom(&[&"share", &"remove", &lines[1].0]);
    assert_eq!(curl(&[&"--upload-file", &file, &format!("{upload}fs/g")]).1, "404");
    drive.printed("eve", &[&"share", &"remove", &lines[0].0, &"--of", &"tom"]);
    assert_eq!(tom(&[&"share", &"list"]), "");
    for wrong in [
        &[&"share" as &dyn AsRef<OsStr>, &"add", &"/home/tom", &"--bytes", &"1"][..],
        &[&"share", &"add", &"/home/tom", &"--upload", &"--downloads", &"1"],
        &[&"share", &"add", &"/home/tom", &"--upload", &"--bytes", &"much"],
    ] {
        assert_eq!(drive.by("tom", wrong).code, Some(2));
    }
    // The whole drive.
    for (mode, told) in [(&[][..], "shows the whole drive"), (&[&"--upload" as &dyn AsRef<OsStr>][..], "whole drive")] {
        let added = drive.by("eve", &joined(&[&"share", &"add", &"/"], mode));
        added.is_done();
        assert!(added.out.lines().count() == 1 && added.err.contains(told), "{added:?}");
    }
    let refused = drive.by("tom", &[&"share", &"add", &"/home/tom/f.txt", &"--upload"]);
    assert!(refused.code == Some(1) && refused.err.contains("directory"), "{refused:?}");
    let refused = drive.by("tom", &[&"user", &"list"]);
    assert!(refused.code == Some(1) && refused.err.contains("Only an admin"), "{refused:?}");
}

#[test]
fn a_secret_is_sent_to_no_one_on_the_way_and_read_from_no_open_file() {
    let asked = Fake::start(async |_| page(&[], None));
    let folder = tempfile::tempdir().unwrap();
    let token = secret(folder.path(), "token", "rd_0123456789");
    let to = |server: &str, more: &[&dyn AsRef<OsStr>]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
        command.args(["ls", "/", "--server", server, "--token-file"]).arg(&token).stdin(Stdio::null());
        Run::from_output(command.args(more.iter().map(|argument| argument.as_ref())).output().unwrap())
    };
    // A name of this machine that is no loopback name; nothing needs to answer.
    let plain = to("http://drive.example:8080", &[]);
    assert_eq!(plain.code, Some(3), "{plain:?}");
    assert!(
        plain.err.contains("http://drive.example:8080 is plain http") && plain.err.contains("--insecure-http"),
        "{plain:?}"
    );
    to(&format!("http://{}", asked.address), &[]).is_done();
    let unreachable = to("http://192.0.2.1.invalid:1", &[&"--insecure-http"]);
    assert!(unreachable.err.contains("cannot be reached"), "{unreachable:?}");
    let in_address = to(&format!("http://tom@{}", asked.address), &[]);
    assert!(in_address.code == Some(3) && in_address.err.contains("out of the address"), "{in_address:?}");
    let password = to(&format!("http://tom:secret@{}", asked.address), &[]);
    assert!(password.code == Some(2) && password.err.contains("--password-file"), "{password:?}");

    let url = format!("http://{}", asked.address);
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let open = to(&url, &[]);
    assert!(open.code == Some(3) && open.err.contains("chmod 600"), "{open:?}");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&token, "no token\n").unwrap();
    let no_token = to(&url, &[]);
    assert!(no_token.code == Some(3) && no_token.err.contains("begins with rd_"), "{no_token:?}");
    let missing = to(&url, &[&"--user", &"tom", &"--password-file", &folder.path().join("none")]);
    assert!(missing.code == Some(3) && missing.err.contains("cannot be read"), "{missing:?}");
    let alone = to(&url, &[&"--password-file", &token]);
    assert_eq!(alone.code, Some(2), "{alone:?}");
}

/// Without a terminal the program cannot ask. `script` gives it one.
#[test]
fn a_password_is_asked_for_at_the_terminal_and_not_shown() {
    let drive = Drive::new();
    let password = drive.password.to_str().unwrap();
    for (arguments, option) in [
        (&["ls", "/", "--user", "eve"][..], " --password-file"),
        (&["user", "add", "tom", "--user", "eve", "--password-file", password], " --new-password-file"),
    ] {
        let mut setsid = Command::new("setsid");
        setsid.args(["--wait", env!("CARGO_BIN_EXE_rowdrive")]).args(arguments).arg("--server");
        setsid.arg(format!("http://{}", drive.server.address)).stdin(Stdio::null());
        let refused = Run::from_output(setsid.output().unwrap());
        let is_told = refused.err.contains("no terminal") && refused.err.contains(option);
        assert!(refused.code == Some(3) && is_told, "{refused:?}");
    }
    let typed = |command: &str, lines: &str| {
        let program = env!("CARGO_BIN_EXE_rowdrive");
        let line = format!("{program} {command} --server http://{}", drive.server.address);
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), lines.as_bytes()).unwrap();
        Run::from_output(child.wait_with_output().unwrap())
    };
    let listed = typed("ls /home --user eve", &format!("{PASSWORD}\n"));
    assert!(
        listed.code == Some(0) && listed.out.contains("Password of eve: ") && listed.out.contains("eve/"),
        "{listed:?}"
    );
    assert!(!listed.out.contains("horse"), "{listed:?}");
    let password = drive.password.display();
    let add = format!("user add tom --user eve --password-file {password}");
    let differ = typed(&add, "one password\nanother password\n");
    assert!(differ.code == Some(3) && differ.out.contains("differ"), "{differ:?}");
    let made = typed(&add, &format!("{PASSWORD}\n{PASSWORD}\n"));
    assert!(made.code == Some(0) && made.out.contains("New password of tom: "), "{made:?}");
    drive.by("tom", &[&"ls", &"/home/tom"]).is_done();
}
