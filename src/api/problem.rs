//! Errors as they are sent: `application/problem+json` (RFC 9457).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of a [`ProblemJson`].
pub const MEDIA_TYPE: &str = "application/problem+json";
/// The detail of a 403 that says no more than that the requester has no right.
pub const NO_RIGHT: &str = "You have no right to this: ask whoever may share the directory, or an admin.";

/// The `type` of a problem is this and the slug of its kind.
const TYPES: &str = "/problems/";

/// The kinds of problems; each has a stable `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The request is malformed.
    Malformed,
    /// The body is not what its digest says.
    DigestMismatch,
    /// The body ended early.
    BodyCut,
    /// The requester has not proved who he is, or not any more.
    Unauthorized,
    /// The requester has no right to this.
    Forbidden,
    /// A write from another site.
    ForeignOrigin,
    /// The request has come without TLS.
    TlsRequired,
    /// There is nothing here.
    NotFound,
    /// There is no such resource.
    NoSuchRoute,
    /// This method is not for this resource.
    Method,
    /// A parent directory is missing.
    ParentMissing,
    /// A parent is a file.
    ParentIsFile,
    /// This is a directory.
    IsDirectory,
    /// This is a file.
    IsFile,
    /// The target exists.
    Exists,
    /// The directory is not empty.
    NotEmpty,
    /// A path would become too long or too deep.
    PathTooLong,
    /// The drive has no users.
    NoUsers,
    /// The name was given before.
    NameTaken,
    /// No admin would be left.
    LastAdmin,
    /// The user has too many grants.
    TooManyGrants,
    /// The user has too many tokens.
    TooManyTokens,
    /// The user has too many shares.
    TooManyShares,
    /// Too many passwords were wrong.
    TooManyAttempts,
    /// The length of the body is not said.
    LengthRequired,
    /// A precondition does not hold.
    Precondition,
    /// The body is too large.
    BodyTooLarge,
    /// The path is too long.
    TargetTooLong,
    /// The body has a type that is not taken here.
    MediaType,
    /// The range lies outside the file.
    Range,
    /// This server has another name.
    UnknownHost,
    /// The request came too slowly.
    SlowClient,
    /// The server failed.
    Internal,
    /// What is stored is damaged.
    Damaged,
    /// The body has a coding that is not known here.
    TransferCoding,
    /// The server is busy.
    Busy,
    /// The outcome is not known.
    OutcomeUnknown,
    /// The server is shutting down.
    Closing,
    /// The drive is open for reading only.
    ReadOnly,
    /// The drive takes no more writes.
    WritesStopped,
    /// The disk is full.
    DiskFull,
    /// The user's quota would be passed.
    Quota,
    /// An upload share takes no more.
    ShareFull,
}

