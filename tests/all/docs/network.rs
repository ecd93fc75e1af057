//! The page on other machines, run as it is written: by TLS, and behind nginx.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::sessions::{run, session, sessions};
use crate::server::{Server, terminate};

const NETWORK: &str = include_str!("../../../docs/network.md");
const TLS: &str = include_str!("../../../docs/tls.md");
const PROGRAM: &str = env!("CARGO_BIN_EXE_rowdrive");
/// Much longer than nginx takes to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A block of the page, with the program that is tested.
fn block(number: usize) -> String {
    session(NETWORK, number).replace("target/release/rowdrive", PROGRAM)
}

/// A folder with a certificate of a private CA.
fn with_certificate() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = run("", &session(TLS, 1), folder.path());
    assert!(made.status.success(), "{made:?}");
    folder
}

fn serve(script: &str, folder: &Path) -> Server {
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(format!("exec {script}")).current_dir(folder);
    Server::wait_for(bash, &folder.join("data"))
}

#[test]
fn every_block_of_the_page_is_run_but_those_of_the_container() {
    assert_eq!(sessions(NETWORK).len(), NETWORK.matches("```sh\n").count() - 1);
}

#[test]
fn a_family_uses_a_drive_over_tls_as_its_page_says() {
    let folder = with_certificate();
    fs::create_dir(folder.path().join("pictures")).unwrap();
    fs::write(folder.path().join("pictures/cat.jpg"), "a cat").unwrap();
    let first = run("", &block(1), folder.path());
    assert!(first.status.success() && first.stdout == b"eve  admin\n", "{first:?}");
    let server = serve(&block(2).replace("0.0.0.0:8443", "0.0.0.0:0"), folder.path());
    // The certificate is for this name.
    let port = server.address.rsplit(':').next().unwrap();
    let script = block(3).replace("drive.example:8443", &format!("localhost:{port}"));
    let done = run("", &script, folder.path());
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    for seen in [
        "  laptop  account  made 20",
        "tom  Tom\n",
        "/pictures  *  read\n/pictures  tom  read,write\n",
        "\ncat.jpg\n",
        "{\"name\":\"from-ann.jpg\",\"size\":5}",
    ] {
        assert!(out.contains(seen), "{seen} is missing in\n{out}");
    }
    assert!(err.contains("(404)"), "{err}");
    assert_eq!(server.terminate(), Some(0));
    let reset = run("", &block(4), folder.path());
    assert!(reset.status.success() && reset.stdout == b"eve  admin\n", "{reset:?}");
}

/// nginx with the page's block, on ports and in a folder of its own.
struct Nginx {
    child: Child,
    port: u16,
}

impl Nginx {
    fn start(folder: &Path, upstream: &str) -> Self {
        let block = NETWORK.split("```nginx\n").nth(1).unwrap().split("```").next().unwrap();
        // Nobody else takes the port at once.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let site = block
            .replace("listen 443 ssl", &format!("listen 127.0.0.1:{port} ssl"))
            .replace("/etc/ssl/drive.example", folder.to_str().unwrap())
            .replace("http://127.0.0.1:8080", &format!("http://{upstream}"));
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {}/{of};\n", folder.display()))
            .concat();
        let all = format!(
            "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;\nevents {{}}\n\
             http {{\naccess_log off;\n{temporary}{site}}}\n",
            folder.display()
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, all).unwrap();
        let mut nginx = Command::new("nginx");
        nginx.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").arg("-c").arg(&file).arg("-e").arg(folder.join("error.log"));
        Self { child: nginx.stdin(Stdio::null()).spawn().unwrap(), port }
    }

