//! The JSON of users, sessions, tokens, shares and grants.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::rights::RightJson;

/// The largest body of a request.
pub const BODY_BYTES: u64 = 16 << 10;

/// Where the home of a new user is made, unless told otherwise: below this directory, by his name.
pub const HOMES: &str = "/home";

/// A member that is absent, and not null, is none. To be used with `default`.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A name and a password.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Login)]
#[allow(missing_docs)]
pub struct LoginRequest {
    pub user: String,
    pub password: String,
}

/// The largest sums that a user may have. `files` counts directories too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Quota)]
pub struct QuotaJson {
    /// Bytes of content; null: no limit.
    #[serde(default)]
    #[schema(required, example = json!(null))]
    pub bytes: Option<u64>,
    /// Files and directories, both together; null: no limit.
    #[serde(default)]
    #[schema(required, example = json!(null))]
    pub files: Option<u64>,
}

/// What changes of a quota. What is absent stays, and null removes the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QuotaChange)]
pub struct QuotaChangeJson {
    /// Bytes of content.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub bytes: Option<Option<u64>>,
    /// Files and directories, both together.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub files: Option<Option<u64>>,
}

/// The files and directories of which a user is the creator, those of a deleted directory until they are cleared away.
/// `files` counts both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Usage)]
pub struct UsageJson {
    /// Bytes of content.
    pub bytes: u64,
    /// Files and directories, both together.
    pub files: u64,
}

/// Who asks, and what he may do.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Session)]
#[allow(missing_docs)]
pub struct SessionJson {
    /// Null on a drive without users.
    #[schema(required)]
    pub user: Option<String>,
    /// Whether he may do everything with what he has sent.
    pub admin: bool,
    /// The directories on which he was given rights.
    pub rights: Vec<RightsJson>,
    pub quota: QuotaJson,
    pub usage: UsageJson,
}

/// All rights that a user has on a directory and below it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Rights)]
#[allow(missing_docs)]
pub struct RightsJson {
    #[schema(example = "/home/tom")]
    pub path: String,
    #[schema(value_type = Vec<String>, example = json!(["read", "write"]))]
    pub rights: Vec<RightJson>,
}

/// A login that is still valid.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ListedSession)]
#[allow(missing_docs)]
pub struct ListedSessionJson {
    #[schema(format = Uuid)]
    pub id: String,
    #[schema(format = DateTime)]
    pub created: String,
    /// To the hour.
    #[schema(format = DateTime)]
    pub last_used: String,
    /// Whether the request was sent with it.
    pub current: bool,
}

/// A page of sessions.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionPage)]
#[allow(missing_docs)]
pub struct SessionsJson {
    pub sessions: Vec<ListedSessionJson>,
    #[schema(required)]
    pub next: Option<String>,
}

/// A user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = User)]
#[allow(missing_docs)]
pub struct UserJson {
    #[schema(example = "tom")]
    pub name: String,
    /// His name for people; may be empty.
    pub display: String,
    /// Whether he may do everything.
    pub admin: bool,
    /// Whether he cannot log in for now.
    pub disabled: bool,
    pub quota: QuotaJson,
    pub usage: UsageJson,
    #[schema(format = DateTime)]
    pub created: String,
}

/// A page of users.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = UserPage)]
#[allow(missing_docs)]
pub struct UsersJson {
    pub users: Vec<UserJson>,
    #[schema(required)]
    pub next: Option<String>,
}

/// A user to be made.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewUser)]
#[allow(missing_docs)]
pub struct NewUserRequest {
    #[schema(example = "tom")]
    pub name: String,
    /// 8 characters to 1,024 bytes.
    pub password: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// Whether he may do everything. The first user always may.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub admin: Option<bool>,
    /// The directory on which he gets all rights: absent, a new one, `/home/<name>`; a path, that one, made if it is
    /// missing; null, none.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub home: Option<Option<String>>,
    /// Absent: no limit.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaJson>,
}

/// What changes of a user. What is absent stays.
#[derive(Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UserChange)]
#[allow(missing_docs)]
pub struct UserChangeRequest {
    /// Null removes it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub display: Option<Option<String>>,
    /// A new password revokes all sessions but that of the request.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The present password: a user who is no admin proves it again for a new one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub admin: Option<bool>,
    /// Revokes all sessions; tokens work again once it is false.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Only an admin changes it. A quota that is lower than the usage refuses only what adds to it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaChangeJson>,
}

/// Rights of a user on a directory and below it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Grant)]
#[allow(missing_docs)]
pub struct GrantJson {
    #[schema(example = "/photos")]
    pub path: String,
    /// `*`: every user.
    #[schema(example = "tom")]
    pub user: String,
    #[schema(value_type = Vec<String>, example = json!(["read", "write"]))]
    pub rights: Vec<RightJson>,
    /// The user who has given it; null: an admin.
    #[schema(required)]
    pub by: Option<String>,
}

/// A page of grants.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = GrantPage)]
#[allow(missing_docs)]
pub struct GrantsJson {
    pub grants: Vec<GrantJson>,
    #[schema(required)]
    pub next: Option<String>,
}

/// Rights to be given, in place of those that the same giver gave before.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewGrant)]
#[allow(missing_docs)]
pub struct GrantRequest {
    #[schema(example = "/photos")]
    pub path: String,
    #[schema(example = "tom")]
    pub user: String,
    #[schema(value_type = Vec<String>, example = json!(["read", "write"]))]
    pub rights: Vec<RightJson>,
}

