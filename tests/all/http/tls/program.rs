//! The program by TLS: its certificate, and an independent client.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::test_app::bytes;
use super::certificates::{Pair, PrivateCa};
use crate::server::Server;

/// Much longer than the server takes to see a changed file.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn serve(data: &Path, pair: &Pair) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.arg("--tls-cert").arg(&pair.certificate).arg("--tls-key").arg(&pair.key);
    command
}

/// What curl prints of a request by TLS, whose certificate must be of this CA.
fn curl(ca: &Path, arguments: &[&str]) -> Output {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "60", "--cacert"]).arg(ca).args(arguments);
    curl.output().unwrap()
}

#[test]
fn curl_sends_and_gets_files_by_both_versions_of_http() {
    let folder = tempfile::tempdir().unwrap();
    let ca = PrivateCa::new();
    let (pair, root) = (ca.issue(folder.path(), "localhost"), ca.write(folder.path()));
    let data = folder.path().join("data");
    let server = Server::wait_for(serve(&data, &pair), &data);
    let content = bytes(5_000_000);
    let [sent, got] = ["sent", "got"].map(|name| folder.path().join(name));
    fs::write(&sent, &content).unwrap();
    let versions = [(&["--http1.1"][..], "1.1"), (&["--http2"], "2"), (&["--http2", "--tls-max", "1.2"], "2")];
    for (version, name) in versions {
        let url = format!("https://{}/v1/fs/{name}", server.address);
        let written = format!("{name} ");
        for arguments in [["--upload-file", sent.to_str().unwrap()], ["--output", got.to_str().unwrap()]] {
            let told = ["--write-out", "%{http_version} ", "--output", "/dev/null"];
            let told = if arguments[0] == "--output" { &told[..2] } else { &told[..] };
            let ran = curl(&root, &[version, &arguments, told, &[url.as_str()]].concat());
            assert!(ran.status.success(), "{version:?}: {ran:?}");
            assert_eq!(String::from_utf8(ran.stdout).unwrap(), written, "{version:?}");
        }
        assert!(fs::read(&got).unwrap() == content, "{version:?}");
        // A refusal arrives although the whole body is about to be sent.
        let create = ["--header", "If-None-Match: *", "--upload-file", sent.to_str().unwrap(), &url];
        let refused = curl(&root, &[version, &create].concat());
        assert!(String::from_utf8_lossy(&refused.stderr).contains("412"), "{version:?}: {refused:?}");
    }
    assert_eq!(server.terminate(), Some(0));
}

/// The certificate that a server presents.
async fn presented(address: &str, ca: &PrivateCa) -> Vec<u8> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(ca.roots()).with_no_client_auth();
    let socket = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_certificate_is_served_without_a_restart_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let ca = PrivateCa::new();
    let first = ca.issue(folder.path(), "localhost");
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let mut command = serve(&data, &first);
    command.env_remove("RUST_LOG").stderr(fs::File::create(&log).unwrap());
    let server = Server::wait_for_with_log(command, &data);
    assert_eq!(presented(&server.address, &ca).await, first.der);
    let second = ca.issue(folder.path(), "localhost");
    let begun = Instant::now();
    while presented(&server.address, &ca).await != second.der {
        assert!(begun.elapsed() < PATIENCE, "the new certificate is not served");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // A certificate of another key: a tool that writes both files may have been interrupted.
    let other = tempfile::tempdir().unwrap();
    fs::copy(ca.issue(other.path(), "localhost").certificate, &second.certificate).unwrap();
    let is_told = |text: &str| fs::read_to_string(&log).unwrap().contains(text);
    while !is_told("the certificate is not taken") {
        assert!(begun.elapsed() < PATIENCE, "the log does not say why");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(is_told("cannot be used together") && is_told("other users can read the key"));
    assert_eq!(presented(&server.address, &ca).await, second.der);
    assert_eq!(tokio::task::spawn_blocking(|| server.terminate()).await.unwrap(), Some(0));
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let ca = PrivateCa::new();
    let pair = ca.issue(folder.path(), "localhost");
    let [certificate, key] = [&pair.certificate, &pair.key].map(|path| path.to_str().unwrap());
    let other_key = ca.issue(other.path(), "localhost").key;
    let data = folder.path().join("data");
    for (arguments, told) in [
        (vec!["--tls-cert", certificate], "--tls-key"),
        (vec!["--tls-key", key], "--tls-cert"),
        (vec!["--hsts"], "--tls-cert"),
        (vec!["--tls-cert", "no/such.pem", "--tls-key", key], "no/such.pem"),
        (vec!["--tls-cert", key, "--tls-key", key], "BEGIN CERTIFICATE"),
        (vec!["--tls-cert", certificate, "--tls-key", certificate], "BEGIN PRIVATE KEY"),
        (vec!["--tls-cert", certificate, "--tls-key", other_key.to_str().unwrap()], "cannot be used together"),
    ] {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_rowdrive"));
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data).args(&arguments).stdin(Stdio::null());
        let refused = serve.output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{arguments:?}: {said}");
        let errors: Vec<_> = said.lines().filter(|line| line.starts_with("rowdrive: ")).collect();
        assert!(errors.len() == 1 && errors[0].contains(told), "{arguments:?}: {said}");
    }
    assert!(!data.exists());
}
