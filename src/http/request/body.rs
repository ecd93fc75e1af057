//! Bodies: JSON, uploads, and what is known of a body before it is read.

use axum::body::{Body, Bytes};
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, EXPECT, ORIGIN, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, Version};
use futures_util::stream::{self, Stream, StreamExt};
use serde::de::DeserializeOwned;
use tracing::Level;

use super::digest::Digests;
use super::single_header;
use crate::api::problem::ProblemKind;
use crate::budget::Budget;
use crate::http::media_type;
use crate::http::response::memory;
use crate::http::response::problem::{Problem, Result};
use crate::http::server::body_timeout::BodyTooSlow;
use crate::schema::file::Digest;
use crate::sha256::sha256;

/// Bytes of a JSON body: two paths of 4,096 bytes fit even if every byte is escaped.
const JSON_BYTES: u64 = 64 * 1024;
const JSON: &str = "application/json";

/// The length that a request says its body has, checked against what the server takes.
pub fn declared(headers: &HeaderMap, limit: Option<u64>) -> Result<Option<u64>> {
    let Some(text) = single_header(headers, &CONTENT_LENGTH)? else {
        return Ok(None);
    };
    let length = text.parse().map_err(|_| Problem::malformed("Content-Length is not a number."))?;
    match limit {
        Some(limit) if length > limit => Err(Problem::too_large(limit)),
        _ => Ok(Some(length)),
    }
}

/// Whether an upload says where it ends. Over HTTP/1.0 it must (RFC 1945 section 7.2.2): the HTTP library takes one that
/// does not for empty, whatever is sent, and that would replace a file. Over HTTP/1.1 it is empty (RFC 9112 section 6.3).
pub fn check_end(version: Version, headers: &HeaderMap) -> Result<()> {
    let says = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
    if version >= Version::HTTP_11 || says {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::LengthRequired,
        "Nothing is stored: send the body with Content-Length, which says where it ends.",
    ))
}

/// Refuses an upload that is a part of a body, or that is not sent as it is to be read.
pub fn refuse_coding(headers: &HeaderMap) -> Result<()> {
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Problem::malformed("A file is sent whole: Content-Range does not go with PUT."));
    }
    let coding = single_header(headers, &CONTENT_ENCODING)?;
    if coding.is_some_and(|coding| !coding.trim().eq_ignore_ascii_case("identity")) {
        return Err(Problem::new(
            ProblemKind::MediaType,
            "Send the file as it is: it is stored as it comes, without Content-Encoding.",
        ));
    }
    Ok(())
}

/// The pieces of an upload. The stream ends with a problem if the body is cut, too long, or not as long as declared.
pub fn pieces(body: Body, declared: Option<u64>, limit: Option<u64>) -> impl Stream<Item = Result<Bytes>> {
    stream::try_unfold((body.into_data_stream(), 0u64), move |(mut pieces, received)| async move {
        let Some(piece) = pieces.next().await else {
            if declared.is_some_and(|length| length != received) {
                return Err(cut(&"it is not as long as Content-Length says"));
            }
            return Ok(None);
        };
        let piece = piece.map_err(|error| broken(&error))?;
        let received = received.saturating_add(piece.len() as u64);
        if let Some(limit) = limit.filter(|limit| received > *limit) {
            return Err(Problem::too_large(limit));
        }
        Ok(Some((piece, (pieces, received))))
    })
}

/// Refuses a body where none belongs, without reading more of it than it takes to know.
pub async fn refuse_any(headers: &HeaderMap, body: Body, detail: &'static str) -> Result<()> {
    let refused = || Problem::malformed(detail);
    let length = declared(headers, None)?;
    // A client that waits for `100 Continue` has a body to send.
    if length.is_some_and(|length| length > 0) || (length.is_none() && headers.contains_key(EXPECT)) {
        return Err(refused());
    }
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        if !piece.map_err(|error| broken(&error))?.is_empty() {
            return Err(refused());
        }
    }
    Ok(())
}

/// Reads a JSON body. Unknown members are refused by the type (`deny_unknown_fields`).
pub async fn json<T: DeserializeOwned>(memory: &Budget, headers: &HeaderMap, body: Body) -> Result<T> {
    json_within(memory, headers, body, JSON_BYTES).await
}

/// As [`json`], of a body of so many bytes at most.
pub async fn json_within<T: DeserializeOwned>(
    memory: &Budget,
    headers: &HeaderMap,
    body: Body,
    limit: u64,
) -> Result<T> {
    let length = check_head(headers, limit, JSON)?;
    let _permit = memory::take(memory, length as usize).await?;
    from_json(&whole(headers, body, limit).await?)
}

/// As [`json_within`], with no permit: of what anybody may send, and users must not wait for. So each connection may have
/// `limit` bytes more than its buffers.
pub async fn json_of_login<T: DeserializeOwned>(headers: &HeaderMap, body: Body, limit: u64) -> Result<T> {
    check_head(headers, limit, JSON)?;
    from_json(&whole(headers, body, limit).await?)
}

fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| {
        let what: String = in_words(&error.to_string()).chars().take(200).collect();
        Problem::malformed(format!("The JSON body is not as it should be: {what}."))
    })
}

