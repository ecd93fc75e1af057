//! Whether a refused file stands for all: the user may write nowhere at the target of an import.

use rowdrive::api::account::RightsJson;
use rowdrive::api::problem::ProblemKind;
use rowdrive::api::rights::RightJson;
use rowdrive::schema::DrivePath;
use tokio::sync::OnceCell;

use crate::client::{ClientError, DriveClient};

pub struct WriteRights {
    client: DriveClient,
    /// The directory that gets the tree.
    to: DrivePath,
    /// Whether the user may write nowhere there, once a write was refused.
    nowhere: OnceCell<bool>,
}

impl WriteRights {
    pub fn new(client: DriveClient, to: DrivePath) -> Self {
        Self { client, to, nowhere: OnceCell::new() }
    }

    /// The reason why nothing can be sent, if this error is a refusal that concerns all files.
    pub async fn refusal_of_all(&self, error: &ClientError) -> Option<String> {
        let is_refusal = matches!(error, ClientError::Problem(problem) if problem.is(ProblemKind::Forbidden));
        let is_of_all = is_refusal && *self.nowhere.get_or_init(|| self.may_write_nowhere()).await;
        is_of_all.then(|| format!("{} on the drive, and all below it: {error}", self.to))
    }

    /// Not if the server does not say: then each file shows it.
    async fn may_write_nowhere(&self) -> bool {
        let Ok(session) = self.client.with_timeout(self.client.session()).await else {
            return false;
        };
        session.user.is_some() && !session.admin && !session.rights.iter().any(|rights| may_write(rights, &self.to))
    }
}

/// Whether these rights allow to write in this directory or somewhere below it.
fn may_write(rights: &RightsJson, to: &DrivePath) -> bool {
    let concerns = |at: DrivePath| at.is_within(to) || to.is_within(&at);
    rights.rights.contains(&RightJson::Write) && DrivePath::parse(&rights.path).ok().is_none_or(concerns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_counts_from_above_and_from_below_the_target() {
        let to = DrivePath::parse("/a/b").unwrap();
        let rights = |path: &str, rights: &[RightJson]| RightsJson { path: path.to_owned(), rights: rights.to_vec() };
        for (path, expected) in [("/", true), ("/a", true), ("/a/b", true), ("/a/b/c", true), ("/a/bc", false)] {
            assert_eq!(may_write(&rights(path, &[RightJson::Read, RightJson::Write]), &to), expected, "{path}");
            assert!(!may_write(&rights(path, &[RightJson::Read, RightJson::Share]), &to), "{path}");
        }
    }
}
