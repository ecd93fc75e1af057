//! The drive for one requester: one delegating line for each operation.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;

use super::commit::copy::CopyOptions;
use super::commit::new_user::Home;
use super::commit::put::ReceivedUpload;
use super::error::{PutError, Result};
use super::model::{
    Condition, CopyStats, FilePage, ListQuery, Listing, NameQuery, Node, OpenFile, PutOptions, StoredListing,
    TimeQuery, Written,
};
use super::namespace::Namespace;
use super::query::stored::TimePage;
use super::rooms::Rooms;
use super::watch::WatchedContent;
use super::{authorized, by_share, commit, granted, query, subtree};
use crate::auth::{CursorSeal, DirChain, PreparedUser, Requester, User};
use crate::budget::Budget;
use crate::client_net::ClientNet;
use crate::schema::dir::FileEntry;
use crate::schema::rights::Rights;
use crate::schema::share::{Share, ShareTarget};
use crate::schema::{DirId, DrivePath, FileId, Name, Timestamp};

/// The drive as one requester sees it. What he may not read is as if it were missing; each change is decided, and guarded,
/// by his rights. Cheap to clone.
///
/// For a share the paths of [`stat`](Self::stat), [`list_stored`](Self::list_stored) and [`content`](Self::content) begin
/// at what it is of; by one to upload there is [`add`](Self::add) alone. The other operations have nothing.
#[derive(Clone)]
pub struct UserDrive {
    pub(super) rooms: Arc<Rooms>,
    pub(super) requester: Requester,
    /// From where he asks.
    pub(super) client: ClientNet,
}

impl UserDrive {
    fn namespace(&self) -> &Namespace {
        &self.rooms.committer.namespace
    }

    /// The same drive, for one who asks from this address.
    pub fn of_client(self, client: ClientNet) -> Self {
        Self { client, ..self }
    }

    /// The memory of requests: a permit of it is taken before each of their buffers. A stranger gets that of his
    /// address.
    pub fn memory(&self) -> Budget {
        let memory = &self.rooms.parts.memory;
        if self.is_share() { memory.of_stranger(self.client) } else { memory.clone() }
    }

    /// Whether a stranger asks, by a share: then nothing of what he sees shows a creator.
    pub fn is_share(&self) -> bool {
        self.requester.is_share()
    }

    /// What seals the cursors of the requester, if he is a user.
    pub async fn cursor_seal(&self) -> Result<Option<CursorSeal>> {
        Ok(self.requester.cursor_seal().await?)
    }

    /// The file or directory at a path.
    pub async fn stat(&self, path: &DrivePath) -> Result<Node> {
        if self.requester.is_share() {
            return by_share::stat(self.namespace(), &self.requester, path).await;
        }
        authorized::stat(self.namespace(), &self.requester, path).await
    }

    /// The directories of the path of one that is there, for a change of the rights on it.
    pub async fn chain(&self, path: &DrivePath) -> Result<DirChain> {
        granted::chain(self.namespace(), &self.requester, path).await
    }

    /// Makes sure that the target of the requester's share is there, and that its maker may do there what the share is for.
    pub async fn find_shared(&self) -> Result<()> {
        self.find_target(&by_share::share(&self.requester).await?).await
    }

    /// As [`find_shared`](Self::find_shared), without reading the share again.
    pub async fn find_target(&self, share: &Share) -> Result<()> {
        by_share::find_target(self.namespace(), &self.requester, share).await
    }

    /// The file or directory at a path, as the target of a new share, with the directories down to it; of a file down to its
    /// parent.
    pub async fn share_target(&self, path: &DrivePath) -> Result<(DirChain, ShareTarget)> {
        by_share::new_target(self.namespace(), &self.requester, path).await
    }

    /// Where the targets of shares are, as far as the requester sees them.
    pub async fn share_paths(&self, targets: &[ShareTarget]) -> Result<HashMap<ShareTarget, DrivePath>> {
        by_share::paths(self.namespace(), &self.requester, targets).await
    }

    /// The directories on which the requester has rights of his own, each with all rights that he has there, by path.
    pub async fn rights(&self) -> Result<Vec<(DrivePath, Rights)>> {
        granted::rights(self.namespace(), &self.requester).await
    }

    /// Where these directories are, as far as the requester may read there.
    pub async fn paths(&self, dirs: &[DirId]) -> Result<HashMap<DirId, DrivePath>> {
        granted::paths(self.namespace(), &self.requester, dirs).await
    }

    /// Makes a user and his home. The requester is an admin, or nobody for the first user.
    pub async fn make_user(&self, user: PreparedUser, home: Home) -> Result<User> {
        commit::new_user::make_user(&self.rooms.committer, &self.requester, user, home).await
    }

    /// A page of the children of a directory.
    pub async fn list(&self, path: &DrivePath, query: &ListQuery) -> Result<Listing> {
        let listing = self.list_stored(path, query).await?;
        let nodes = listing.nodes().map(|node| node?.to_owned()).collect::<Result<_>>()?;
        Ok(Listing { nodes, next: listing.next })
    }

    /// As [`list`](Self::list), not decoded.
    pub async fn list_stored(&self, path: &DrivePath, query: &ListQuery) -> Result<StoredListing> {
        if self.requester.is_share() {
            return by_share::list_stored(self.namespace(), &self.requester, path, query).await;
        }
        authorized::list_stored(self.namespace(), &self.requester, path, query).await
    }

