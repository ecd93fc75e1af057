//! The memory that an HTTP/2 connection is read into, as far as something keeps it.
//!
//! The library reads into a buffer of some 8 KiB, or of one long frame. What it keeps of a frame, the content of DATA
//! or a field of a head, is a slice of that buffer and keeps all of it, whatever else was there. The library tells
//! nothing of its buffers, but a buffer is known by its addresses: bytes are read into it from its start to its end,
//! and a handler that takes a frame gets the slice itself.
//!
//! The count misses only what lies before the first byte that was read into a buffer: the start of a frame that was
//! moved there.

use std::collections::BTreeMap;

/// Buffers that something keeps, and the frames DATA that wait in them for their handlers.
#[derive(Default)]
pub struct ReadBuffers {
    /// By the address of their end.
    kept: BTreeMap<usize, KeptBuffer>,
    /// By the address of their content.
    frames: BTreeMap<usize, WaitingFrame>,
    /// The start and the end of the buffer of the last read.
    current: (usize, usize),
    /// The address after the last byte that was read.
    next: usize,
}

#[derive(Default)]
struct KeptBuffer {
    begin: usize,
    /// Frames in it that wait, and the bytes of their content.
    frames: usize,
    content: usize,
    /// The table of header fields keeps it.
    in_table: bool,
}

struct WaitingFrame {
    stream: u32,
    content: usize,
}

impl KeptBuffer {
    fn is_free(&self) -> bool {
        self.frames == 0 && !self.in_table
    }
}

impl ReadBuffers {
    /// So many bytes were read to this address, where there was room for `room` bytes.
    pub fn read(&mut self, address: usize, bytes: usize, room: usize) {
        // Another buffer may start where one ends, and one that nothing keeps may grow.
        let end = address.saturating_add(room);
        if (address, end) != (self.next, self.current.1) {
            self.current = (address, end);
            // Nothing is kept there: the memory is used again.
            self.forget(address, self.current.1);
        }
        self.next = address.saturating_add(bytes);
    }

    /// A frame has arrived whose content is at this address: the byte before is of its header, or tells of its padding.
    /// It waits.
    pub fn add(&mut self, address: usize, stream: u32, content: usize) {
        let buffer = self.keep(address);
        buffer.frames += 1;
        buffer.content += content;
        self.frames.insert(address, WaitingFrame { stream, content });
    }

    /// The table of header fields keeps a part of what is at this address, as long as it is not empty.
    pub fn add_to_table(&mut self, address: usize) {
        self.keep(address).in_table = true;
    }

    /// A handler has got the frame whose content is at this address. Returns its stream.
    pub fn take(&mut self, address: usize) -> Option<u32> {
        let frame = self.frames.remove(&address)?;
        let found = self.kept.range_mut(address..).next().filter(|(_, buffer)| buffer.begin < address);
        if let Some((end, buffer)) = found {
            buffer.frames = buffer.frames.saturating_sub(1);
            buffer.content = buffer.content.saturating_sub(frame.content);
            if buffer.is_free() {
                let end = *end;
                self.kept.remove(&end);
            }
        }
        Some(frame.stream)
    }

    /// The library has dropped the frames of this stream.
    pub fn take_stream(&mut self, stream: u32) {
        let of_stream = self.frames.iter().filter(|(_, frame)| frame.stream == stream);
        let addresses: Vec<_> = of_stream.map(|(address, _)| *address).collect();
        for address in addresses {
            self.take(address);
        }
    }

    /// No frame waits.
    pub fn take_all(&mut self) {
        self.frames.clear();
        self.change(|buffer| (buffer.frames, buffer.content) = (0, 0));
    }

    pub fn empty_table(&mut self) {
        self.change(|buffer| buffer.in_table = false);
    }

    fn change(&mut self, how: impl Fn(&mut KeptBuffer)) {
        self.kept.values_mut().for_each(how);
        self.kept.retain(|_, buffer| !buffer.is_free());
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.frames.len()
    }

    /// Bytes that they keep beside their content.
    pub fn beside_frames(&self) -> usize {
        let of_frames = self.kept.iter().filter(|(_, buffer)| buffer.frames > 0);
        of_frames.map(|(end, buffer)| (end - buffer.begin).saturating_sub(buffer.content)).sum()
    }

    /// Bytes that the table of header fields keeps.
    pub fn in_table(&self) -> usize {
        let of_table = self.kept.iter().filter(|(_, buffer)| buffer.in_table);
        of_table.map(|(end, buffer)| end - buffer.begin).sum()
    }

    /// The buffer of the last read, which has this address.
    fn keep(&mut self, address: usize) -> &mut KeptBuffer {
        // IMPORTANT: content may be empty, and its address then be the end of its buffer, or the start of the next one.
        // The byte before it is in its own: the end of the frame's header at least.
        let before = address.saturating_sub(1);
        let (begin, end) = self.current;
        if before < begin {
            self.forget(before, begin);
            self.current.0 = before;
        }
        let buffer = self.kept.entry(end).or_default();
        buffer.begin = self.current.0;
        buffer
    }

