//! `/v1/users`: users, the first one too.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{Extensions, HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::api::account::{BODY_BYTES, HOMES, NewUserRequest, UserChangeRequest, UserJson, UsersJson};
use crate::api::path;
use crate::api::problem::ProblemKind;
use crate::auth::{Credential, NewUser, OldPassword, QuotaChange, UserChange};
use crate::drive::{DriveError, Home, UserDrive};
use crate::http::app::App;
use crate::http::request::Params;
use crate::http::request::account::{json_of_users, last_part, require_users, text};
use crate::http::request::audit::{Audit, AuditEvent, note_refusal};
use crate::http::request::body::json_within;
use crate::http::request::client::address;
use crate::http::request::host::Local;
use crate::http::request::path::parse_text;
use crate::http::response::account::user_json;
use crate::http::response::cursor::CursorScope;
use crate::http::response::problem::{Problem, Result};
use crate::http::response::{headers, json, list};
use crate::schema::account::Quota;

/// All users
#[utoipa::path(get, path = "/v1/users", operation_id = "users", tag = "access",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 10000, description = "Users of a page; 1000 unless told, and never more"),
           ("cursor" = Option<String>, Query, description = "`next` of the page before")),
    responses((status = 200, description = "A page of users", body = UsersJson)))]
pub async fn get(State(app): State<App>, by: Credential, uri: Uri) -> Result<Response> {
    let params = Params::parse(uri.query(), &["limit", "cursor"])?;
    let limit = list::items(params.limit()?);
    require_users(&app).await?;
    let permit = list::permit(&app, limit, list::SHORT).await?;
    let all = app.auth.users(&by).await?;
    let keyed = all.iter().map(|user| (user.name.as_str().to_owned(), user_json(user))).collect();
    let (users, next) = list::page(keyed, (limit, params.text("cursor")), &CursorScope::new("users"))?;
    let page = UsersJson { users, next };
    list::response(&page, page.next.as_deref(), &uri, permit)
}

/// Make a user
///
/// On a drive without users: the first one, an admin. From then on every request proves who sends it. The first user is
/// made from the machine of the server alone: from a loopback address, by a loopback name, through no proxy; and with
/// the header `First-User-Secret`, which is in the file `first-user-secret` of the data folder until then.
#[utoipa::path(post, path = "/v1/users", operation_id = "make_user", tag = "access", request_body = NewUserRequest,
    responses((status = 201, description = "Made, with his home", body = UserJson, headers(("Location" = String)))))]
pub async fn make(
    State(app): State<App>,
    drive: UserDrive,
    (by, Local(is_local), audit): (Credential, Local, Audit),
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    Params::parse(uri.query(), &[])?;
    let is_first = by.user().is_none();
    if is_first && !is_local {
        return Err(Problem::forbidden().with_detail(
            "The first user is made on the machine of the server: from a loopback address, by a loopback name, through no \
             proxy.",
        ));
    }
    let secret = app.options.first_user.as_ref().filter(|_| is_first);
    if secret.is_some_and(|secret| !secret.is_in(&headers)) {
        return Err(Problem::forbidden().with_detail(
            "The first user is made by the operator: send the header in the file first-user-secret of the data folder, \
             as with `curl -H @DATA/first-user-secret`. It is another one after each start. Or stop the server, and \
             run rowdrive user add NAME --data DATA.",
        ));
    }
    let asked: NewUserRequest = json_within(app.drive.memory(), &headers, body, BODY_BYTES).await?;
    if is_first && asked.admin == Some(false) {
        return Err(Problem::malformed("The first user is an admin: leave `admin` out, or send true."));
    }
    let home = match asked.home {
        None => None,
        Some(None) => Some(Home::Nowhere),
        Some(Some(path)) => Some(Home::At(parse_text("home", &path)?)),
    };
    let display = text("display", &asked.display.unwrap_or_default())?;
    let (name, password, admin) = (asked.name, asked.password, asked.admin.unwrap_or(is_first));
    let quota = asked.quota.map_or(Quota::default(), |quota| Quota { bytes: quota.bytes, files: quota.files });
    let user = app.auth.prepare_user(&by, NewUser { name, password, display, admin, quota }).await?;
    let home = match home {
        Some(home) => home,
        None => Home::New(parse_text("home", &[HOMES, "/", user.name().as_str()].concat())?),
    };
    let rights_on = home_in_words(&home);
    let made = drive.make_user(user, home).await.map_err(no_home)?;
    let change = format!("admin={}{rights_on}", made.profile.admin);
    audit.note_change(AuditEvent::UserMade, made.name.as_str(), &change);
    if let Some(secret) = secret {
        secret.end();
    }
    let at = [path::USERS, "/", &path::encode(made.name.as_str())].concat();
    Ok((StatusCode::CREATED, [(LOCATION, headers::value(at)?)], json::json(&user_json(&made))?).into_response())
}

