//! The patterns of all routes, and their labels in the metrics.

use crate::api::path;

pub const ROOT: &str = "/";
pub const FS: &str = path::FS;
pub const FS_ROOT: &str = "/v1/fs/";
pub const FS_PATH: &str = "/v1/fs/{*path}";
pub const STAT_ROOT: &str = "/v1/stat/";
pub const STAT_PATH: &str = "/v1/stat/{*path}";
pub const FILES: &str = path::FILES;
pub const FIND: &str = path::FIND;
pub const MOVE: &str = path::MOVE;
pub const COPY: &str = path::COPY;
pub const SESSION: &str = path::SESSION;
pub const SESSIONS: &str = path::SESSIONS;
pub const SESSIONS_ID: &str = "/v1/sessions/{id}";
pub const USERS: &str = path::USERS;
pub const USERS_NAME: &str = "/v1/users/{name}";
pub const GRANTS: &str = path::GRANTS;
pub const TOKENS: &str = path::TOKENS;
pub const TOKENS_ID: &str = "/v1/tokens/{id}";
pub const LOGIN: &str = "/login";
pub const LOGOUT: &str = "/logout";
pub const SHARES: &str = path::SHARES;
pub const SHARES_ID: &str = "/v1/shares/{id}";
pub const SHARED: &str = "/s/{secret}";
pub const SHARED_PAGE: &str = "/s/{secret}/";
pub const SHARED_LOGIN: &str = "/s/{secret}/login";
pub const SHARED_FS: &str = "/s/{secret}/fs";
pub const SHARED_ROOT: &str = "/s/{secret}/fs/";
pub const SHARED_PATH: &str = "/s/{secret}/fs/{*path}";
pub const HEALTHZ: &str = "/healthz";
pub const READYZ: &str = "/readyz";
pub const METRICS: &str = "/metrics";
pub const OPENAPI: &str = "/openapi.json";
pub const DOCS: &str = "/docs";
pub const DOCS_PAGE: &str = "/docs/";
pub const DOCS_ASSET: &str = "/docs/{name}";

/// Whether a route only tells whether the server lives.
pub fn is_of_health(pattern: &str) -> bool {
    matches!(pattern, HEALTHZ | READYZ)
}

/// Whether the path of a route is that of a file or directory, also below the link of a share.
pub fn is_of_files(pattern: &str) -> bool {
    matches!(pattern, FS | FS_ROOT | FS_PATH | STAT_ROOT | STAT_PATH | SHARED_ROOT | SHARED_PATH)
}

/// Whether a route is a page that people open in a browser. Others are for programs and scripts.
pub fn is_page(pattern: &str) -> bool {
    matches!(pattern, ROOT | DOCS | DOCS_PAGE)
}

/// Whether a route is a page of a share, or its form for the password.
pub fn is_page_of_share(pattern: &str) -> bool {
    matches!(pattern, SHARED_PAGE | SHARED_LOGIN)
}

/// Whether a route is below the link of a share.
pub fn is_of_share(pattern: &str) -> bool {
    matches!(pattern, SHARED | SHARED_PAGE | SHARED_LOGIN | SHARED_FS | SHARED_ROOT | SHARED_PATH)
}

/// The label of a route: its pattern, a different one for directories than for files.
pub fn label(pattern: Option<&str>, directory: bool) -> &'static str {
    match (pattern.unwrap_or_default(), directory) {
        (FS_PATH | FS_ROOT, true) | (FS, _) => "/v1/fs/{path}/",
        (FS_PATH, false) => "/v1/fs/{path}",
        (STAT_PATH | STAT_ROOT, _) => "/v1/stat/{path}",
        (FILES, _) => FILES,
        (FIND, _) => FIND,
        (MOVE, _) => MOVE,
        (COPY, _) => COPY,
        (SESSION, _) => SESSION,
        (SESSIONS | SESSIONS_ID, _) => SESSIONS,
        (USERS | USERS_NAME, _) => USERS,
        (GRANTS, _) => GRANTS,
        (TOKENS | TOKENS_ID, _) => TOKENS,
        (LOGIN, _) => LOGIN,
        (SHARES | SHARES_ID, _) => SHARES,
        (SHARED | SHARED_PAGE | SHARED_LOGIN, _) => SHARED_PAGE,
        (SHARED_PATH | SHARED_ROOT, true) | (SHARED_FS, _) => "/s/{secret}/fs/{path}/",
        (SHARED_PATH, false) => "/s/{secret}/fs/{path}",
        (HEALTHZ | READYZ | METRICS, _) => "health",
        (ROOT | OPENAPI | DOCS | DOCS_PAGE | DOCS_ASSET, _) => "docs",
        _ => "none",
    }
}
