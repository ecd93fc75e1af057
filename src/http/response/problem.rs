//! Errors as clients see them: `application/problem+json` (RFC 9457). Errors of the drive and of content become problems
//! here. Some routes, such as `routes/move_copy.rs` and `routes/upload.rs`, choose another problem for one error. The
//! status of each kind of problem is in [`api::problem`](crate::api::problem).
//!
//! A handler returns a [`Problem`]; as a response it is a status, headers and itself as an extension, which
//! [`access_log`](crate::http::middleware::access_log) renders together with the request's id. There its [`Cause`] is
//! logged too, once, and never sent.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tracing::{Level, Span};
use uuid::Uuid;

use crate::api::problem::{MEDIA_TYPE, NO_RIGHT, ProblemJson, ProblemKind};
use crate::auth::AuthError;
use crate::content::ContentError;
use crate::drive::DriveError;
use crate::schema::PathError;

pub type Result<T> = std::result::Result<T, Problem>;

fn status(kind: ProblemKind) -> StatusCode {
    StatusCode::from_u16(kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[derive(Clone, Debug)]
pub struct Problem {
    kind: ProblemKind,
    /// What to do about it.
    detail: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
    damage: bool,
    cause: Option<Arc<Cause>>,
}

/// Why there is a problem: what the log says of it, in the span in which it was found.
#[derive(Debug)]
struct Cause {
    level: Level,
    event: &'static str,
    error: String,
    span: Span,
}

impl Problem {
    pub fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Self {
        let header = match status(kind) {
            StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, HeaderValue::from_static("1"))),
            // What comes next may be the rest of a body.
            StatusCode::REQUEST_TIMEOUT | StatusCode::LENGTH_REQUIRED => {
                Some((CONNECTION, HeaderValue::from_static("close")))
            }
            _ => None,
        };
        Self { kind, detail: detail.into(), header, damage: false, cause: None }
    }

    /// The same problem, with its cause for the log.
    pub fn because(self, level: Level, event: &'static str, error: &dyn std::fmt::Debug) -> Self {
        let cause = Cause { level, event, error: format!("{error:?}"), span: Span::current() };
        Self { cause: Some(Arc::new(cause)), ..self }
    }

    /// Logs its cause, if it has one. Each problem that is answered is logged once.
    pub fn log(&self) {
        let Some(Cause { level, event, error: cause, span }) = self.cause.as_deref() else { return };
        span.in_scope(|| match *level {
            Level::ERROR => tracing::error!(%cause, "{event}"),
            _ => tracing::info!(%cause, "{event}"),
        });
    }

    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemKind::Malformed, detail)
    }

    pub fn not_found() -> Self {
        Self::new(
            ProblemKind::NotFound,
            "Nothing stands at this path: check its spelling, or list its parent directory.",
        )
    }

    pub fn no_such_route() -> Self {
        Self::new(ProblemKind::NoSuchRoute, "Files are under /v1/fs/, with a slash between names.")
    }

    /// 404, the same for a wrong link and for that of a share that has ended, in whatever way.
    pub fn no_share() -> Self {
        Self::new(ProblemKind::NotFound, "There is nothing here: the link is wrong, or it has ended.")
    }

    /// 404 for an upload beside `fs/`, the same for a wrong link: curl adds a file's name to an address that ends with `/`.
    pub fn no_upload_here() -> Self {
        Self::no_share().with_detail(
            "Nothing is taken here, whether there is such a link or not. The link of an upload share takes a file at \
             `/s/<secret>/fs/<name>`: add `fs/` to it, as with `curl -T photo.jpg '.../s/<secret>/fs/'`.",
        )
    }

    /// The problem of a share: one that has ended is as if it never was.
    pub fn of_share(error: AuthError) -> Self {
        match error {
            AuthError::Unauthorized => Self::no_share(),
            error => error.into(),
        }
    }

    /// 401 for a share with a password. The middleware adds what it asks for.
    pub fn share_password() -> Self {
        let detail = "The link has a password: send it by HTTP Basic with any name, or open the link in a browser.";
        Self::new(ProblemKind::Unauthorized, detail)
    }

    /// 409 for what is about users, on a drive without them.
    pub fn no_users() -> Self {
        let detail = "This drive has no users, and anybody who reaches it may do everything. Its operator makes the \
            first one, an admin, while the server is stopped: rowdrive user add NAME --data DIR.";
        Self::new(ProblemKind::NoUsers, detail)
    }

    /// 429 for so many seconds.
    pub fn slowed(seconds: u64) -> Self {
        let detail = "Too many wrong passwords: wait as long as Retry-After says. A token or a session works.";
        let header = Some((RETRY_AFTER, HeaderValue::from(seconds)));
        Self { header, ..Self::new(ProblemKind::TooManyAttempts, detail) }
    }

    pub fn forbidden() -> Self {
        Self::new(ProblemKind::Forbidden, NO_RIGHT)
    }

    /// 401, the same whatever is wrong. The middleware adds what it asks for.
    pub fn unauthorized() -> Self {
        Self::new(ProblemKind::Unauthorized, "The name or the password is missing or wrong, or the token has ended.")
    }

    /// 507 for a user with a quota.
    fn quota() -> Self {
        Self::new(
            ProblemKind::Quota,
            "With this you would have more bytes, or more files and directories, than your quota allows: remove some, or \
             ask an admin for a larger quota. `GET /v1/session` says what you have.",
        )
    }

    pub fn no_memory() -> Self {
        Self::new(ProblemKind::Busy, "The server has no memory for this now: others are being served. Try again.")
    }

    pub fn precondition() -> Self {
        Self::new(
            ProblemKind::Precondition,
            "The file is not in the state that the request asks for: read it again, then decide.",
        )
    }

    /// 405 for this kind of thing; `allow` lists what it takes.
    pub fn method(allow: &str, detail: &'static str) -> Self {
        let header = HeaderValue::from_str(allow).ok().map(|value| (ALLOW, value));
        Self { header, ..Self::new(ProblemKind::Method, detail) }
    }

    /// 416 for a file of this size.
    pub fn range(size: u64) -> Self {
        let problem = Self::new(ProblemKind::Range, format!("The file has {size} bytes: ask for a range within them."));
        Self { header: HeaderValue::try_from(format!("bytes */{size}")).ok().map(|v| (CONTENT_RANGE, v)), ..problem }
    }

    pub fn too_large(limit: u64) -> Self {
        Self::new(
            ProblemKind::BodyTooLarge,
            format!("This server takes at most {limit} bytes in one request: send less, or raise its limit."),
        )
    }

    /// A fault of the server. `cause` is logged, and never sent.
    pub fn internal(cause: &dyn std::fmt::Debug) -> Self {
        Self::new(ProblemKind::Internal, "The server could not do this; its log says why under this request's id.")
            .because(Level::ERROR, "request failed", cause)
    }

    /// Rows or content are not as they were written.
    pub fn damaged(cause: &dyn std::fmt::Debug) -> Self {
        let problem = Self::new(
            ProblemKind::Damaged,
            "What this asks for cannot be read back as it was stored. Tell the operator this request's id; the rest of \
             the drive is served.",
        );
        Self { damage: true, ..problem.because(Level::ERROR, "something stored is damaged", cause) }
    }

    fn writes_stopped() -> Self {
        Self::new(
            ProblemKind::WritesStopped,
            "A write failed, and the server takes no more until its operator restarts it. Reading still works.",
        )
    }

    /// Whether it came of something that is damaged.
    pub fn is_damage(&self) -> bool {
        self.damage
    }

    /// The problem of a read: a path below a file, or below a missing directory, does not exist.
    pub fn reading(error: DriveError) -> Self {
        match error {
            DriveError::ParentMissing | DriveError::ParentIsFile | DriveError::IsFile => Self::not_found(),
            other => other.into(),
        }
    }

    /// An error of the directory that `under` names, which bounds a query.
    pub fn under(error: DriveError) -> Self {
        match error {
            DriveError::IsFile => Self::malformed("`under` is a file: name a directory."),
            DriveError::NotFound | DriveError::ParentMissing | DriveError::ParentIsFile => {
                Self::new(ProblemKind::NotFound, "There is no directory at `under`: check its spelling.")
            }
            other => other.into(),
        }
    }

    pub fn status(&self) -> StatusCode {
        status(self.kind)
    }

    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What an answer with this problem has besides its status, such as when to try again.
    pub fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        self.header.clone()
    }

    /// The same problem, with another text of what to do about it.
    pub fn with_detail(self, detail: &'static str) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Fills in the body of a response that this problem became.
    pub fn render(&self, response: &mut Response, request: Uuid) {
        response.headers_mut().remove(CONTENT_LENGTH);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        *response.body_mut() = Body::from(self.body(request));
    }

    /// The whole answer, for a connection on which there is no request that it could be the answer of.
    pub fn raw(&self) -> Vec<u8> {
        let body = self.body(Uuid::now_v7());
        let retry = self.header.iter().filter(|(name, _)| *name == RETRY_AFTER);
        let retry: String =
            retry.map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap_or("1"))).collect();
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {}\r\n{retry}Connection: close\r\n\r\n",
            status(self.kind),
            body.len()
        );
        [head.into_bytes(), body].concat()
    }

    fn body(&self, request: Uuid) -> Vec<u8> {
        let json = ProblemJson::new(self.kind, &self.detail, request.to_string());
        serde_json::to_vec(&json).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = status(self.kind).into_response();
        if let Some((name, value)) = &self.header {
            response.headers_mut().insert(name, value.clone());
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<PathError> for Problem {
    fn from(error: PathError) -> Self {
        let kind = match error {
            PathError::TooLong(_) => ProblemKind::TargetTooLong,
            _ => ProblemKind::Malformed,
        };
        Self::new(kind, format!("Not a path: {error}."))
    }
}

impl From<DriveError> for Problem {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::NotFound => Self::not_found(),
            DriveError::Forbidden => Self::forbidden(),
            DriveError::Unauthorized => Self::unauthorized(),
            DriveError::ParentMissing => {
                Self::new(ProblemKind::ParentMissing, "Make the directory that is to hold it first.")
            }
            DriveError::ParentIsFile => {
                Self::new(ProblemKind::ParentIsFile, "Nothing can stand below a file: choose another path.")
            }
            DriveError::IsDirectory => Self::new(
                ProblemKind::IsDirectory,
                "A directory stands at this path: add a slash if you mean it, or choose another path.",
            ),
            DriveError::IsFile => {
                Self::new(ProblemKind::IsFile, "A file stands at this path: choose another path, or remove it first.")
            }
            DriveError::Exists => Self::new(
                ProblemKind::Exists,
                "Something is there already: choose another target. `overwrite` lets a file replace a file, and a folder's copy add to a folder that is there; a folder is never replaced, nor copied into itself or onto what holds it.",
            ),
            DriveError::NotEmpty => Self::new(
                ProblemKind::NotEmpty,
                "There is something in the directory: remove that first, or say `recursive`.",
            ),
            DriveError::Root => {
                Self::malformed("The root is always there: it can be neither moved, nor copied, nor removed.")
            }
            DriveError::IntoItself => Self::malformed("The target lies inside the source: choose another one."),
            DriveError::Precondition => Self::precondition(),
            DriveError::DigestMismatch(_) => Self::new(
                ProblemKind::DigestMismatch,
                "The body has another SHA-256 than was expected, so nothing was done: send it again.",
            ),
            DriveError::Outgrown => Self::new(
                ProblemKind::PathTooLong,
                "Something in the directory would have a path of over 4,096 bytes or 128 levels: choose a shorter target.",
            ),
            DriveError::Account(error) => error.into(),
            DriveError::Path(error) => error.into(),
            DriveError::NoMemory => Self::no_memory(),
            DriveError::Contended => Self::new(ProblemKind::Busy, "Others are changing the same files: try again."),
            DriveError::Quota => Self::quota(),
            DriveError::Closing => Self::new(ProblemKind::Closing, "Try again when the server is back."),
            DriveError::Content(error) => error.into(),
            DriveError::Busy => Self::new(ProblemKind::Busy, "Too many writes are waiting: try again."),
            DriveError::Full(_) => disk_full(&error),
            DriveError::Unknown { full, .. } => unknown_outcome(&error, full),
            DriveError::Stopped(_) => Self::writes_stopped(),
            DriveError::ReadOnly => Self::new(
                ProblemKind::ReadOnly,
                "The server serves a damaged drive, for reading only: list and download what is there.",
            ),
            DriveError::Damaged(_) | DriveError::Value(_) => Self::damaged(&error),
            DriveError::Failed(_) => Self::internal(&error),
        }
    }
}

