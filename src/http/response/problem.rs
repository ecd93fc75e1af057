//! Errors as clients see them: `application/problem+json` (RFC 9457). The only place where an error becomes a
//! status.
//!
//! A handler returns a [`Problem`]; as a response it is a status, headers and itself as an extension, which
//! [`access`](super::access) renders together with the request's id. What caused a 5xx is logged here, once,
//! and never sent.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::content::ContentError;
use crate::drive::{DriveError, StoreError};
use crate::schema::PathError;

pub type Result<T> = std::result::Result<T, Problem>;

pub const MEDIA_TYPE: &str = "application/problem+json";

/// The kinds of problems; each has a stable address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Malformed,
    DigestMismatch,
    BodyCut,
    ForeignOrigin,
    NotFound,
    NoSuchRoute,
    Method,
    ParentMissing,
    ParentIsFile,
    IsDirectory,
    IsFile,
    Exists,
    NotEmpty,
    PathTooLong,
    LengthRequired,
    Precondition,
    BodyTooLarge,
    TargetTooLong,
    MediaType,
    Range,
    UnknownHost,
    SlowClient,
    Internal,
    Damaged,
    TransferCoding,
    Busy,
    OutcomeUnknown,
    Closing,
    ReadOnly,
    WritesStopped,
    DiskFull,
}

