//! The description of the API (OpenAPI 3.1), generated from the attributes of the handlers.

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::response::Response;
use utoipa::openapi::path::{HttpMethod, Operation, Parameter};
use utoipa::openapi::{ContentBuilder, OpenApi as Description, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::{
    by_name, by_share, by_time, delete, download, grants, health, list, metrics, move_copy, session, sessions,
    share_form, share_login, share_upload, shares, stat, tokens, upload, users,
};
use crate::api::problem::{MEDIA_TYPE, ProblemJson, ProblemKind};
use crate::http::response::json;
use crate::http::response::problem::Result;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Rowdrive",
        description = "Files and directories under `/v1/fs/`, where a slash at the end of a path means a directory, \
            and queries over all of them. Names are percent-encoded, slashes between them are not. Unknown parameters \
            and JSON members are errors."
    ),
    paths(
        download::get,
        upload::put,
        delete::delete,
        list::get,
        upload::make_directory,
        delete::delete_directory,
        stat::get,
        move_copy::move_to,
        move_copy::copy_to,
        by_time::get,
        by_name::get,
        session::get,
        session::log_in,
        session::log_out,
        sessions::get,
        sessions::delete_all,
        sessions::delete,
        users::get,
        users::make,
        users::get_one,
        users::change,
        users::remove,
        grants::get,
        grants::put,
        grants::delete,
        tokens::get,
        tokens::make,
        tokens::delete,
        shares::get,
        shares::make,
        shares::delete,
        by_share::page,
        by_share::get,
        by_share::list,
        share_login::log_in,
        share_form::send,
        share_upload::put,
        health::alive,
        health::ready,
        metrics::get
    ),
    components(schemas(ProblemJson)),
    tags(
        (name = "files", description = "Files and directories"),
        (name = "queries", description = "Files by time and by name"),
        (name = "access", description = "Users, and who may do what"),
        (name = "shares", description = "Links for people without an account"),
        (name = "operating", description = "How the server is")
    ),
    modifiers(&Heads, &Problems, &Root)
)]
struct Api;

/// `GET /openapi.json`. It is made once: all answers share its memory.
pub async fn get() -> Result<Response> {
    static DESCRIPTION: OnceLock<Bytes> = OnceLock::new();
    let description = match DESCRIPTION.get() {
        Some(description) => description.clone(),
        None => {
            let made = Bytes::from(json::text(&Api::openapi())?);
            DESCRIPTION.get_or_init(|| made).clone()
        }
    };
    Ok(json::with_headers(description))
}

/// Adds HEAD to the GET of a file: the same without a body.
struct Heads;

impl Modify for Heads {
    fn modify(&self, api: &mut Description) {
        let Some(file) = api.paths.paths.get_mut("/v1/fs/{path}") else { return };
        let Some(mut head) = file.get.clone() else { return };
        head.operation_id = Some("head".to_owned());
        head.summary = Some("The headers of a download".to_owned());
        // A range is for bodies (RFC 9110 section 14.2).
        head.responses.responses.retain(|status, _| !matches!(status.as_str(), "206" | "416"));
        if let Some(parameters) = &mut head.parameters {
            parameters.retain(|parameter| !is_named(parameter, &["Range", "If-Range"]));
        }
        for response in head.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.content.clear();
            }
        }
        file.head = Some(head);
    }
}

fn is_named(parameter: &RefOr<Parameter>, names: &[&str]) -> bool {
    matches!(parameter, RefOr::T(parameter) if names.contains(&parameter.name.as_str()))
}

/// Adds the problems that each operation may answer with.
struct Problems;

/// Problems of every operation.
const ALWAYS: [ProblemKind; 6] = [
    ProblemKind::Malformed,
    ProblemKind::SlowClient,
    ProblemKind::TargetTooLong,
    ProblemKind::UnknownHost,
    ProblemKind::Internal,
    ProblemKind::Busy,
];
/// Problems of operations that read files or directories.
const READING: [ProblemKind; 5] = [
    ProblemKind::Unauthorized,
    ProblemKind::TooManyAttempts,
    ProblemKind::Forbidden,
    ProblemKind::NotFound,
    ProblemKind::Precondition,
];
/// Problems of operations that change them.
const WRITING: [ProblemKind; 10] = [
    ProblemKind::Unauthorized,
    ProblemKind::TooManyAttempts,
    ProblemKind::ForeignOrigin,
    ProblemKind::NotFound,
    ProblemKind::Exists,
    ProblemKind::Precondition,
    ProblemKind::BodyTooLarge,
    ProblemKind::MediaType,
    ProblemKind::TransferCoding,
    ProblemKind::DiskFull,
];

