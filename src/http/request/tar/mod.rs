//! Reads a tar as it comes in: one member after the other, with its content as a stream.
//!
//! What two programs could read differently ends the tar here: data of a directory or of a link, an extended header
//! without a member, bytes after the end. Otherwise a member could be hidden in the content of another one.
//!
//! Not with the readers of the crates `tar`, which blocks its thread, and `astral-tokio-tar`, which keeps extended headers
//! of any size in memory.
//!
//! [`header`]: one block; [`pax`]: extended headers. Memory: 64 KiB beside the pieces of the body, for an extended header,
//! the names of two others, and a block.

mod header;
mod pax;

use std::pin::Pin;

use axum::body::Bytes;
use futures_util::stream::{self, Stream, StreamExt};

use super::body::cut;
use crate::http::response::problem::{Problem, Result};
use crate::schema::Timestamp;
use crate::schema::file::Digest;
use header::{BLOCK, Block, TarHeader, malformed};
use pax::{Records, kept, unusable};

/// Bytes of an extended header.
const EXTENDED: u64 = 32 << 10;

/// A tar that comes in.
pub struct TarReader<S> {
    body: Pin<Box<S>>,
    /// The bytes of the body that are read and not used.
    unused: Bytes,
    /// Bytes of the present member that are not read: content, and then padding.
    content: u64,
    padding: u64,
    /// The records for all further members.
    global: Records,
    /// The first block, until it is parsed.
    first: Option<Block>,
}

/// A member of a tar.
#[derive(Debug)]
pub struct Member {
    pub name: Vec<u8>,
    pub kind: MemberKind,
    /// Bytes of its content.
    pub size: u64,
    pub modified: Result<Timestamp>,
    pub digest: Result<Option<Digest>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    File,
    Directory,
    /// Neither: what it is.
    Other(&'static str),
}

impl<S: Stream<Item = Result<Bytes>> + Send> TarReader<S> {
    /// Reads the first block.
    ///
    /// Errors: the body is not a tar, or is broken.
    pub async fn open(body: S) -> Result<Self> {
        let (unused, global) = (Bytes::new(), Records::default());
        let mut reader = Self { body: Box::pin(body), unused, content: 0, padding: 0, global, first: None };
        let (first, filled) = reader.part_of_block().await?;
        if filled == 0 {
            return Err(cut(&"the tar is empty").with_detail("The body is empty: no tar was sent."));
        }
        // A small file of another kind, such as a compressed tar.
        if filled < BLOCK {
            return Err(malformed());
        }
        TarHeader::parse(&first)?;
        reader.first = Some(first);
        Ok(reader)
    }

    /// The next member; none at the end of the tar. Skips the content of the member before.
    pub async fn next(&mut self) -> Result<Option<Member>> {
        self.skip_member().await?;
        let mut own: Option<Records> = None;
        let mut long_name = None;
        loop {
            let block = match self.first.take() {
                Some(block) => block,
                None => self.block().await?.ok_or_else(|| cut(&"the tar has no end"))?,
            };
            let Some(header) = TarHeader::parse(&block)? else {
                if own.is_some() || long_name.is_some() {
                    return Err(malformed());
                }
                self.end().await?;
                return Ok(None);
            };
            match header.type_flag {
                b'x' | b'X' => {
                    let records = self.extended(header.size).await?;
                    own.get_or_insert_with(|| self.global.clone()).apply(&records)?;
                }
                b'g' => {
                    let records = self.extended(header.size).await?;
                    self.global.apply(&records)?;
                }
                b'L' => {
                    let name = self.extended(header.size).await?;
                    long_name = Some(kept(name.split(|byte| *byte == 0).next().unwrap_or_default()));
                }
                // The target of a link, which is refused anyway.
                b'K' => drop(self.extended(header.size).await?),
                _ => {
                    let records = own.unwrap_or_else(|| self.global.clone());
                    return self.member(header, records, long_name).await.map(Some);
                }
            }
        }
    }

    /// The content of the present member.
    pub fn content(&mut self) -> impl Stream<Item = Result<Bytes>> + Send {
        stream::try_unfold(self, |reader| async move {
            if reader.content == 0 {
                return Ok(None);
            }
            let piece = reader.piece(reader.content).await?;
            reader.content -= piece.len() as u64;
            Ok(Some((piece, reader)))
        })
    }

