//! The HTTP client of a running server.
//!
//! - here: [`DriveClient`] sends single requests; [`trust`]: whose certificates it accepts; [`credential`]: what proves
//!   who its user is; [`problem`]: error responses; [`rights`]: what a user may do who is refused; [`cause`]: why there
//!   is no response; [`retry`]: when to send a request again
//! - [`import`] and [`export`] transfer whole trees: a planner queues the files, and workers transfer them; [`stats`]
//!   counts them; [`overwrite`]: what is done with a file whose name is taken at the target

mod cause;
pub mod credential;
pub mod export;
pub mod import;
mod overwrite;
mod problem;
pub mod retry;
pub mod rights;
pub mod stats;
mod trust;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use rowdrive::api::entry::{EntryJson, ListPage};
use rowdrive::api::path;
use rowdrive::api::problem::ProblemKind;
use rowdrive::schema::DrivePath;
use serde::de::DeserializeOwned;

use cause::in_words;
use credential::{Credential, CredentialError, is_loopback, is_private};
pub use problem::ServerProblem;

/// How long a server may send nothing after it has received the whole request.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Entries of a page.
const PAGE: &str = "2000";

/// Why a request failed. The first text is the server's address, the second one the cause.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the server at {0} cannot be reached: {1}; --server names another one")]
    Unreachable(String, String),
    #[error("the connection to {0} broke: {1}")]
    ConnectionLost(String, String),
    #[error("the file of --ca, {0}, cannot be used: {1}")]
    Ca(PathBuf, String),
    #[error("the server at {0} is not trusted: {1}")]
    Untrusted(String, String),
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error("{0}")]
    Problem(Box<ServerProblem>),
    #[error("the server at {0} is no rowdrive server, or of another version: {1}")]
    UnexpectedAnswer(String, String),
}

/// Which other requests a failure concerns: a transfer gives up when too many shared failures follow each other, or at
/// one that concerns all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureScope {
    /// None: the failure concerns this file or folder alone.
    Item,
    /// The next ones are likely to fail for the same reason.
    Shared,
    /// As `Shared`, after all retries.
    SharedAfterWait,
    /// All: none can succeed.
    All,
}

impl ClientError {
    /// A 500 concerns the requested item, such as a file with damaged content. The other 5xx concern the server itself,
    /// or a proxy in front of it.
    pub fn scope(&self) -> FailureScope {
        match self {
            Self::Unreachable(..) | Self::ConnectionLost(..) => FailureScope::SharedAfterWait,
            Self::UnexpectedAnswer(..) | Self::Ca(..) | Self::Untrusted(..) | Self::Credential(_) => {
                FailureScope::Shared
            }
            Self::Problem(problem) if problem.status == StatusCode::INTERNAL_SERVER_ERROR => FailureScope::Item,
            // Too many wrong passwords, or none: so it is for all.
            Self::Problem(problem) if matches!(problem.status.as_u16(), 401 | 429) => FailureScope::Shared,
            Self::Problem(problem) if problem.status.is_server_error() => FailureScope::Shared,
            Self::Problem(_) => FailureScope::Item,
        }
    }
}

pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Clones share their connections.
#[derive(Clone, Debug)]
pub struct DriveClient {
    http: reqwest::Client,
    /// Without a slash at its end.
    base: String,
    /// The same without user and password, for messages.
    display_url: String,
    /// The file with the certificates of the only CAs that are trusted.
    ca: Option<Arc<Path>>,
    credential: Option<Arc<Credential>>,
}

/// Which server to talk to, whom to trust, and as whom.
#[derive(Debug)]
pub struct ServerAccess<'a> {
    pub server: &'a Url,
    /// A file with the certificates of the only CAs that are trusted, instead of the system's.
    pub ca: Option<&'a Path>,
    pub credential: Option<Credential>,
    /// Whether the credential may be sent without TLS to another machine.
    pub insecure_http: bool,
}

