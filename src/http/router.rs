//! Every route on one page.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use prometheus_client::registry::Registry;

use super::metrics::Metrics;
use super::problem::{Kind, Problem};
use super::{
    App, Options, Shared, access, docs, files, find, fs_delete, fs_get, fs_put, health, metrics, openapi, relocate,
    stat,
};
use crate::drive::Drive;

/// The routes alone, for a caller with a socket of its own. `registry`: what `/metrics` tells besides.
pub fn router(drive: Drive, options: Options, mut registry: Registry) -> Router {
    let metrics = Metrics::register(&mut registry);
    routes(drive, options, metrics, registry)
}

pub(super) fn routes(drive: Drive, options: Options, metrics: Metrics, registry: Registry) -> Router {
    let app = App(Arc::new(Shared { drive, options, metrics, registry }));
    let fs = get(fs_get::get).put(fs_put::put).delete(fs_delete::delete);
    let api = Router::new()
        .route("/v1/fs", get(fs_get::to_root))
        .route("/v1/fs/", fs.clone())
        .route("/v1/fs/{*path}", fs)
        .route("/v1/stat/", get(stat::get))
        .route("/v1/stat/{*path}", get(stat::get))
        .route("/v1/files", get(files::get))
        .route("/v1/find", get(find::get))
        .route("/v1/move", post(relocate::move_to))
        .route("/v1/copy", post(relocate::copy_to));
    Router::new()
        .merge(api)
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::get))
        .route("/openapi.json", get(openapi::get))
        .route("/docs", get(docs::to_page))
        .route("/docs/", get(docs::page))
        .route("/docs/{name}", get(docs::asset))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        // One layer for all that is around a request: each of its own would cost a twentieth of the server's pace.
        .layer(from_fn_with_state(app.clone(), access::record))
        .with_state(app)
}

/// What a route is called in the metrics: its pattern, directories apart from files.
pub(super) fn label(pattern: Option<&str>, directory: bool) -> &'static str {
    match (pattern.unwrap_or_default(), directory) {
        ("/v1/fs/{*path}" | "/v1/fs/", true) | ("/v1/fs", _) => "/v1/fs/{path}/",
        ("/v1/fs/{*path}", false) => "/v1/fs/{path}",
        ("/v1/stat/{*path}" | "/v1/stat/", _) => "/v1/stat/{path}",
        ("/v1/files", _) => "/v1/files",
        ("/v1/find", _) => "/v1/find",
        ("/v1/move", _) => "/v1/move",
        ("/v1/copy", _) => "/v1/copy",
        ("/healthz" | "/readyz" | "/metrics", _) => "health",
        ("/openapi.json" | "/docs" | "/docs/" | "/docs/{name}", _) => "docs",
        _ => "none",
    }
}

async fn no_such_route() -> Problem {
    Problem::new(Kind::NoSuchRoute, "Files are under /v1/fs/, with a slash between names.")
}

/// axum adds `Allow`.
async fn no_such_method() -> Problem {
    Problem::new(Kind::Method, "The Allow header lists the methods of this resource.")
}
