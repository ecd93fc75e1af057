//! The server under load: its address, and whether it is one that can be measured.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::client::{Connection, Failure};

/// How long the first answers may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A Rowdrive server.
#[derive(Clone, Debug)]
pub struct Base {
    pub address: SocketAddr,
    host: HeaderValue,
}

impl Base {
    /// Finds the server at `url` (`http://host[:port]`) and makes sure that it is one, and that it can serve.
    ///
    /// # Errors
    ///
    /// If `url` is not such an address, nothing answers there, or something else than a Rowdrive server that is
    /// ready: each with what to do.
    pub async fn find(url: &str) -> anyhow::Result<Self> {
        let (host, port) = parse(url)?;
        let authority = HeaderValue::try_from(if port == 80 { host.clone() } else { format!("{host}:{port}") })?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = tokio::net::lookup_host((bare, port)).await;
        let addresses =
            addresses.with_context(|| format!("no machine has the name {bare}: check the address {url}"))?;
        let mut refused = None;
        for address in addresses {
            let mut connection = Connection::new(address);
            match tokio::time::timeout(PATIENCE, connection.open()).await {
                Ok(Ok(())) => {
                    let base = Self { address, host: authority };
                    let checked = tokio::time::timeout(PATIENCE, base.check(&mut connection)).await;
                    checked.with_context(|| {
                        format!("{base} takes connections, but gave no answer for {} s", PATIENCE.as_secs())
                    })??;
                    return Ok(base);
                }
                Ok(Err(error)) => refused = Some(error.to_string()),
                Err(_) => refused = Some(format!("no connection within {} s", PATIENCE.as_secs())),
            }
        }
        let cause = refused.unwrap_or_else(|| format!("{bare} has no address"));
        bail!("nothing answers at {url}: start it with `rowdrive serve` ({cause})")
    }

    /// A server that is known to be one.
    #[cfg(test)]
    pub fn at(address: SocketAddr) -> Self {
        Self { address, host: HeaderValue::try_from(address.to_string()).unwrap() }
    }

    /// A request to this server. A `target` that is none becomes `/`, which it does not serve: that is counted as an
    /// error then.
    pub fn request(&self, method: Method, target: String, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(target).unwrap_or_default();
        request.headers_mut().insert(HOST, self.host.clone());
        request
    }

    async fn check(&self, connection: &mut Connection) -> anyhow::Result<()> {
        let mut get =
            async |target: &str| match connection.ask(self.request(Method::GET, target.into(), Bytes::new())).await {
                Ok(answer) => Ok(answer),
                Err(cause @ Failure::Connect(_)) => Err(anyhow::anyhow!("{self} has gone: {cause}")),
                Err(cause) => Err(anyhow::anyhow!("what listens at {self} does not speak HTTP/1.1 ({cause})")),
            };
        let (status, text) = get("/readyz").await?;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            bail!("{self} cannot serve now: {}", refusal(status, &text));
        }
        if status == StatusCode::OK {
            let (status, text) = get("/v1/fs/?limit=1").await?;
            let root = serde_json::from_str(&text).is_ok_and(|listing: Listing| listing.path == "/");
            if status == StatusCode::OK && root {
                return Ok(());
            }
            ensure!(Problem::parse(&text).is_none(), "{self} does not list its root: {}", refusal(status, &text));
        }
        ensure!(Problem::parse(&text).is_none(), "{self} refuses: {}", refusal(status, &text));
        bail!("what answers at {self} is no Rowdrive server: give the address that `rowdrive serve` prints")
    }
}

impl std::fmt::Display for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}/", self.host.to_str().unwrap_or_default())
    }
}

/// What there must be in the listing of a directory.
#[derive(Deserialize)]
struct Listing {
    path: String,
    #[serde(rename = "entries")]
    _entries: Vec<IgnoredAny>,
}

/// An error of Rowdrive's own: `application/problem+json` (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    #[serde(rename = "type")]
    kind: String,
    detail: String,
}

impl Problem {
    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|problem: &Self| problem.kind.starts_with("/problems/"))
    }
}

