//! Every route on one page.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use super::app::{App, SharedState, UNPACKING, tars};
use super::metrics::HttpMetrics;
use super::middleware::access_log;
use super::options::Options;
use super::response::problem::Problem;
use super::routes::pattern;
use super::routes::{
    by_name, by_time, delete, download, health, metrics, move_copy, openapi, stat, swagger_ui, upload,
};
use crate::api::problem::ProblemKind;
use crate::drive::Drive;

/// The routes alone, for a caller with a socket of its own. `registry` has further metrics for `/metrics`.
pub fn router(drive: Drive, options: Options, mut registry: Registry) -> Router {
    let metrics = HttpMetrics::register(&mut registry);
    routes(drive, options, metrics, registry)
}

pub(super) fn routes(drive: Drive, options: Options, metrics: HttpMetrics, registry: Registry) -> Router {
    let unpacking = Arc::new(Semaphore::new(UNPACKING));
    let tars = Arc::new(Semaphore::new(tars(drive.memory())));
    let app = App(Arc::new(SharedState { drive, options, metrics, unpacking, tars, registry }));
    let fs = get(download::get).put(upload::put).delete(delete::delete);
    let api = Router::new()
        .route(pattern::FS, get(download::to_root))
        .route(pattern::FS_ROOT, fs.clone())
        .route(pattern::FS_PATH, fs)
        .route(pattern::STAT_ROOT, get(stat::get))
        .route(pattern::STAT_PATH, get(stat::get))
        .route(pattern::FILES, get(by_time::get))
        .route(pattern::FIND, get(by_name::get))
        .route(pattern::MOVE, post(move_copy::move_to))
        .route(pattern::COPY, post(move_copy::copy_to));
    Router::new()
        .merge(api)
        .route(pattern::HEALTHZ, get(health::alive))
        .route(pattern::READYZ, get(health::ready))
        .route(pattern::METRICS, get(metrics::get))
        .route(pattern::OPENAPI, get(openapi::get))
        .route(pattern::DOCS, get(swagger_ui::to_page))
        .route(pattern::DOCS_PAGE, get(swagger_ui::page))
        .route(pattern::DOCS_ASSET, get(swagger_ui::asset))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        // One layer for the whole middleware: each further layer would cost a twentieth of the server's throughput.
        .layer(from_fn_with_state(app.clone(), access_log::record))
        .with_state(app)
}

async fn no_such_route() -> Problem {
    Problem::new(ProblemKind::NoSuchRoute, "Files are under /v1/fs/, with a slash between names.")
}

/// axum adds `Allow`.
async fn no_such_method() -> Problem {
    Problem::new(ProblemKind::Method, "The Allow header lists the methods of this resource.")
}