    /// Files of a time period, newest first, ties by ascending id; `ascending` is the exact reverse.
    pub async fn files_by_time(&self, query: &TimeQuery) -> Result<FilePage<(Timestamp, FileId)>> {
        self.page_by_time(query).await?.decoded()
    }

    /// As [`files_by_time`](Self::files_by_time), not decoded if the files can be taken as they are stored.
    pub async fn page_by_time(&self, query: &TimeQuery) -> Result<TimePage> {
        query::page_by_time(&self.rooms.queries, &self.requester, query).await
    }

    /// Files by name anywhere, ordered by folded name, then by id.
    pub async fn files_by_name(&self, query: &NameQuery) -> Result<FilePage<(String, FileId)>> {
        query::files_by_name(&self.rooms.queries, &self.requester, query).await
    }

    /// One version of a file: attributes and content belong together.
    pub async fn open_file(&self, path: &DrivePath) -> Result<OpenFile> {
        authorized::open_file(self.namespace(), &self.rooms.parts.content, &self.requester, path).await
    }

    /// The content of the version that was found at `path`;
    /// [`ContentError::Gone`](crate::content::ContentError::Gone) if it was replaced since.
    pub async fn content(&self, path: &DrivePath, entry: &FileEntry) -> Result<WatchedContent> {
        let (ns, content) = (self.namespace(), &self.rooms.parts.content);
        if self.requester.is_share() {
            return by_share::open_content(ns, content, &self.requester, path, entry).await;
        }
        authorized::open_content(ns, content, &self.requester, path, entry).await
    }

    /// Stores a file under this path, a new one or a new version. The body is polled only if the file would be stored
    /// as things are then. Dropping the future before the body has ended stores nothing; later, the rest runs in a task.
    /// Poll it until it ends, or drop it: in between it may have locks that others wait for.
    ///
    /// The new version is durable when this returns. On [`DriveError::Unknown`](super::DriveError::Unknown) it may be
    /// stored or not.
    pub async fn put<E>(
        &self,
        path: &DrivePath,
        options: PutOptions,
        body: impl Stream<Item = std::result::Result<Bytes, E>>,
    ) -> std::result::Result<Written, PutError<E>> {
        commit::put::put(&self.rooms.committer, &self.requester, path, options, body).await
    }

    /// Stores a new file in the directory of an upload share, wherever that is: under this name or, if it is taken, with a
    /// number. Its creator is the maker of the share. As [`put`](Self::put) otherwise.
    ///
    /// Errors: [`DriveError::Forbidden`](super::DriveError::Forbidden) if the requester has no upload share.
    /// [`DriveError::Quota`](super::DriveError::Quota) also if the share has no bytes left for it.
    pub async fn add<E>(
        &self,
        name: &Name,
        options: PutOptions,
        body: impl Stream<Item = std::result::Result<Bytes, E>>,
    ) -> std::result::Result<Written, PutError<E>> {
        commit::add::add(&self.rooms.committer, (&self.requester, self.memory()), name, options, body).await
    }

    /// Reads the body of an upload, which [`ReceivedUpload::store`] then stores. For uploads whose bodies come one after
    /// the other, such as the members of a tar: while one is read, those before it are stored, and share their commits.
    ///
    /// The body of a small file is read even if the file would not be stored as things are then.
    pub async fn receive<E>(
        &self,
        path: &DrivePath,
        options: PutOptions,
        body: impl Stream<Item = std::result::Result<Bytes, E>>,
    ) -> std::result::Result<ReceivedUpload, PutError<E>> {
        commit::put::receive(&self.rooms.committer, &self.requester, path, options, body).await
    }

    /// Whether files may be stored below a directory, as things are now. It is made with its first file if it is missing.
    pub async fn check_below(&self, path: &DrivePath) -> Result<()> {
        commit::put::check_below(&self.rooms.committer, &self.requester, path).await
    }

    /// Makes a directory, and its parents if `parents`. One that exists is a success that made nothing.
    pub async fn mkdir(&self, path: &DrivePath, creator: &str, parents: bool) -> Result<Written> {
        commit::mkdir::mkdir(&self.rooms.committer, &self.requester, path, creator, parents).await
    }

    /// Deletes a file.
    pub async fn delete(&self, path: &DrivePath, condition: &Condition) -> Result<()> {
        commit::delete::delete(&self.rooms.committer, &self.requester, path, condition).await
    }

    /// Removes a directory that is empty.
    pub async fn rmdir(&self, path: &DrivePath) -> Result<()> {
        commit::delete::rmdir(&self.rooms.committer, &self.requester, path).await
    }

    /// Deletes a directory with all that it holds.
    pub async fn delete_subtree(&self, path: &DrivePath) -> Result<()> {
        subtree::delete_subtree(&self.rooms.committer, &self.requester, path).await
    }

    /// Moves a file or a directory: it keeps its id, times, creator and type. With `overwrite` a file may replace
    /// a file.
    pub async fn move_node(&self, from: &DrivePath, to: &DrivePath, overwrite: bool) -> Result<Written> {
        subtree::move_node(&self.rooms.committer, &self.requester, from, to, overwrite).await
    }

    /// Copies a file, or a directory with all that it holds, which is not atomic: see `commit/copy.rs`.
    pub async fn copy_node(
        &self,
        from: &DrivePath,
        to: &DrivePath,
        overwrite: bool,
        creator: &str,
    ) -> Result<(Written, Option<CopyStats>)> {
        let options = CopyOptions { requester: &self.requester, overwrite, creator };
        self.rooms.copier.copy_node(from, to, options).await
    }
}
