//! The server under load, whether it can be measured, and one connection to it.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;
use tokio::net::TcpStream;

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
    /// Finds the server at `url` (`http://host[:port]`) and verifies that it is a Rowdrive server and can serve. Each
    /// error says what to do.
    pub async fn find(url: &str) -> anyhow::Result<Self> {
        let alone = |url: &Url| url.path() == "/" && url.query().is_none() && !url.authority().contains('@');
        let parsed = Url::parse(url).ok().filter(|url| url.scheme() == "http" && alone(url)).with_context(|| {
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

/// A request; the connection adds the host. A `target` that is none becomes `/`, which the server refuses.
pub fn request(method: Method, target: String, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = Uri::try_from(target).unwrap_or_default();
    request
}

/// Why a request has no answer: no connection could be made, or it ended before the answer did.
pub const NO_CONNECTION: &str = "no connection";
const BROKEN: &str = "connection broken";

/// A connection on which requests follow one another.
#[derive(Debug)]
pub struct Connection {
    base: Base,
    sender: SendRequest<Full<Bytes>>,
    /// How often the server had closed it between two requests.
    pub reopened: u64,
}

impl Connection {
    /// On a stream that is open.
    pub async fn new(base: &Base, stream: TcpStream) -> Result<Self, &'static str> {
        Ok(Self { base: base.clone(), sender: sender(stream).await?, reopened: 0 })
    }

    /// Sends a request and reads the whole answer: its status, and the bytes of both bodies.
    pub async fn exchange(&mut self, mut request: Request<Full<Bytes>>) -> Result<(StatusCode, u64), &'static str> {
        let mut bytes = request.body().size_hint().exact().unwrap_or_default();
        request.headers_mut().insert(HOST, self.base.host.clone());
        // An answer's end reaches the caller before the connection is ready for the next request.
        if self.sender.ready().await.is_err() {
            self.sender = sender(TcpStream::connect(self.base.address).await.map_err(|_| NO_CONNECTION)?).await?;
            self.reopened += 1;
        }
        let response = self.sender.send_request(request).await.map_err(|_| BROKEN)?;
        let status = response.status();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            bytes += frame.map_err(|_| BROKEN)?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok((status, bytes))
    }
}

async fn sender(stream: TcpStream) -> Result<SendRequest<Full<Bytes>>, &'static str> {
    stream.set_nodelay(true).map_err(|_| NO_CONNECTION)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| NO_CONNECTION)?;
    // It ends when the sender is dropped, and its error is the request's, too.
    tokio::spawn(connection);
    Ok(sender)
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
        let once = std::thread::spawn(move || {
            std::io::Write::write_all(&mut ssh.accept().unwrap().0, b"SSH-2.0-OpenSSH_9.2\r\n")
        });
        assert_error(&url, "is no Rowdrive server").await;
        once.join().unwrap().unwrap();
        assert_error(&url, "nothing answers at").await;
    }
}
