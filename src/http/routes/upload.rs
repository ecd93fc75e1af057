//! `PUT /v1/fs/<path>`: an upload; with a trailing slash, a directory, or a tar of what it gets ([`unpack`]).

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, Version};
use axum::response::Response;

use crate::api;
use crate::api::entry::EntryJson;
use crate::api::unpack::{OVERWRITE, UnpackLine};
use crate::drive::{DriveError, PutError, PutOptions, UserDrive};
use crate::http::app::App;
use crate::http::media_type;
use crate::http::request::body::{check_end, declared, pieces, refuse_any, refuse_coding};
use crate::http::request::condition::resolve_condition;
use crate::http::request::digest::Digests;
use crate::http::request::watched::while_writable_below;
use crate::http::request::{Creator, Params, Preconditions, RequestPath, single_header};
use crate::http::response::problem::{Problem, Result};
use crate::http::response::written::write_response;
use crate::http::routes::unpack;
use crate::schema::{DrivePath, Timestamp};

const OC_MTIME: HeaderName = HeaderName::from_static(api::header::OC_MTIME);
/// Bytes of a media type.
const TYPE_BYTES: usize = 255;

/// Upload a file
///
/// Missing parents are made, with the file and in one step. What was answered is on the disk.
#[utoipa::path(put, path = "/v1/fs/{path}", operation_id = "upload", tag = "files",
    params(("path" = String, Path, description = "Names, percent-encoded, with slashes between them"),
           ("parents" = Option<bool>, Query, description = "false: 409 if the parent is missing"),
           ("modified" = Option<String>, Query, format = DateTime, description = "When the content was made: RFC 3339, with a zone"),
           ("X-OC-Mtime" = Option<String>, Header, description = "The same, in unix seconds"),
           ("Repr-Digest" = Option<String>, Header, description = "`sha-256=:<base64>:`, verified"),
           ("Content-Digest" = Option<String>, Header, description = "The same: a body has no coding here"),
           ("If-Match" = Option<String>, Header, description = "Replace only this version"),
           ("If-None-Match" = Option<String>, Header, description = "`*`: create only"),
           ("If-Unmodified-Since" = Option<String>, Header, description = "Replace only a version that is not newer")),
    request_body(content = String, content_type = "*/*", description = "The content"),
    responses((status = 201, description = "Stored under a new name", body = EntryJson<'static>,
                headers(("ETag" = String), ("Location" = String))),
              (status = 200, description = "Stored in place of an older version", body = EntryJson<'static>)))]
pub async fn put(
    State(app): State<App>,
    drive: UserDrive,
    target: RequestPath,
    (creator, preconditions): (Creator, Preconditions),
    (uri, version): (Uri, Version),
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    if target.directory {
        let params = Params::parse(uri.query(), &["parents", unpack::PARAMETER, OVERWRITE])?;
        return if params.has(unpack::PARAMETER) {
            unpack::put((&app, &drive), &target.path, (creator, preconditions), &params, (version, &headers), body)
                .await
        } else {
            make_directory(&drive, &target.path, (creator, preconditions), &params, &headers, body).await
        };
    }
    check_end(version, &headers)?;
    refuse_unpack(uri.query())?;
    let params = Params::parse(uri.query(), &["parents", "modified"])?;
    let asked = UploadHeaders::parse(&target.path, &params, &headers, app.options.max_body)?;
    let options = PutOptions {
        mime: asked.mime,
        creator: creator.0,
        modified: asked.modified,
        parents: params.flag("parents", true)?,
        condition: resolve_condition(&drive, &target.path, preconditions).await?,
        length: asked.length,
        digests: asked.digests.values().collect(),
    };
    let parent = target.path.split().map_or_else(DrivePath::root, |(parent, _)| parent);
    let pieces = while_writable_below(pieces(body, asked.length, app.options.max_body), &drive, &parent);
    let written = match drive.put(&target.path, options, pieces).await {
        Err(PutError::Drive(DriveError::DigestMismatch(found))) => return Err(asked.digests.mismatch(found)),
        Err(PutError::Drive(error)) => return Err(error.into()),
        Err(PutError::Body(problem)) => return Err(problem),
        Ok(written) => written,
    };
    let mut response = write_response(&written)?;
    if asked.mtime_accepted {
        response.headers_mut().insert(OC_MTIME, HeaderValue::from_static("accepted"));
    }
    Ok(response)
}

/// What the headers and parameters of an upload say.
pub struct UploadHeaders {
    pub mime: String,
    pub modified: Option<Timestamp>,
    mtime_accepted: bool,
    pub digests: Digests,
    pub length: Option<u64>,
}

impl UploadHeaders {
    /// `limit`: the largest body.
    pub fn parse(path: &DrivePath, params: &Params, headers: &HeaderMap, limit: Option<u64>) -> Result<Self> {
        refuse_coding(headers)?;
        let bad_mtime =
            |_| Problem::malformed("X-OC-Mtime is unix seconds: an integer or a decimal, in the years 1901 to 9999.");
        let mtime = single_header(headers, &OC_MTIME)?
            .map(|t| Timestamp::parse_unix(t.trim()).map_err(bad_mtime))
            .transpose()?;
        let modified = params.time("modified", Timestamp::parse)?;
        Ok(Self {
            mime: type_of(path, headers)?,
            modified: modified.or(mtime),
            mtime_accepted: mtime.is_some() && modified.is_none(),
            digests: Digests::parse(headers)?,
            length: declared(headers, limit)?,
        })
    }
}

/// curl adds the name of the tar to a directory, and so makes a file of it.
fn refuse_unpack(query: Option<&str>) -> Result<()> {
    let mut names = query.unwrap_or_default().split('&').map(|pair| pair.split('=').next());
    if names.all(|name| name != Some(unpack::PARAMETER)) {
        return Ok(());
    }
    Err(Problem::malformed(
        "A tar is unpacked in a directory, whose path ends with a slash, and this path names a file. curl adds the name \
         of a file to such a path: send the tar with `curl -T - '.../v1/fs/directory/?unpack=tar' < file.tar`.",
    ))
}

/// `Content-Type` if it is specific, else what the name suggests.
fn type_of(path: &DrivePath, headers: &HeaderMap) -> Result<String> {
    let sent = single_header(headers, &CONTENT_TYPE)?.map(str::trim).filter(|t| !t.is_empty());
    let essence = sent.map_or(Some(""), media_type::essence);
    let vague = ["", "application/octet-stream", "application/x-www-form-urlencoded"];
    // No type has an asterisk (RFC 6838 section 4.2): `image/*` is a range.
    let is_vague = |essence: &str| essence.contains('*') || vague.iter().any(|v| essence.eq_ignore_ascii_case(v));
    if essence.is_some_and(is_vague) {
        return Ok(media_type::guess(path.last()));
    }
    match sent {
        Some(mime) if mime.len() <= TYPE_BYTES && essence.is_some() => Ok(mime.to_owned()),
        _ => Err(Problem::malformed(format!(
            "Content-Type is one type and subtype, as in image/jpeg, with parameters as RFC 9110 has them, in at most \
             {TYPE_BYTES} bytes."
        ))),
    }
}

/// Make a directory, or store the members of a tar in it
///
/// Without `unpack`: makes the directory, with its parents unless told otherwise.
///
/// With `unpack=tar`: each file and directory of the tar is stored below the directory, as an upload of its own. The answer
/// has a line for each member, which is sent when the member is on the disk, and a last line with `done`. Links, devices
/// and names that cannot be stored are refused, and the rest goes on.
#[utoipa::path(put, path = "/v1/fs/{path}/", operation_id = "make_directory", tag = "files",
    params(("path" = String, Path, description = "Names, percent-encoded, with slashes between them"),
           ("parents" = Option<bool>, Query, description = "false: 409 if the parent is missing. Not with `unpack`"),
           ("unpack" = Option<String>, Query, pattern = "^tar$", description = "The body is a tar"),
           ("overwrite" = Option<bool>, Query,
            description = "false: a file that is there stays, and the line of the member says 412. Only with `unpack`")),
    request_body(content = Option<String>, content_type = "application/x-tar", description = "With `unpack`: ustar, pax or GNU"),
    responses((status = 201, description = "Made", body = EntryJson<'static>),
              (status = 200, description = "It was there; or with `unpack`, a line for each member and a last one",
                content((EntryJson<'static> = "application/json"), (UnpackLine<'static> = "application/x-ndjson")))))]
pub async fn make_directory(
    drive: &UserDrive,
    path: &DrivePath,
    (creator, preconditions): (Creator, Preconditions),
    params: &Params,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response> {
    if params.has(OVERWRITE) {
        return Err(Problem::malformed("`overwrite` is for the members of a tar: send `unpack=tar` with it."));
    }
    let parents = params.flag("parents", true)?;
    refuse_any(
        headers,
        body,
        "A path with a trailing slash is a directory, which has no content: add the name of the file, or send a tar with \
         `unpack=tar`.",
    )
    .await?;
    if preconditions != Preconditions::default() {
        let there = match drive.stat(path).await {
            Ok(node) => node.is_directory(),
            Err(DriveError::NotFound | DriveError::ParentMissing | DriveError::ParentIsFile) => false,
            Err(error) => return Err(error.into()),
        };
        if !preconditions.hold_for_directory(there) {
            return Err(Problem::precondition());
        }
    }
    let made = drive.mkdir(path, &creator.0, parents).await?;
    // Another may have made it since: then nothing was changed here, and `If-None-Match: *` has failed.
    if !made.new && !preconditions.hold_for_directory(true) {
        return Err(Problem::precondition());
    }
    write_response(&made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_kept_if_specific_else_guessed() {
        let of = |name: &str, sent: Option<&'static str>| {
            let headers = sent.map(|s| (CONTENT_TYPE, HeaderValue::from_static(s)));
            type_of(&DrivePath::parse(name).unwrap(), &HeaderMap::from_iter(headers)).ok()
        };
        for (name, sent, mime) in [
            ("/a.jpg", None, "image/jpeg"),
            ("/a.JPG", Some("application/octet-stream"), "image/jpeg"),
            ("/a.txt", Some("Application/X-WWW-Form-URLEncoded; charset=x"), "text/plain"),
            ("/a", None, "application/octet-stream"),
            ("/a.jpg", Some("text/plain; charset=utf-8"), "text/plain; charset=utf-8"),
            ("/a.unheard-of", Some(""), "application/octet-stream"),
        ] {
            assert_eq!(of(name, sent).as_deref(), Some(mime), "{name} {sent:?}");
        }
        for bad in ["image", "/jpeg", "image/", "a b/c", "image/jpeg/x", "image/png;, text/html", "text/plain; charset"]
        {
            assert_eq!(of("/a", Some(bad)), None, "{bad}");
        }
    }
}
