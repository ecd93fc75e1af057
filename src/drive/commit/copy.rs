//! Copying: a file is a new version with its own content; a directory is made anew, file by file.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, pin_mut, stream};
use tokio::sync::Semaphore;

use super::Committer;
use super::mkdir::mkdir;
use super::put::{NewVersion, PutRules, store};
use super::target::{check_target, split_target};
use crate::budget::{Budget, WAIT};
use crate::content::{ContentError, StagedContent};
use crate::drive::error::{DriveError, Result};
use crate::drive::model::{Condition, CopyStats, ListQuery, Node, NodeKind, Written};
use crate::drive::namespace::list::list;
use crate::drive::namespace::lookup::{lookup, stat};
use crate::drive::open::open_content;
use crate::drive::settings::TRIES;
use crate::schema::dir::FileEntry;
use crate::schema::{DrivePath, Name, file};

/// Bytes of memory at most for the copying of one file: what its reader and its writer hold together.
const COPYING: usize = 6 << 20;
/// One folder is copied at a time for so much memory of requests, and two at least: a page of names and a path for each
/// level take 1 MiB at most.
const FOLDER: usize = 8 << 20;

/// How many folders are copied at a time, with so much memory for requests.
pub fn folders_at_a_time(memory: usize) -> usize {
    (memory / FOLDER).clamp(2, 64)
}

/// A directory of which something is left to be copied: its files first, then its directories one by one, each with all
/// that it holds.
struct Level {
    from: DrivePath,
    to: DrivePath,
    kind: NodeKind,
    /// Up to where it was listed.
    after: Option<Bytes>,
}

impl Level {
    /// What is left behind a page that has this `next`.
    fn rest(self, next: Option<Bytes>) -> Option<Self> {
        match (next, self.kind) {
            (Some(after), _) => Some(Self { after: Some(after), ..self }),
            (None, NodeKind::File) => Some(Self { kind: NodeKind::Directory, after: None, ..self }),
            (None, NodeKind::Directory) => None,
        }
    }
}

/// What the copying of a directory has made so far, and what it has left out, since that cannot be read back.
#[derive(Default)]
struct Tally {
    copied: CopyStats,
    damaged: u64,
    /// The first of what is damaged.
    first: Option<(DrivePath, DriveError)>,
}

impl Tally {
    fn leave_out(&mut self, path: DrivePath, error: DriveError) {
        self.damaged += 1;
        self.first.get_or_insert((path, error));
    }

    /// What was copied, if nothing was left out; else why the first was. Where that is, and how many there are, is for
    /// the log.
    fn all(self) -> Result<CopyStats> {
        let Some((path, error)) = self.first else { return Ok(self.copied) };
        let damaged = self.damaged;
        tracing::warn!(path = ?path.as_str(), damaged, "a folder was copied but for what is damaged in it");
        Err(error)
    }
}

/// Whether something that is stored cannot be read back: that is no reason why all else could not.
fn is_damage(error: &DriveError) -> bool {
    matches!(
        error,
        DriveError::Content(ContentError::Damaged { .. } | ContentError::Cell(_))
            | DriveError::Damaged(_)
            | DriveError::Value(_)
    )
}

/// Copies files and directories. Cheap to clone.
#[derive(Clone)]
pub struct Copier {
    committer: Committer,
    /// Of requests: each copy of a file takes a permit.
    memory: Budget,
    /// Turns of the copies of directories.
    folders: Arc<Semaphore>,
}

impl Copier {
    pub fn new(committer: Committer, memory: Budget, folders: Arc<Semaphore>) -> Self {
        Self { committer, memory, folders }
    }

