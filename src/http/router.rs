//! Every route on one page.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::handler::Handler;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderValue, Method};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use axum::routing::{MethodFilter, MethodRouter, any};
use futures_util::future::{BoxFuture, Either};
use http_body::Body as _;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tower_service::Service;

use super::app::{App, MEMBERS, NAME_LOOKUPS, SharedState, tars};
use super::callers::{Callers, CallersOfRoutes, ShareRoute};
use super::metrics::HttpMetrics;
use super::middleware::access_log;
use super::options::Options;
use super::response::problem::Problem;
use super::routes::pattern;
use super::routes::{
    by_name, by_share, by_time, delete, download, grants, health, login, metrics, move_copy, openapi, session,
    sessions, share_form, share_login, share_upload, shares, start, stat, swagger_ui, tokens, upload, users,
};
use super::share_visitors::ShareVisitors;
use crate::auth::Auth;
use crate::drive::Drive;

/// The routes alone, for a caller with a socket of its own, which adds the [`Peer`](super::Peer) of each request.
/// `auth`: of the same store as the drive. `registry` has further metrics for `/metrics`.
pub fn router(drive: Drive, auth: Auth, options: Options, mut registry: Registry) -> Router {
    let metrics = HttpMetrics::register(&mut registry);
    Routes::new(drive, auth, options, metrics, registry).all
}

/// The pattern and method of every route, and who may call it.
pub fn routes() -> Vec<(&'static str, Method, Callers)> {
    Table::all().callers.all()
}

/// All routes. The most frequent ones are called without the router of axum and its boxes around each handler.
#[derive(Clone)]
pub struct Routes {
    app: App,
    all: Router,
}

