//! Users of a data folder that no server serves: the first one, where nobody reaches the server from its own machine,
//! and an admin whose password is lost.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use rowdrive::api::account::HOMES;
use rowdrive::auth::{AuthError, Credential, NewUser, User, password};
use rowdrive::drive::{DriveError, Home};
use rowdrive::schema::account::Quota;
use rowdrive::schema::{DrivePath, PathError};

use crate::cli::serve::ServeError;
use crate::cli::serve::open::{self, Opened};
use crate::cli::{CommandOutcome, password_prompt};
use crate::client::credential::CredentialError;

/// Make a user an admin with a new password, while no server runs.
///
/// For who has lost the passwords of all admins. A disabled user is enabled, and his sessions and tokens are revoked.
/// Run it as the user who owns the data folder.
#[derive(Args)]
pub struct ResetAdmin {
    /// A user of the drive.
    #[arg(value_name = "NAME")]
    name: String,
    /// The data folder.
    #[arg(long, value_name = "DIR", env = "ROWDRIVE_DATA")]
    data: PathBuf,
    /// A file with the new password, so that it is not asked for; only its owner, or its group, may read it.
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
}

/// The first user of a drive.
pub struct FirstUser {
    pub name: String,
    pub display: Option<String>,
    /// None: no home. None within: a new one with his name.
    pub home: Option<Option<DrivePath>>,
    pub new_password_file: Option<PathBuf>,
    pub json: bool,
}

/// Why a user was not made or changed.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    #[error(transparent)]
    Open(#[from] ServeError),
    #[error("there is no drive in {0}: there is no {0}/db")]
    NoStore(PathBuf),
    #[error(
        "the drive {0} has users: an admin makes others while the server runs. If no admin can log in, make one with \
         rowdrive user reset-admin NAME --data {0}"
    )]
    UsersExist(PathBuf),
    #[error("the drive {0} has no user {1}{known}", known = names(.2))]
    NoUser(PathBuf, String, Vec<String>),
    #[error("no user is made: something is at the place of the home. Name a folder with --home, or say --no-home")]
    HomeExists,
    #[error(transparent)]
    Credential(#[from] CredentialError),
    #[error(transparent)]
    Auth(AuthError),
    #[error("the user is not made: {0}")]
    Drive(DriveError),
    #[error("the name makes no home: {0}")]
    Home(#[from] PathError),
    #[error("the system does not let it run: {0}")]
    System(#[from] io::Error),
}

fn names(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(": it has {}", known.join(", ")) }
}

type Result<T> = std::result::Result<T, OfflineError>;

impl FirstUser {
    /// Makes him in a data folder. A folder without a drive gets one only for a password that may be one.
    pub fn make(self, data: &Path) -> Result<CommandOutcome> {
        let first = (!data.join("db").exists()).then(|| self.new_password()).transpose()?;
        let made = with_drive(data, async |opened| self.make_in(data, opened, first).await)?;
        let mut out = io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::json!({"name": made.name.as_str(), "admin": made.profile.admin}))?;
        } else {
            writeln!(out, "{}  admin", made.name.as_str())?;
        }
        out.flush()?;
        Ok(CommandOutcome::Done)
    }

    fn new_password(&self) -> Result<String> {
        let password = password_prompt::new(&self.name, self.new_password_file.as_deref())?;
        password::check(&password).map_err(AuthError::from).map_err(OfflineError::Auth)?;
        Ok(password)
    }

    async fn make_in(&self, data: &Path, Opened { auth, drive, .. }: &Opened, asked: Option<String>) -> Result<User> {
        let failed = |error| match error {
            AuthError::UsersExist | AuthError::Unauthorized => OfflineError::UsersExist(data.to_owned()),
            other => OfflineError::Auth(other),
        };
        // Before a password is asked for.
        if auth.has_users().await.map_err(failed)? {
            return Err(OfflineError::UsersExist(data.to_owned()));
        }
        let password = asked.map_or_else(|| self.new_password(), Ok)?;
        let (name, display) = (self.name.clone(), self.display.clone().unwrap_or_default());
        let new = NewUser { name, password, display, admin: true, quota: Quota::default() };
        let user = auth.prepare_user(&Credential::nobody(), new).await.map_err(failed)?;
        let home = match &self.home {
            None => Home::Nowhere,
            Some(Some(path)) => Home::At(path.clone()),
            Some(None) => Home::New(DrivePath::parse(&[HOMES, "/", user.name().as_str()].concat())?),
        };
        drive.for_requester(auth.nobody()).make_user(user, home).await.map_err(|error| match error {
            DriveError::Exists | DriveError::ParentIsFile | DriveError::IsFile => OfflineError::HomeExists,
            DriveError::Account(error) => failed(error),
            other => OfflineError::Drive(other),
        })
    }
}

impl ResetAdmin {
    pub fn run(self) -> Result<CommandOutcome> {
        if !self.data.join("db").exists() {
            return Err(OfflineError::NoStore(self.data));
        }
        let reset = with_drive(&self.data, async |opened| self.reset(opened).await)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{}  admin", reset.name.as_str())?;
        out.flush()?;
        Ok(CommandOutcome::Done)
    }

    async fn reset(&self, Opened { auth, .. }: &Opened) -> Result<User> {
        // Before a password is asked for.
        if !auth.is_user(&self.name).await.map_err(OfflineError::Auth)? {
            let known = auth.user_names().await.map_err(OfflineError::Auth)?;
            let known = known.iter().map(|name| name.as_str().to_owned()).collect();
            return Err(OfflineError::NoUser(self.data.clone(), self.name.clone(), known));
        }
        let password = password_prompt::new(&self.name, self.new_password_file.as_deref())?;
        auth.reset_admin(&self.name, &password).await.map_err(OfflineError::Auth)
    }
}

/// Opens a data folder, whose lock no other process may have, and closes it in order.
fn with_drive<T>(data: &Path, work: impl AsyncFnOnce(&Opened) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let opened = open::stopped(data).await?;
        let done = work(&opened).await;
        open::close(opened.drive, opened.rocks).await;
        done
    })
}
