//! The answer to a tar whose members are stored: a line of JSON for each member, and a last line.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::ProblemKind;

/// The parameter that asks for it, and its only value.
pub const PARAMETER: (&str, &str) = ("unpack", "tar");
/// The parameter that says whether files are replaced; without it they are.
pub const OVERWRITE: &str = "overwrite";
/// The media type of the answer.
pub const MEDIA_TYPE: &str = "application/x-ndjson";
/// The pax record of a member that has the SHA-256 of its content, written as in `Repr-Digest`.
pub const DIGEST_RECORD: &str = "ROWDRIVE.repr-digest";

/// What became of one member of a tar. It is sent when that is on the disk.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = UnpackedMember)]
#[allow(missing_docs)]
pub struct MemberLine<'a> {
    /// From the root. Of a name that is refused: the path of the directory, a slash, and the name as the tar has it.
    #[schema(value_type = String, example = "/photos/2026/cat.jpg")]
    pub path: Cow<'a, str>,
    /// 201 if it is new; 200 if it has replaced a file, or if the directory was there; or that of a problem.
    pub status: u16,
    /// The kind of problem, if it is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "/problems/precondition-failed")]
    pub r#type: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub detail: Option<Cow<'a, str>>,
}

/// The last line: whether the whole tar has been read.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = UnpackEnd)]
#[allow(missing_docs)]
pub struct EndLine<'a> {
    /// False if the tar was cut or malformed, or if the server stopped: what has no line is not stored.
    pub done: bool,
    /// Members that have a line.
    pub count: u64,
    /// Those of them that are not stored.
    pub failed: u64,
    /// The status of the problem, if it is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub detail: Option<Cow<'a, str>>,
}

/// A line of the answer.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = UnpackLine)]
pub enum UnpackLine<'a> {
    /// The last one.
    End(EndLine<'a>),
    /// Any other one.
    Member(MemberLine<'a>),
}

impl<'a> MemberLine<'a> {
    /// The line of a member that is stored.
    pub fn stored(path: &'a str, status: u16) -> Self {
        Self { path: path.into(), status, r#type: None, detail: None }
    }

    /// The line of a member that is not.
    pub fn refused(path: &'a str, kind: ProblemKind, detail: &'a str) -> Self {
        Self { path: path.into(), status: kind.status(), r#type: Some(kind.uri()), detail: Some(detail.into()) }
    }
}

impl<'a> EndLine<'a> {
    /// The last line of a whole tar.
    pub fn done(count: u64, failed: u64) -> Self {
        Self { done: true, count, failed, status: None, r#type: None, detail: None }
    }

    /// The last line of another one.
    pub fn broken(count: u64, failed: u64, kind: ProblemKind, detail: &'a str) -> Self {
        let (status, r#type) = (Some(kind.status()), Some(kind.uri()));
        Self { done: false, count, failed, status, r#type, detail: Some(detail.into()) }
    }
}
