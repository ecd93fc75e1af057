//! `POST /s/<secret>/`: uploads by a share, with the form of its page.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use futures_util::{Stream, StreamExt};

use super::by_share::{shown, within_share};
use super::share_upload::refused;
use crate::api::problem::ProblemKind;
use crate::drive::{Condition, PutOptions, UserDrive};
use crate::http::app::App;
use crate::http::media_type;
use crate::http::request::audit::{Audit, AuditEvent};
use crate::http::request::body::{declared, pieces, refuse_coding};
use crate::http::request::form_data::FormReader;
use crate::http::request::watched::while_allowed;
use crate::http::request::{Creator, Params};
use crate::http::response::problem::{Problem, Result};
use crate::http::response::upload_page::{SentFiles, upload};
use crate::schema::Name;

/// Fields of one form.
const FIELDS: usize = 1_000;

/// Upload files by the form of a share
///
/// The page of an upload share has it. Each file is stored as by PUT, one after the other: what was stored stays, also
/// if another one is refused. The answer is the page again, which says what became of each.
#[utoipa::path(post, path = "/s/{secret}/", operation_id = "upload_by_form", tag = "shares",
    params(("secret" = String, Path, description = "From `url` of the share")),
    request_body(content = String, content_type = "multipart/form-data", description = "`files`, up to 1,000 times"),
    responses((status = 201, description = "All are stored. Else the status of the first that is not, with the same page",
               content_type = "text/html", body = String)))]
pub async fn send(
    State(app): State<App>,
    drive: UserDrive,
    (creator, audit): (Creator, Audit),
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    within_share(add_all((&app, &drive), (creator, audit), &uri, (&headers, body)).await)
}

async fn add_all(
    (app, drive): (&App, &UserDrive),
    (creator, audit): (Creator, Audit),
    uri: &Uri,
    (headers, body): (&HeaderMap, Body),
) -> Result<Response> {
    Params::parse(uri.query(), &[])?;
    // Every page can send a form anywhere: what comes with it, the middleware has compared.
    if !headers.contains_key(ORIGIN) {
        return Err(Problem::new(ProblemKind::ForeignOrigin, "Only the page of this very server may send this form."));
    }
    refuse_coding(headers)?;
    // Each file has the limit of a body, and the share that of all that is stored.
    let pieces = while_allowed(pieces(body, declared(headers, None)?, None), || drive.find_shared());
    let form = FormReader::new(headers, pieces)?;
    let (mut sent, mut status) = (SentFiles::default(), StatusCode::CREATED);
    match add_files((app, drive, &audit), &creator, form, (&mut sent, &mut status)).await {
        Ok(()) if sent.count == 0 => Err(Problem::malformed("The form has no file: choose at least one.")),
        Ok(()) => Ok(upload(status, &sent, None)),
        Err(problem) if sent.count > 0 => Ok(broken_off(app, &shown(problem), &sent)),
        Err(problem) => Err(problem),
    }
}

/// The page in place of a problem: what was stored before stays, whatever ended the form, and the page says so.
fn broken_off(app: &App, problem: &Problem, sent: &SentFiles) -> Response {
    problem.log();
    if problem.is_damage() {
        app.metrics.damage.inc();
    }
    let rest = match problem.kind() {
        ProblemKind::BodyCut | ProblemKind::SlowClient => "The form was not sent whole.",
        _ => problem.detail(),
    };
    let mut page = upload(problem.status(), sent, Some(rest));
    page.headers_mut().extend(problem.header());
    page
}

/// `status`: that of the first file that is not stored.
async fn add_files<S: Stream<Item = Result<Bytes>> + Send>(
    (app, drive, audit): (&App, &UserDrive, &Audit),
    creator: &Creator,
    mut form: FormReader<S>,
    (sent, status): (&mut SentFiles, &mut StatusCode),
) -> Result<()> {
    let mut fields = 0;
    while let Some(field) = form.next().await? {
        fields += 1;
        if fields > FIELDS {
            return Err(Problem::malformed("A form has at most 1,000 files: send the others by another one."));
        }
        // A field for files of which none is chosen has no name, and no content.
        let Some(file) = field.file.filter(|file| !file.is_empty()) else { continue };
        let content = within(form.content(), app.options.max_body);
        match add((drive, audit), (&file, creator), content).await {
            Ok(()) => sent.add(&file, None),
            Err(problem) if is_of_file(problem.kind()) => {
                if *status == StatusCode::CREATED {
                    *status = problem.status();
                }
                sent.add(&file, Some(problem.detail()));
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(())
}

async fn add(
    (drive, audit): (&UserDrive, &Audit),
    (file, creator): (&str, &Creator),
    content: impl Stream<Item = Result<Bytes>> + Send,
) -> Result<()> {
    let name = Name::parse(file)?;
    let options = PutOptions {
        mime: media_type::guess(name.as_str()),
        creator: creator.0.clone(),
        modified: None,
        parents: false,
        condition: Condition::default(),
        length: None,
        digests: Vec::new(),
    };
    let written = drive.add(&name, options, content).await.map_err(refused)?;
    audit.note(AuditEvent::ShareUpload, Some(written.node.path().as_str()));
    Ok(())
}

/// A content of at most so many bytes.
fn within(
    content: impl Stream<Item = Result<Bytes>> + Send,
    limit: Option<u64>,
) -> impl Stream<Item = Result<Bytes>> + Send {
    let mut received = 0u64;
    content.map(move |piece| {
        let piece = piece?;
        received = received.saturating_add(piece.len() as u64);
        match limit.filter(|limit| received > *limit) {
            Some(limit) => Err(Problem::too_large(limit)),
            None => Ok(piece),
        }
    })
}

/// Whether a problem is of one file, so that others may still be stored.
fn is_of_file(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::Malformed | ProblemKind::ShareFull | ProblemKind::BodyTooLarge)
}