    /// What curl prints of a request to the name of the drive.
    fn curl(&self, folder: &Path, path: &str, more: &[&str]) -> Output {
        let name = format!("drive.example:{}", self.port);
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--insecure",
            "--max-time",
            "60",
            "--resolve",
            &format!("{name}:127.0.0.1"),
        ]);
        // Another address than the proxy's.
        curl.args(["--interface", "127.0.0.2"]);
        curl.args(more).arg(format!("https://{name}{path}")).current_dir(folder).output().unwrap()
    }

    fn status(&self, folder: &Path, path: &str, more: &[&str]) -> String {
        let told = ["--output", "/dev/null", "--write-out", "%{http_code}"];
        String::from_utf8(self.curl(folder, path, &[&told, more].concat()).stdout).unwrap()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        terminate(self.child.id());
        let _ended = self.child.wait();
    }
}

#[test]
fn a_drive_behind_nginx_works_as_its_page_says() {
    let folder = with_certificate();
    let at = folder.path();
    assert!(run("", &block(1), at).status.success());
    let script = block(5).replace("serve ", "serve --listen 127.0.0.1:0 ");
    let log = fs::File::create(at.join("log")).unwrap();
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(format!("exec {script}")).current_dir(at).env_remove("RUST_LOG").stderr(log);
    let server = Server::wait_for_with_log(bash, &at.join("data"));
    let nginx = Nginx::start(at, &server.address);
    let begun = Instant::now();
    while nginx.status(at, "/healthz", &[]) != "200" {
        assert!(begun.elapsed() < PATIENCE, "{:?}", fs::read_to_string(at.join("error.log")));
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::write(at.join("eve.curl"), "user = \"eve:correct horse battery\"\n").unwrap();
    let eve = ["--config", "eve.curl"];
    // A file larger than the buffers of the proxy, there and back.
    let content: Vec<u8> = (0..5_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(at.join("large"), &content).unwrap();
    assert_eq!(nginx.status(at, "/v1/fs/a%20b/large", &[&eve[..], &["--upload-file", "large"]].concat()), "201");
    assert!(nginx.curl(at, "/v1/fs/a%20b/large", &eve).stdout == content);
    // A browser logs in by the page, and changes something.
    let origin = format!("Origin: https://drive.example:{}", nginx.port);
    let (form, jar) = (
        ["--data-urlencode", "user=eve", "--data-urlencode", "password=correct horse battery"],
        ["--cookie-jar", "jar"],
    );
    assert_eq!(nginx.status(at, "/docs/", &[]), "303");
    assert_eq!(nginx.status(at, "/login", &[&form[..], &jar, &["--header", &origin]].concat()), "303");
    assert!(fs::read_to_string(at.join("jar")).unwrap().contains("__Host-rowdrive"));
    assert_eq!(nginx.status(at, "/docs/", &["--cookie", "jar"]), "200");
    let delete = ["--cookie", "jar", "--request", "DELETE", "--header"];
    assert_eq!(
        nginx.status(at, "/v1/fs/a%20b/large", &[&delete[..], &["Origin: https://evil.example"]].concat()),
        "403"
    );
    assert_eq!(nginx.status(at, "/v1/fs/a%20b/large", &[&delete[..], &[&origin]].concat()), "204");
    // What a client says of itself does not come through.
    let claims = [
        "--header",
        "X-Forwarded-For: 192.0.2.77",
        "--header",
        "Forwarded: for=192.0.2.77",
        "--header",
        "X-Forwarded-Proto: http",
    ];
    assert_eq!(nginx.status(at, "/v1/stat/", &[&claims[..], &["--user", "eve:wrong password"]].concat()), "401");
    assert_eq!(nginx.status(at, "/v1/stat/", &[&eve[..], &["--header", "Host: evil.example"]].concat()), "421");
    drop(nginx);
    assert_eq!(server.terminate(), Some(0));
    let log = fs::read_to_string(at.join("log")).unwrap();
    let refused: Vec<_> = log.lines().filter(|line| line.contains("\"event\":\"refused\"")).collect();
    assert!(refused.len() == 1 && refused[0].contains("\"address\":\"127.0.0.2\""), "{refused:?}");
}
