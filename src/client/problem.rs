//! An answer that is no success.

use std::fmt;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use serde::Deserialize;

#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    /// The last part of the problem's type, as `not-found`; empty if it is none of rowdrive's.
    pub kind: String,
    /// What to do about it.
    detail: String,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// As it came.
    pub body: String,
    /// Under this the server's log says why.
    request_id: Option<String>,
}

const REQUEST_ID: &str = "x-request-id";

/// RFC 9457.
#[derive(Default, Deserialize)]
struct Problem {
    r#type: String,
    detail: String,
}

impl Refusal {
    pub async fn read(response: Response) -> Self {
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let request_id = response.headers().get(REQUEST_ID).and_then(|id| Some(id.to_str().ok()?.to_owned()));
        let body = response.text().await.unwrap_or_default();
        let problem: Problem = serde_json::from_str(&body).unwrap_or_default();
        let kind = problem.r#type.strip_prefix("/problems/").unwrap_or_default().to_owned();
        let retry_after = seconds.map(Duration::from_secs);
        Self { status, kind, detail: problem.detail, retry_after, body, request_id }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.as_str() {
            "" => write!(f, "the server answered {}", self.status)?,
            detail => write!(f, "{} ({})", detail.trim_end_matches('.'), self.status.as_u16())?,
        }
        match &self.request_id {
            Some(id) if self.status == StatusCode::INTERNAL_SERVER_ERROR => write!(f, "; request id {id}"),
            _ => Ok(()),
        }
    }
}