impl Kind {
    /// Status, the last part of the `type` and the title.
    pub const fn row(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Malformed => (StatusCode::BAD_REQUEST, "malformed", "The request is malformed"),
            Self::DigestMismatch => {
                (StatusCode::BAD_REQUEST, "digest-mismatch", "The body is not what its digest says")
            }
            Self::BodyCut => (StatusCode::BAD_REQUEST, "body-cut", "The body ended early"),
            Self::ForeignOrigin => (StatusCode::FORBIDDEN, "foreign-origin", "A write from another site"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "There is nothing here"),
            Self::NoSuchRoute => (StatusCode::NOT_FOUND, "no-such-route", "There is no such resource"),
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "This method is not for this resource")
            }
            Self::ParentMissing => (StatusCode::CONFLICT, "parent-missing", "A parent directory is missing"),
            Self::ParentIsFile => (StatusCode::CONFLICT, "parent-is-file", "A parent is a file"),
            Self::IsDirectory => (StatusCode::CONFLICT, "is-directory", "This is a directory"),
            Self::IsFile => (StatusCode::CONFLICT, "is-file", "This is a file"),
            Self::Exists => (StatusCode::CONFLICT, "exists", "The target exists"),
            Self::NotEmpty => (StatusCode::CONFLICT, "not-empty", "The directory is not empty"),
            Self::PathTooLong => (StatusCode::CONFLICT, "path-too-long", "A path would become too long or too deep"),
            Self::LengthRequired => {
                (StatusCode::LENGTH_REQUIRED, "length-required", "The length of the body is not said")
            }
            Self::Precondition => {
                (StatusCode::PRECONDITION_FAILED, "precondition-failed", "A precondition does not hold")
            }
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "The body is too large"),
            Self::TargetTooLong => (StatusCode::URI_TOO_LONG, "target-too-long", "The path is too long"),
            Self::MediaType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", "The body has a type that is not taken here")
            }
            Self::Range => (StatusCode::RANGE_NOT_SATISFIABLE, "range", "The range lies outside the file"),
            Self::UnknownHost => (StatusCode::MISDIRECTED_REQUEST, "unknown-host", "This server has another name"),
            Self::SlowClient => (StatusCode::REQUEST_TIMEOUT, "slow-client", "The request came too slowly"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed"),
            Self::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, "damaged", "What is stored is damaged"),
            Self::TransferCoding => {
                (StatusCode::NOT_IMPLEMENTED, "transfer-coding", "The body has a coding that is not known here")
            }
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy", "The server is busy"),
            Self::OutcomeUnknown => (StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown", "The outcome is not known"),
            Self::Closing => (StatusCode::SERVICE_UNAVAILABLE, "closing", "The server is shutting down"),
            Self::ReadOnly => (StatusCode::SERVICE_UNAVAILABLE, "read-only", "The drive is open for reading only"),
            Self::WritesStopped => {
                (StatusCode::SERVICE_UNAVAILABLE, "writes-stopped", "The drive takes no more writes")
            }
            Self::DiskFull => (StatusCode::INSUFFICIENT_STORAGE, "disk-full", "The disk is full"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Problem {
    kind: Kind,
    /// What to do about it.
    detail: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
    damage: bool,
}

/// What went wrong, and what to do about it (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct Rendered<'a> {
    /// The kind of problem.
    #[schema(example = "/problems/not-found")]
    r#type: String,
    title: &'a str,
    status: u16,
    /// What to do about it.
    detail: &'a str,
    /// The id of the request, by which the server's log tells more.
    #[schema(format = Uuid)]
    instance: String,
}

impl Problem {
    pub fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Self {
        let header = match kind.row().0 {
            StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, HeaderValue::from_static("1"))),
            // What comes next may be the rest of a body.
            StatusCode::REQUEST_TIMEOUT | StatusCode::LENGTH_REQUIRED => {
                Some((CONNECTION, HeaderValue::from_static("close")))
            }
            _ => None,
        };
        Self { kind, detail: detail.into(), header, damage: false }
    }

    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Malformed, detail)
    }

    pub fn not_found() -> Self {
        Self::new(Kind::NotFound, "Nothing stands at this path: check its spelling, or list its parent directory.")
    }

    pub fn no_memory() -> Self {
        Self::new(Kind::Busy, "The server has no memory for this now: others are being served. Try again.")
    }

    pub fn precondition() -> Self {
        Self::new(
            Kind::Precondition,
            "The file is not in the state that the request asks for: read it again, then decide.",
        )
    }

    /// 405 for this kind of thing; `allow` lists what it takes.
    pub fn method(allow: &'static str, detail: &'static str) -> Self {
        Self { header: Some((ALLOW, HeaderValue::from_static(allow))), ..Self::new(Kind::Method, detail) }
    }

    /// 416 for a file of this size.
    pub fn range(size: u64) -> Self {
        let problem = Self::new(Kind::Range, format!("The file has {size} bytes: ask for a range within them."));
        Self { header: HeaderValue::try_from(format!("bytes */{size}")).ok().map(|v| (CONTENT_RANGE, v)), ..problem }
    }

    pub fn too_large(limit: u64) -> Self {
        Self::new(
            Kind::BodyTooLarge,
            format!("This server takes at most {limit} bytes in one request: send less, or raise its limit."),
        )
    }

    /// A fault of ours. `cause` is logged, and never sent.
    pub fn internal(cause: &dyn std::fmt::Debug) -> Self {
        tracing::error!(?cause, "request failed");
        Self::new(Kind::Internal, "The server could not do this; its log says why under this request's id.")
    }

    /// Rows or content are not as they were written.
    fn damaged(cause: &dyn std::fmt::Debug) -> Self {
        tracing::error!(?cause, "something stored is damaged");
        Self {
            damage: true,
            ..Self::new(
                Kind::Damaged,
                "What this asks for cannot be read back as it was stored. Tell the operator this request's id; the \
                 rest of the drive is served.",
            )
        }
    }

    fn writes_stopped() -> Self {
        Self::new(
            Kind::WritesStopped,
            "A write failed, and the server takes no more until its operator restarts it. Reading still works.",
        )
    }

    /// Whether it came of something that is damaged.
    pub fn is_damage(&self) -> bool {
        self.damage
    }

    /// An error met while reading: what lies below a file, or below nothing, is just not there.
    pub fn reading(error: DriveError) -> Self {
        match error {
            DriveError::ParentMissing | DriveError::ParentIsFile | DriveError::IsFile => Self::not_found(),
            other => other.into(),
        }
    }

    #[cfg(test)]
    pub fn kind(&self) -> Kind {
        self.kind
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
            self.kind.row().0,
            body.len()
        );
        [head.into_bytes(), body].concat()
    }

    fn body(&self, request: Uuid) -> Vec<u8> {
        let (status, name, title) = self.kind.row();
        let rendered = Rendered {
            r#type: format!("/problems/{name}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            instance: request.to_string(),
        };
        serde_json::to_vec(&rendered).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.kind.row().0.into_response();
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
            PathError::TooLong(_) => Kind::TargetTooLong,
            _ => Kind::Malformed,
        };
        Self::new(kind, format!("Not a path: {error}."))
    }
}

