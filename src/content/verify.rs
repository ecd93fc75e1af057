//! Verifies whole contents by their digests, and saves content that no row names.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, pin_mut};

use super::body::Body;
use super::disk::{Disk, DiskFile};
use super::error::ContentError;
use super::{Content, format, run};
use crate::schema::FileId;
use crate::schema::file::Digest;
use crate::sha256::Sha256;

/// Bytes saved at a time.
const PIECE: usize = 1 << 20;

impl Body {
    /// Reads every byte: [`Damaged`](ContentError::Damaged) unless it is of this size and digest.
    pub async fn verify(self, id: FileId, size: u64, digest: &Digest) -> Result<(), ContentError> {
        let damaged = |what: &str| ContentError::Damaged { id, what: what.to_owned() };
        if self.len() != size {
            return Err(damaged("it is not of the size that its entry says"));
        }
        let stream = self.stream(0, size);
        pin_mut!(stream);
        let mut sha = Sha256::new();
        while let Some(bytes) = stream.next().await {
            sha.update(&bytes?);
        }
        let same = sha.done() == digest.0;
        if same { Ok(()) } else { Err(damaged("its bytes are not those of its digest")) }
    }
}

impl Content {
    /// Saves the data of a content file as `folder/name`, durably and unverified. False if there is no such file. A file
    /// without a whole trailer is saved as it is.
    pub async fn save(&self, id: FileId, folder: &Path, name: &str) -> Result<bool, ContentError> {
        let (content, folder, name) = (self.folder.clone(), folder.to_owned(), name.to_owned());
        let save = async move {
            let Some((file, _)) = content.open(id).await? else { return Ok(false) };
            let len = file.size().await?;
            let len = format::data_len(len).unwrap_or(len);
            let copy = create(&*content.disk, &folder, &name).await?;
            let (mut buffer, mut at) = (vec![0; PIECE], 0);
            while at < len {
                let wanted = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
                let piece = buffer.get_mut(..wanted).unwrap_or_default();
                let read = file.read_at(piece, at).await?;
                let Some(read) = piece.get(..read).filter(|read| !read.is_empty()) else { break };
                copy.write(read, at).await?;
                at += read.len() as u64;
            }
            sync(&*content.disk, &folder, &*copy).await?;
            Ok(true)
        };
        run(&*self.folder.disk, save).await
    }

    /// Saves inline content as `folder/name`, durably.
    pub async fn save_bytes(&self, bytes: Bytes, folder: &Path, name: &str) -> Result<(), ContentError> {
        let (disk, folder, name) = (self.folder.disk.clone(), folder.to_owned(), name.to_owned());
        let save = async move {
            let copy = create(&*disk, &folder, &name).await?;
            copy.write(&bytes, 0).await?;
            Ok(sync(&*disk, &folder, &*copy).await?)
        };
        run(&*self.folder.disk, save).await
    }
}

/// Makes a file, and its folder. Overwrites a file that an interrupted run has left there.
async fn create(disk: &dyn Disk, folder: &Path, name: &str) -> io::Result<Arc<dyn DiskFile>> {
    let mut missing = vec![folder];
    while let Some(&folder) = missing.last() {
        match (disk.make_folder(folder).await, folder.parent()) {
            (Err(e), Some(parent)) if e.kind() == io::ErrorKind::NotFound => missing.push(parent),
            (made, _) => {
                made?;
                missing.pop();
            }
        }
    }
    match disk.remove(&folder.join(name)).await {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => disk.create(&folder.join(name)).await,
    }
}

/// Makes a file and its name durable.
async fn sync(disk: &dyn Disk, folder: &Path, file: &dyn DiskFile) -> io::Result<()> {
    file.sync().await?;
    // The folder and two folders above it: `create` may have made them.
    for folder in folder.ancestors().take(3) {
        disk.sync_folder(folder).await?;
    }
    Ok(())
}
