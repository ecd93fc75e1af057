//! Copying: a file is a new version with its own content; a directory is made anew, file by file.

use futures_util::{StreamExt, TryStreamExt, pin_mut, stream};

use super::ask::{Condition, Copied, ListAsk, Made, Node};
use super::put::{NewFile, Terms};
use super::relocate::ends;
use super::{Drive, DriveError, Result, TRIES};
use crate::content::{ContentError, Staged};
use crate::schema::dir::Entry;
use crate::schema::{DrivePath, file};

/// Bytes of memory at most for the copying of one file: what its reader and its writer hold together.
const COPYING: usize = 6 << 20;

impl Drive {
    /// Copies a file, or a directory with all that it holds; of a directory it tells what was made.
    ///
    /// A file's copy has the content, `modified` and type of the source. A directory's copy is not atomic: it goes
    /// into a directory that is there if `overwrite` says so, passes by what is there already with the same digest
    /// and `modified`, and ends where it is when its caller leaves.
    pub async fn copy_node(
        &self,
        from: &DrivePath,
        to: &DrivePath,
        overwrite: bool,
        creator: &str,
    ) -> Result<(Made, Option<Copied>)> {
        let (parent, _) = from.split().ok_or(DriveError::Root)?;
        ends(from, to)?;
        match self.stat(from).await? {
            Node::File { .. } => Ok((self.copy_file(from, to, overwrite, creator).await?, None)),
            // It would be merged into what holds it.
            Node::Directory { .. } if parent == *to => Err(DriveError::Exists),
            Node::Directory { .. } => {
                let (made, copied) = self.copy_directory(from, to, overwrite, creator).await?;
                Ok((made, Some(copied)))
            }
        }
    }

    async fn copy_directory(
        &self,
        from: &DrivePath,
        to: &DrivePath,
        overwrite: bool,
        creator: &str,
    ) -> Result<(Made, Copied)> {
        let made = self.copied_into(to, overwrite, creator).await?;
        let mut copied = Copied { directories: u64::from(made.new), ..Copied::default() };
        // What is left to be copied, deepest first: of each directory the place up to which it was listed.
        let mut levels = vec![(from.clone(), to.clone(), None)];
        let source = from;
        while let Some((from, to, after)) = levels.pop() {
            let ask = ListAsk { kind: None, prefix: String::new(), after, limit: self.limits().children_copied };
            let page = match self.list(&from, &ask).await {
                // Removed or moved away meanwhile.
                Err(DriveError::NotFound) if from != *source => continue,
                page => page?,
            };
            levels.extend(page.next.map(|next| (from.clone(), to.clone(), Some(next))));
            // Names, not paths: many copies at once hold a page each.
            let mut files = Vec::with_capacity(page.nodes.len());
            for node in page.nodes {
                let Some((_, name)) = node.path().split() else { continue };
                match node {
                    Node::Directory { path, .. } => {
                        let target = to.join(&name).map_err(|_| DriveError::Outgrown)?;
                        let made = self.copied_into(&target, true, creator).await?;
                        copied.directories += u64::from(made.new);
                        levels.push((path, target, None));
                    }
                    Node::File { entry, .. } => files.push((name, entry)),
                }
            }
            let (here, there) = (&from, &to);
            let copies = files.into_iter().map(|(name, entry)| async move {
                let target = there.join(&name).map_err(|_| DriveError::Outgrown)?;
                if self.has_same(&target, &entry).await? {
                    return Ok(None);
                }
                match self.copy_file(&here.join(&name)?, &target, overwrite, creator).await {
                    // The same.
                    Err(DriveError::NotFound) => Ok(None),
                    made => made.map(Some),
                }
            });
            let copies = stream::iter(copies).buffer_unordered(self.limits().copies_at_a_time);
            pin_mut!(copies);
            while let Some(done) = copies.try_next().await? {
                if let Some(Made { node: Node::File { entry, .. }, .. }) = done {
                    copied.files += 1;
                    copied.bytes += entry.attributes.size;
                }
            }
        }
        Ok((made, copied))
    }

    /// The directory that is copied into: made, or one that is there if it may be.
    async fn copied_into(&self, to: &DrivePath, merge: bool, creator: &str) -> Result<Made> {
        match self.mkdir(to, creator, false).await {
            Ok(made) if made.new || merge => Ok(made),
            Ok(_) | Err(DriveError::IsFile) => Err(DriveError::Exists),
            Err(error) => Err(error),
        }
    }

    /// Whether a file of the same bytes and `modified` stands at the target.
    async fn has_same(&self, target: &DrivePath, source: &Entry) -> Result<bool> {
        match self.stat(target).await {
            Ok(Node::File { entry, .. }) => {
                let (there, here) = (&entry.attributes, &source.attributes);
                Ok(there.digest == here.digest && there.modified == here.modified)
            }
            Ok(Node::Directory { .. }) | Err(DriveError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn copy_file(&self, from: &DrivePath, to: &DrivePath, overwrite: bool, creator: &str) -> Result<Made> {
        // Asked before the content is copied, and again by the commit.
        let (parent, name) = to.split().ok_or(DriveError::Exists)?;
        let target = self.spot(&parent, &name).await?;
        self.target(&target, &parent, overwrite).await?;
        let (staged, attributes) = self.copy_content(from).await?;
        let new = NewFile { mime: attributes.mime, creator: creator.to_owned(), modified: Some(attributes.modified) };
        let terms = Terms { condition: Condition::default(), parents: false, replace: overwrite };
        match self.store(to, staged, new, terms).await {
            Err(DriveError::IsDirectory) => Err(DriveError::Exists),
            other => other,
        }
    }

    /// The content of a file staged anew, every byte of it verified on the way.
    async fn copy_content(&self, from: &DrivePath) -> Result<(Staged, file::Attributes)> {
        for _ in 0..TRIES {
            let opened = self.open_file(from).await?;
            let attributes = opened.entry.attributes;
            // One permit for reader and writer: copies that had one of two would wait for each other.
            let memory = usize::try_from(attributes.size).unwrap_or(usize::MAX).saturating_mul(2).min(COPYING);
            let _permit = self.memory().take(memory).await;
            let mut upload = self.upload().prepaid();
            upload.reserve(Some(attributes.size)).await?;
            let stream = opened.body.stream(0, attributes.size);
            pin_mut!(stream);
            let mut gone = false;
            while let Some(chunk) = stream.next().await {
                match chunk {
                    Ok(bytes) => upload.write(bytes).await?,
                    Err(ContentError::Gone(_)) => {
                        gone = true; // replaced meanwhile: copy the new version
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if gone {
                continue;
            }
            let staged = upload.finish().await?;
            if staged.digest != attributes.digest {
                let what = "the content differs from its digest".to_owned();
                return Err(ContentError::Damaged { id: opened.entry.id, what }.into());
            }
            return Ok((staged, attributes));
        }
        Err(DriveError::Contended)
    }
}
