//! The API's description (OpenAPI 3.1), made of what stands at each handler.

use axum::response::Response;
use utoipa::openapi::path::{HttpMethod, Operation, Parameter};
use utoipa::openapi::{ContentBuilder, OpenApi as Description, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::problem::{Kind, MEDIA_TYPE, Rendered, Result};
use super::respond;
use super::{files, find, fs_delete, fs_get, fs_put, health, listing, metrics, relocate, stat};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Rowdrive",
        description = "Files and directories under `/v1/fs/`, where a slash at the end of a path means a directory, \
            and queries over all of them. Names are percent-encoded, slashes between them are not. Unknown parameters \
            and JSON members are errors."
    ),
    paths(
        fs_get::get,
        fs_put::put,
        fs_delete::delete,
        listing::get,
        fs_put::make_directory,
        fs_delete::delete_directory,
        stat::get,
        relocate::move_to,
        relocate::copy_to,
        files::get,
        find::get,
        health::alive,
        health::ready,
        metrics::get
    ),
    components(schemas(Rendered)),
    tags(
        (name = "files", description = "Files and directories"),
        (name = "queries", description = "Files by time and by name"),
        (name = "operating", description = "How the server is")
    ),
    modifiers(&Heads, &Problems, &Root)
)]
struct Api;

/// `GET /openapi.json`.
pub async fn get() -> Result<Response> {
    respond::json(&Api::openapi())
}

/// HEAD wherever there is GET of a file: the same without a body.
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

/// The problems that each operation may answer with.
struct Problems;

/// Whatever is asked.
const ALWAYS: [Kind; 6] =
    [Kind::Malformed, Kind::SlowClient, Kind::TargetTooLong, Kind::UnknownHost, Kind::Internal, Kind::Busy];
/// Where something may be missing.
const READING: [Kind; 2] = [Kind::NotFound, Kind::Precondition];
const WRITING: [Kind; 8] = [
    Kind::ForeignOrigin,
    Kind::NotFound,
    Kind::Exists,
    Kind::Precondition,
    Kind::BodyTooLarge,
    Kind::MediaType,
    Kind::TransferCoding,
    Kind::DiskFull,
];

impl Modify for Problems {
    fn modify(&self, api: &mut Description) {
        for item in api.paths.paths.values_mut() {
            let reads = [item.get.as_mut(), item.head.as_mut()].into_iter().flatten();
            reads.for_each(|operation| add(operation, &READING));
            let writes = [item.put.as_mut(), item.post.as_mut(), item.delete.as_mut()].into_iter().flatten();
            writes.for_each(|operation| add(operation, &WRITING));
        }
        if let Some(upload) = api.paths.paths.get_mut("/v1/fs/{path}").and_then(|file| file.put.as_mut()) {
            add(upload, &[Kind::LengthRequired]);
        }
    }
}

fn add(operation: &mut Operation, kinds: &[Kind]) {
    let operating = operation.tags.iter().flatten().any(|tag| tag == "operating");
    for kind in ALWAYS.iter().chain(kinds.iter().filter(|_| !operating)) {
        let (status, _, title) = kind.row();
        let description = match kind {
            Kind::Malformed => "The request is malformed, or its body is not what its digest says",
            Kind::Exists => "Something else stands at the path or above it, or the directory is not empty",
            Kind::Busy => "The server is busy or shutting down, or the outcome is not known: see Retry-After",
            _ => title,
        };
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new().description(description);
        let response = if operation.operation_id.as_deref() == Some("head") {
            response
        } else {
            response.content(MEDIA_TYPE, problem)
        };
        operation.responses.responses.entry(status.as_str().to_owned()).or_insert_with(|| response.into());
    }
}

/// The root is a directory like any other, under a path without a name; it is always there.
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
