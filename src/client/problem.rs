//! Error responses, of a drive or of a proxy in front of it.

use std::fmt;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};
use rowdrive::api::header::REQUEST_ID;
use rowdrive::api::problem::{NO_RIGHT, ProblemJson, ProblemKind};

use super::credential::Credential;

/// Parameters of the HTTP API as a detail names them, and what the commands call them.
const WORDS: [(&str, &str); 8] = [
    ("`recursive`", "--recursive"),
    ("`overwrite`", "--overwrite"),
    ("`from`", "FROM"),
    ("`to`", "TO"),
    ("`under`", "--under"),
    ("`type`", "--type"),
    ("`expires`", "--expires"),
    ("`user` (the commands: --of)", "--of"),
];

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
    /// What to do about it besides.
    remedy: Option<String>,
    /// The id under which the server logged the cause.
    request_id: Option<String>,
}

impl ServerProblem {
    /// `credential`: what was sent with the request.
    pub async fn read(response: Response, credential: Option<&Credential>) -> Self {
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let request_id = response.headers().get(REQUEST_ID).and_then(|id| Some(id.to_str().ok()?.to_owned()));
        let body = response.text().await.unwrap_or_default();
        let problem: ProblemJson<'static> = serde_json::from_str(&body).unwrap_or_default();
        let slug = problem.slug().map(str::to_owned);
        let detail = problem.detail.into_owned();
        let retry_after = seconds.map(Duration::from_secs);
        let problem = Self { status, slug, detail, retry_after, body, remedy: None, request_id };
        if !problem.is(ProblemKind::Unauthorized) {
            return problem;
        }
        let remedy = match credential {
            None => Some("name the user with --user, or the file of a token with --token-file".to_owned()),
            Some(credential) => credential.remedy(),
        };
        Self { remedy, ..problem }
    }

    /// Says besides what to do about it.
    pub fn with_remedy(self, remedy: String) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    pub fn has_remedy(&self) -> bool {
        self.remedy.is_some()
    }

    /// Whether it is a problem of this kind.
    pub fn is(&self, kind: ProblemKind) -> bool {
        self.slug.as_deref() == Some(kind.slug())
    }

    /// Whether the user has no right to what was asked: there are other reasons for a 403.
    pub fn is_lack_of_right(&self) -> bool {
        self.is(ProblemKind::Forbidden) && self.detail == NO_RIGHT
    }

    /// What to do about it in words of the command line, if `detail` has words of the HTTP API.
    fn by_command(&self) -> Option<String> {
        if self.is(ProblemKind::TooManyAttempts) {
            let wait = self.retry_after.map_or("later".to_owned(), |wait| format!("in {} s", wait.as_secs()));
            Some(format!("Too many wrong passwords were sent: try again {wait}, or use a token, with --token-file"))
        } else if self.is(ProblemKind::Quota) {
            Some(
                "With this you would have more bytes, or more files and folders, than your quota allows: remove some, \
                 or ask an admin for a larger quota. rowdrive user quota NAME says what you have"
                    .to_owned(),
            )
        } else if self.is(ProblemKind::LastAdmin) {
            Some(
                "Make another user an admin first, with rowdrive user promote NAME: without one nobody manages users"
                    .to_owned(),
            )
        } else {
            None
        }
    }

    /// Whether it is the answer of a drive, not of a proxy in front of it.
    pub fn is_of_drive(&self) -> bool {
        self.slug.is_some()
    }
}

fn in_command_words(detail: &str) -> String {
    WORDS.iter().fold(detail.to_owned(), |text, (of_api, of_command)| text.replace(of_api, of_command))
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by_command().unwrap_or_else(|| in_command_words(&self.detail)).as_str() {
            "" => write!(f, "the server answered {}", self.status)?,
            detail => write!(f, "{} ({})", detail.trim_end_matches('.'), self.status.as_u16())?,
        }
        if let Some(remedy) = &self.remedy {
            write!(f, "; {remedy}")?;
        }
        match &self.request_id {
            Some(id) if self.status == StatusCode::INTERNAL_SERVER_ERROR => write!(f, "; request id {id}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: ProblemKind, retry_after: Option<u64>) -> String {
        let problem = ServerProblem {
            status: StatusCode::from_u16(kind.status()).unwrap(),
            slug: Some(kind.slug().to_owned()),
            detail: "Send the header Retry-After with PATCH /v1/users.".to_owned(),
            retry_after: retry_after.map(Duration::from_secs),
            body: String::new(),
            remedy: None,
            request_id: None,
        };
        problem.to_string()
    }

    #[test]
    fn what_to_do_is_said_in_words_of_the_command_line() {
        let slowed = problem(ProblemKind::TooManyAttempts, Some(30));
        assert!(slowed.contains("try again in 30 s, ") && slowed.ends_with("(429)"), "{slowed}");
        assert!(problem(ProblemKind::TooManyAttempts, None).contains("try again later, "));
        assert!(problem(ProblemKind::Quota, None).contains("rowdrive user quota NAME"));
        assert!(problem(ProblemKind::LastAdmin, None).contains("rowdrive user promote NAME"));
        for kind in [ProblemKind::TooManyAttempts, ProblemKind::Quota, ProblemKind::LastAdmin] {
            let told = problem(kind, Some(1));
            assert!(!told.contains("Retry-After") && !told.contains("/v1/"), "{told}");
        }
        assert_eq!(
            in_command_words("With `to` say `recursive` or `overwrite`"),
            "With TO say --recursive or --overwrite"
        );
        // Others are as the server says it.
        assert_eq!(problem(ProblemKind::Busy, Some(1)), "Send the header Retry-After with PATCH /v1/users (503)");
    }
}