/// The directory on which a new user has all rights, as the audit log has it: at the end, since a path may have spaces.
fn home_in_words(home: &Home) -> String {
    match home {
        Home::Nowhere => String::new(),
        Home::New(path) | Home::At(path) => [" home=", path.as_str()].concat(),
    }
}

fn no_home(error: DriveError) -> Problem {
    match error {
        DriveError::Exists | DriveError::ParentIsFile => Problem::new(
            ProblemKind::Exists,
            "No user is made: something is at the place of the home. Send `home` with the path of a directory, or \
             null (the command: --home or --no-home).",
        ),
        other => other.into(),
    }
}

/// A user
#[utoipa::path(get, path = "/v1/users/{name}", operation_id = "user", tag = "access",
    params(("name" = String, Path, description = "His name, percent-encoded; upper and lower case are one")),
    responses((status = 200, description = "The user", body = UserJson)))]
pub async fn get_one(State(app): State<App>, by: Credential, uri: Uri) -> Result<Response> {
    Params::parse(uri.query(), &[])?;
    require_users(&app).await?;
    json::json(&user_json(&app.auth.user(&by, &last_part(&uri)?).await?))
}

/// Change a user
///
/// An admin changes everybody; a user his own `display` and, with the `old` one, his `password`.
#[utoipa::path(patch, path = "/v1/users/{name}", operation_id = "change_user", tag = "access",
    request_body = UserChangeRequest,
    params(("name" = String, Path, description = "His name, percent-encoded; upper and lower case are one")),
    responses((status = 200, description = "Changed", body = UserJson)))]
pub async fn change(
    State(app): State<App>,
    (by, audit): (Credential, Audit),
    extensions: Extensions,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let asked: UserChangeRequest = json_of_users(&app, &uri, &headers, body).await?;
    let name = last_part(&uri)?;
    let display = asked.display.map(|display| text("display", &display.unwrap_or_default())).transpose()?;
    let change = UserChange {
        display,
        password: asked.password,
        old_password: asked.old.map(|password| OldPassword {
            password,
            address: address(&extensions),
            now: Instant::now(),
        }),
        admin: asked.admin,
        disabled: asked.disabled,
        quota: asked
            .quota
            .map_or(QuotaChange::default(), |quota| QuotaChange { bytes: quota.bytes, files: quota.files }),
    };
    let words = in_words(&change);
    let changed = app.auth.change_user(&by, &name, change).await;
    let changed = changed.inspect_err(|error| note_refusal(&app, error, &audit))?;
    audit.note_change(AuditEvent::UserChanged, changed.name.as_str(), &words);
    json::json(&user_json(&changed))
}

/// What a change sets, as the audit log has it: of a password and of a name for people, only that it was set.
fn in_words(change: &UserChange) -> String {
    let limit = |limit: Option<u64>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let set = [
        change.display.as_ref().map(|_| "display".to_owned()),
        change.password.as_ref().map(|_| "password".to_owned()),
        change.admin.map(|admin| format!("admin={admin}")),
        change.disabled.map(|disabled| format!("disabled={disabled}")),
        change.quota.bytes.map(|bytes| format!("quota.bytes={}", limit(bytes))),
        change.quota.files.map(|files| format!("quota.files={}", limit(files))),
    ];
    set.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Remove a user
///
/// His sessions, tokens and shares are revoked, and his grants are deleted, also those that he has given. His files
/// stay, and his name is never given again.
#[utoipa::path(delete, path = "/v1/users/{name}", operation_id = "remove_user", tag = "access",
    params(("name" = String, Path, description = "His name, percent-encoded; upper and lower case are one")),
    responses((status = 204, description = "Removed")))]
pub async fn remove(State(app): State<App>, by: Credential, audit: Audit, uri: Uri) -> Result<StatusCode> {
    Params::parse(uri.query(), &[])?;
    require_users(&app).await?;
    let name = last_part(&uri)?;
    app.auth.remove_user(&by, &name).await?;
    audit.note(AuditEvent::UserRemoved, Some(&name));
    Ok(StatusCode::NO_CONTENT)
}
