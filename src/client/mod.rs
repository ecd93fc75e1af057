//! A running server, as the subcommands that talk to one see it.

pub mod patience;
mod refusal;

use std::error::Error;
use std::time::Duration;

use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use rowdrive::schema::{DrivePath, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use refusal::Refusal;

/// For how long a server may say nothing while it has all that it needs.
pub const SILENCE: Duration = Duration::from_secs(120);
const CONNECT: Duration = Duration::from_secs(10);
/// Entries asked for at once.
const PAGE: &str = "2000";

#[derive(Args)]
pub struct Server {
    /// The server to talk to; with a user name, as in http://tom@127.0.0.1:8080, that is who adds the files.
    #[arg(long, value_name = "URL", env = "ROWDRIVE_SERVER", value_parser = server)]
    #[arg(default_value = "http://127.0.0.1:8080")]
    server: Url,
}

fn server(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "write it as http://127.0.0.1:8080".to_owned())?;
    match (url.scheme(), url.host_str(), url.query(), url.fragment()) {
        ("http", Some(_), None, None) => Ok(url),
        ("http", ..) => Err("write it as http://127.0.0.1:8080".to_owned()),
        (other, ..) => Err(format!("servers are spoken to by http, not by {other}")),
    }
}

/// A path on the drive, as it is given on the command line.
#[derive(Clone, Debug)]
pub struct Place {
    pub path: DrivePath,
    /// As it was written: in requests a slash at the end means a directory.
    pub text: String,
}

impl Place {
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = DrivePath::parse(text).map_err(|error| format!("{error}, as in /photos/2026"))?;
        Ok(Self { path, text: text.to_owned() })
    }

    pub fn is_directory(&self) -> bool {
        self.text.ends_with('/')
    }
}

/// Why there is no answer, or not the one that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("the server at {0} cannot be reached: {1}")]
    Unreachable(String, String),
    #[error("the connection to {0} broke: {1}")]
    Cut(String, String),
    #[error("{0}")]
    Refused(Box<Refusal>),
    #[error("what answers at {0} is no rowdrive server, or of another version: {1}")]
    Foreign(String, String),
}

/// What a failure says of the requests that come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Nothing: it is a matter of this file or folder.
    Open,
    /// They are likely to fail for the same reason.
    Poor,
    /// As `Poor`, and the server was waited for in vain.
    Bad,
}

impl RemoteError {
    /// A 500 is about what was asked for, as a file whose content is damaged: the server has read the request and can
    /// tell. What else a server, or a proxy before it, answers from 500 on is about itself.
    pub fn outlook(&self) -> Outlook {
        match self {
            Self::Unreachable(..) | Self::Cut(..) => Outlook::Bad,
            Self::Foreign(..) => Outlook::Poor,
            Self::Refused(refusal) if refusal.status == StatusCode::INTERNAL_SERVER_ERROR => Outlook::Open,
            Self::Refused(refusal) if refusal.status.is_server_error() => Outlook::Poor,
            Self::Refused(_) => Outlook::Open,
        }
    }
}

pub type Result<T, E = RemoteError> = std::result::Result<T, E>;

/// A file or directory. What else the server tells of it does not matter here.
#[derive(Clone, Debug, Deserialize)]
pub struct Entry {
    pub path: String,
    pub name: String,
    pub kind: Kind,
    #[serde(default)]
    pub size: u64,
    pub modified: String,
    #[serde(default)]
    pub etag: String,
    #[serde(default)]
    pub digest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    File,
    Directory,
}

impl Entry {
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// None of a time that cannot be read: it equals no other.
    pub fn modified(&self) -> Option<Timestamp> {
        Timestamp::parse(&self.modified).ok()
    }
}

#[derive(Debug, Deserialize)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub next: Option<String>,
}

/// Clones share their connections.
#[derive(Clone, Debug)]
pub struct Remote {
    client: Client,
    /// Without a slash at its end.
    base: String,
    /// The same without user and password, as it is shown.
    shown: String,
}

impl Remote {
    pub fn new(server: &Server) -> Result<Self> {
        let mut shown = server.server.clone();
        // Both succeed for http.
        let _ = (shown.set_username(""), shown.set_password(None));
        let trimmed = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
        let (base, shown) = (trimmed(&server.server), trimmed(&shown));
        // A proxy is for the world outside.
        let client = Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT).build();
        let client = client.map_err(|error| RemoteError::Unreachable(shown.clone(), cause(&error)))?;
        Ok(Self { client, base, shown })
    }

    /// The address, without user and password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// A request to a resource as a whole, as `move`.
    pub fn request(&self, method: Method, resource: &str, query: &[(&str, &str)]) -> RequestBuilder {
        self.client.request(method, format!("{}/v1/{resource}{}", self.base, written(query)))
    }

    /// A request about a path below a resource, as `fs`.
    pub fn about(
        &self,
        method: Method,
        resource: &str,
        (path, directory): (&DrivePath, bool),
        query: &[(&str, &str)],
    ) -> RequestBuilder {
        let names: String = path.names().map(|name| format!("/{}", encode(name.as_str()))).collect();
        let slash = if directory || path.is_root() { "/" } else { "" };
        self.client.request(method, format!("{}/v1/{resource}{names}{slash}{}", self.base, written(query)))
    }

    /// The answer to a request, if it is a good one.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(RemoteError::Refused(Box::new(Refusal::read(response).await)))
    }

    pub async fn text(&self, request: RequestBuilder) -> Result<String> {
        self.send(request).await?.text().await.map_err(|error| self.failed(&error))
    }

    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        self.parse(&self.text(request).await?)
    }

    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T> {
        serde_json::from_str(text).map_err(|error| RemoteError::Foreign(self.shown.clone(), error.to_string()))
    }

    /// What stands at a path, if anything does.
    pub async fn stat(&self, path: &DrivePath) -> Result<Option<Entry>> {
        self.found(self.json(self.about(Method::GET, "stat", (path, false), &[]))).await
    }

    /// The entries of a directory from this cursor on; none if there is no such directory.
    pub async fn page(&self, path: &DrivePath, cursor: Option<&str>) -> Result<Option<Page>> {
        let mut query = vec![("limit", PAGE)];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        self.found(self.json(self.about(Method::GET, "fs", (path, true), &query))).await
    }

    async fn found<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        match self.in_time(asked).await {
            Ok(found) => Ok(Some(found)),
            Err(RemoteError::Refused(refusal)) if refusal.kind == "not-found" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives up on a server that says nothing. For requests whose work does not grow with a tree.
    pub async fn in_time<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(SILENCE, asked).await.unwrap_or_else(|_| Err(self.silent()))
    }

    pub fn silent(&self) -> RemoteError {
        let silence = format!("it has said nothing for {} s", SILENCE.as_secs());
        RemoteError::Unreachable(self.shown.clone(), silence)
    }

    pub fn failed(&self, error: &reqwest::Error) -> RemoteError {
        let (shown, cause) = (self.shown.clone(), cause(error));
        // Whether before the answer or in its middle: the server was there.
        if error.is_connect() { RemoteError::Unreachable(shown, cause) } else { RemoteError::Cut(shown, cause) }
    }
}

/// What is at the bottom of an error.
fn cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// All that RFC 3986 does not let stand in a segment or a value as it is.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

fn written(query: &[(&str, &str)]) -> String {
    let pairs = query.iter().zip(["?"].into_iter().chain(std::iter::repeat("&")));
    pairs.map(|((name, value), between)| format!("{between}{name}={}", encode(value))).collect()
}
