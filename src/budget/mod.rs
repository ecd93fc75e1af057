//! One budget of bytes for the buffers of requests: request and response bodies, and plans that wait for their commit.
//!
//! A request takes a permit before it allocates a buffer, and waits while the budget is used up. So memory is bounded
//! whatever clients do. A quarter of the budget is for small buffers alone, so that a request for a small file does not
//! wait behind large ones.
//!
//! Strangers are those who ask by the link of a share. All of them together have a quarter of the budget at most, and
//! the strangers of one address a quarter of that: [`Budget::of_stranger`].

mod part;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::OwnedSemaphorePermit;

use crate::client_net::{ClientNet, PerClient};
use part::{Counted, Part, Size, UNIT};

/// A buffer of at most this many bytes is small.
const SMALL: usize = 64 << 10;
/// Strangers have the budget divided by this.
const STRANGERS_DIVISOR: usize = 4;
/// The strangers of one address have the part of strangers divided by this.
const ADDRESS_DIVISOR: usize = 4;
/// In the parts of strangers, a buffer of at most this many bytes is small: what has become large has had a small one
/// before, and must not wait for those that are where it was.
pub const STRANGERS_SMALL: usize = 256 << 10;
/// Requests of the strangers of one address that wait.
const WAITING_OF_ADDRESS: i64 = 64;
/// How long a request waits for memory before it is refused.
pub const WAIT: Duration = Duration::from_secs(10);

/// The budget, for one kind of holders. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Budget {
    whole: Arc<Part>,
    strangers: Arc<StrangersPart>,
    holder: Holder,
}

/// Who takes permits. Each permit of a stranger is one of all parts that he belongs to.
#[derive(Clone, Debug)]
enum Holder {
    /// Users, and the server itself.
    Users,
    /// Strangers whose address is not known here.
    Strangers,
    /// The strangers of one address, with their part.
    Address(Arc<Part>),
}

/// What all strangers have at most.
#[derive(Debug)]
struct StrangersPart {
    of_all: Part,
    /// The part of each address, as long as there is a budget or a permit of it.
    of_addresses: PerClient<Part>,
    /// Requests that wait for a part.
    waiting: Gauge,
}