impl From<ContentError> for Problem {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::Full(_) => disk_full(&error),
            ContentError::TooLarge => {
                Self::new(ProblemKind::BodyTooLarge, "The file is larger than this drive can hold: send it in parts.")
            }
            ContentError::Gone(_) => Self::new(ProblemKind::Busy, "The file is being replaced: try again."),
            ContentError::Damaged { .. } | ContentError::Cell(_) => Self::damaged(&error),
            ContentError::Stopped(_) => Self::writes_stopped(),
            ContentError::Io(_) => Self::internal(&error),
        }
    }
}

/// `full`: the disk had no room.
fn unknown_outcome(cause: &dyn std::fmt::Debug, full: bool) -> Problem {
    if full {
        return Problem::new(
            ProblemKind::DiskFull,
            "There was no room left, and the change may have happened or not: make room, look, then try again.",
        )
        .because(Level::ERROR, "the disk was full while a write was under way", cause);
    }
    Problem::new(ProblemKind::OutcomeUnknown, "The change may have happened or not: look, then try again.").because(
        Level::ERROR,
        "the outcome of a write is not known",
        cause,
    )
}

fn disk_full(cause: &dyn std::fmt::Debug) -> Problem {
    Problem::new(
        ProblemKind::DiskFull,
        "There is no room for this, besides what is kept in reserve: remove files, whose room comes back within seconds, or give the server more room. Reading still works.",
    )
    .because(Level::ERROR, "the disk is full", cause)
}