    async fn member(&mut self, header: TarHeader, records: Records, long_name: Option<Vec<u8>>) -> Result<Member> {
        let size = records.size.unwrap_or(header.size);
        let name = records.name.or(long_name).unwrap_or(header.name);
        let mut kind = kind_of(header.type_flag, &name);
        // Programs differ on whether such data follow.
        let has_no_data = kind == MemberKind::Directory || matches!(header.type_flag, b'1'..=b'6');
        if size > 0 && has_no_data {
            return Err(Problem::malformed(
                "A directory, a link or a device of the tar has content, which programs read differently: make it anew.",
            ));
        }
        if records.sparse {
            kind = MemberKind::Other("a sparse file");
        }
        let modified = match records.modified {
            Some(time) => time,
            None => Timestamp::from_unix(header.modified).map_err(drop),
        };
        let modified = modified.map_err(|()| unusable("time of modification (years 1901 to 9999)"));
        let digest = records.digest.transpose().map_err(|()| unusable("digest"));
        if header.type_flag == b'S' && header.has_sparse_map {
            self.skip_sparse_map().await?;
        }
        (self.content, self.padding) = (size, padding(size));
        Ok(Member { name, kind, size, modified, digest })
    }

    /// The data of an extended header.
    async fn extended(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > EXTENDED {
            return Err(Problem::malformed(format!(
                "An extended header of the tar has {size} bytes: it may have {EXTENDED}. Leave out extended attributes."
            )));
        }
        let mut data = Vec::with_capacity(size as usize);
        while (data.len() as u64) < size {
            let piece = self.piece(size - data.len() as u64).await?;
            data.extend_from_slice(&piece);
        }
        self.skip(padding(size)).await?;
        Ok(data)
    }

    /// Old GNU tar: further blocks of the map, until one says that it is the last.
    async fn skip_sparse_map(&mut self) -> Result<()> {
        loop {
            let block = self.block().await?.ok_or_else(|| cut(&"the tar has no end"))?;
            if block.get(504).is_none_or(|more| *more == 0) {
                return Ok(());
            }
        }
    }

    async fn skip_member(&mut self) -> Result<()> {
        let left = self.content.saturating_add(self.padding);
        (self.content, self.padding) = (0, 0);
        self.skip(left).await
    }

    async fn skip(&mut self, mut bytes: u64) -> Result<()> {
        while bytes > 0 {
            bytes -= self.piece(bytes).await?.len() as u64;
        }
        Ok(())
    }

    /// Reads what follows the first block of zeros: only zeros, or a part of what was sent would be ignored.
    async fn end(&mut self) -> Result<()> {
        loop {
            if self.unused.iter().any(|byte| *byte != 0) {
                return Err(Problem::malformed(
                    "Something follows the end of the tar, and is not stored: send each tar in a request of its own.",
                ));
            }
            match self.body.next().await {
                Some(piece) => self.unused = piece?,
                None => return Ok(()),
            }
        }
    }

    /// The next block; none if the body has ended before it.
    async fn block(&mut self) -> Result<Option<Block>> {
        match self.part_of_block().await? {
            (_, 0) => Ok(None),
            (block, BLOCK) => Ok(Some(block)),
            _ => Err(cut(&"the tar ends in a block")),
        }
    }

    /// The next block, and how many bytes of it there are: fewer than a block if the body has ended.
    async fn part_of_block(&mut self) -> Result<(Block, usize)> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while let Some(free) = block.get_mut(filled..).filter(|free| !free.is_empty()) {
            if !self.fill().await? {
                break;
            }
            let piece = self.unused.split_to(free.len().min(self.unused.len()));
            if let Some(part) = free.get_mut(..piece.len()) {
                part.copy_from_slice(&piece);
            }
            filled += piece.len();
        }
        Ok((block, filled))
    }

    /// The next bytes, at most so many and at least one.
    async fn piece(&mut self, most: u64) -> Result<Bytes> {
        if !self.fill().await? {
            return Err(cut(&"the tar ends in a member"));
        }
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(self.unused.len());
        Ok(self.unused.split_to(len))
    }

    /// Reads some bytes if there are none. False at the end of the body.
    async fn fill(&mut self) -> Result<bool> {
        while self.unused.is_empty() {
            match self.body.next().await {
                Some(piece) => self.unused = piece?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn padding(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}

/// A regular file with a slash at the end of its name is a directory, as the first tars had them.
fn kind_of(type_flag: u8, name: &[u8]) -> MemberKind {
    match type_flag {
        b'0' | 0 | b'7' if name.ends_with(b"/") => MemberKind::Directory,
        b'0' | 0 | b'7' => MemberKind::File,
        b'5' => MemberKind::Directory,
        b'1' | b'2' => MemberKind::Other("a link"),
        b'3' | b'4' => MemberKind::Other("a device"),
        b'6' => MemberKind::Other("a named pipe"),
        b'S' => MemberKind::Other("a sparse file"),
        b'M' => MemberKind::Other("a part of a file on another volume"),
        _ => MemberKind::Other("of a type that has no place on a drive"),
    }
}