/// The right to so many bytes of the budget, until it is dropped. The default is a permit for nothing.
#[derive(Debug, Default)]
pub struct Permit {
    units: Option<OwnedSemaphorePermit>,
    used: Gauge,
    /// The same of the parts of a stranger.
    of_parts: [Option<OwnedSemaphorePermit>; 2],
    /// Keeps the part of the address: another one would have no permit taken.
    _address: Option<Arc<Part>>,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self::with_limit(Some(bytes))
    }

    /// A budget without a limit, which is not counted either.
    pub fn unlimited() -> Self {
        Self::with_limit(None)
    }

    /// For tests: a budget in which nothing is free, and the permits for all of it.
    #[cfg(test)]
    pub fn full() -> (Self, Vec<Permit>) {
        let memory = Self::new(1 << 20);
        let all = [1 << 20, 4096].map(|bytes| std::iter::from_fn(|| memory.try_take(bytes)).collect::<Vec<_>>());
        (memory, all.into_iter().flatten().collect())
    }

    fn with_limit(bytes: Option<usize>) -> Self {
        let strangers = StrangersPart::new(bytes.map(|bytes| bytes / STRANGERS_DIVISOR));
        Self { whole: Arc::new(Part::new(bytes, SMALL)), strangers: Arc::new(strangers), holder: Holder::Users }
    }

    /// The same budget, for the strangers of this address. They wait for each other while they have the part of an
    /// address, and nobody else waits for them then. All strangers wait while they have the part of strangers.
    pub fn of_stranger(&self, address: ClientNet) -> Self {
        Self { holder: Holder::Address(self.strangers.of_address(address)), ..self.clone() }
    }

    /// The same budget, for strangers whose address is not known: they are bounded by the part of all strangers alone.
    pub fn of_strangers(&self) -> Self {
        Self { holder: Holder::Strangers, ..self.clone() }
    }

    /// Registers its metrics.
    pub fn register(&self, registry: &mut Registry) {
        let metrics = &self.whole.metrics;
        let registry = registry.sub_registry_with_prefix("rowdrive_buffers");
        registry.register("bytes", "Bytes that the buffers of requests may have", metrics.bytes.clone());
        registry.register("used_bytes", "Bytes that they have", metrics.used.clone());
        registry.register("waiting", "Requests that wait for a buffer", metrics.waiting.clone());
        registry.register("waited", "Times that a request had to wait for a buffer", metrics.waited.clone());
        let help = "Requests by links that wait for a buffer of other such requests";
        registry.register("waiting_strangers", help, self.strangers.waiting.clone());
    }

    /// Bytes of the budget; the largest number if it is unlimited.
    pub fn bytes(&self) -> usize {
        self.whole.limit.unwrap_or(usize::MAX)
    }

    /// Takes this many bytes once they are free; as many as its smallest part has for such buffers if that is less.
    /// First come, first served.
    pub async fn take(&self, bytes: usize) -> Permit {
        if let Some(permit) = self.try_take(bytes) {
            return permit;
        }
        let _waits = if let Holder::Address(part) = &self.holder { Some(Counted::new(&part.waiters)) } else { None };
        let (size, mut of_parts) = (self.size(bytes), [None, None]);
        // IMPORTANT: the smallest part first. A request that waits for it has nothing yet that others may wait for.
        for (part, taken) in self.parts().into_iter().zip(&mut of_parts) {
            if let Some(part) = part {
                *taken = part.take(size, Some(&self.strangers.waiting)).await;
            }
        }
        self.permit(self.whole.take(size, None).await, of_parts)
    }

    /// As [`take`](Self::take), of the memory for large buffers, and for good: no other buffer waits for these bytes.
    pub async fn keep(&self, bytes: usize) -> Permit {
        let size = Size { buffer: usize::MAX, taken: bytes };
        let permit = self.permit(self.whole.take(size, None).await, [None, None]);
        self.whole.keep(usize::try_from(permit.bytes()).unwrap_or(0));
        permit
    }

    /// Takes this many bytes; none if they are not free at once.
    pub fn try_take(&self, bytes: usize) -> Option<Permit> {
        let (size, mut of_parts) = (self.size(bytes), [None, None]);
        for (part, taken) in self.parts().into_iter().zip(&mut of_parts) {
            if let Some(part) = part {
                *taken = part.try_take(size)?;
            }
        }
        Some(self.permit(self.whole.try_take(size)?, of_parts))
    }

    /// Bytes of the largest buffer that the holder may have four of: others have a part of them too.
    pub fn largest(&self) -> usize {
        let limited = self.levels().filter(|level| level.limit.is_some());
        limited.map(|level| level.largest_of(4)).min().unwrap_or(usize::MAX)
    }

    /// Whether so many requests of this address wait that another one should be refused: their connections cannot be
    /// closed for others while they wait.
    pub fn is_crowded(&self) -> bool {
        matches!(&self.holder, Holder::Address(part) if part.waiters.get() >= WAITING_OF_ADDRESS)
    }

    /// How much is taken for a buffer: as much as there is in all that a permit is of. IMPORTANT: a permit has the same
    /// number in each: more in one of them than in another would be of the part of others.
    fn size(&self, buffer: usize) -> Size {
        Size { buffer, taken: self.levels().map(|level| level.lane(buffer).bytes()).fold(buffer, usize::min) }
    }

    /// All that a permit is taken of.
    fn levels(&self) -> impl Iterator<Item = &Part> {
        self.parts().into_iter().flatten().chain([&*self.whole])
    }

    /// Whether a request waits for what the holder has: memory that is not in use should be released.
    pub fn is_short(&self) -> bool {
        self.levels().any(Part::is_short) || self.of_unknown_address().is_some_and(StrangersPart::is_short)
    }

    /// The longest wait of all these requests; zero if none waits.
    pub fn waited(&self) -> Duration {
        let in_others = self.of_unknown_address().map(StrangersPart::waited);
        self.levels().map(Part::waited).chain(in_others).max().unwrap_or_default()
    }

    /// Where requests may wait beside all that a permit is taken of: strangers of any address, if that is not known.
    fn of_unknown_address(&self) -> Option<&StrangersPart> {
        matches!(self.holder, Holder::Strangers).then_some(&*self.strangers)
    }

    /// The parts of the holder, the smallest first.
    fn parts(&self) -> [Option<&Part>; 2] {
        match &self.holder {
            Holder::Users => [None, None],
            Holder::Strangers => [None, Some(&self.strangers.of_all)],
            Holder::Address(part) => [Some(part), Some(&self.strangers.of_all)],
        }
    }

    fn permit(&self, units: Option<OwnedSemaphorePermit>, of_parts: [Option<OwnedSemaphorePermit>; 2]) -> Permit {
        let _address = if let Holder::Address(part) = &self.holder { Some(part.clone()) } else { None };
        let permit = Permit { units, used: self.whole.metrics.used.clone(), of_parts, _address };
        permit.used.inc_by(permit.bytes());
        permit
    }
}

