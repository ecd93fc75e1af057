//! Every route on one page.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderValue, Method};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use axum::routing::{get, post};
use futures_util::future::{BoxFuture, Either};
use http_body::Body as _;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tower_service::Service;

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
    Routes::new(drive, options, metrics, registry).all
}

/// All routes. The most frequent ones are called without the router of axum and its boxes around each handler.
#[derive(Clone)]
pub struct Routes {
    app: App,
    all: Router,
}

impl Routes {
    pub fn new(drive: Drive, options: Options, metrics: HttpMetrics, registry: Registry) -> Self {
        let unpacking = Arc::new(Semaphore::new(UNPACKING));
        let tars = Arc::new(Semaphore::new(tars(drive.memory())));
        let app = App(Arc::new(SharedState { drive, options, metrics, unpacking, tars, registry }));
        Self { all: all(app.clone()), app }
    }

    /// The same routes, and further ones, which bypass the middleware.
    pub fn merge(self, routes: Router) -> Self {
        Self { all: self.all.merge(routes), ..self }
    }
}

impl Service<Request> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<BoxFuture<'static, Result<Response, Infallible>>, RouteFuture<Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match frequent(&request) {
            Some(pattern) => Either::Left(Box::pin(call_frequent(self.app.clone(), pattern, request))),
            None => Either::Right(self.all.call(request)),
        }
    }
}

/// The pattern of a frequent route, if the request is for one.
fn frequent(request: &Request) -> Option<&'static str> {
    let path = request.uri().path();
    let pattern = [(pattern::STAT_ROOT, pattern::STAT_PATH), (pattern::FS_ROOT, pattern::FS_PATH)];
    let (_, pattern) = pattern.into_iter().find(|(start, _)| path.starts_with(start))?;
    matches!(*request.method(), Method::GET | Method::HEAD).then_some(pattern)
}

async fn call_frequent(app: App, pattern: &'static str, request: Request) -> Result<Response, Infallible> {
    let is_head = request.method() == Method::HEAD;
    let mut response = access_log::handle(app.clone(), request, Some(pattern), |request| async {
        let (parts, _) = request.into_parts();
        let response = match pattern {
            pattern::STAT_PATH => stat::get_parts(app, parts).await,
            _ => download::get_parts(app, parts).await,
        };
        response.into_response()
    })
    .await;
    // As axum does, whatever the status.
    let length = response.body().size_hint().exact().map(HeaderValue::from);
    if let Some(length) = length.filter(|_| !response.headers().contains_key(CONTENT_LENGTH)) {
        response.headers_mut().insert(CONTENT_LENGTH, length);
    }
    if is_head {
        *response.body_mut() = Body::empty();
    }
    Ok(response)
}

fn all(app: App) -> Router {
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