impl Modify for Problems {
    fn modify(&self, api: &mut Description) {
        for item in api.paths.paths.values_mut() {
            let reads = [item.get.as_mut(), item.head.as_mut()].into_iter().flatten();
            reads.for_each(|operation| add(operation, &READING));
            let writes = [item.put.as_mut(), item.post.as_mut(), item.patch.as_mut(), item.delete.as_mut()]
                .into_iter()
                .flatten();
            writes.for_each(|operation| add(operation, &WRITING));
        }
        // It is the one operation of operating that is not for anybody, but for admins.
        if let Some(metrics) = api.paths.paths.get_mut("/metrics").and_then(|item| item.get.as_mut()) {
            let kinds = [ProblemKind::Unauthorized, ProblemKind::TooManyAttempts, ProblemKind::Forbidden];
            kinds.into_iter().for_each(|kind| describe(metrics, kind));
        }
        for path in ["/v1/fs/{path}", "/v1/fs/{path}/", "/s/{secret}/fs/{path}"] {
            if let Some(upload) = api.paths.paths.get_mut(path).and_then(|item| item.put.as_mut()) {
                add(upload, &[ProblemKind::LengthRequired]);
            }
        }
    }
}

fn add(operation: &mut Operation, kinds: &[ProblemKind]) {
    let operating = has_tag(operation, "operating");
    for kind in ALWAYS.iter().chain(kinds.iter().filter(|_| !operating)) {
        describe(operation, *kind);
    }
    // Without users.
    if has_tag(operation, "access") {
        describe(operation, ProblemKind::Exists);
    }
}

fn has_tag(operation: &Operation, name: &str) -> bool {
    operation.tags.iter().flatten().any(|tag| tag == name)
}

fn describe(operation: &mut Operation, kind: ProblemKind) {
    let status = kind.status().to_string();
    let description = match kind {
        ProblemKind::Malformed => "The request is malformed, or its body is not what its digest says",
        ProblemKind::Unauthorized => "The drive has users, and no valid credential was sent",
        ProblemKind::Forbidden => "The user has no right to this, or a page of another site asks",
        ProblemKind::ForeignOrigin => "The user has no right to this, or it is a write from another site",
        ProblemKind::Exists if has_tag(operation, "access") => {
            "The drive has no users, the name was given before, the home is there, or no admin would be left"
        }
        ProblemKind::Exists => "Something else stands at the path or above it, or the directory is not empty",
        ProblemKind::Busy => "The server is busy or shutting down, or the outcome is not known: see Retry-After",
        _ => kind.title(),
    };
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = ResponseBuilder::new().description(description);
    let response = if operation.operation_id.as_deref() == Some("head") {
        response
    } else {
        response.content(MEDIA_TYPE, problem)
    };
    operation.responses.responses.entry(status).or_insert_with(|| response.into());
}

/// Adds the operations on the root: a directory like any other, with a path without a name, which always exists.
struct Root;

impl Modify for Root {
    fn modify(&self, api: &mut Description) {
        let Some(any) = api.paths.paths.get("/v1/fs/{path}/") else { return };
        let (list, make) = (any.get.clone(), any.put.clone());
        for (method, operation, id) in [(HttpMethod::Get, list, "list_root"), (HttpMethod::Put, make, "make_root")] {
            let Some(mut operation) = operation else { continue };
            operation.operation_id = Some(id.to_owned());
            if let Some(parameters) = &mut operation.parameters {
                parameters.retain(|parameter| !is_named(parameter, &["path"]));
            }
            api.paths.add_path_operation("/v1/fs/", vec![method], operation);
        }
    }
}