impl StrangersPart {
    fn new(limit: Option<usize>) -> Self {
        let of_all = Part::new(limit, STRANGERS_SMALL);
        Self { of_all, of_addresses: PerClient::default(), waiting: Gauge::default() }
    }

    fn of_address(&self, address: ClientNet) -> Arc<Part> {
        let limit = self.of_all.limit.map(|bytes| bytes / ADDRESS_DIVISOR);
        self.of_addresses.of(address, || Part::new(limit, STRANGERS_SMALL))
    }

    fn is_short(&self) -> bool {
        self.waiting.get() > 0
    }

    /// The longest wait for the part of an address.
    fn waited(&self) -> Duration {
        if !self.is_short() {
            return Duration::ZERO;
        }
        self.of_addresses.all().iter().map(|part| part.waited()).max().unwrap_or_default()
    }
}

impl Permit {
    fn bytes(&self) -> i64 {
        let units = self.units.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        i64::try_from(units * UNIT).unwrap_or(i64::MAX)
    }

    /// Gives back all but this many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let before = self.bytes();
        for units in self.units.iter_mut().chain(self.of_parts.iter_mut().flatten()) {
            let over = units.num_permits().saturating_sub(bytes.div_ceil(UNIT));
            drop(units.split(over));
        }
        self.used.dec_by(before - self.bytes());
    }

    /// Returns the same bytes, which keep the permit until their last clone is dropped.
    pub fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Paid { bytes, _permit: self })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.used.dec_by(self.bytes());
    }
}

struct Paid {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn permits_never_exceed_the_budget() {
        let budget = Budget::new(4 * MIB);
        let first = budget.take(2 * MIB).await;
        let second = budget.take(MIB).await;
        assert!(budget.try_take(SMALL + 1).is_none() && !budget.is_short());
        let mut third = Box::pin(budget.take(MIB));
        assert!((&mut third).now_or_never().is_none() && budget.is_short());
        assert!(budget.waited() > Duration::ZERO);
        assert_eq!(budget.whole.metrics.used.get(), 3 * MIB as i64);
        drop(second);
        drop(third.await);
        assert!(!budget.is_short());
        // A cancelled request no longer waits.
        let mut fourth = Box::pin(budget.take(2 * MIB));
        assert!((&mut fourth).now_or_never().is_none() && budget.is_short());
        drop(fourth);
        assert!(!budget.is_short() && budget.waited() == Duration::ZERO && budget.try_take(MIB).is_some());
        drop(first);
        assert_eq!(budget.whole.metrics.used.get(), 0);
        // A request for more than the budget takes all of it.
        let all = budget.take(100 * MIB).await;
        assert!(budget.try_take(SMALL + 1).is_none());
        drop(all);
        assert!(budget.try_take(3 * MIB).is_some());
    }