    /// What was kept of the memory from `begin` to `end` is not any more.
    fn forget(&mut self, begin: usize, end: usize) {
        let there = self.kept.range(begin.saturating_add(1)..).take_while(|(_, buffer)| buffer.begin < end);
        let ends: Vec<_> = there.map(|(end, _)| *end).collect();
        for end in ends {
            let Some(buffer) = self.kept.remove(&end) else { continue };
            let frames = self.frames.range(buffer.begin + 1..=end).map(|(address, _)| *address);
            let addresses: Vec<_> = frames.collect();
            for address in addresses {
                self.frames.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: usize = 8192;

    /// One frame of so many bytes at each of these addresses.
    fn with_frames(begin: usize, content: usize, addresses: impl IntoIterator<Item = usize>) -> ReadBuffers {
        let mut buffers = ReadBuffers::default();
        buffers.read(begin, BUFFER, BUFFER);
        addresses.into_iter().for_each(|address| buffers.add(address, 1, content));
        buffers
    }

    #[test]
    fn a_frame_keeps_its_buffer_until_it_is_taken() {
        let mut buffers = with_frames(10_000, 1, [10_009, 10_019]);
        assert_eq!((buffers.waiting(), buffers.beside_frames()), (2, BUFFER - 2));
        buffers.take(10_019);
        assert_eq!((buffers.waiting(), buffers.beside_frames()), (1, BUFFER - 1));
        buffers.take(10_019);
        buffers.take(10_010);
        assert_eq!(buffers.waiting(), 1, "it is no frame, or was taken");
        // Reads into another buffer.
        buffers.read(50_000, 100, BUFFER);
        buffers.read(50_100, 100, BUFFER - 100);
        buffers.add(50_109, 3, 50);
        assert_eq!((buffers.waiting(), buffers.beside_frames()), (2, BUFFER - 1 + BUFFER - 50));
        buffers.take(10_009);
        buffers.take(50_109);
        assert_eq!((buffers.waiting(), buffers.beside_frames(), buffers.kept.len()), (0, 0, 0));
    }

    /// The library grows a buffer in place, if nothing keeps it.
    #[test]
    fn a_buffer_that_grows_is_another_one() {
        let mut buffers = ReadBuffers::default();
        buffers.read(10_000, 100, BUFFER);
        buffers.read(10_100, 2 * BUFFER - 200, 2 * BUFFER - 100);
        buffers.add(10_009 + BUFFER, 1, 50);
        buffers.take(10_009 + BUFFER);
        assert_eq!((buffers.waiting(), buffers.kept.len()), (0, 0));
    }

    #[test]
    fn content_that_fills_its_buffer_keeps_nothing_beside_it() {
        let mut buffers = with_frames(10_000, BUFFER - 9, [10_009]);
        assert_eq!(buffers.beside_frames(), 9);
        // The start of a long frame was moved: it lies before what was read.
        buffers.read(60_000, 1000, 12_000);
        buffers.add(55_000, 3, 6000);
        assert_eq!(buffers.beside_frames(), 9 + (12_000 + 5001 - 6000));
        buffers.take(55_000);
        assert_eq!(buffers.beside_frames(), 9);
    }

    #[test]
    fn empty_content_belongs_to_the_buffer_of_its_head() {
        let mut buffers = with_frames(10_000, 0, [10_000 + BUFFER]);
        // The second buffer begins where the first one ends.
        buffers.read(10_000 + BUFFER, 100, BUFFER);
        buffers.add(10_009 + BUFFER, 3, 91);
        assert_eq!((buffers.waiting(), buffers.beside_frames()), (2, BUFFER + BUFFER - 91));
        buffers.take(10_000 + BUFFER);
        assert_eq!((buffers.waiting(), buffers.beside_frames()), (1, BUFFER - 91));
    }

    #[test]
    fn memory_that_is_read_into_again_was_free() {
        for (again, room) in [(10_000, BUFFER), (9_000, 1_001), (10_000 + BUFFER - 1, 5), (5_000, 50_000)] {
            let mut buffers = with_frames(10_000, 1, [10_009, 10_019]);
            buffers.add_to_table(10_100);
            buffers.read(again, 1, room);
            assert_eq!((buffers.waiting(), buffers.beside_frames(), buffers.in_table()), (0, 0, 0), "{again}");
        }
        for (other, room) in [(9_000, 1_000), (10_001 + BUFFER, 5)] {
            let mut buffers = with_frames(10_000, 1, [10_009]);
            buffers.read(other, 1, room);
            assert_eq!(buffers.waiting(), 1, "{other}");
        }
        // A frame that was moved before the bytes that are read.
        let mut buffers = with_frames(10_000, 1, [10_009]);
        buffers.read(20_000, 1000, BUFFER);
        buffers.add(18_000, 3, 3000);
        assert_eq!((buffers.waiting(), buffers.kept.len()), (1, 1));
    }

    #[test]
    fn frames_of_a_stream_are_dropped_together() {
        let mut buffers = with_frames(10_000, 1, (0..5).map(|n| 10_009 + n * 10));
        buffers.add(10_100, 3, 7);
        buffers.take_stream(1);
        assert_eq!((buffers.waiting(), buffers.beside_frames()), (1, BUFFER - 7));
        buffers.take_stream(1);
        buffers.add_to_table(10_200);
        buffers.take_all();
        assert_eq!((buffers.waiting(), buffers.beside_frames(), buffers.in_table()), (0, 0, BUFFER));
        buffers.empty_table();
        assert!(buffers.kept.is_empty());
    }
}
