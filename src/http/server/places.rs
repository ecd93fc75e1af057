//! Places for the requests of HTTP/2 connections: what their clients may make the server keep is bounded by them. The first
//! request of a connection needs none.
//!
//! One address has a part of them, so that no client takes all. When a request is refused for want of a place, the clients
//! whose requests have places must hurry for a while.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::client_net::{ClientNet, PerClient};

/// An address has the places divided by this, but always as many as one connection may use.
const ADDRESS_DIVISOR: usize = 4;
/// So long after a request was refused, others hurry.
const SHORT_AFTER: Duration = Duration::from_secs(5);

/// All places.
pub struct Places {
    all: PlaceCount,
    of_address: usize,
    of_addresses: PerClient<PlaceCount>,
}

struct PlaceCount {
    many: usize,
    free: Arc<Semaphore>,
    shortage: Mutex<Option<Shortage>>,
}

/// A time in which requests are refused.
#[derive(Clone, Copy)]
struct Shortage {
    begun: Instant,
    last: Instant,
}

/// The places of a connection from one address.
#[derive(Clone)]
pub struct AddressPlaces {
    places: Arc<Places>,
    of_address: Option<Arc<PlaceCount>>,
}

/// A place, until it is dropped. It keeps the count of its address, or another connection could get a new one.
pub struct Place {
    _permits: Vec<OwnedSemaphorePermit>,
    _of_address: Option<Arc<PlaceCount>>,
}

impl Places {
    /// So many places. `of_connection`: how many a connection may use.
    pub fn new(many: usize, of_connection: usize) -> Arc<Self> {
        let many = many.clamp(1, Semaphore::MAX_PERMITS);
        let of_address = (many / ADDRESS_DIVISOR).max(of_connection).min(many);
        Arc::new(Self { all: PlaceCount::new(many), of_address, of_addresses: PerClient::default() })
    }

    /// Those of an address; without one, as for a proxy whose clients have many, all.
    pub fn of(self: &Arc<Self>, address: Option<ClientNet>) -> AddressPlaces {
        let of_address = address.map(|address| self.of_addresses.of(address, || PlaceCount::new(self.of_address)));
        AddressPlaces { places: self.clone(), of_address }
    }
}

impl PlaceCount {
    fn new(many: usize) -> Self {
        Self { many, free: Arc::new(Semaphore::new(many)), shortage: Mutex::default() }
    }

    fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        let place = self.free.clone().try_acquire_owned().ok();
        if place.is_none() {
            let now = Instant::now();
            let begun = self.shortage().map_or(now, |shortage| shortage.begun);
            *self.shortage.lock().unwrap_or_else(PoisonError::into_inner) = Some(Shortage { begun, last: now });
        }
        place
    }

    fn shortage(&self) -> Option<Shortage> {
        let shortage = *self.shortage.lock().unwrap_or_else(PoisonError::into_inner);
        shortage.filter(|shortage| shortage.last.elapsed() < SHORT_AFTER && self.free.available_permits() == 0)
    }
}

impl AddressPlaces {
    /// A place; none if no place is free, or none for this address.
    pub fn try_take(&self) -> Option<Place> {
        let _permits = self.counts().map(PlaceCount::try_take).collect::<Option<_>>()?;
        Some(Place { _permits, _of_address: self.of_address.clone() })
    }

    /// How long requests have been refused that could have had one of these; none if none was refused lately. Of those that
    /// found all places taken only the addresses are asked that have half of their part.
    pub fn short_for(&self) -> Option<Duration> {
        let has_many = self.of_address.as_ref().is_none_or(|own| own.free.available_permits() * 2 <= own.many);
        let of_all = Some(&self.places.all).filter(|_| has_many);
        let counts = self.of_address.as_deref().into_iter().chain(of_all);
        counts.filter_map(PlaceCount::shortage).map(|shortage| shortage.begun.elapsed()).max()
    }

    fn counts(&self) -> impl Iterator<Item = &PlaceCount> {
        self.of_address.as_deref().into_iter().chain([&self.places.all])
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn address(last: u8) -> Option<ClientNet> {
        Some(ClientNet::new([192, 0, 2, last].into()))
    }

    fn take_all(places: &AddressPlaces) -> Vec<Place> {
        std::iter::from_fn(|| places.try_take()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_a_part_and_who_has_what_others_want_hurries() {
        let places = Places::new(100, 10);
        let [one, other] = [1, 2].map(|last| places.of(address(last)));
        let taken = take_all(&one);
        assert_eq!(taken.len(), 25);
        assert!(one.short_for().is_some() && other.short_for().is_none(), "nobody else wants what it has");
        // Another connection of the same address.
        assert!(places.of(address(1)).try_take().is_none());
        sleep(Duration::from_secs(4)).await;
        assert!(one.try_take().is_none());
        sleep(Duration::from_secs(4)).await;
        assert_eq!(one.short_for(), Some(Duration::from_secs(8)));
        sleep(Duration::from_secs(2)).await;
        assert!(one.short_for().is_none(), "nobody asks any more");
        let more: Vec<_> = (2..=4).map(|last| take_all(&places.of(address(last))).len()).collect();
        assert_eq!(more, [25; 3], "they are given back at once");
        let held: Vec<_> = (2..=4).map(|last| take_all(&places.of(address(last)))).collect();
        assert!(places.of(address(5)).try_take().is_none());
        assert!(other.short_for().is_some() && one.short_for().is_some(), "all hurry for one who finds none");
        assert!(places.of(address(5)).short_for().is_none(), "but those who have few");
        drop((taken, held));
        assert!(one.short_for().is_none(), "some are free");
        assert_eq!(take_all(&one).len(), 25);
    }

    #[test]
    fn a_connection_may_use_all_its_streams() {
        for (many, of_address) in [(1_000, 250), (100, 63), (20, 20), (0, 1)] {
            assert_eq!(take_all(&Places::new(many, 63).of(address(1))).len(), of_address, "{many}");
        }
        assert_eq!(take_all(&Places::new(1_000, 63).of(None)).len(), 1_000, "through a proxy");
    }
}