/// A token.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Token)]
#[allow(missing_docs)]
pub struct TokenJson {
    #[schema(format = Uuid)]
    pub id: String,
    pub name: String,
    /// Whether it may do all that its user may, changes of his account included.
    pub account: bool,
    /// The one directory that it is for. Null if it is for the account, or if its user does not see the directory any
    /// more.
    #[schema(required)]
    pub path: Option<String>,
    #[schema(value_type = Vec<String>, example = json!(["read"]))]
    pub rights: Vec<RightJson>,
    #[schema(required, format = DateTime)]
    pub expires: Option<String>,
    #[schema(format = DateTime)]
    pub created: String,
    /// To the hour; null: never.
    #[schema(required, format = DateTime)]
    pub last_used: Option<String>,
    /// What its user sends. It is told once, when the token is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A page of tokens.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TokenPage)]
#[allow(missing_docs)]
pub struct TokensJson {
    pub tokens: Vec<TokenJson>,
    #[schema(required)]
    pub next: Option<String>,
}

/// A token to be made.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewToken)]
#[allow(missing_docs)]
pub struct TokenRequest {
    /// What its user calls it.
    #[schema(example = "phone")]
    pub name: String,
    /// The one directory that it is for; absent: the token may do all that its user may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Absent: all three, as far as its user has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub rights: Option<Vec<RightJson>>,
    /// When it expires. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires: Option<String>,
}

/// The bytes that may be uploaded by a share, unless told otherwise.
pub const UPLOAD_BYTES: u64 = 10 << 30;

/// What a share allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareModeJson {
    /// To list and download.
    Read,
    /// To add files, and nothing else.
    Upload,
}

/// What people without an account may do by its link.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Share)]
#[allow(missing_docs)]
pub struct ShareJson {
    #[schema(format = Uuid)]
    pub id: String,
    /// Its target, wherever that has moved. Null if who asks does not see it any more.
    #[schema(required)]
    pub path: Option<String>,
    /// Who has made it.
    #[schema(example = "tom")]
    pub user: String,
    #[schema(value_type = String, example = "read")]
    pub mode: ShareModeJson,
    /// Whether the link asks for one.
    pub password: bool,
    #[schema(required, format = DateTime)]
    pub expires: Option<String>,
    /// How many downloads are left. Null: no limit, or an upload share.
    #[schema(required)]
    pub downloads: Option<u64>,
    /// How many bytes may still be uploaded. Null: a share to read.
    #[schema(required)]
    pub bytes: Option<u64>,
    #[schema(format = DateTime)]
    pub created: String,
    /// The path of the link. It is told once, when the share is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A page of shares.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SharePage)]
#[allow(missing_docs)]
pub struct SharesJson {
    pub shares: Vec<ShareJson>,
    #[schema(required)]
    pub next: Option<String>,
}

/// A share to be made.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewShare)]
#[allow(missing_docs)]
pub struct ShareRequest {
    /// Its target: a directory or a file. To upload by: a directory.
    #[schema(example = "/photos")]
    pub path: String,
    /// `read` or `upload`.
    #[schema(value_type = String, example = "read")]
    pub mode: ShareModeJson,
    /// What the link asks for: 8 characters to 1,024 bytes. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// When it expires. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires: Option<String>,
    /// Of mode `read`: after so many downloads it is used up. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub downloads: Option<u64>,
    /// Of mode `upload`: the bytes of all files together. Absent: 10 GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_null_and_a_value_are_three_things() {
        let home = |json: &str| serde_json::from_str::<NewUserRequest>(json).map(|user| user.home).ok();
        assert_eq!(home(r#"{"name":"a","password":"b"}"#), Some(None));
        assert_eq!(home(r#"{"name":"a","password":"b","home":null}"#), Some(Some(None)));
        assert_eq!(home(r#"{"name":"a","password":"b","home":"/x"}"#), Some(Some(Some("/x".into()))));
        assert_eq!(home(r#"{"name":"a","password":"b","quotas":{}}"#), None, "an unknown member");
        assert_eq!(home(r#"{"name":"a","password":"b","quota":null}"#), None, "its limits are null");
        let change = |json: &str| serde_json::from_str::<UserChangeRequest>(json).is_ok();
        assert!(change("{}") && change(r#"{"display":null}"#) && change(r#"{"admin":true}"#));
        let quota = |json: &str| serde_json::from_str::<UserChangeRequest>(json).ok().map(|change| change.quota);
        let bytes = |bytes| Some(Some(QuotaChangeJson { bytes, files: None }));
        assert_eq!(quota(r#"{"quota":{}}"#), bytes(None));
        assert_eq!(quota(r#"{"quota":{"bytes":null}}"#), bytes(Some(None)));
        assert_eq!(quota(r#"{"quota":{"bytes":18446744073709551615}}"#), bytes(Some(Some(u64::MAX))));
        for bad in [r#"null"#, r#"{"bytes":-1}"#, r#"{"bytes":1.5}"#, r#"{"bytes":"1"}"#, r#"{"byte":1}"#] {
            assert_eq!(quota(&format!(r#"{{"quota":{bad}}}"#)), None, "{bad}");
        }
        assert!(!change(r#"{"password":null}"#) && !change(r#"{"admin":null}"#) && !change(r#"{"name":"x"}"#));
    }
}
