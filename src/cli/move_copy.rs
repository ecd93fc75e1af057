//! `rowdrive mv` and `rowdrive cp`: moves or copies a file or directory of a running server.

use std::io::Write;

use clap::Args;
use reqwest::{Method, StatusCode};
use rowdrive::api::entry::{CopiedEntryJson, CopiedJson, MoveRequest};
use rowdrive::api::path;
use rowdrive::api::problem::ProblemKind;

use super::CommandOutcome;
use super::path_arg::PathArg;
use super::request::{RequestArgs, Result};
use crate::client::{ClientError, DriveClient, ServerProblem};
use crate::local_fs::printable;

/// Move or rename a file or folder. The target is the new path in full; its folder must be there.
#[derive(Args)]
pub struct Mv {
    #[command(flatten)]
    paths: MoveCopyArgs,
}

/// Copy a file, or a folder with all that it holds. The target is the new path in full; its folder must be there.
///
/// A copy of a folder that was interrupted is completed by the same command with --overwrite.
#[derive(Args)]
pub struct Cp {
    #[command(flatten)]
    paths: MoveCopyArgs,
}

#[derive(Args)]
struct MoveCopyArgs {
    /// The file or folder on the drive, as in /pictures/cat.jpg.
    #[arg(value_name = "FROM", value_parser = PathArg::parse)]
    from: PathArg,
    /// Its new path in full, as in /pictures/2027/cat.jpg.
    #[arg(value_name = "TO", value_parser = PathArg::parse)]
    to: PathArg,
    /// Replace a file that is there; a copy of a folder goes into one that is there.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    request: RequestArgs,
}

impl Mv {
    pub fn run(self) -> Result<CommandOutcome> {
        self.paths.post(path::MOVE)
    }
}

impl Cp {
    pub fn run(self) -> Result<CommandOutcome> {
        self.paths.post(path::COPY)
    }
}

impl MoveCopyArgs {
    /// Sends the request without a time limit: the time for a folder depends on its size.
    fn post(&self, resource: &str) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let request =
                MoveRequest { from: self.from.text.clone(), to: self.to.text.clone(), overwrite: self.overwrite };
            let was_there = if resource == path::COPY { self.is_folder(client).await } else { None };
            let answer = client.text(client.resource_request(Method::POST, resource, &[]).json(&request)).await;
            let text = match answer {
                Err(ClientError::Problem(problem)) if self.is_onto_folder(client, &problem).await => {
                    return Err(self.with_new_path(*problem).into());
                }
                Err(ClientError::Problem(problem)) if resource == path::COPY => {
                    return Err(self.with_copy_remedy(client, *problem, was_there).await.into());
                }
                answer => answer?,
            };
            if self.request.json {
                return Ok(writeln!(out, "{text}")?);
            }
            let answer: CopiedEntryJson<'static> = client.parse(&text)?;
            write!(out, "{}", printable(answer.entry.path.as_ref().as_ref()))?;
            if let Some(CopiedJson { directories, files, bytes }) = answer.copied {
                write!(out, ": {files} files ({bytes} bytes) and {directories} folders copied")?;
            }
            Ok(writeln!(out)?)
        })
    }

    /// Whether it is refused since the target is a folder: a user may mean a path in it, as for the cp of a shell.
    async fn is_onto_folder(&self, client: &DriveClient, problem: &ServerProblem) -> bool {
        let is_of_target = problem.is_lack_of_right() || problem.is(ProblemKind::Exists);
        is_of_target && !self.overwrite && self.is_folder(client).await == Some(true)
    }

    fn with_new_path(&self, problem: ServerProblem) -> ClientError {
        let (to, name) = (self.to.text.trim_end_matches('/'), self.from.path.last());
        let inside = format!("{to}/{name}");
        let remedy = format!(
            "{} is a folder: to put it in there, write the new path in full, as in {}",
            printable(self.to.text.as_ref()),
            printable(inside.as_ref())
        );
        ClientError::Problem(Box::new(problem.with_remedy(remedy)))
    }

    /// Says that a part of a folder may be copied. `was_there`: whether the target was a folder before, if that is
    /// known. After a 500 all is copied but what is damaged; what is refused before anything is copied is an error of
    /// the client.
    async fn with_copy_remedy(
        &self,
        client: &DriveClient,
        problem: ServerProblem,
        was_there: Option<bool>,
    ) -> ClientError {
        let may_have_begun = was_there == Some(false) || (self.overwrite && problem.status.is_server_error());
        let is_all = problem.status == StatusCode::INTERNAL_SERVER_ERROR;
        let problem = if may_have_begun && !is_all && self.is_folder(client).await == Some(true) {
            problem.with_remedy(format!(
                "{} may hold a part of the copy now, which the same command with --overwrite completes",
                printable(self.to.text.as_ref())
            ))
        } else {
            problem
        };
        ClientError::Problem(Box::new(problem))
    }

    /// Whether there is a folder at the target; none if the server does not say.
    async fn is_folder(&self, client: &DriveClient) -> Option<bool> {
        let entry = client.stat(&self.to.path).await.ok()?;
        Some(entry.is_some_and(|entry| entry.is_directory()))
    }
}
