//! Copies: the copy of a file is a new version with its own content; a directory is copied file by file.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, pin_mut, stream};
use tokio::sync::Semaphore;

use super::Committer;
use super::body::stage;
use super::mkdir::mkdir;
use super::put::{NewVersion, PutRules, StagedVersion};
use super::reserved::Reserved;
use super::target::{check_target, split_target};
use crate::auth::Requester;
use crate::budget::{Budget, WAIT};
use crate::content::{ContentError, StagedContent};
use crate::drive::authorized::{list, open_content, source_of_copy, stat};
use crate::drive::error::{DriveError, PutError, Result};
use crate::drive::model::{Condition, CopyStats, ListQuery, Node, NodeKind, Written};
use crate::drive::namespace::lookup::{NameLookup, Versioned, lookup};
use crate::drive::refusals::settled;
use crate::drive::rights::Rights;
use crate::drive::settings::TRIES;
use crate::schema::dir::FileEntry;
use crate::schema::usage::UsageChange;
use crate::schema::{DrivePath, Name, file};

/// Bytes of memory for the copy of one file, at most: the buffers of its reader and its writer together.
const COPYING: usize = 6 << 20;
/// Bytes of the memory for requests by which one more directory may be copied at a time. The copy of a directory needs
/// 1 MiB at most beside its files, for a page of names and a path for each level.
const FOLDER: usize = 8 << 20;

/// How many directories are copied at a time, with so much memory for requests: at least two.
pub fn folders_at_a_time(memory: usize) -> usize {
    (memory / FOLDER).clamp(2, 64)
}

/// Who copies, and how.
#[derive(Clone, Copy)]
pub struct CopyOptions<'a> {
    pub requester: &'a Requester,
    pub overwrite: bool,
    pub creator: &'a str,
}

/// A directory that is not wholly copied: its files first, then its directories one by one, each with its whole subtree.
struct Level {
    from: DrivePath,
    to: DrivePath,
    kind: NodeKind,
    /// The last child that was listed.
    after: Option<Bytes>,
}

impl Level {
    /// The rest of the directory after a page with this `next`.
    fn rest(self, next: Option<Bytes>) -> Option<Self> {
        match (next, self.kind) {
            (Some(after), _) => Some(Self { after: Some(after), ..self }),
            (None, NodeKind::File) => Some(Self { kind: NodeKind::Directory, after: None, ..self }),
            (None, NodeKind::Directory) => None,
        }
    }
}

/// What the copy of a directory has made so far, and what it has skipped as damaged.
#[derive(Default)]
struct CopyTally {
    copied: CopyStats,
    damaged: u64,
    /// The first damaged file or directory.
    first: Option<(DrivePath, DriveError)>,
}

impl CopyTally {
    fn skip_damaged(&mut self, path: DrivePath, error: DriveError) {
        self.damaged += 1;
        self.first.get_or_insert((path, error));
    }

    /// What was copied, if nothing was skipped; else the error of the first skipped path. The log has its path, and how
    /// many were skipped.
    fn into_result(self) -> Result<CopyStats> {
        let Some((path, error)) = self.first else { return Ok(self.copied) };
        let damaged = self.damaged;
        tracing::warn!(path = ?path.as_str(), damaged, "a folder was copied but for what is damaged in it");
        Err(error)
    }
}

/// Whether the error means damaged data. Other files can be copied all the same.
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
    committer: Arc<Committer>,
    /// The memory of requests: each copy of a file takes a permit.
    memory: Budget,
    /// A permit for each directory that is being copied.
    folders: Arc<Semaphore>,
}

impl Copier {
    pub fn new(committer: Arc<Committer>, memory: Budget, folders: Arc<Semaphore>) -> Self {
        Self { committer, memory, folders }
    }

    /// Copies a file, or a directory with its whole subtree; for a directory it returns what was made.
    ///
    /// The copy of a file has the content, `modified` and type of the source. The copy of a directory is not atomic.
    /// With `overwrite` it merges into a directory that exists. It skips files that the target has already, with the
    /// same digest and `modified`, and stops when its caller leaves. It skips damaged files too, and returns an error
    /// after everything else is copied.
    pub async fn copy_node(
        &self,
        from: &DrivePath,
        to: &DrivePath,
        options: CopyOptions<'_>,
    ) -> Result<(Written, Option<CopyStats>)> {
        if from.is_root() {
            return Err(DriveError::Root);
        }
        let (parent, _) = split_target(from, to)?;
        let ns = &self.committer.namespace;
        let source = source_of_copy(ns, options.requester, from).await?;
        // Before anything is read of the content. Each commit decides anew, and is guarded.
        let _may_write = Rights::read(ns, options.requester).await?.write_from(from, &parent).await?;
        match source {
            Node::File { .. } => Ok((self.copy_file(from, to, options).await?, None)),
            // It would be merged into a directory above it, and might replace its own files before they are copied.
            Node::Directory { .. } if from.is_within(to) => Err(DriveError::Exists),
            Node::Directory { .. } => {
                let (made, copied) = self.copy_directory(from, to, options).await?;
                Ok((made, Some(copied)))
            }
        }
    }

