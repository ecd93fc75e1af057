//! Places for the requests of HTTP/2 connections: what their clients may make the server keep is bounded by them. The first
//! request of a connection needs none.
//!
//! Half of them is for the connections of users, and strangers never have one of these. A connection is of a user once a
//! request of it has proved that. In each half an address has a part, so that no client takes all. When a request is
//! refused for want of a place, the clients whose requests have places of that half must hurry for a while.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::client_net::{ClientNet, PerClient};

/// An address has the places of a half divided by this, but always as many as one connection may use.
const ADDRESS_DIVISOR: usize = 4;
/// So long after a request was refused, others hurry.
const SHORT_AFTER: Duration = Duration::from_secs(5);

/// All places.
pub struct Places {
    of_strangers: Arc<Half>,
    of_users: Arc<Half>,
}

/// Places that are taken from no other half.
struct Half {
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

/// The places of a connection. Cheap to clone; all clones are of the same connection.
#[derive(Clone)]
pub struct ConnectionPlaces(Arc<Connection>);

struct Connection {
    places: Arc<Places>,
    address: Option<ClientNet>,
    of_stranger: AddressPlaces,
    /// Once a user has proved himself.
    of_user: OnceLock<AddressPlaces>,
}

/// The places of an address in one half.
#[derive(Clone)]
struct AddressPlaces {
    half: Arc<Half>,
    of_address: Option<Arc<PlaceCount>>,
}

/// A place, until it is dropped. It keeps the count of its address, or another connection could get a new one.
pub struct Place {
    _permits: Vec<OwnedSemaphorePermit>,
    of: AddressPlaces,
}

impl Places {
    /// So many places, in two halves. `of_connection`: how many a connection may use.
    pub fn new(many: usize, of_connection: usize) -> Arc<Self> {
        let half = || Half::new(many / 2, of_connection);
        Arc::new(Self { of_strangers: half(), of_users: half() })
    }

    /// Those of a new connection from an address; without one, as from a proxy, any of its half.
    pub fn of(self: &Arc<Self>, address: Option<ClientNet>) -> ConnectionPlaces {
        let of_stranger = Half::of(&self.of_strangers, address);
        ConnectionPlaces(Arc::new(Connection { places: self.clone(), address, of_stranger, of_user: OnceLock::new() }))
    }
}

impl Half {
    fn new(many: usize, of_connection: usize) -> Arc<Self> {
        let many = many.clamp(1, Semaphore::MAX_PERMITS);
        let of_address = (many / ADDRESS_DIVISOR).max(of_connection).min(many);
        Arc::new(Self { all: PlaceCount::new(many), of_address, of_addresses: PerClient::default() })
    }

