//! Content held to what is known of it, and content that is saved because nothing is known of it.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use bytes::Bytes;
use futures_util::{StreamExt, pin_mut};
use sha2::{Digest as _, Sha256};

use super::body::Body;
use super::error::ContentError;
use super::{Content, folders, format, run};
use crate::schema::FileId;
use crate::schema::file::Digest;

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
        let same = <[u8; 32]>::from(sha.finalize()) == digest.0;
        if same { Ok(()) } else { Err(damaged("its bytes are not those of its digest")) }
    }
}

impl Content {
    /// Saves the data of a content file as `folder/name`, durably, whatever is known of it. False if there is no
    /// such file. One that has no whole trailer is saved as it is.
    pub async fn save(&self, id: FileId, folder: &Path, name: &str) -> Result<bool, ContentError> {
        let (folders, folder, name) = (self.folders.clone(), folder.to_owned(), name.to_owned());
        let save = move || {
            let Some((file, _)) = folders.open(id)? else { return Ok(false) };
            let len = file.metadata()?.len();
            write(&mut file.take(format::data_len(len).unwrap_or(len)), &folder, &name)?;
            Ok(true)
        };
        run(save).await
    }

    /// Saves content that is no file of its own as `folder/name`, durably.
    pub async fn save_bytes(&self, bytes: Bytes, folder: &Path, name: &str) -> Result<(), ContentError> {
        let (folder, name) = (folder.to_owned(), name.to_owned());
        run(move || Ok(write(&mut bytes.as_ref(), &folder, &name)?)).await
    }
}

/// Writes a file, and the folder that it is in, durably. What one wrote who did not come to the end is replaced.
fn write(from: &mut impl Read, folder: &Path, name: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(folder.join(name))?;
    io::copy(from, &mut file)?;
    file.sync_all()?;
    // The folder, the one that all such folders are in, and the one where that may be new.
    folder.ancestors().take(3).try_for_each(folders::sync)
}
