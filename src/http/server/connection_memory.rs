//! What an HTTP/2 connection makes the server keep beside the content of its bodies and heads.
//!
//! The library keeps each frame DATA in a slot of some 220 bytes until the handler takes it, however short it is. A
//! connection never gives slots back: it keeps as many as ever waited at once (h2 0.4, `Buffer`). A frame that waits
//! also keeps the [buffer](super::read_buffers) that it was read into. So a connection takes memory of the
//! [budget](crate::budget) when the sum of both is more than a step; what bodies may keep of buffers does not count.
//! While there is none, its socket is not read.
//!
//! The [table of header fields](super::hpack_table) has half a step of its own, and permits of its own: a pause of the
//! socket does not make it smaller. While there is no memory for it, the connection ends in order.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::hpack_table::HpackTable;
use super::http2_frames::{CONTINUATION, DATA, FramePiece, HEADERS};
use super::read_buffers::ReadBuffers;
use super::slow_client::SHORT_STALL;
use crate::budget::{Budget, Permit};
use crate::http::metrics::CloseReason;

/// Bytes of a slot, with what is noted of its frame here.
const SLOT: usize = 256;
/// What a connection has without a permit, and what it takes one for at a time: one small buffer. In frames of 16 KiB,
/// as clients send them, the windows of 64 bodies need slots of so many bytes.
const STEP: usize = 64 << 10;
/// What each further body may keep of buffers without a permit, the first one nothing: its request has a place, so
/// there are few such bodies.
/// Otherwise bodies whose handlers wait would keep the socket from being read for the others.
const BODY: usize = 2 * STEP;
/// Permits for frames of a connection: slots for 6,400 frames, fewer than those for which the library ends it (some
/// 8,000 of one byte).
const PERMITS: usize = 24;
/// What the table of header fields may keep without a permit.
const HEADER_TABLE: usize = STEP / 2;
/// How much more it may grow while its connection ends in order.
const HEADER_TABLE_BEYOND: usize = 2 * STEP;
/// Streams that are known to have ended: frames may still arrive for them.
const ENDED_STREAMS: usize = 1024;
/// A socket waits so long for handlers before it takes memory, and before it tries again.
const RETRY: Duration = Duration::from_millis(100);
/// How often a connection with memory looks whether others wait for it.
const CHECK: Duration = Duration::from_secs(1);
/// The connection fails when it has waited so long: longer than a handler waits for what it needs.
const LONGEST: Duration = Duration::from_secs(15);

/// What is kept of a connection.
pub struct ConnectionMemory {
    memory: Budget,
    kept: Mutex<KeptState>,
}

#[derive(Default)]
struct KeptState {
    buffers: ReadBuffers,
    /// The most frames that ever waited at once.
    slots: usize,
    ended: EndedStreams,
    /// Bodies that are not dropped, and how many of them their handlers read: their requests were not refused.
    bodies: usize,
    accepted: usize,
    /// One for each [`STEP`] of what has to be paid for, after the first.
    permits: Vec<Permit>,
    /// Set while the socket is paused: it is read again once at most half of what it may keep is used.
    reader: Option<Waker>,
    heads: HpackTable,
    /// One for each [`STEP`] of the table of header fields after [`HEADER_TABLE`].
    header_permits: Vec<Permit>,
    header_end: HeaderTableEnd,
}

/// The latest streams of which the library keeps no frame any more, by when that began.
#[derive(Default)]
struct EndedStreams {
    by_age: VecDeque<u32>,
    by_number: BTreeSet<u32>,
}

impl EndedStreams {
    fn insert(&mut self, stream: u32) {
        if self.by_number.insert(stream) {
            self.by_age.push_back(stream);
        }
        if self.by_age.len() > ENDED_STREAMS
            && let Some(first) = self.by_age.pop_front()
        {
            self.by_number.remove(&first);
        }
    }

    fn contains(&self, stream: u32) -> bool {
        self.by_number.contains(&stream)
    }
}

/// Whether the connection ends because of its table of header fields.
#[derive(Default, PartialEq)]
enum HeaderTableEnd {
    #[default]
    No,
    Wanted,
    Begun,
}

