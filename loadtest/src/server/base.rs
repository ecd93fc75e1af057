//! The server under load: its address, and whether it can be measured.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;

/// How long the first answers may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A Rowdrive server.
#[derive(Clone, Debug)]
pub struct Base {
    pub address: SocketAddr,
    /// As requests name it: `host:port`.
    pub host: HeaderValue,
    client: Client,
}

impl Base {
    /// Finds the server at `url` (`http://host[:port]`) and verifies that it is a Rowdrive server and can serve.
    ///
    /// # Errors
    ///
    /// If `url` is no such address, nothing answers there, or another server answers: each error says what to do.
    pub async fn find(url: &str) -> Result<Self> {
        let alone = |url: &Url| url.scheme() == "http" && !url.authority().contains('@') && url[..].ends_with("/");
        let alone = Url::parse(url).ok().filter(|url| alone(url) && url.path() == "/");
        let parsed = alone.with_context(|| {
            format!("{url:?} is no address of a server: give http, host and port alone, as http://127.0.0.1:8080/")
        })?;
        let away = || format!("nothing answers at {url}: start it with `rowdrive serve`");
        let other =
            || format!("what answers at {url} is no Rowdrive server: give the address that `rowdrive serve` prints");
        let client = Client::builder().no_proxy().tcp_nodelay(true).redirect(Policy::none());
        let client = client.connect_timeout(PATIENCE).build()?;
        let ready = client.get(parsed.join("readyz")?).timeout(PATIENCE).send().await;
        let ready = ready.map_err(|error| {
            let why = if error.is_connect() { away() } else { other() };
            anyhow!(error).context(why)
        })?;
        let address = ready.remote_addr().with_context(away)?;
        let base = Self { address, host: parsed.authority().try_into()?, client };
        let (status, text) = match ready.status() {
            StatusCode::OK => answer(base.ask(Method::GET, "/v1/fs/?limit=1").timeout(PATIENCE)).await?,
            status => (status, ready.text().await?),
        };
        if status == StatusCode::OK && member(&text, "path").is_some_and(|path| path == "/") {
            return Ok(base);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE || member(&text, "detail").is_some() {
            bail!("{base} refuses: {}", refusal(status, &text));
        }
        bail!(other())
    }

    /// A server that needs no verification.
    #[cfg(test)]
    pub fn at(address: SocketAddr) -> Self {
        Self { address, host: address.to_string().try_into().unwrap(), client: Client::new() }
    }

    /// A request that prepares or surrounds a measurement.
    pub fn ask(&self, method: Method, target: &str) -> RequestBuilder {
        self.client.request(method, format!("{self}{target}"))
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.host.to_str().unwrap_or_default())
    }
}

/// Sends a request and reads the answer as text.
pub async fn answer(request: RequestBuilder) -> reqwest::Result<(StatusCode, String)> {
    let answer = request.send().await?;
    Ok((answer.status(), answer.text().await?))
}

/// A member of an object in JSON, if it is a string.
pub fn member(text: &str, name: &str) -> Option<String> {
    Some(serde_json::from_str::<Value>(text).ok()?.get(name)?.as_str()?.to_owned())
}

/// The error in an answer, as `507: The disk is full.`: Rowdrive's are `application/problem+json` (RFC 9457).
pub fn refusal(status: StatusCode, text: &str) -> String {
    member(text, "detail").map_or(status.to_string(), |detail| format!("{}: {detail}", status.as_u16()))
}

#[cfg(test)]
mod tests {
    use axum::Router;

    use super::*;
    use crate::server::test_server::TestServer;

    async fn assert_error(url: &str, expected: &str) {
        let error = format!("{:#}", Base::find(url).await.unwrap_err());
        assert!(error.contains(expected), "{url}: {error}");
    }

    #[tokio::test]
    async fn each_server_that_cannot_be_measured_has_its_error() {
        for url in
            ["nonsense", "localhost:8080", "http://", "http://u:p@h/", "https://h/", "http://h/v1/", "http://h/?a"]
        {
            assert_error(url, "is no address of a server").await;
        }
        let problem = r#"{"type":"/problems/misdirected-request","detail":"Use localhost."}"#;
        let answers = [
            (200, "<h1>Hello</h1>", "is no Rowdrive server"),
            (503, "{}", "refuses: 503 Service Unavailable"),
            (421, problem, "refuses: 421: Use localhost."),
        ];
        for (status, text, expected) in answers {
            let status = StatusCode::from_u16(status).unwrap();
            let server = TestServer::start(Router::new().fallback(async move || (status, text))).await;
            assert_error(&server.url(), expected).await;
        }
        let ssh = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", ssh.local_addr().unwrap());
        std::thread::spawn(move || std::io::Write::write_all(&mut ssh.accept().unwrap().0, b"SSH-2.0-OpenSSH_9.2\r\n"));
        assert_error(&url, "is no Rowdrive server").await;
        assert_error(&url, "nothing answers at").await;
    }
}
