//! `rowdrive mv` and `rowdrive cp`: moves or copies a file or directory of a running server.

use std::io::Write;

use clap::Args;
use reqwest::Method;
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
            let is_copy = resource == path::COPY;
            let was_folder = if is_copy { self.is_folder(client).await } else { None };
            let answer = client.text(client.resource_request(Method::POST, resource, &[]).json(&request)).await;
            let text = match answer {
                Err(ClientError::Problem(problem)) => {
                    return Err(self.with_remedy(client, *problem, (is_copy, was_folder)).await.into());
                }
                Err(ClientError::ConnectionLost(address, cause)) => {
                    let outcome = match is_copy {
                        true => format!("the copy may be done, or {}", self.partial_copy_remedy()),
                        false => "the move may be done: look before you repeat it".to_owned(),
                    };
                    return Err(ClientError::ConnectionLost(address, format!("{cause}; {outcome}")).into());
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

    /// Says what to do if the target is a folder: it may be meant to hold the new path, as for the cp of a shell, or
    /// have a part of a copy that was not completed. `was_folder`: whether it was a folder before a copy, if that is known.
    async fn with_remedy(
        &self,
        client: &DriveClient,
        problem: ServerProblem,
        (is_copy, was_folder): (bool, Option<bool>),
    ) -> ClientError {
        let may_have_begun = was_folder == Some(false) || (self.overwrite && problem.status.is_server_error());
        // A copy that finds damage copies all the rest.
        let is_all_else_copied = problem.is(ProblemKind::Damaged);
        let is_of_target = problem.is_lack_of_right() || problem.is(ProblemKind::Exists);
        let remedy = if is_copy && may_have_begun && !is_all_else_copied {
            self.partial_copy_remedy()
        } else if is_of_target && !self.overwrite && was_folder != Some(false) {
            self.new_path_remedy()
        } else {
            return ClientError::Problem(Box::new(problem));
        };
        // What is refused before anything is copied has made no folder.
        let is_folder = self.is_folder(client).await == Some(true);
        ClientError::Problem(Box::new(if is_folder { problem.with_remedy(remedy) } else { problem }))
    }

    fn partial_copy_remedy(&self) -> String {
        let to = printable(self.to.text.as_ref());
        format!("{to} may hold a part of the copy now, which the same command with --overwrite completes")
    }

    fn new_path_remedy(&self) -> String {
        let inside = format!("{}/{}", self.to.text.trim_end_matches('/'), self.from.path.last());
        let [to, inside] = [&self.to.text, &inside].map(|path| printable(path.as_ref()));
        format!("{to} is a folder: to put it in there, write the new path in full, as in {inside}")
    }

    /// Whether there is a folder at the target; none if the server does not say.
    async fn is_folder(&self, client: &DriveClient) -> Option<bool> {
        let entry = client.stat(&self.to.path).await.ok()?;
        Some(entry.is_some_and(|entry| entry.is_directory()))
    }
}
