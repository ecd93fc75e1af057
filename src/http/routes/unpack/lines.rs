//! The lines of an answer that its client has not read yet.
//!
//! Many clients send a whole body before they read the answer. So lines wait here, in memory of the budget, up to
//! [`UNREAD`] bytes, or an eighth of the budget. Beyond, no further member is read: [`LineRoom`] says when there is room. Writing never waits, so that
//! the members under way end, whether the client reads or not.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::budget::{Budget, Permit};
use crate::http::response::memory;
use crate::http::response::problem::Result;

/// Bytes of lines that wait for their client, beside those of members under way.
const UNREAD: usize = 8 << 20;
/// Bytes of a chunk of lines. More than a small buffer, so that lines leave the memory of small buffers to the content
/// of small files.
const CHUNK: usize = 128 << 10;

struct Shared {
    queue: Mutex<Queue>,
    written: Notify,
    read: Notify,
    memory: Budget,
}

#[derive(Default)]
struct Queue {
    chunks: VecDeque<(Vec<u8>, Permit)>,
    bytes: usize,
    /// For the next chunk.
    spare: Option<Permit>,
    /// The writer is gone. False: before the end of the answer.
    ended: Option<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the lines of an answer. If it is dropped before [`end`](Self::end), the answer breaks off.
pub struct LineWriter(Arc<Shared>);

/// Whether there is room for the lines of further members.
pub struct LineRoom(Arc<Shared>);

/// Reads the lines.
pub struct LineReader(Arc<Shared>);

/// The queue of lines of one answer.
pub fn queue(memory: Budget) -> (LineWriter, LineRoom, LineReader) {
    let (written, read) = (Notify::new(), Notify::new());
    let shared = Arc::new(Shared { queue: Mutex::default(), written, read, memory });
    (LineWriter(shared.clone()), LineRoom(shared.clone()), LineReader(shared))
}

impl LineRoom {
    /// Waits until there is room, and memory for it: for room as long as its client may take to read.
    ///
    /// Errors: there is no memory for a while.
    pub async fn wait(&self) -> Result<()> {
        let unread = UNREAD.min(self.0.memory.bytes() / 8);
        loop {
            let (is_full, has_spare) = {
                let queue = self.0.lock();
                (queue.bytes >= unread, queue.spare.is_some())
            };
            match (is_full, has_spare) {
                (false, true) => return Ok(()),
                (true, _) => self.0.read.notified().await,
                (false, false) => {
                    let permit = memory::within(&self.0.memory, self.0.memory.take(CHUNK)).await?;
                    self.0.lock().spare = Some(permit);
                }
            }
        }
    }
}

impl LineWriter {
    /// Adds a line.
    pub fn write(&self, line: &[u8]) {
        let mut queue = self.0.lock();
        let is_full = queue.chunks.back().is_none_or(|(chunk, _)| chunk.len() + line.len() > CHUNK);
        if is_full {
            let permit = queue.spare.take().unwrap_or_default();
            queue.chunks.push_back((Vec::new(), permit));
        }
        if let Some((chunk, _)) = queue.chunks.back_mut() {
            chunk.extend_from_slice(line);
        }
        queue.bytes += line.len();
        drop(queue);
        self.0.written.notify_one();
    }

    /// The answer is complete.
    pub fn end(self) {
        self.0.lock().ended = Some(true);
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.0.lock().ended.get_or_insert(false);
        self.0.written.notify_one();
    }
}

impl LineReader {
    /// The next lines; none at the end of the answer.
    async fn next(&self) -> io::Result<Option<Bytes>> {
        loop {
            {
                let mut queue = self.0.lock();
                if let Some((lines, mut permit)) = queue.chunks.pop_front() {
                    queue.bytes -= lines.len();
                    drop(queue);
                    self.0.read.notify_one();
                    permit.shrink(lines.capacity());
                    return Ok(Some(permit.attach(lines.into())));
                }
                match queue.ended {
                    Some(true) => return Ok(None),
                    Some(false) => return Err(io::Error::other("the answer has no end")),
                    None => {}
                }
            }
            self.0.written.notified().await;
        }
    }

    /// A body with the lines. The writing task is aborted when the body is dropped: its client has left.
    pub fn into_body(self, writing: JoinHandle<()>) -> Body {
        let writing = AbortOnDrop(writing);
        Body::from_stream(stream::try_unfold((self, writing), |(lines, writing)| async {
            Ok::<_, io::Error>(lines.next().await?.map(|chunk| (chunk, (lines, writing))))
        }))
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn unread_lines_are_bounded_and_none_is_lost() {
        let (writer, room, reader) = queue(Budget::new(256 << 20));
        let line = vec![b'x'; 1_000];
        let mut written = 0;
        while room.wait().now_or_never().is_some() {
            writer.write(&line);
            written += line.len();
        }
        assert!((UNREAD..UNREAD + 1_000).contains(&written), "{written}");
        // Those of members under way.
        writer.write(&line);
        let mut read = reader.next().await.unwrap().unwrap().len();
        assert!(room.wait().now_or_never().is_some());
        writer.end();
        while let Some(lines) = reader.next().await.unwrap() {
            assert_eq!(lines.len() % line.len(), 0);
            read += lines.len();
        }
        assert_eq!(read, written + line.len());
    }

    #[tokio::test]
    async fn lines_take_memory_of_the_budget_and_give_it_back() {
        let memory = Budget::new(1 << 20);
        let all = memory.try_take(700 << 10).unwrap();
        let (writer, room, reader) = queue(memory.clone());
        assert!(room.wait().now_or_never().is_none());
        drop(all);
        room.wait().await.unwrap();
        writer.write(b"1\n");
        room.wait().await.unwrap();
        writer.write(b"2\n");
        assert_eq!(&reader.next().await.unwrap().unwrap()[..], b"1\n2\n");
        let mut waiting = Box::pin(reader.next());
        assert!((&mut waiting).now_or_never().is_none());
        writer.write(b"3\n");
        assert_eq!(&waiting.await.unwrap().unwrap()[..], b"3\n");
        drop(writer);
        assert!(reader.next().await.is_err(), "an answer without an end");
        drop((room, reader));
        assert!(memory.try_take(768 << 10).is_some());
    }
}
