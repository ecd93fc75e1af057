//! `/docs/`: Swagger UI for `/openapi.json`. It is part of the program, and loads nothing from other servers.

use std::borrow::Cow;
use std::io::{self, Cursor, Read};
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_FRAME_OPTIONS};
use axum::response::{IntoResponse, Redirect, Response};
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
use zip::ZipArchive;

use crate::http::response::problem::{Problem, Result};

const PAGE: &str = r#"<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Rowdrive API</title><link rel="stylesheet" href="swagger-ui.css"></head>
<body><div id="api"></div><script src="swagger-ui-bundle.js"></script><script src="start.js"></script></body>
</html>
"#;
/// Without `validatorUrl` it would send the description to a public server for validation.
const START: &str = r##"SwaggerUIBundle({ url: "/openapi.json", dom_id: "#api", validatorUrl: null, tryItOutEnabled: true });
"##;
/// The page sends requests at a click, so no foreign page may show it in a frame.
const POLICY: &str =
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/// `/docs`.
pub async fn to_page() -> Redirect {
    Redirect::permanent("/docs/")
}

pub async fn page() -> Response {
    served("text/html; charset=utf-8", PAGE.into())
}

pub async fn asset(Path(name): Path<String>) -> Result<Response> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    match name.as_str() {
        "start.js" => Ok(served(SCRIPT, START.into())),
        "swagger-ui.css" => unpacked(&name).map(|css| served("text/css; charset=utf-8", css)),
        "swagger-ui-bundle.js" => unpacked(&name).map(|script| served(SCRIPT, script)),
        _ => Err(Problem::not_found()),
    }
}

fn served(mime: &'static str, body: Bytes) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(mime)),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        // For browsers that do not support `frame-ancestors`.
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    ];
    (headers, body).into_response()
}

/// A file of Swagger UI. Each file is unpacked once.
fn unpacked(name: &str) -> Result<Bytes> {
    static CSS: OnceLock<io::Result<Bytes>> = OnceLock::new();
    static SCRIPT: OnceLock<io::Result<Bytes>> = OnceLock::new();
    let cached = if name.ends_with(".css") { &CSS } else { &SCRIPT };
    cached.get_or_init(|| unpack(name)).as_ref().cloned().map_err(|e| Problem::internal(e))
}

fn unpack(name: &str) -> io::Result<Bytes> {
    let mut archive = ZipArchive::new(Cursor::new(SWAGGER_UI_VENDORED))?;
    let inside = format!("/dist/{name}");
    let path = archive.file_names().flatten().find(|path| path.ends_with(&inside)).map(Cow::into_owned);
    let path = path.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, inside))?;
    let mut bytes = Vec::new();
    archive.by_name(&path)?.read_to_end(&mut bytes)?;
    Ok(bytes.into())
}
