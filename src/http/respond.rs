//! JSON answers.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::entry::{Entries, Page};
use super::problem::{Problem, Result};
use crate::drive::Node;
use crate::schema::DrivePath;

/// About how many bytes an entry has, but for its path.
const ENTRY: usize = 400;

pub fn json(value: &impl Serialize) -> Result<Response> {
    json_of(value, ENTRY)
}

/// A page of entries; `path` is the directory's, if it lists one.
pub fn page(path: Option<&DrivePath>, nodes: &[Node], next: Option<String>) -> Result<Response> {
    // The path is there whole, and its last name once more.
    let bytes: usize = nodes.iter().map(|node| ENTRY + 2 * node.path().as_str().len()).sum();
    json_of(&Page { path: path.map(DrivePath::as_str), entries: Entries(nodes), next }, ENTRY + bytes)
}

/// `bytes` is about how long it gets: a buffer that grows is copied again and again.
fn json_of(value: &impl Serialize, bytes: usize) -> Result<Response> {
    let mut body = Vec::with_capacity(bytes);
    serde_json::to_writer(&mut body, value).map_err(|e| Problem::internal(&e))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}