/// What a server says of an error, as `507: The disk is full.`
pub fn refusal(status: StatusCode, text: &str) -> String {
    match Problem::parse(text) {
        Some(problem) => format!("{}: {}", status.as_u16(), problem.detail),
        None => status.to_string(),
    }
}

/// Host and port of an address.
fn parse(url: &str) -> anyhow::Result<(String, u16)> {
    let asked = || format!("{url:?} is no address of a server: give one as http://127.0.0.1:8080/");
    let uri: Uri = url.parse().with_context(asked)?;
    if let Some(scheme) = uri.scheme_str() {
        ensure!(scheme == "http", "{url} is {scheme}: only http is spoken here, so give the server's own http address");
    }
    let authority = uri.authority().with_context(asked)?;
    ensure!(uri.scheme().is_some() && !authority.host().is_empty() && !authority.as_str().contains('@'), asked());
    ensure!(
        matches!(uri.path(), "" | "/") && uri.query().is_none(),
        "{url} has a path: give the address of the server alone, as http://{authority}/"
    );
    Ok((authority.host().to_owned(), authority.port_u16().unwrap_or(80)))
}

#[cfg(test)]
mod tests {
    use hyper::Response;
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::http::test_server::{self, TestServer, answer, rowdrive};

    async fn error(url: &str) -> String {
        format!("{:#}", Base::find(url).await.unwrap_err())
    }

    #[tokio::test]
    async fn an_address_that_is_none_is_told() {
        for url in ["", "nonsense", "127.0.0.1:8080", "http://", "http://u:p@127.0.0.1/", "/v1/fs/"] {
            assert!(error(url).await.contains("is no address of a server"), "{url}: {}", error(url).await);
        }
        assert!(error("https://127.0.0.1:8080/").await.contains("only http is spoken"));
        assert!(error("ftp://127.0.0.1/").await.contains("only http is spoken"));
        assert!(error("http://127.0.0.1:8080/v1/fs/").await.contains("as http://127.0.0.1:8080/"));
        assert_eq!(parse("http://[::1]:81").unwrap(), ("[::1]".to_owned(), 81));
        assert_eq!(parse("http://localhost/").unwrap(), ("localhost".to_owned(), 80));
    }

    #[tokio::test]
    async fn a_server_that_is_away_or_another_one_is_told() {
        let port = test_server::unused_port().await;
        let away = error(&format!("http://127.0.0.1:{port}/")).await;
        assert!(
            away.starts_with(&format!("nothing answers at http://127.0.0.1:{port}/: start it with `rowdrive serve`"))
        );

        let other = TestServer::start(|_, _| async { answer(200, "<h1>Hello</h1>") }).await;
        assert!(error(&other.url()).await.contains("is no Rowdrive server"));
        let none = TestServer::start(|_, _| async { answer(404, "") }).await;
        assert!(error(&none.url()).await.contains("is no Rowdrive server"));

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
        });
        assert!(error(&format!("http://{address}/")).await.contains("does not speak HTTP/1.1"));
    }

    #[tokio::test]
    async fn a_server_that_refuses_is_told_in_its_own_words() {
        let busy = r#"{"type":"/problems/busy","status":503,"detail":"The server cannot serve yet: try again."}"#;
        let server = TestServer::start(move |_, _| async move { answer(503, busy) }).await;
        assert!(error(&server.url()).await.ends_with("cannot serve now: 503: The server cannot serve yet: try again."));

        let named = r#"{"type":"/problems/unknown-host","status":421,"detail":"Use localhost."}"#;
        let server = TestServer::start(move |_, _| async move { answer(421, named) }).await;
        assert!(error(&server.url()).await.ends_with("refuses: 421: Use localhost."));
    }

    #[tokio::test]
    async fn a_rowdrive_server_is_found() {
        let server = TestServer::start(|method, target| async move {
            rowdrive(&method, &target).unwrap_or_else(|| Response::new(Full::new(Bytes::new())))
        })
        .await;
        let base = Base::find(&server.url()).await.unwrap();
        assert_eq!(base.to_string(), server.url());
        assert_eq!(base.address, server.address);
    }
}