impl DriveClient {
    pub fn new(access: ServerAccess<'_>) -> Result<Self> {
        let ServerAccess { server, ca, credential, insecure_http } = access;
        let mut display_url = server.clone();
        // Both succeed for http and https.
        let _ = (display_url.set_username(""), display_url.set_password(None));
        let trimmed = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
        let (base, display_url) = (trimmed(server), trimmed(&display_url));
        let headers = headers(server, &display_url, credential.as_ref(), insecure_http)?;
        // Ignore proxies of the environment, which are for other hosts: a drive is on this machine or in this network.
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).connect_timeout(CONNECT_TIMEOUT);
        let http = http.default_headers(headers);
        let http = match (server.scheme(), ca) {
            ("https", None) => http,
            ("https", Some(ca)) => http.tls_certs_only(trust::certificates(ca)?),
            // Without TLS nobody is trusted: the system may have no certificates of CAs.
            _ => http.tls_certs_only([]),
        };
        let http = http.build().map_err(|error| trust::build_error(&display_url, ca, in_words(&error, false)))?;
        Ok(Self { http, base, display_url, ca: ca.map(Arc::from), credential: credential.map(Arc::new) })
    }

    /// What it sends with each request, if it sends anything.
    pub fn credential(&self) -> Option<&Credential> {
        self.credential.as_deref()
    }

    /// The address, without user and password.
    pub fn display_url(&self) -> &str {
        &self.display_url
    }

    /// Whether the server is named by an address that only this machine reaches.
    pub fn is_of_this_machine(&self) -> bool {
        Url::parse(&self.display_url).is_ok_and(|server| is_loopback(&server))
    }

    /// A request to a resource as a whole, such as [`path::MOVE`].
    pub fn resource_request(&self, method: Method, resource: &str, query: &[(&str, &str)]) -> RequestBuilder {
        self.http.request(method, format!("{}{resource}{}", self.base, query_string(query)))
    }

    /// A request for a path below a resource, such as [`path::FS`].
    pub fn path_request(
        &self,
        method: Method,
        resource: &str,
        (path, directory): (&DrivePath, bool),
        query: &[(&str, &str)],
    ) -> RequestBuilder {
        let target = path::below(resource, path, directory);
        self.http.request(method, format!("{}{target}{}", self.base, query_string(query)))
    }

    /// Sends a request. Any status but a 2xx is an error.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.transport_error(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(ClientError::Problem(Box::new(ServerProblem::read(response, self.credential()).await)))
    }

    pub async fn text(&self, request: RequestBuilder) -> Result<String> {
        self.text_of(self.send(request).await?).await
    }

    async fn text_of(&self, response: Response) -> Result<String> {
        response.text().await.map_err(|error| self.transport_error(&error))
    }

    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        self.json_of(self.send(request).await?).await
    }

    pub async fn json_of<T: DeserializeOwned>(&self, response: Response) -> Result<T> {
        self.parse(&self.text_of(response).await?)
    }

    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T> {
        serde_json::from_str(text)
            .map_err(|error| ClientError::UnexpectedAnswer(self.display_url.clone(), error.to_string()))
    }

    /// The entry at a path; none if there is none.
    pub async fn stat(&self, path: &DrivePath) -> Result<Option<EntryJson<'static>>> {
        self.optional(self.json(self.path_request(Method::GET, path::STAT, (path, false), &[]))).await
    }

    /// The entries of a directory from this cursor on; none if there is no such directory.
    pub async fn list_page(&self, path: &DrivePath, cursor: Option<&str>) -> Result<Option<ListPage<'static>>> {
        let mut query = vec![("limit", PAGE)];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        self.optional(self.json(self.path_request(Method::GET, path::FS, (path, true), &query))).await
    }

    /// Turns an answer 404 into none.
    async fn optional<T>(&self, request: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        match self.with_timeout(request).await {
            Ok(found) => Ok(Some(found)),
            Err(ClientError::Problem(problem)) if problem.is(ProblemKind::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Limits the wait for an answer. For requests that take about as long for a large tree as for a small one.
    pub async fn with_timeout<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(RESPONSE_TIMEOUT, request).await.unwrap_or_else(|_| Err(self.timeout_error()))
    }

    pub fn timeout_error(&self) -> ClientError {
        let cause = format!("it has sent nothing for {} s", RESPONSE_TIMEOUT.as_secs());
        ClientError::Unreachable(self.display_url.clone(), cause)
    }

    pub fn transport_error(&self, error: &reqwest::Error) -> ClientError {
        let (server, cause) = (self.display_url.clone(), in_words(error, error.is_connect()));
        if let Some(reason) = trust::refusal(error, self.ca.as_deref()) {
            return ClientError::Untrusted(server, reason);
        }
        // Otherwise there was a connection: it broke before the answer or in the middle of it.
        if error.is_connect() {
            ClientError::Unreachable(server, cause)
        } else {
            ClientError::ConnectionLost(server, cause)
        }
    }
}

/// The headers of every request.
fn headers(server: &Url, shown: &str, credential: Option<&Credential>, insecure_http: bool) -> Result<HeaderMap> {
    let Some(credential) = credential else { return Ok(HeaderMap::new()) };
    if !server.username().is_empty() {
        return Err(CredentialError::UserInAddress.into());
    }
    if !is_private(server) && !insecure_http {
        return Err(CredentialError::PlainHttp(shown.to_owned()).into());
    }
    Ok(credential.header().map(|value| (AUTHORIZATION, value)).into_iter().collect())
}

fn query_string(query: &[(&str, &str)]) -> String {
    let pairs = query.iter().zip(["?"].into_iter().chain(std::iter::repeat("&")));
    pairs.map(|((name, value), between)| format!("{between}{name}={}", path::encode(value))).collect()
}