    async fn copy_directory(
        &self,
        from: &DrivePath,
        to: &DrivePath,
        options: CopyOptions<'_>,
    ) -> Result<(Written, CopyStats)> {
        // The copy of a directory needs a little memory beside its files, for which it takes no permit of the budget: if
        // all directories had one, their files could wait for permits for ever. So few directories are copied at once.
        let place = tokio::time::timeout(WAIT, self.folders.acquire()).await;
        let _place = place.map_err(|_| DriveError::NoMemory)?;
        let made = self.make_target(to, options.overwrite, options).await?;
        let copied = CopyStats { directories: u64::from(made.new), ..CopyStats::default() };
        let mut tally = CopyTally { copied, ..CopyTally::default() };
        // The directories that are not wholly copied, the deepest last: one for each level.
        let mut levels = vec![Level { from: from.clone(), to: to.clone(), kind: NodeKind::File, after: None }];
        let source = from;
        while let Some(level) = levels.pop() {
            let limit = if level.kind == NodeKind::File { self.committer.namespace.limits.children_copied } else { 1 };
            let ask = ListQuery { kind: Some(level.kind), prefix: String::new(), after: level.after.clone(), limit };
            let page = match list(&self.committer.namespace, options.requester, &level.from, &ask).await {
                // Removed or moved meanwhile.
                Err(DriveError::NotFound) if level.from != *source => continue,
                // Its directories may be readable even if its files are not.
                Err(error) if is_damage(&error) => {
                    tally.skip_damaged(level.from.clone(), error);
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
                    // Names, not paths, to save memory: each of the concurrent copies has a page.
                    Node::File { entry, .. } => files.push((name, entry)),
                }
            }
            self.copy_files(&level, files, options, &mut tally).await?;
            levels.extend(level.rest(page.next));
            if let Some(directory) = directory {
                let made = self.make_target(&directory.to, true, options).await?;
                tally.copied.directories += u64::from(made.new);
                levels.push(directory);
            }
        }
        // If the right has ended meanwhile, directories were skipped as if they had been removed. As it is now: no look,
        // since that may use what was read before.
        if !Rights::read(&self.committer.namespace, options.requester).await?.sight(source).await?.is_whole() {
            return Err(DriveError::NotFound);
        }
        Ok((made, tally.into_result()?))
    }

