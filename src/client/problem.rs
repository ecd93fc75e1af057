//! Error responses, of a drive or of a proxy in front of it.

use std::fmt;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use rowdrive::api::header::REQUEST_ID;
use rowdrive::api::problem::{ProblemJson, ProblemKind};

#[derive(Debug)]
pub struct ServerProblem {
    pub status: StatusCode,
    /// The kind of problem; none if the answer is not from a drive.
    slug: Option<String>,
    /// What to do about it.
    detail: String,
    /// `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The body, unparsed.
    pub body: String,
    /// Whether the request had a token, or a name and a password.
    is_credential_sent: bool,
    /// The id under which the server logged the cause.
    request_id: Option<String>,
}

impl ServerProblem {
    pub async fn read(response: Response, is_credential_sent: bool) -> Self {
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let request_id = response.headers().get(REQUEST_ID).and_then(|id| Some(id.to_str().ok()?.to_owned()));
        let body = response.text().await.unwrap_or_default();
        let problem: ProblemJson<'static> = serde_json::from_str(&body).unwrap_or_default();
        let slug = problem.slug().map(str::to_owned);
        let detail = problem.detail.into_owned();
        let retry_after = seconds.map(Duration::from_secs);
        Self { status, slug, detail, retry_after, body, is_credential_sent, request_id }
    }

    /// Whether it is a problem of this kind.
    pub fn is(&self, kind: ProblemKind) -> bool {
        self.slug.as_deref() == Some(kind.slug())
    }

    /// Whether it is the answer of a drive, not of a proxy in front of it.
    pub fn is_of_drive(&self) -> bool {
        self.slug.is_some()
    }
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.as_str() {
            "" => write!(f, "the server answered {}", self.status)?,
            detail => write!(f, "{} ({})", detail.trim_end_matches('.'), self.status.as_u16())?,
        }
        if self.is(ProblemKind::Unauthorized) && !self.is_credential_sent {
            write!(f, "; name the user with --user, or the file of a token with --token-file")?;
        }
        if let (true, Some(wait)) = (self.is(ProblemKind::TooManyAttempts), self.retry_after) {
            write!(f, "; that is {} s", wait.as_secs())?;
        }
        match &self.request_id {
            Some(id) if self.status == StatusCode::INTERNAL_SERVER_ERROR => write!(f, "; request id {id}"),
            _ => Ok(()),
        }
    }
}