impl ProblemKind {
    /// Status, slug and title.
    const fn row(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::Malformed => (400, "malformed", "The request is malformed"),
            Self::DigestMismatch => (400, "digest-mismatch", "The body is not what its digest says"),
            Self::BodyCut => (400, "body-cut", "The body ended early"),
            Self::Unauthorized => (401, "unauthorized", "Log in first"),
            Self::Forbidden => (403, "forbidden", "You have no right to this"),
            Self::ForeignOrigin => (403, "foreign-origin", "A write from another site"),
            Self::TlsRequired => (403, "tls-required", "Use https"),
            Self::NotFound => (404, "not-found", "There is nothing here"),
            Self::NoSuchRoute => (404, "no-such-route", "There is no such resource"),
            Self::Method => (405, "method-not-allowed", "This method is not for this resource"),
            Self::ParentMissing => (409, "parent-missing", "A parent directory is missing"),
            Self::ParentIsFile => (409, "parent-is-file", "A parent is a file"),
            Self::IsDirectory => (409, "is-directory", "This is a directory"),
            Self::IsFile => (409, "is-file", "This is a file"),
            Self::Exists => (409, "exists", "The target exists"),
            Self::NotEmpty => (409, "not-empty", "The directory is not empty"),
            Self::PathTooLong => (409, "path-too-long", "A path would become too long or too deep"),
            Self::NoUsers => (409, "no-users", "The drive has no users"),
            Self::NameTaken => (409, "name-taken", "The name was given before"),
            Self::LastAdmin => (409, "last-admin", "No admin would be left"),
            Self::TooManyGrants => (409, "too-many-grants", "The user has too many grants"),
            Self::TooManyTokens => (409, "too-many-tokens", "The user has too many tokens"),
            Self::TooManyShares => (409, "too-many-shares", "The user has too many shares"),
            Self::TooManyAttempts => (429, "too-many-attempts", "Too many passwords were wrong"),
            Self::LengthRequired => (411, "length-required", "The length of the body is not said"),
            Self::Precondition => (412, "precondition-failed", "A precondition does not hold"),
            Self::BodyTooLarge => (413, "body-too-large", "The body is too large"),
            Self::TargetTooLong => (414, "target-too-long", "The path is too long"),
            Self::MediaType => (415, "media-type", "The body has a type that is not taken here"),
            Self::Range => (416, "range", "The range lies outside the file"),
            Self::UnknownHost => (421, "unknown-host", "This server has another name"),
            Self::SlowClient => (408, "slow-client", "The request came too slowly"),
            Self::Internal => (500, "internal", "The server failed"),
            Self::Damaged => (500, "damaged", "What is stored is damaged"),
            Self::TransferCoding => (501, "transfer-coding", "The body has a coding that is not known here"),
            Self::Busy => (503, "busy", "The server is busy"),
            Self::OutcomeUnknown => (503, "outcome-unknown", "The outcome is not known"),
            Self::Closing => (503, "closing", "The server is shutting down"),
            Self::ReadOnly => (503, "read-only", "The drive is open for reading only"),
            Self::WritesStopped => (503, "writes-stopped", "The drive takes no more writes"),
            Self::DiskFull => (507, "disk-full", "The disk is full"),
            Self::Quota => (507, "quota", "Your quota would be passed"),
            Self::ShareFull => (507, "share-full", "The link takes no more"),
        }
    }

    /// The status code of the answer.
    pub const fn status(self) -> u16 {
        self.row().0
    }

    /// The last part of the `type`.
    pub const fn slug(self) -> &'static str {
        self.row().1
    }

    /// The `type`.
    pub fn uri(self) -> String {
        [TYPES, self.slug()].concat()
    }

    /// The title, the same for all problems of this kind.
    pub const fn title(self) -> &'static str {
        self.row().2
    }
}

/// What went wrong, and what to do about it (RFC 9457).
#[derive(Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
#[allow(missing_docs)]
pub struct ProblemJson<'a> {
    /// The kind of problem.
    #[schema(example = "/problems/not-found")]
    pub r#type: String,
    #[serde(default)]
    #[schema(required, value_type = String)]
    pub title: Cow<'a, str>,
    #[serde(default)]
    #[schema(required)]
    pub status: u16,
    /// What to do about it.
    #[schema(value_type = String)]
    pub detail: Cow<'a, str>,
    /// The id of the request, by which the server's log tells more.
    #[serde(default)]
    #[schema(required, format = Uuid)]
    pub instance: String,
}

impl<'a> ProblemJson<'a> {
    /// A problem of this kind; `detail` says what to do about it, `instance` is the id of the request.
    pub fn new(kind: ProblemKind, detail: &'a str, instance: String) -> Self {
        let (status, _, title) = kind.row();
        Self { r#type: kind.uri(), title: title.into(), status, detail: detail.into(), instance }
    }

    /// The slug of its kind, which may be one that this version does not know; none if it is no problem of a drive.
    pub fn slug(&self) -> Option<&str> {
        self.r#type.strip_prefix(TYPES)
    }
}