    #[tokio::test]
    async fn small_buffers_do_not_wait_behind_large_ones() {
        let budget = Budget::new(4 * MIB);
        let _large = budget.take(3 * MIB).await;
        let _waiting = Box::pin(budget.take(MIB));
        let small: Vec<_> = std::iter::from_fn(|| budget.try_take(SMALL)).collect();
        assert_eq!(small.len(), MIB / SMALL);
    }

    #[test]
    fn bytes_keep_their_permit_and_a_permit_can_shrink() {
        let budget = Budget::new(4 * MIB);
        let mut permit = budget.try_take(MIB).unwrap();
        permit.shrink(UNIT + 1);
        assert_eq!(budget.whole.metrics.used.get(), 2 * UNIT as i64);
        permit.shrink(MIB);
        let bytes = permit.attach(Bytes::from_static(b"hello"));
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!((&part[..], budget.whole.metrics.used.get()), (&b"el"[..], 2 * UNIT as i64));
        drop(part);
        assert_eq!(budget.whole.metrics.used.get(), 0);
        assert!(budget.try_take(3 * MIB).is_some());
    }

    #[tokio::test]
    async fn strangers_have_a_part_and_wait_for_each_other_alone() {
        let budget = Budget::new(64 * MIB);
        let address = |last| ClientNet::new([192, 0, 2, last].into());
        let strangers: Vec<_> = (0..4).map(|last| budget.of_stranger(address(last))).collect();
        let all_of = |budget: &Budget, bytes| std::iter::from_fn(|| budget.try_take(bytes)).collect::<Vec<_>>();
        // 4 of 16 MiB: a quarter for small buffers, and more buffers are small than of the whole.
        let first = [all_of(&strangers[0], 4 * SMALL), all_of(&strangers[0], MIB)];
        assert_eq!(first.each_ref().map(Vec::len), [4, 3]);
        assert_eq!(budget.whole.metrics.used.get(), 4 * MIB as i64);
        let mut waiting = Box::pin(strangers[0].take(MIB));
        assert!((&mut waiting).now_or_never().is_none());
        // Others are not asked to hurry, not even those of another address.
        assert!(strangers[0].is_short() && !strangers[1].is_short() && !budget.is_short());
        assert!(strangers[0].waited() > Duration::ZERO && strangers[1].waited() == Duration::ZERO);
        let more: Vec<_> = strangers.iter().flat_map(|one| [all_of(one, 4 * SMALL), all_of(one, MIB)]).collect();
        assert_eq!(more.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 4, 3, 4, 3, 4, 3]);
        // Behind a proxy any of them may be the one who waits.
        let some = budget.of_strangers();
        assert!(some.is_short() && some.waited() > Duration::ZERO);
        // All have what strangers have.
        assert!(some.try_take(MIB).is_none());
        let fifth = budget.of_stranger(address(5));
        let mut last = Box::pin(fifth.take(MIB));
        assert!((&mut last).now_or_never().is_none());
        assert!(strangers.iter().all(Budget::is_short) && !budget.is_short());
        let all = budget.try_take(32 * MIB).unwrap();
        // One that waits for all is waited for by strangers too.
        drop(last);
        let mut users = Box::pin(budget.take(MIB));
        assert!((&mut users).now_or_never().is_none() && strangers[1].is_short() && budget.is_short());
        drop((all, users));
        drop(first);
        assert!(waiting.now_or_never().is_some() && !strangers[0].is_short());
        assert!(!some.is_short() && some.waited() == Duration::ZERO);
        drop(more);
        // A permit that shrinks gives back of all.
        let mut permit = strangers[0].try_take(3 * MIB).unwrap();
        permit.shrink(0);
        assert_eq!(budget.whole.metrics.used.get(), 0);
        assert!(strangers[0].try_take(3 * MIB).is_some());
        assert!(budget.try_take(48 * MIB).is_some());
    }

    #[test]
    fn an_address_has_one_part_as_long_as_anything_is_of_it() {
        let budget = Budget::new(64 * MIB);
        let address = ClientNet::new([192, 0, 2, 1].into());
        let permit = budget.of_stranger(address).try_take(3 * MIB).unwrap();
        let again = budget.of_stranger(address);
        assert!(again.try_take(MIB).is_none());
        drop(permit);
        assert!(again.try_take(MIB).is_some());
    }

    #[test]
    fn a_permit_for_more_than_the_part_of_its_address_is_that_part() {
        let budget = Budget::new(64 * MIB);
        let stranger = |last| budget.of_stranger(ClientNet::new([192, 0, 2, last].into()));
        let all: Vec<_> = (0..4).map(|last| stranger(last).try_take(100 * MIB).unwrap()).collect();
        assert!(stranger(4).try_take(MIB).is_none() && stranger(0).try_take(MIB).is_none());
        assert_eq!(budget.whole.metrics.used.get(), 12 * MIB as i64);
        drop(all);
        let largest = stranger(0).largest();
        assert_eq!((largest, budget.of_strangers().largest(), budget.largest()), (3 * MIB / 4, 3 * MIB, 12 * MIB));
        let four = [(); 4].map(|()| stranger(0).try_take(largest));
        assert!(four.iter().all(Option::is_some));
    }

    #[test]
    fn with_little_memory_large_buffers_take_nothing_of_small_ones() {
        let stranger = Budget::new(4 * MIB).of_stranger(ClientNet::NONE);
        let cell = stranger.try_take(STRANGERS_SMALL).unwrap();
        assert!(stranger.try_take(SMALL).is_none());
        assert!(stranger.try_take(MIB).is_some());
        drop(cell);
    }

    /// With the least memory that a server takes.
    #[test]
    fn with_little_memory_strangers_have_a_quarter_and_one_address_leaves_some_to_others() {
        let budget = Budget::new(8 * MIB);
        let used = || budget.whole.metrics.used.get() as usize;
        let all_of = |address: u8| {
            let stranger = budget.of_stranger(ClientNet::new([192, 0, 2, address].into()));
            let small = std::iter::from_fn(|| stranger.try_take(STRANGERS_SMALL)).collect::<Vec<_>>();
            let large = std::iter::from_fn(|| stranger.try_take(STRANGERS_SMALL + 1)).collect::<Vec<_>>();
            [small, large]
        };
        let one = all_of(1);
        assert_eq!((one.each_ref().map(Vec::len), used()), ([1, 1], MIB / 2), "a quarter of a quarter");
        let others: Vec<_> = (2..9).map(all_of).collect();
        assert_eq!((others[0][0].len(), used()), (1, 2 * MIB));
    }

    #[tokio::test]
    async fn only_some_requests_of_an_address_wait() {
        let budget = Budget::new(64 * MIB);
        let stranger = |last| budget.of_stranger(ClientNet::new([192, 0, 2, last].into()));
        let all = stranger(0).take(100 * MIB).await;
        let waiting: Vec<_> = (0..WAITING_OF_ADDRESS)
            .map(|_| {
                assert!(!stranger(0).is_crowded());
                let mut waits = Box::pin(async { stranger(0).take(MIB).await });
                assert!((&mut waits).now_or_never().is_none());
                waits
            })
            .collect();
        assert!(stranger(0).is_crowded() && !stranger(1).is_crowded() && !budget.is_crowded());
        drop(waiting);
        assert!(!stranger(0).is_crowded());
        drop(all);
    }

    #[tokio::test]
    async fn no_buffer_waits_for_what_is_kept_for_good() {
        let budget = Budget::new(8 * MIB);
        let _passwords = budget.keep(2 * MIB).await;
        assert_eq!(budget.largest(), MIB);
        // As large as the whole lane: it gets what others may have.
        let large = budget.try_take(6 * MIB).unwrap();
        assert!(budget.try_take(MIB).is_none());
        assert_eq!(budget.whole.metrics.used.get(), 6 * MIB as i64);
        drop(large);
        assert!([(); 4].map(|()| budget.try_take(budget.largest())).iter().all(Option::is_some));
    }

    #[test]
    fn no_request_waits_without_a_limit() {
        let budget = Budget::unlimited();
        let permits: Vec<_> = (0..100).map(|_| budget.try_take(1 << 40).unwrap()).collect();
        assert!(!budget.is_short() && permits.len() == 100);
    }
}
