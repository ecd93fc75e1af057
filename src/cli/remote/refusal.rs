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
}

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
        let body = response.text().await.unwrap_or_default();
        let problem: Problem = serde_json::from_str(&body).unwrap_or_default();
        let kind = problem.r#type.strip_prefix("/problems/").unwrap_or_default().to_owned();
        Self { status, kind, detail: problem.detail, retry_after: seconds.map(Duration::from_secs), body }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.as_str() {
            "" => write!(f, "the server answered {}", self.status),
            detail => write!(f, "{} ({})", detail.trim_end_matches('.'), self.status.as_u16()),
        }
    }
}