    fn of(self: &Arc<Self>, address: Option<ClientNet>) -> AddressPlaces {
        let of_address = address.map(|address| self.of_addresses.of(address, || PlaceCount::new(self.of_address)));
        AddressPlaces { half: self.clone(), of_address }
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

impl ConnectionPlaces {
    /// A user has proved himself on this connection: its further requests have places of users. What a proxy sends on is of
    /// others too, so it keeps to those of strangers.
    pub fn set_of_user(&self) {
        let Connection { places, address, of_user, .. } = &*self.0;
        if address.is_some() {
            of_user.get_or_init(|| Half::of(&places.of_users, *address));
        }
    }

    /// A place; none if no place is free, or none for this address.
    pub fn try_take(&self) -> Option<Place> {
        self.0.of_user.get().unwrap_or(&self.0.of_stranger).try_take()
    }
}

impl AddressPlaces {
    fn try_take(&self) -> Option<Place> {
        let counts = self.of_address.as_deref().into_iter().chain([&self.half.all]);
        let _permits = counts.map(PlaceCount::try_take).collect::<Option<_>>()?;
        Some(Place { _permits, of: self.clone() })
    }
}

impl Place {
    /// How long requests have been refused that could have had this place; none if none was refused lately. Of those that
    /// found all places taken only the addresses are asked that have half of their part.
    pub fn short_for(&self) -> Option<Duration> {
        let AddressPlaces { half, of_address } = &self.of;
        let has_many = of_address.as_ref().is_none_or(|own| own.free.available_permits() * 2 <= own.many);
        let of_all = Some(&half.all).filter(|_| has_many);
        let counts = of_address.as_deref().into_iter().chain(of_all);
        counts.filter_map(PlaceCount::shortage).map(|shortage| shortage.begun.elapsed()).max()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn address(last: u8) -> Option<ClientNet> {
        Some(ClientNet::new([192, 0, 2, last].into()))
    }

    fn take_all(places: &ConnectionPlaces) -> Vec<Place> {
        std::iter::from_fn(|| places.try_take()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_a_part_and_who_has_what_others_want_hurries() {
        let places = Places::new(200, 10);
        let [one, other] = [1, 2].map(|last| places.of(address(last)));
        let first = other.try_take().unwrap();
        let mut taken = take_all(&one);
        assert_eq!(taken.len(), 25);
        assert!(taken[0].short_for().is_some() && first.short_for().is_none(), "nobody else wants what it has");
        // Another connection of the same address.
        assert!(places.of(address(1)).try_take().is_none());
        sleep(Duration::from_secs(4)).await;
        assert!(one.try_take().is_none());
        sleep(Duration::from_secs(4)).await;
        assert_eq!(taken[0].short_for(), Some(Duration::from_secs(8)));
        drop(taken.pop());
        assert!(taken[0].short_for().is_none(), "one is free");
        taken.extend(one.try_take());
        sleep(Duration::from_secs(2)).await;
        assert!(taken[0].short_for().is_none(), "nobody asks any more");
        drop(first);
        let more: Vec<_> = (2..=4).map(|last| take_all(&places.of(address(last))).len()).collect();
        assert_eq!(more, [25; 3], "they are given back at once");
        let mut held: Vec<_> = (3..=4).map(|last| take_all(&places.of(address(last)))).collect();
        let few = places.of(address(5)).try_take().unwrap();
        held.push(take_all(&other));
        assert!(places.of(address(6)).try_take().is_none());
        assert!(held[2][0].short_for().is_some() && taken[0].short_for().is_some(), "all hurry for one who finds none");
        assert!(few.short_for().is_none(), "but those who have few");
        held.remove(0);
        assert!(taken[0].short_for().is_none(), "some are free");
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_leave_the_places_of_users() {
        let places = Places::new(8, 4);
        let [user, stranger, proxy] = [address(1), address(2), None].map(|address| places.of(address));
        for both in [&user, &proxy] {
            both.set_of_user();
        }
        let strangers = [take_all(&stranger), take_all(&proxy)];
        assert_eq!(strangers.each_ref().map(Vec::len), [4, 0], "a proxy sends on what strangers ask for too");
        let users = take_all(&user);
        assert_eq!(users.len(), 4);
        drop(strangers);
        assert!(user.try_take().is_none(), "nor do users have those of strangers");
        // Who waits for a place of users is not waited for by strangers.
        let strangers = take_all(&proxy);
        sleep(SHORT_AFTER).await;
        assert!(user.try_take().is_none());
        assert!(users[0].short_for().is_some() && strangers[0].short_for().is_none());
        // A place that was taken before stays where it is of.
        stranger.set_of_user();
        drop(users);
        assert!(proxy.try_take().is_none() && stranger.try_take().is_some());
    }

    #[test]
    fn a_connection_may_use_all_its_streams() {
        for (many, of_address) in [(2_000, 250), (200, 63), (40, 20), (0, 1)] {
            assert_eq!(take_all(&Places::new(many, 63).of(address(1))).len(), of_address, "{many}");
        }
        assert_eq!(take_all(&Places::new(2_000, 63).of(None)).len(), 1_000, "through a proxy");
    }
}