/// The text of an error of the JSON, without names of types of this program.
fn in_words(error: &str) -> String {
    let Some((found, expected)) = error.rsplit_once(", expected ") else { return error.to_owned() };
    let (kind, rest) = expected.split_once(' ').unwrap_or((expected, ""));
    let after_name = rest.split_once(' ').map_or("", |(_, after)| after);
    let (expected, rest) = match kind {
        "struct" => ("an object", after_name),
        "enum" => ("a word", after_name),
        "u8" | "u16" | "u32" | "u64" => ("a whole number, 0 or more,", rest),
        _ => return error.to_owned(),
    };
    [found, ", expected ", expected, " ", rest].concat()
}

/// Reads the fields of an HTML form, which has so many bytes at most, and comes from a page of this server. With no permit, as
/// [`json_of_login`].
pub async fn form_of_login(headers: &HeaderMap, body: Body, limit: u64) -> Result<Vec<(String, String)>> {
    // Every page can send a form anywhere: what comes with it, the middleware has compared.
    if !headers.contains_key(ORIGIN) {
        return Err(Problem::new(ProblemKind::ForeignOrigin, "Only the page of this very server may send this form."));
    }
    check_head(headers, limit, "application/x-www-form-urlencoded")?;
    let text = whole(headers, body, limit).await?;
    Ok(form_urlencoded::parse(&text).into_owned().collect())
}

/// Refuses a body of another type, and one that says it has more bytes than the limit. Returns how many bytes it has, at most.
fn check_head(headers: &HeaderMap, limit: u64, kind: &'static str) -> Result<u64> {
    let essence = single_header(headers, &CONTENT_TYPE)?.and_then(|t| media_type::essence(t.trim()));
    if !essence.is_some_and(|essence| essence.eq_ignore_ascii_case(kind)) {
        return Err(Problem::new(ProblemKind::MediaType, format!("Send the body as Content-Type: {kind}.")));
    }
    Ok(declared(headers, Some(limit))?.unwrap_or(limit))
}

/// Reads a whole body into memory.
async fn whole(headers: &HeaderMap, body: Body, limit: u64) -> Result<Vec<u8>> {
    let digests = Digests::parse(headers)?;
    let mut pieces = body.into_data_stream();
    let mut text: Vec<u8> = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece: Bytes = piece.map_err(|error| broken(&error))?;
        if (text.len() + piece.len()) as u64 > limit {
            return Err(Problem::too_large(limit));
        }
        text.extend_from_slice(&piece);
    }
    if !digests.is_empty() {
        digests.check(Digest(sha256(&text)))?;
    }
    Ok(text)
}

/// Why a body could not be read to its end.
fn broken(error: &axum::Error) -> Problem {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<BodyTooSlow>() {
            return Problem::new(
                ProblemKind::SlowClient,
                "Nothing is stored: send the body without long pauses, and at least 1 KiB a second on average.",
            );
        }
        cause = error.source();
    }
    cut(error)
}

/// The problem of a body that ended early.
pub fn cut(cause: &dyn std::fmt::Debug) -> Problem {
    Problem::new(ProblemKind::BodyCut, "The body was not sent whole, so nothing is stored: send it again.").because(
        Level::INFO,
        "a body was cut",
        cause,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::account::{GrantRequest, ShareRequest, UserChangeRequest};

    #[test]
    fn what_is_wrong_with_json_is_said_without_types_of_the_program() {
        fn said<T: DeserializeOwned>(json: &str) -> String {
            in_words(&serde_json::from_str::<T>(json).err().unwrap().to_string())
        }
        for (text, expected) in [
            (r#"{"quota":null}"#, "invalid type: null, expected an object at line 1 column 13"),
            (r#"{"quota":5}"#, "invalid type: integer `5`, expected an object at line 1 column 10"),
            (
                r#"{"quota":{"bytes":-1}}"#,
                "invalid value: integer `-1`, expected a whole number, 0 or more, at line 1 column 20",
            ),
            (
                r#"{"quota":{"files":"1"}}"#,
                "invalid type: string \"1\", expected a whole number, 0 or more, at line 1 column 21",
            ),
            ("5", "invalid type: integer `5`, expected an object at line 1 column 1"),
            (r#"{"admin":5}"#, "invalid type: integer `5`, expected a boolean at line 1 column 10"),
        ] {
            assert_eq!(said::<UserChangeRequest>(text), expected);
        }
        let others = [
            said::<UserChangeRequest>(r#"{"quota":{"byte":1}}"#),
            said::<GrantRequest>("[]"),
            said::<UserChangeRequest>("{"),
            said::<ShareRequest>(r#"{"mode":5}"#),
            said::<ShareRequest>(r#"{"mode":{}}"#),
            said::<ShareRequest>(r#"{"mode":"other"}"#),
            said::<ShareRequest>(r#"{"downloads":99999999999999999999}"#),
            said::<GrantRequest>(r#"{"rights":5}"#),
            said::<GrantRequest>(r#"{"rights":[null]}"#),
        ];
        for said in others {
            let leaks = ["struct", "enum", "u64", "Json", "Request"].iter().any(|word| said.contains(word));
            assert!(!leaks, "{said}");
        }
    }
}
