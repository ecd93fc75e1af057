//! Copying: a file is a new version with its own content; a directory is made anew, file by file.

use futures_util::{StreamExt, TryStreamExt, pin_mut, stream};

use super::ask::{Condition, ListAsk, Made, Node};
use super::put::{NewFile, Terms};
use super::relocate::ends;
use super::{Drive, DriveError, Result, TRIES};
use crate::content::{ContentError, Staged};
use crate::schema::dir::Entry;
use crate::schema::{DrivePath, file};

/// Children of a directory that are listed at a time.
const CHILDREN: usize = 1_000;
/// Files of a directory that are copied at a time: those that come together share a sync.
const AT_A_TIME: usize = 16;

impl Drive {
    /// Copies a file, or a directory with all that it holds.
    ///
    /// A file's copy has the content, `modified` and type of the source. A directory's copy is not atomic: it goes
    /// into a directory that is there if `overwrite` says so, passes by what is there already with the same digest
    /// and `modified`, and ends where it is when its caller leaves.
    pub async fn copy_node(&self, from: &DrivePath, to: &DrivePath, overwrite: bool, creator: &str) -> Result<Made> {
        from.split().ok_or(DriveError::Root)?;
        ends(from, to)?;
        match self.stat(from).await? {
            Node::File { .. } => self.copy_file(from, to, overwrite, creator).await,
            Node::Directory { .. } => self.copy_directory(from, to, overwrite, creator).await,
        }
    }

    async fn copy_directory(&self, from: &DrivePath, to: &DrivePath, overwrite: bool, creator: &str) -> Result<Made> {
        let made = self.copied_into(to, overwrite, creator).await?;
        // What is left to be copied, deepest first: of each directory the place up to which it was listed.
        let mut levels = vec![(from.clone(), to.clone(), None)];
        while let Some((from, to, after)) = levels.pop() {
            let ask = ListAsk { kind: None, prefix: String::new(), after, limit: CHILDREN };
            let page = self.list(&from, &ask).await?;
            levels.extend(page.next.map(|next| (from, to.clone(), Some(next))));
            let mut files = Vec::with_capacity(page.nodes.len());
            for node in page.nodes {
                let Some((_, name)) = node.path().split() else { continue };
                let target = to.join(&name).map_err(|_| DriveError::Outgrown)?;
                match node {
                    Node::Directory { path, .. } => {
                        self.copied_into(&target, true, creator).await?;
                        levels.push((path, target, None));
                    }
                    Node::File { path, entry } => files.push((path, target, entry)),
                }
            }
            let copies =
                stream::iter(&files).map(Ok).try_for_each_concurrent(AT_A_TIME, |(path, target, entry)| async move {
                    if !self.has_same(target, entry).await? {
                        self.copy_file(path, target, overwrite, creator).await?;
                    }
                    Ok::<_, DriveError>(())
                });
            copies.await?;
        }
        Ok(made)
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
            let mut upload = self.upload();
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
