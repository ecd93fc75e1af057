//! JSON answers.

use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::problem::{Problem, Result};

pub fn json(value: &impl Serialize) -> Result<Response> {
    let body = serde_json::to_vec(value).map_err(|e| Problem::internal(&e))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}