impl Routes {
    pub fn new(drive: Drive, auth: Auth, options: Options, metrics: HttpMetrics, registry: Registry) -> Self {
        let members = Arc::new(Semaphore::new(MEMBERS));
        let tars = Arc::new(Semaphore::new(tars(drive.memory())));
        let name_lookups = Arc::new(Semaphore::new(NAME_LOOKUPS));
        let Table { routes, callers } = Table::all();
        let (nobody, share_visitors) = (auth.nobody(), ShareVisitors::default());
        let app = App(Arc::new(SharedState {
            drive,
            auth,
            nobody,
            callers,
            options,
            metrics,
            members,
            tars,
            name_lookups,
            share_visitors,
            registry,
        }));
        Self { all: with_middleware(routes, app.clone()), app }
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
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let path = request.uri().path();
    if path == pattern::FILES {
        return Some(pattern::FILES);
    }
    let patterns = [(pattern::STAT_ROOT, pattern::STAT_PATH), (pattern::FS_ROOT, pattern::FS_PATH)];
    patterns.into_iter().find(|(start, _)| path.starts_with(start)).map(|(_, pattern)| pattern)
}

async fn call_frequent(app: App, pattern: &'static str, request: Request) -> Result<Response, Infallible> {
    let is_head = request.method() == Method::HEAD;
    let mut response = access_log::handle(app.clone(), request, Some(pattern), |request| async {
        let (parts, _) = request.into_parts();
        // In boxes, so that the future around them is small: it is moved a few times.
        let response = match pattern {
            pattern::STAT_PATH => Box::pin(stat::get_parts(app, parts)).await,
            pattern::FILES => Box::pin(by_time::get_parts(app, parts)).await,
            _ => Box::pin(download::get_parts(app, parts)).await,
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

/// The routes, each with its callers.
#[derive(Default)]
struct Table {
    routes: Router<App>,
    callers: CallersOfRoutes,
}

impl Table {
    /// What a user may do with the drive, the drive decides.
    fn all() -> Self {
        let fs = Methods::default()
            .on(Method::GET, Callers::Users, download::get)
            .on(Method::PUT, Callers::Users, upload::put)
            .on(Method::DELETE, Callers::Users, delete::delete);
        Self::default()
            .get(pattern::ROOT, Callers::Users, start::page)
            .get(pattern::FS, Callers::Users, download::to_root)
            .route(pattern::FS_ROOT, fs.clone())
            .route(pattern::FS_PATH, fs)
            .get(pattern::STAT_ROOT, Callers::Users, stat::get)
            .get(pattern::STAT_PATH, Callers::Users, stat::get)
            .get(pattern::FILES, Callers::Users, by_time::get)
            .get(pattern::FIND, Callers::Users, by_name::get)
            .post(pattern::MOVE, Callers::Users, move_copy::move_to)
            .post(pattern::COPY, Callers::Users, move_copy::copy_to)
            .with_accounts()
            .with_shares()
            .get(pattern::HEALTHZ, Callers::Anybody, health::alive)
            .get(pattern::READYZ, Callers::Anybody, health::ready)
            .get(pattern::METRICS, Callers::Admins, metrics::get)
            .get(pattern::OPENAPI, Callers::Users, openapi::get)
            .get(pattern::DOCS, Callers::Users, swagger_ui::to_page)
            .get(pattern::DOCS_PAGE, Callers::Users, swagger_ui::page)
            .get(pattern::DOCS_ASSET, Callers::Users, swagger_ui::asset)
    }

    /// Who sends a request, and users and their rights.
    fn with_accounts(self) -> Self {
        let session = Methods::default()
            .on(Method::GET, Callers::Users, session::get)
            .on(Method::POST, Callers::Anybody, session::log_in)
            .on(Method::DELETE, Callers::Users, session::log_out);
        let sessions = Methods::default().on(Method::GET, Callers::Users, sessions::get).on(
            Method::DELETE,
            Callers::Users,
            sessions::delete_all,
        );
        let users = Methods::default().on(Method::GET, Callers::Admins, users::get).on(
            Method::POST,
            Callers::Admins,
            users::make,
        );
        let user = Methods::default()
            .on(Method::GET, Callers::Users, users::get_one)
            .on(Method::PATCH, Callers::Users, users::change)
            .on(Method::DELETE, Callers::Admins, users::remove);
        let grants = Methods::default()
            .on(Method::GET, Callers::Users, grants::get)
            .on(Method::PUT, Callers::Users, grants::put)
            .on(Method::DELETE, Callers::Users, grants::delete);
        let tokens = Methods::default().on(Method::GET, Callers::Users, tokens::get).on(
            Method::POST,
            Callers::Users,
            tokens::make,
        );
        let login = Methods::default().on(Method::GET, Callers::Anybody, login::page).on(
            Method::POST,
            Callers::Anybody,
            login::log_in,
        );
        self.route(pattern::SESSION, session)
            .route(pattern::LOGIN, login)
            .route(pattern::LOGOUT, Methods::default().on(Method::POST, Callers::Users, login::log_out))
            .route(pattern::SESSIONS, sessions)
            .route(pattern::SESSIONS_ID, Methods::default().on(Method::DELETE, Callers::Users, sessions::delete))
            .route(pattern::USERS, users)
            .route(pattern::USERS_NAME, user)
            .route(pattern::GRANTS, grants)
            .route(pattern::TOKENS, tokens)
            .route(pattern::TOKENS_ID, Methods::default().on(Method::DELETE, Callers::Users, tokens::delete))
    }

    /// Shares, and what strangers do by their links.
    fn with_shares(self) -> Self {
        let shares = Methods::default().on(Method::GET, Callers::Users, shares::get).on(
            Method::POST,
            Callers::Users,
            shares::make,
        );
        let page = Methods::default().on(Method::GET, Callers::Share(ShareRoute::Page), by_share::page).on(
            Method::POST,
            Callers::Share(ShareRoute::Upload),
            share_form::send,
        );
        let files = Methods::default().on(Method::GET, Callers::Share(ShareRoute::Read), by_share::get).on(
            Method::PUT,
            Callers::Share(ShareRoute::Upload),
            share_upload::put,
        );
        self.route(pattern::SHARES, shares)
            .route(pattern::SHARES_ID, Methods::default().on(Method::DELETE, Callers::Users, shares::delete))
            .get(pattern::SHARED, Callers::Share(ShareRoute::Enter), by_share::to_page)
            .post(pattern::SHARED_LOGIN, Callers::Share(ShareRoute::Enter), share_login::log_in)
            .route(pattern::SHARED_PAGE, page)
            .get(pattern::SHARED_FS, Callers::Share(ShareRoute::Read), by_share::to_root)
            .route(pattern::SHARED_ROOT, files.clone())
            .route(pattern::SHARED_PATH, files)
    }

    fn get<H: Handler<T, App>, T: 'static>(self, pattern: &'static str, callers: Callers, handler: H) -> Self {
        self.route(pattern, Methods::default().on(Method::GET, callers, handler))
    }

    fn post<H: Handler<T, App>, T: 'static>(self, pattern: &'static str, callers: Callers, handler: H) -> Self {
        self.route(pattern, Methods::default().on(Method::POST, callers, handler))
    }

    fn route(mut self, pattern: &'static str, methods: Methods) -> Self {
        self.callers.add(pattern, methods.callers);
        Self { routes: self.routes.route(pattern, methods.handlers), ..self }
    }
}

/// The methods of a route: none without its callers.
#[derive(Clone)]
struct Methods {
    handlers: MethodRouter<App>,
    callers: Vec<(Method, Callers)>,
}

/// No methods yet. axum's own answer to others would tell anybody in `Allow` which there are.
impl Default for Methods {
    fn default() -> Self {
        Self { handlers: any(no_such_method), callers: Vec::new() }
    }
}

impl Methods {
    fn on<H: Handler<T, App>, T: 'static>(mut self, method: Method, callers: Callers, handler: H) -> Self {
        // A method that axum does not know gets no handler: 405.
        if let Ok(filter) = MethodFilter::try_from(method.clone()) {
            self.handlers = self.handlers.on(filter, handler);
        }
        self.callers.push((method, callers));
        self
    }
}

fn with_middleware(routes: Router<App>, app: App) -> Router {
    routes
        .fallback(no_such_route)
        // One layer for the whole middleware: each further layer would cost a twentieth of the server's throughput.
        .layer(from_fn_with_state(app.clone(), access_log::record))
        .with_state(app)
}

async fn no_such_route() -> Problem {
    Problem::no_such_route()
}

async fn no_such_method(State(app): State<App>, matched: MatchedPath) -> Problem {
    let detail = match matched.as_str() {
        pattern::FS_ROOT | pattern::FS_PATH => {
            "The Allow header lists the methods of this resource. PUT uploads a file, as `curl -T photo.jpg` does."
        }
        _ => "The Allow header lists the methods of this resource.",
    };
    Problem::method(&app.callers.allow(matched.as_str()), detail)
}