/// The wait of a socket for memory.
#[derive(Default)]
pub struct FrameWait(Option<(Instant, Interval)>);

/// There was no memory for what the connection keeps.
#[derive(Debug)]
pub struct NoMemory;

/// Ticks after each such time; of those that were missed there is one.
fn interval_from_now(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

impl ConnectionMemory {
    /// `memory`: for more than a step.
    pub fn new(memory: Budget) -> Self {
        Self { memory, kept: Mutex::default() }
    }

    /// These bytes were read to where there was room for `room` bytes, with the pieces of frames that are in them.
    pub fn received<'a>(
        &self,
        bytes: &[u8],
        room: usize,
        pieces: impl Iterator<Item = FramePiece<'a>>,
    ) -> Result<(), NoMemory> {
        let mut kept = self.lock();
        kept.buffers.read(bytes.as_ptr() as usize, bytes.len(), room);
        pieces.for_each(|piece| kept.add(&piece));
        kept.take_for_heads(&self.memory)
    }

    /// A body has begun whose frames may wait.
    pub fn begin_body(&self) {
        self.lock().bodies += 1;
    }

    /// Its request has a place, or needs none.
    pub fn accept_body(&self) {
        let mut kept = self.lock();
        kept.accepted += 1;
        kept.taken();
    }

    /// Its handler has got this content, which is as it was read. Returns its stream.
    pub fn take(&self, content: &[u8]) -> Option<u32> {
        let mut kept = self.lock();
        let stream = kept.buffers.take(content.as_ptr() as usize);
        kept.taken();
        stream
    }

    /// A body is dropped, and what has arrived of it is taken. `stream`: if a frame of it has arrived.
    pub fn end_body(&self, stream: Option<u32>, is_accepted: bool) {
        let mut kept = self.lock();
        kept.bodies -= 1;
        kept.accepted -= usize::from(is_accepted);
        if let Some(stream) = stream {
            kept.end_stream(stream);
        }
        if kept.bodies == 0 {
            // Of a body without a frame, whose end comes after its response, nothing else tells. This also forgets
            // frames of a request that the library has not handed over yet: what was read at once.
            kept.buffers.take_all();
        }
        kept.taken();
    }

    /// The server has reset this stream: the library drops its frames.
    pub fn reset(&self, stream: u32) {
        let mut kept = self.lock();
        kept.end_stream(stream);
        kept.taken();
    }

    /// The timer of [`poll_end`](Self::poll_end).
    pub fn check_interval() -> Interval {
        interval_from_now(CHECK)
    }

    /// Ready when the connection should end: at once when others have waited for memory that it has
    /// ([`CloseReason::MadeRoom`]), in order when there is none for its table of header fields
    /// ([`CloseReason::FullTable`]). A connection of a user only ends in order, for what its table has: nothing is
    /// lost.
    pub fn poll_end(
        &self,
        cx: &mut Context<'_>,
        check: &mut Interval,
        is_of_user: impl Fn() -> bool,
    ) -> Poll<CloseReason> {
        loop {
            if let Some(why) = self.end(&is_of_user) {
                return Poll::Ready(why);
            }
            if !self.lock().has_permit() {
                return Poll::Pending;
            }
            ready!(check.poll_tick(cx));
        }
    }

    fn end(&self, is_of_user: &impl Fn() -> bool) -> Option<CloseReason> {
        let mut kept = self.lock();
        let is_short = || self.memory.is_short() && self.memory.waited() >= SHORT_STALL;
        if kept.has_permit() && is_short() {
            if !is_of_user() {
                return Some(CloseReason::MadeRoom);
            }
            if !kept.header_permits.is_empty() {
                kept.end_for_header_table();
            }
        }
        (kept.header_end == HeaderTableEnd::Wanted).then(|| {
            kept.header_end = HeaderTableEnd::Begun;
            CloseReason::FullTable
        })
    }

    /// How many more frames may arrive, at least one. Pending while there is no memory for them.
    pub fn poll_room(&self, cx: &mut Context<'_>, wait: &mut FrameWait) -> Poll<Result<usize, NoMemory>> {
        loop {
            if let Some(free) = self.free(cx) {
                wait.0 = None;
                return Poll::Ready(Ok(free));
            }
            let (since, retry) = wait.0.get_or_insert_with(|| (Instant::now(), interval_from_now(RETRY)));
            ready!(retry.poll_tick(cx));
            if since.elapsed() >= LONGEST {
                return Poll::Ready(Err(NoMemory));
            }
            // Only now: most handlers take their frames at once.
            self.take_memory();
        }
    }

    fn free(&self, cx: &Context<'_>) -> Option<usize> {
        let mut kept = self.lock();
        let free = kept.free();
        kept.reader = if free == 0 { Some(cx.waker().clone()) } else { None };
        Some(free).filter(|free| *free > 0)
    }

    /// Takes a permit for more frames, if there is memory.
    fn take_memory(&self) {
        let mut kept = self.lock();
        if kept.free() == 0
            && kept.permits.len() < PERMITS
            && let Some(permit) = self.memory.try_take(STEP)
        {
            kept.permits.push(permit);
            kept.reader = None;
        }
    }

    /// Frames that wait for their handlers.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.lock().buffers.waiting()
    }

    fn lock(&self) -> MutexGuard<'_, KeptState> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptState {
    fn add(&mut self, piece: &FramePiece<'_>) {
        let header = &piece.header;
        match header.kind {
            // The library keeps no empty frame but the last one of a body, and none of a stream that has ended.
            DATA if piece.is_last()
                && (header.content() > 0 || header.ends_stream())
                && !self.ended.contains(header.stream) =>
            {
                self.buffers.add(piece.content_address(), header.stream, header.content());
                self.slots = self.slots.max(self.buffers.waiting());
            }
            HEADERS | CONTINUATION => {
                self.heads.scan(piece);
                if self.heads.is_empty() {
                    self.buffers.empty_table();
                    self.header_permits.clear();
                } else if piece.is_last() {
                    self.buffers.add_to_table(piece.content_address());
                }
            }
            _ => {}
        }
    }

    /// Takes memory for the table of header fields.
    fn take_for_heads(&mut self, memory: &Budget) -> Result<(), NoMemory> {
        if self.heads.is_empty() {
            return Ok(());
        }
        let bytes = self.buffers.in_table() + self.heads.decoded_bytes();
        loop {
            let allowed = HEADER_TABLE + STEP * self.header_permits.len();
            if bytes <= allowed {
                return Ok(());
            }
            let Some(permit) = memory.try_take(STEP) else {
                self.end_for_header_table();
                return if bytes > allowed + HEADER_TABLE_BEYOND { Err(NoMemory) } else { Ok(()) };
            };
            self.header_permits.push(permit);
        }
    }

    fn end_for_header_table(&mut self) {
        if self.header_end == HeaderTableEnd::No {
            self.header_end = HeaderTableEnd::Wanted;
        }
    }

    /// The library keeps no frame of this stream any more, whatever arrives.
    fn end_stream(&mut self, stream: u32) {
        self.ended.insert(stream);
        self.buffers.take_stream(stream);
    }

    fn has_permit(&self) -> bool {
        !(self.permits.is_empty() && self.header_permits.is_empty())
    }

    /// Bytes of buffers beyond what further bodies than the first one may keep. IMPORTANT: those are not for slots,
    /// which are not given back when bodies end.
    fn buffers_to_pay(&self) -> usize {
        self.buffers.beside_frames().saturating_sub(BODY * self.accepted.saturating_sub(1))
    }

    /// For how many more frames there is memory.
    fn free(&self) -> usize {
        let paid = STEP * (1 + self.permits.len());
        let (to_pay, room) = (self.buffers_to_pay(), paid.saturating_sub(self.slots * SLOT));
        if to_pay > room {
            return 0;
        }
        let slots = paid.saturating_sub(to_pay) / SLOT;
        let waiting = self.buffers.waiting();
        let is_half_free = waiting * 2 <= slots && to_pay * 2 <= room;
        if self.reader.is_none() || is_half_free { slots.saturating_sub(waiting) } else { 0 }
    }

    /// Call it when there may be more room: frames were taken, or bodies may keep more.
    fn taken(&mut self) {
        if !self.permits.is_empty() {
            self.permits.truncate((self.slots * SLOT + self.buffers_to_pay()) / STEP);
        }
        if self.reader.is_some()
            && self.free() > 0
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use futures_util::FutureExt;
    use tokio::time::{sleep, timeout};

    use super::super::http2_frames::FrameScanner;
    use super::super::http2_frames::tests::frame;
    use super::*;
    use crate::budget::STRANGERS_SMALL;
    use crate::client_net::ClientNet;

    const BUFFER: usize = 8192;

    /// Whether a task was woken.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    async fn room(frames: &ConnectionMemory, wait: &mut FrameWait) -> Result<usize, NoMemory> {
        poll_fn(|cx| frames.poll_room(cx, wait)).await
    }

    /// A frame arrives in a buffer of this size, after other bytes.
    fn arrive(frames: &ConnectionMemory, frame: &[u8], buffer: usize) -> Result<Vec<u8>, NoMemory> {
        let all = [&vec![0; buffer - frame.len()], frame].concat();
        let mut last = &all[buffer - frame.len()..];
        let pieces = FrameScanner::default().next(&mut last).into_iter();
        frames.received(&all, buffer, pieces).map(|()| all)
    }

    /// One frame of a byte in each buffer of this size, as many as there is room for. They wait as long as this is
    /// kept.
    async fn fill(frames: &ConnectionMemory, wait: &mut FrameWait, buffer: usize) -> Vec<Vec<u8>> {
        let mut waiting = Vec::new();
        while let Ok(free) = room(frames, wait).now_or_never().unwrap_or(Err(NoMemory)) {
            assert!(free > 0);
            waiting.push(arrive(frames, &frame(DATA, 0, b"x"), buffer).unwrap());
        }
        waiting
    }

    fn take(frames: &ConnectionMemory, waiting: &mut Vec<Vec<u8>>, many: usize) {
        for buffer in waiting.drain(..many) {
            assert_eq!(frames.take(buffer.last_chunk::<1>().unwrap()), Some(1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn further_bodies_may_keep_more() {
        let (memory, _all) = Budget::full();
        let (frames, mut wait) = (ConnectionMemory::new(memory), FrameWait::default());
        frames.accept_body();
        let first = fill(&frames, &mut wait, BUFFER).await;
        assert!(room(&frames, &mut wait).now_or_never().is_none());
        for _ in 0..2 {
            frames.begin_body();
        }
        assert!(room(&frames, &mut wait).now_or_never().is_none(), "they may be refused");
        frames.accept_body();
        let further = fill(&frames, &mut wait, BUFFER).await;
        assert_eq!((first.len(), further.len()), (8, 16));
        // But not more slots: the library would keep them when the bodies have ended.
        let (memory, _all) = Budget::full();
        let (frames, mut wait) = (ConnectionMemory::new(memory), FrameWait::default());
        for _ in 0..9 {
            frames.accept_body();
        }
        assert_eq!(fill(&frames, &mut wait, 10).await.len(), STEP / SLOT);
    }

    #[tokio::test(start_paused = true)]
    async fn what_bodies_may_keep_needs_no_memory() {
        let (frames, mut wait) = (ConnectionMemory::new(Budget::unlimited()), FrameWait::default());
        frames.accept_body();
        let mut waiting = Vec::new();
        for permits in 0..3 {
            room(&frames, &mut wait).await.unwrap();
            assert_eq!(frames.lock().permits.len(), permits);
            waiting.append(&mut fill(&frames, &mut wait, BUFFER).await);
        }
        for left in [1, 0] {
            frames.accept_body();
            assert_eq!(frames.lock().permits.len(), left);
        }
        // It is read again as soon as nothing has to be paid for.
        let (memory, _all) = Budget::full();
        let (frames, mut wait) = (ConnectionMemory::new(memory), FrameWait::default());
        (0..2).for_each(|_| frames.accept_body());
        let mut waiting = fill(&frames, &mut wait, BUFFER).await;
        assert!(room(&frames, &mut wait).now_or_never().is_none());
        take(&frames, &mut waiting, 3);
        assert!(room(&frames, &mut wait).now_or_never().is_none());
        take(&frames, &mut waiting, 2);
        assert!(room(&frames, &mut wait).now_or_never().is_some());
    }

    #[test]
    fn the_latest_streams_are_known_to_have_ended() {
        let mut ended = EndedStreams::default();
        (0..ENDED_STREAMS as u32).for_each(|n| ended.insert(2 * n + 3));
        // The stream of a long upload.
        ended.insert(1);
        ended.insert(1);
        ended.insert(9999);
        assert!([1, 7, 9999].iter().all(|stream| ended.contains(*stream)));
        assert!(![3, 5].iter().any(|stream| ended.contains(*stream)));
    }

    /// Of 10 bytes: the slots are what costs. Of 8 KiB: the buffers are.
    #[tokio::test(start_paused = true)]
    async fn without_memory_the_socket_is_read_again_when_half_of_it_is_taken() {
        for (buffer, many, left) in [(10, 247, 125), (BUFFER, 8, 3)] {
            let (memory, _all) = Budget::full();
            let (frames, mut wait) = (ConnectionMemory::new(memory), FrameWait::default());
            assert_eq!(room(&frames, &mut wait).await.unwrap(), STEP / SLOT);
            let mut waiting = fill(&frames, &mut wait, buffer).await;
            assert_eq!(waiting.len(), many);
            let reader = Arc::new(Woken::default());
            let waker = reader.clone().into();
            let mut cx = Context::from_waker(&waker);
            assert!(frames.poll_room(&mut cx, &mut wait).is_pending());
            take(&frames, &mut waiting, many - left - 1);
            assert!(!reader.0.load(Ordering::Relaxed));
            take(&frames, &mut waiting, 1);
            assert!(reader.0.load(Ordering::Relaxed) && frames.poll_room(&mut cx, &mut wait).is_ready());
        }
    }

    /// The library keeps them when the frames are taken, so there is less for buffers.
    #[tokio::test(start_paused = true)]
    async fn slots_cost_for_good() {
        let (memory, _all) = Budget::full();
        let (frames, mut wait) = (ConnectionMemory::new(memory), FrameWait::default());
        let mut waiting = fill(&frames, &mut wait, 10).await;
        let many = waiting.len();
        take(&frames, &mut waiting, many);
        assert_eq!(fill(&frames, &mut wait, BUFFER).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_a_step_takes_memory() {
        let memory = Budget::new(1 << 30);
        let address = |last| memory.of_stranger(ClientNet::new([192, 0, 2, last].into()));
        let free = || {
            let taken: Vec<_> = std::iter::from_fn(|| address(1).try_take(STRANGERS_SMALL)).collect();
            taken.len() * STRANGERS_SMALL / STEP
        };
        let before = free();
        for (buffer, kept) in [(10, 3), (BUFFER, 0)] {
            let (frames, mut wait) = (ConnectionMemory::new(address(1)), FrameWait::default());
            let mut waiting = Vec::new();
            for _ in 0..4 {
                assert!(room(&frames, &mut wait).await.unwrap() > 0);
                waiting.append(&mut fill(&frames, &mut wait, buffer).await);
            }
            assert_eq!(frames.lock().permits.len(), 3);
            assert!(free() < before);
            let many = waiting.len();
            take(&frames, &mut waiting, many);
            assert_eq!(frames.lock().permits.len(), kept, "the library keeps slots, and no buffers");
            drop(frames);
            assert_eq!(free(), before, "all is given back");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_fails_when_there_is_no_memory_for_its_frames_for_long() {
        let (memory, all) = Budget::full();
        let (frames, mut wait) = (ConnectionMemory::new(memory), FrameWait::default());
        let mut waiting = fill(&frames, &mut wait, BUFFER).await;
        let begun = Instant::now();
        assert!(room(&frames, &mut wait).await.is_err());
        assert!((LONGEST..LONGEST + RETRY * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
        // Memory that becomes free.
        let mut wait = FrameWait::default();
        let (read, ()) = tokio::join!(room(&frames, &mut wait), async { drop(all) });
        assert!(read.unwrap() > 0);
        take(&frames, &mut waiting, 8);
        assert_eq!(frames.waiting(), 0);
    }

    /// Why a connection ends that has this memory, after a while.
    async fn wanted(frames: &ConnectionMemory, is_of_user: bool) -> Option<CloseReason> {
        let mut check = ConnectionMemory::check_interval();
        timeout(CHECK * 2, poll_fn(|cx| frames.poll_end(cx, &mut check, || is_of_user))).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_give_way_to_those_who_have_waited_for_their_memory() {
        let memory = Budget::new(8 << 20).of_strangers();
        let (frames, mut wait) = (ConnectionMemory::new(memory.clone()), FrameWait::default());
        let mut waiting = Vec::new();
        for _ in 0..2 {
            room(&frames, &mut wait).await.unwrap();
            waiting.append(&mut fill(&frames, &mut wait, BUFFER).await);
        }
        assert_eq!(wanted(&frames, false).await, None);
        let table = ConnectionMemory::new(memory.clone());
        let head = frame(HEADERS, 4, &[0x40, 1, b'x', 1, b'y']);
        let _heads: Vec<_> = (0..5).map(|_| arrive(&table, &head, BUFFER).unwrap()).collect();
        assert_eq!(table.lock().header_permits.len(), 1);
        assert_eq!(wanted(&table, true).await, None);
        let _all = memory.take(8 << 20).await;
        let waits = tokio::spawn(async move { memory.take(8 << 20).await });
        sleep(SHORT_STALL / 2).await;
        assert_eq!(wanted(&frames, false).await, None, "they have not waited for long");
        sleep(SHORT_STALL / 2).await;
        assert_eq!(wanted(&frames, true).await, None);
        assert_eq!(wanted(&frames, false).await, Some(CloseReason::MadeRoom));
        assert_eq!(wanted(&table, true).await, Some(CloseReason::FullTable), "in order: a user loses nothing");
        assert_eq!(wanted(&table, false).await, Some(CloseReason::MadeRoom));
        let many = waiting.len();
        take(&frames, &mut waiting, many);
        assert_eq!(wanted(&frames, false).await, None, "it has none of it");
        waits.abort();
    }

    /// A head that puts a field into the table, after others.
    #[tokio::test(start_paused = true)]
    async fn a_table_of_header_fields_without_memory_ends_its_connection_in_order() {
        let head = frame(HEADERS, 4, &[0x40, 1, b'x', 1, b'y']);
        let emptied = frame(HEADERS, 4, &[0x20, 0x82]);
        let (memory, all) = Budget::full();
        let frames = ConnectionMemory::new(memory);
        let put = |many: usize| (0..many).map(|_| arrive(&frames, &head, BUFFER)).collect::<Result<Vec<_>, _>>();
        let mut kept = put(3).unwrap();
        assert_eq!(wanted(&frames, true).await, None);
        kept.extend(put(1).unwrap());
        assert_eq!(wanted(&frames, true).await, Some(CloseReason::FullTable));
        kept.extend(put(15).unwrap());
        assert_eq!(wanted(&frames, true).await, None, "only once");
        assert!(put(1).is_err(), "there is an end");
        arrive(&frames, &emptied, BUFFER).unwrap();
        kept.extend(put(30).unwrap());
        drop(all);
        // Its size is 4,096 again.
        arrive(&frames, &frame(HEADERS, 4, &[0x3f, 0xe1, 0x1f]), BUFFER).unwrap();
        let more = put(30).unwrap();
        assert_eq!(frames.lock().header_permits.len(), 4);
        arrive(&frames, &emptied, BUFFER).unwrap();
        assert!(!frames.lock().has_permit());
        drop((kept, more));
    }
}
