//! The lines of an answer that its client has not read yet.
//!
//! Many clients send a whole body before they read the answer. So lines wait here, in memory of the budget, up to
//! [`UNREAD`] bytes. Beyond, the writer waits for the client.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::budget::{Budget, Permit};

/// Bytes of lines that wait for their client.
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

/// Reads them.
pub struct LineReader(Arc<Shared>);

/// The queue of lines of one answer.
pub fn queue(memory: Budget) -> (LineWriter, LineReader) {
    let (written, read) = (Notify::new(), Notify::new());
    let shared = Arc::new(Shared { queue: Mutex::default(), written, read, memory });
    (LineWriter(shared.clone()), LineReader(shared))
}

impl LineWriter {
    /// Adds a line. Waits while too many are unread.
    pub async fn write(&mut self, line: &[u8]) {
        while !self.append(line) {
            let is_full = self.0.lock().bytes >= UNREAD;
            if is_full {
                self.0.read.notified().await;
                continue;
            }
            tokio::select! {
                permit = self.0.memory.take(CHUNK) => self.0.lock().chunks.push_back((Vec::new(), permit)),
                () = self.0.read.notified() => {}
            }
        }
        self.0.written.notify_one();
    }

    /// Adds a line to the last chunk, if it has room.
    fn append(&self, line: &[u8]) -> bool {
        let mut queue = self.0.lock();
        let Some((chunk, _)) = queue.chunks.back_mut() else { return false };
        if !chunk.is_empty() && chunk.len() + line.len() > CHUNK {
            return false;
        }
        chunk.extend_from_slice(line);
        queue.bytes += line.len();
        true
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
                if let Some((lines, mut permit)) = queue.chunks.pop_front_if(|(lines, _)| !lines.is_empty()) {
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
        let memory = Budget::new(256 << 20);
        let (mut writer, reader) = queue(memory);
        let line = vec![b'x'; 1_000];
        let mut written = 0;
        while writer.write(&line).now_or_never().is_some() {
            written += line.len();
        }
        assert!((UNREAD..UNREAD + CHUNK).contains(&written), "{written}");
        let mut read = reader.next().await.unwrap().unwrap().len();
        while writer.write(&line).now_or_never().is_some() {
            written += line.len();
        }
        writer.end();
        while let Some(lines) = reader.next().await.unwrap() {
            assert_eq!(lines.len() % line.len(), 0);
            read += lines.len();
        }
        assert_eq!(read, written);
    }

    #[tokio::test]
    async fn a_writer_that_waits_for_memory_goes_on_when_lines_are_read() {
        let memory = Budget::new(1 << 20);
        let all = memory.try_take(600 << 10).unwrap();
        let (mut writer, reader) = queue(memory.clone());
        writer.write(b"1\n").await;
        let lines = reader.next().await.unwrap().unwrap();
        assert_eq!(&lines[..], b"1\n");
        writer.write(b"2\n").await;
        drop((lines, all));
        assert_eq!(&reader.next().await.unwrap().unwrap()[..], b"2\n");
        let mut waiting = Box::pin(reader.next());
        assert!((&mut waiting).now_or_never().is_none());
        writer.write(b"3\n").await;
        assert_eq!(&waiting.await.unwrap().unwrap()[..], b"3\n");
        drop(writer);
        assert!(reader.next().await.is_err(), "an answer without an end");
    }
}
