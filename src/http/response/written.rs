//! The response to a write: the entry that was written.

use axum::http::StatusCode;
use axum::http::header::{ETAG, LOCATION};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::entry::entry_json;
use super::headers;
use super::json::json;
use super::problem::Result;
use crate::api::{etag, path};
use crate::drive::{Node, Written};

/// The response to a write: 201 if the entry is new, else 200, with its address and its JSON.
pub fn write_response(made: &Written) -> Result<Response> {
    write_response_with(made, &entry_json(&made.node))
}

/// As [`write_response`], with another body.
pub fn write_response_with(made: &Written, body: &impl Serialize) -> Result<Response> {
    let status = if made.new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, json(body)?).into_response();
    let at = path::below(path::FS, made.node.path(), made.node.is_directory());
    response.headers_mut().insert(LOCATION, headers::value(at)?);
    if let Node::File { entry, .. } = &made.node {
        response.headers_mut().insert(ETAG, headers::value(etag::format(entry.id))?);
    }
    Ok(response)
}