    /// Copies files of one directory, several at a time, except those that the target has already.
    async fn copy_files(
        &self,
        Level { from, to, .. }: &Level,
        files: Vec<(Name, FileEntry)>,
        options: CopyOptions<'_>,
        tally: &mut CopyTally,
    ) -> Result<()> {
        let copies = files.into_iter().map(|(name, entry)| async move {
            let (source, target) = (from.join(&name)?, to.join(&name).map_err(|_| DriveError::Outgrown)?);
            match self.copy_missing(&source, &target, &entry, options).await {
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
                Err((path, error)) => tally.skip_damaged(path, error),
            }
        }
        Ok(())
    }

    /// Copies a file of a directory; none if the target has it already, or if it was removed or moved meanwhile.
    async fn copy_missing(
        &self,
        from: &DrivePath,
        to: &DrivePath,
        entry: &FileEntry,
        options: CopyOptions<'_>,
    ) -> Result<Option<Written>> {
        if self.has_same(to, entry, options.requester).await? {
            return Ok(None);
        }
        match self.copy_file(from, to, options).await {
            Err(DriveError::NotFound) => Ok(None),
            made => made.map(Some),
        }
    }

    /// Makes the target directory; with `merge` it may exist.
    async fn make_target(&self, to: &DrivePath, merge: bool, options: CopyOptions<'_>) -> Result<Written> {
        match mkdir(&self.committer, options.requester, to, options.creator, false).await {
            Ok(made) if made.new || merge => Ok(made),
            Ok(_) | Err(DriveError::IsFile) => Err(DriveError::Exists),
            Err(error) => Err(error),
        }
    }

    /// Whether the target path has a file of the same digest and `modified`.
    async fn has_same(&self, target: &DrivePath, source: &FileEntry, requester: &Requester) -> Result<bool> {
        match stat(&self.committer.namespace, requester, target).await {
            Ok(Node::File { entry, .. }) => {
                let (existing, copied) = (&entry.attributes, &source.attributes);
                Ok(existing.digest == copied.digest && existing.modified == copied.modified)
            }
            Ok(Node::Directory { .. }) | Err(DriveError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn copy_file(&self, from: &DrivePath, to: &DrivePath, options: CopyOptions<'_>) -> Result<Written> {
        let CopyOptions { requester, overwrite, creator } = options;
        let target = self.find_target(from, to, options).await?;
        let (staged, attributes, reserved) = self.copy_content(options, from, target.file.as_ref()).await?;
        let new =
            NewVersion { mime: attributes.mime, creator: creator.to_owned(), modified: Some(attributes.modified) };
        let rules = PutRules {
            source: Some(from.clone()),
            condition: Condition::default(),
            parents: false,
            replace: overwrite,
        };
        let requester = requester.clone();
        let version = StagedVersion { requester, path: to.clone(), staged, new, rules, found: Some(target), reserved };
        match version.store(&self.committer).await {
            Err(DriveError::IsDirectory) => Err(DriveError::Exists),
            other => other,
        }
    }

    /// What is at the target of a file, if the requester may copy it there as things are now. Checked before the content
    /// is copied, and again by the commit.
    async fn find_target(&self, from: &DrivePath, to: &DrivePath, options: CopyOptions<'_>) -> Result<NameLookup> {
        let (ns, (parent, name)) = (&self.committer.namespace, &to.split().ok_or(DriveError::Exists)?);
        let find = || async move {
            let _may_write = Rights::read(ns, options.requester).await?.write_from(from, parent).await?;
            let target = lookup(ns, parent, name).await?;
            check_target(ns, &target, parent, options.overwrite).await?;
            Ok(target)
        };
        settled(ns, options.requester, &[from, parent], find).await
    }

    /// Stages a copy of a file's content, which may replace a file, and what it has reserved of the quota. Every byte of it is
    /// verified.
    async fn copy_content(
        &self,
        CopyOptions { requester, creator, .. }: CopyOptions<'_>,
        from: &DrivePath,
        replaced: Option<&Versioned<FileEntry>>,
    ) -> Result<(StagedContent, file::Attributes, Reserved)> {
        for _ in 0..TRIES {
            let ns = &self.committer.namespace;
            let Node::File { path, entry } = stat(ns, requester, from).await? else {
                return Err(DriveError::IsDirectory);
            };
            let attributes = entry.attributes.clone();
            let mut usage = UsageChange::default();
            usage.add_content(creator, attributes.size);
            if let Some(replaced) = replaced {
                usage.take_file(&replaced.value.attributes);
            }
            let access = requester.access().await?;
            let mut reserved = Reserved::new(&self.committer.under_way, &access, &usage, Some(attributes.size)).await?;
            // One permit for reader and writer, before the first read: copies that each had one of two permits would wait
            // for each other.
            let memory = usize::try_from(attributes.size).unwrap_or(usize::MAX).saturating_mul(2).min(COPYING);
            let permit = tokio::time::timeout(WAIT, self.memory.take(memory)).await;
            let permit = permit.map_err(|_| DriveError::NoMemory)?;
            let body = match open_content(ns, &self.committer.content, requester, &path, &entry).await {
                // Replaced meanwhile: copy the new version.
                Err(DriveError::Content(ContentError::Gone(_))) => continue,
                body => body?,
            };
            let upload = self.committer.content.upload().with_unlimited_memory();
            let content = body.stream(0, attributes.size);
            let staged = match stage(&self.committer, upload, (attributes.size, content), &mut reserved).await {
                Err(PutError::Body(DriveError::Content(ContentError::Gone(_)))) => continue,
                Err(PutError::Body(error) | PutError::Drive(error)) => return Err(error),
                Ok(staged) => staged,
            };
            if staged.digest != attributes.digest {
                let what = "the content differs from its digest".to_owned();
                return Err(ContentError::Damaged { id: entry.id, what }.into());
            }
            return Ok((staged.with_permit(permit), attributes, reserved));
        }
        Err(DriveError::Contended)
    }
}