    /// Copies a file, or a directory with all that it holds; of a directory it tells what was made.
    ///
    /// A file's copy has the content, `modified` and type of the source. A directory's copy is not atomic: it goes
    /// into a directory that is there if `overwrite` says so, passes by what is there already with the same digest
    /// and `modified`, and ends where it is when its caller leaves. What is damaged in it is left out, and told by an
    /// error once all else is copied.
    pub async fn copy_node(
        &self,
        from: &DrivePath,
        to: &DrivePath,
        overwrite: bool,
        creator: &str,
    ) -> Result<(Written, Option<CopyStats>)> {
        if from.is_root() {
            return Err(DriveError::Root);
        }
        split_target(from, to)?;
        match stat(&self.committer.namespace, from).await? {
            Node::File { .. } => Ok((self.copy_file(from, to, overwrite, creator).await?, None)),
            // It would be merged into what holds it, and might replace files of its own before they are copied.
            Node::Directory { .. } if from.is_within(to) => Err(DriveError::Exists),
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
    ) -> Result<(Written, CopyStats)> {
        // What a folder's copy has in memory beside its files is little but not nothing, and has no permit: files that
        // wait for one while their folder holds another would wait for ever. So few folders are copied at once.
        let turn = tokio::time::timeout(WAIT, self.folders.acquire()).await;
        let _turn = turn.map_err(|_| DriveError::NoMemory)?;
        let made = self.copied_into(to, overwrite, creator).await?;
        let copied = CopyStats { directories: u64::from(made.new), ..CopyStats::default() };
        let mut tally = Tally { copied, ..Tally::default() };
        // What is left to be copied, deepest first: one directory for each level.
        let mut levels = vec![Level { from: from.clone(), to: to.clone(), kind: NodeKind::File, after: None }];
        let source = from;
        while let Some(level) = levels.pop() {
            let limit = if level.kind == NodeKind::File { self.committer.namespace.limits.children_copied } else { 1 };
            let ask = ListQuery { kind: Some(level.kind), prefix: String::new(), after: level.after.clone(), limit };
            let page = match list(&self.committer.namespace, &level.from, &ask).await {
                // Removed or moved away meanwhile.
                Err(DriveError::NotFound) if level.from != *source => continue,
                // Its directories may be found even if its files are not.
                Err(error) if is_damage(&error) => {
                    tally.leave_out(level.from.clone(), error);
                    levels.extend(level.rest(None));
                    continue;
                }
                page => page?,
            };
            let mut files = Vec::with_capacity(page.nodes.len());
            let mut directory = None;
            for node in page.nodes {
                let Some((_, name)) = node.path().split() else { continue };
                match node {
                    Node::Directory { path, .. } => {
                        let to = level.to.join(&name).map_err(|_| DriveError::Outgrown)?;
                        directory = Some(Level { from: path, to, kind: NodeKind::File, after: None });
                    }
                    // Names, not paths: many copies at once hold a page each.
                    Node::File { entry, .. } => files.push((name, entry)),
                }
            }
            self.copy_files(&level, files, overwrite, creator, &mut tally).await?;
            levels.extend(level.rest(page.next));
            if let Some(directory) = directory {
                let made = self.copied_into(&directory.to, true, creator).await?;
                tally.copied.directories += u64::from(made.new);
                levels.push(directory);
            }
        }
        Ok((made, tally.all()?))
    }

    /// Copies files of one directory, several at a time, but for those that are there already.
    async fn copy_files(
        &self,
        Level { from, to, .. }: &Level,
        files: Vec<(Name, FileEntry)>,
        overwrite: bool,
        creator: &str,
        tally: &mut Tally,
    ) -> Result<()> {
        let copies = files.into_iter().map(|(name, entry)| async move {
            let (source, target) = (from.join(&name)?, to.join(&name).map_err(|_| DriveError::Outgrown)?);
            match self.copy_missing(&source, &target, &entry, overwrite, creator).await {
                Err(error) if is_damage(&error) => Ok(Err((source, error))),
                done => done.map(Ok),
            }
        });
        let copies = stream::iter(copies).buffer_unordered(self.committer.namespace.limits.copies_at_a_time);
        pin_mut!(copies);
        while let Some(done) = copies.try_next().await? {
            match done {
                Ok(Some(Written { node: Node::File { entry, .. }, .. })) => {
                    tally.copied.files += 1;
                    tally.copied.bytes += entry.attributes.size;
                }
                Ok(_) => {}
                Err((path, error)) => tally.leave_out(path, error),
            }
        }
        Ok(())
    }

    /// Copies a file of a directory; none if it is there already, or was removed or moved away meanwhile.
    async fn copy_missing(
        &self,
        from: &DrivePath,
        to: &DrivePath,
        entry: &FileEntry,
        overwrite: bool,
        creator: &str,
    ) -> Result<Option<Written>> {
        if self.has_same(to, entry).await? {
            return Ok(None);
        }
        match self.copy_file(from, to, overwrite, creator).await {
            Err(DriveError::NotFound) => Ok(None),
            made => made.map(Some),
        }
    }

    /// The directory that is copied into: made, or one that is there if it may be.
    async fn copied_into(&self, to: &DrivePath, merge: bool, creator: &str) -> Result<Written> {
        match mkdir(&self.committer, to, creator, false).await {
            Ok(made) if made.new || merge => Ok(made),
            Ok(_) | Err(DriveError::IsFile) => Err(DriveError::Exists),
            Err(error) => Err(error),
        }
    }

    /// Whether a file of the same bytes and `modified` stands at the target.
    async fn has_same(&self, target: &DrivePath, source: &FileEntry) -> Result<bool> {
        match stat(&self.committer.namespace, target).await {
            Ok(Node::File { entry, .. }) => {
                let (there, here) = (&entry.attributes, &source.attributes);
                Ok(there.digest == here.digest && there.modified == here.modified)
            }
            Ok(Node::Directory { .. }) | Err(DriveError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn copy_file(&self, from: &DrivePath, to: &DrivePath, overwrite: bool, creator: &str) -> Result<Written> {
        // Asked before the content is copied, and again by the commit.
        let (parent, name) = to.split().ok_or(DriveError::Exists)?;
        let target = lookup(&self.committer.namespace, &parent, &name).await?;
        check_target(&self.committer.namespace, &target, &parent, overwrite).await?;
        let (staged, attributes) = self.copy_content(from).await?;
        let new =
            NewVersion { mime: attributes.mime, creator: creator.to_owned(), modified: Some(attributes.modified) };
        let rules = PutRules { condition: Condition::default(), parents: false, replace: overwrite };
        match store(&self.committer, to, staged, new, rules).await {
            Err(DriveError::IsDirectory) => Err(DriveError::Exists),
            other => other,
        }
    }

    /// The content of a file staged anew, every byte of it verified on the way.
    async fn copy_content(&self, from: &DrivePath) -> Result<(StagedContent, file::Attributes)> {
        for _ in 0..TRIES {
            let Node::File { path, entry } = stat(&self.committer.namespace, from).await? else {
                return Err(DriveError::IsDirectory);
            };
            let attributes = entry.attributes.clone();
            // One permit for reader and writer, and before anything is read: copies that had one of two would wait for
            // each other.
            let memory = usize::try_from(attributes.size).unwrap_or(usize::MAX).saturating_mul(2).min(COPYING);
            let permit = tokio::time::timeout(WAIT, self.memory.take(memory)).await;
            let permit = permit.map_err(|_| DriveError::NoMemory)?;
            let body = match open_content(&self.committer.namespace, &self.committer.content, &path, &entry).await {
                // Replaced meanwhile: copy the new version.
                Err(DriveError::Content(ContentError::Gone(_))) => continue,
                body => body?,
            };
            let mut upload = self.committer.content.upload().with_unlimited_memory();
            upload.reserve(Some(attributes.size)).await?;
            let stream = body.stream(0, attributes.size);
            pin_mut!(stream);
            let mut gone = false;
            while let Some(chunk) = stream.next().await {
                match chunk {
                    Ok(bytes) => upload.write(bytes).await?,
                    Err(ContentError::Gone(_)) => {
                        gone = true;
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
                return Err(ContentError::Damaged { id: entry.id, what }.into());
            }
            return Ok((staged.with_permit(permit), attributes));
        }
        Err(DriveError::Contended)
    }
}
