//! Making a directory.

use super::ask::{Made, Node};
use super::{Drive, DriveError, Result};
use crate::schema::DrivePath;
use crate::table::{Outcome, Plan};

impl Drive {
    /// Makes a directory, and its parents if `parents`. One that is there is a success that made nothing.
    pub async fn mkdir(&self, path: &DrivePath, creator: &str, parents: bool) -> Result<Made> {
        let (path, creator) = (path.clone(), creator.to_owned());
        self.to_the_end(|drive| async move { drive.make_directory(&path, &creator, parents).await }).await
    }

    async fn make_directory(&self, path: &DrivePath, creator: &str, parents: bool) -> Result<Made> {
        let mut patience = self.patience();
        loop {
            patience.again().await?;
            match self.stat(path).await {
                Ok(Node::File { .. }) => return Err(DriveError::IsFile),
                Ok(node) => return Ok(Made { node, new: false }),
                Err(DriveError::NotFound) => {}
                Err(error) => return Err(error),
            }
            let ground = self.ground(path, creator).await?;
            // Nothing is missing: just made by another.
            let Some(new) = ground.missing.last().cloned() else { continue };
            if ground.missing.len() > 1 && !parents {
                return Err(DriveError::ParentMissing);
            }
            let mut plan = Plan::default();
            ground.build(&mut plan, Vec::new(), Vec::new());
            let prepared = plan.prepare.clone();
            match self.inner.tables.commit(plan).await? {
                Outcome::Committed => {
                    return Ok(Made { node: Node::Directory { path: new.path, entry: new.entry }, new: true });
                }
                Outcome::Refused(refusal) => {
                    self.undo(prepared).await;
                    self.make_way_for(&refusal, &mut patience).await?;
                }
            }
        }
    }
}