impl From<DriveError> for Problem {
    fn from(error: DriveError) -> Self {
        match error {
            DriveError::NotFound => Self::not_found(),
            DriveError::ParentMissing => Self::new(Kind::ParentMissing, "Make the directory that is to hold it first."),
            DriveError::ParentIsFile => {
                Self::new(Kind::ParentIsFile, "Nothing can stand below a file: choose another path.")
            }
            DriveError::IsDirectory => Self::new(
                Kind::IsDirectory,
                "A directory stands at this path: add a slash if you mean it, or choose another path.",
            ),
            DriveError::IsFile => {
                Self::new(Kind::IsFile, "A file stands at this path: choose another path, or remove it first.")
            }
            DriveError::Exists => Self::new(
                Kind::Exists,
                "Something is there already: choose another target. `overwrite` lets a file replace a file, and a folder's copy add to a folder that is there; a folder is never replaced, nor copied into itself or onto what holds it.",
            ),
            DriveError::NotEmpty => {
                Self::new(Kind::NotEmpty, "There is something in the directory: remove that first, or say `recursive`.")
            }
            DriveError::Root => {
                Self::malformed("The root is always there: it can be neither moved, nor copied, nor removed.")
            }
            DriveError::IntoItself => Self::malformed("The target lies inside the source: choose another one."),
            DriveError::Precondition => Self::precondition(),
            DriveError::Outgrown => Self::new(
                Kind::PathTooLong,
                "Something in the directory would have a path of over 4,096 bytes or 128 levels: choose a shorter target.",
            ),
            DriveError::Path(error) => error.into(),
            DriveError::NoMemory => Self::no_memory(),
            DriveError::Contended => Self::new(Kind::Busy, "Others are changing the same files: try again."),
            DriveError::Closing => Self::new(Kind::Closing, "Try again when the server is back."),
            DriveError::Content(error) => error.into(),
            DriveError::Store(error) => error.into(),
            DriveError::Value(_) => Self::damaged(&error),
        }
    }
}

impl From<ContentError> for Problem {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::Full(_) => disk_full(&error),
            ContentError::TooLarge => {
                Self::new(Kind::BodyTooLarge, "The file is larger than this drive can hold: send it in parts.")
            }
            ContentError::Gone(_) => Self::new(Kind::Busy, "The file is being replaced: try again."),
            ContentError::Damaged { .. } | ContentError::Cell(_) => Self::damaged(&error),
            ContentError::Stopped(_) => Self::writes_stopped(),
            ContentError::Io(_) => Self::internal(&error),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::new(Kind::Busy, "Too many writes are waiting: try again."),
            StoreError::Full(_) => disk_full(&error),
            StoreError::Unknown { full: true, .. } => {
                tracing::error!(cause = ?error, "the disk was full while a write was under way");
                Problem::new(
                    Kind::DiskFull,
                    "There was no room left, and the change may have happened or not: make room, look, then try again.",
                )
            }
            StoreError::Unknown { .. } => {
                tracing::error!(cause = ?error, "the outcome of a write is not known");
                Problem::new(Kind::OutcomeUnknown, "The change may have happened or not: look, then try again.")
            }
            StoreError::Damaged(_) => Self::damaged(&error),
            StoreError::Stopped(_) => Self::writes_stopped(),
            StoreError::ReadOnly => Self::new(
                Kind::ReadOnly,
                "The server serves a damaged drive, for reading only: list and download what is there.",
            ),
            StoreError::Broken(_) | StoreError::OtherSpec(..) | StoreError::TooWide { .. } | StoreError::Failed(_) => {
                Self::internal(&error)
            }
        }
    }
}

fn disk_full(cause: &dyn std::fmt::Debug) -> Problem {
    tracing::error!(?cause, "the disk is full");
    Problem::new(
        Kind::DiskFull,
        "There is no room for this: remove files, or give the server more room. Reading still works.",
    )
}
