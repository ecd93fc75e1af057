//! Places for the requests of HTTP/2 connections: what their clients may make the server keep is bounded by them. A
//! request that runs alone on its connection needs none.
//!
//! Half of the places are for connections that have a request of a user, or had one lately; the other half for all
//! others. In each half an address has a part, so that no client takes all. When a request is refused for want of a
//! place, the clients whose requests have places of that half must hurry for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::client_net::{ClientNet, PerClient};
use crate::http::metrics::ConnectionMetrics;

/// An address has the places of a half divided by this, but always as many as one connection may use.
const ADDRESS_DIVISOR: usize = 4;
/// So long after its last request of a user has ended, a connection has places of users.
const PROOF_LASTS: Duration = Duration::from_secs(60);
/// So long after a request was refused, others hurry.
const SHORT_AFTER: Duration = Duration::from_secs(5);

/// All places.
pub struct Places {
    of_others: Arc<Half>,
    of_users: Arc<Half>,
}

/// One half of the places.
struct Half {
    all: PlaceCount,
    /// How many an address has.
    address_limit: usize,
    of_addresses: PerClient<PlaceCount>,
    /// Requests that found no place.
    refused: Counter,
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

/// The places of a connection.
pub struct ConnectionPlaces {
    of_other: AddressPlaces,
    /// None of a proxy: what it sends on is of others too.
    of_user: Option<AddressPlaces>,
    proof: Mutex<Proof>,
}

/// What proves that a connection is of a user.
#[derive(Clone, Copy, Default)]
struct Proof {
    /// Requests of users that are under way.
    under_way: usize,
    /// When the last one ended.
    last: Option<Instant>,
}

/// A request of a user, until this is dropped: its connection has places of users. Keep it only while the server reads
/// again and again whether its sender still is a user.
pub struct UserRequest(Arc<ConnectionPlaces>);

/// The places of an address in one half.
#[derive(Clone)]
struct AddressPlaces {
    half: Arc<Half>,
    /// None of a proxy: it has clients of many addresses.
    address_count: Option<Arc<PlaceCount>>,
}

/// A place, until it is dropped. It keeps the count of its address: another connection would get a count that knows of
/// none.
pub struct Place {
    _permits: Vec<OwnedSemaphorePermit>,
    of: AddressPlaces,
}

impl Places {
    /// So many places, in two halves. `of_connection`: how many a connection may use.
    pub fn new(many: usize, of_connection: usize, metrics: &ConnectionMetrics) -> Arc<Self> {
        let half = |of| Half::new(many / 2, of_connection, metrics.no_place(of));
        Arc::new(Self { of_others: half("others"), of_users: half("users") })
    }

    /// Those of a new connection. `address`: of a proxy none.
    pub fn for_connection(&self, address: Option<ClientNet>) -> Arc<ConnectionPlaces> {
        let of_other = self.of_others.for_address(address);
        let of_user = address.map(|_| self.of_users.for_address(address));
        Arc::new(ConnectionPlaces { of_other, of_user, proof: Mutex::default() })
    }
}

impl Half {
    fn new(many: usize, of_connection: usize, refused: Counter) -> Arc<Self> {
        let many = many.clamp(1, Semaphore::MAX_PERMITS);
        let address_limit = (many / ADDRESS_DIVISOR).max(of_connection).min(many);
        Arc::new(Self { all: PlaceCount::new(many), address_limit, of_addresses: PerClient::default(), refused })
    }

    fn for_address(self: &Arc<Self>, address: Option<ClientNet>) -> AddressPlaces {
        let count = |address| self.of_addresses.of(address, || PlaceCount::new(self.address_limit));
        AddressPlaces { half: self.clone(), address_count: address.map(count) }
    }
}

impl PlaceCount {
    fn new(many: usize) -> Self {
        Self { many, free: Arc::new(Semaphore::new(many)), shortage: Mutex::default() }
    }

    fn note_refusal(&self) {
        let now = Instant::now();
        let begun = self.shortage().map_or(now, |shortage| shortage.begun);
        *self.shortage.lock().unwrap_or_else(PoisonError::into_inner) = Some(Shortage { begun, last: now });
    }

    fn shortage(&self) -> Option<Shortage> {
        let shortage = *self.shortage.lock().unwrap_or_else(PoisonError::into_inner);
        shortage.filter(|shortage| shortage.last.elapsed() < SHORT_AFTER && self.free.available_permits() == 0)
    }

    /// How long requests have been refused for want of one of these; none if none was refused lately.
    fn wanted_for(&self) -> Option<Duration> {
        self.shortage().map(|shortage| shortage.begun.elapsed())
    }
}

impl ConnectionPlaces {
    /// A user has proved himself by a request of this connection. If its place is of others, it gets one of users
    /// instead, as long as there is one.
    pub fn begin_of_user(self: &Arc<Self>, place: Option<&mut Place>) -> UserRequest {
        self.proof().under_way += 1;
        if let (Some(place), Some(of_user)) = (place, &self.of_user)
            && !Arc::ptr_eq(&place.of.half, &of_user.half)
            && let Some(better) = of_user.try_take(|_| ())
        {
            *place = better;
        }
        UserRequest(self.clone())
    }

    fn proof(&self) -> MutexGuard<'_, Proof> {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request of a user is under way, or was lately.
    pub fn is_of_user(&self) -> bool {
        let proof = *self.proof();
        proof.under_way > 0 || proof.last.is_some_and(|last| last.elapsed() < PROOF_LASTS)
    }

    /// A place; none if no place is free, or none for this address.
    pub fn try_take(&self) -> Option<Place> {
        let places = self.of_user.as_ref().filter(|_| self.is_of_user()).unwrap_or(&self.of_other);
        let place = places.try_take(PlaceCount::note_refusal);
        if place.is_none() {
            places.half.refused.inc();
        }
        place
    }
}

impl Drop for UserRequest {
    fn drop(&mut self) {
        let mut proof = self.0.proof();
        proof.under_way -= 1;
        proof.last = Some(Instant::now());
    }
}

impl AddressPlaces {
    /// `none_of`: called with the count that has none.
    fn try_take(&self, none_of: impl Fn(&PlaceCount)) -> Option<Place> {
        let counts = self.address_count.as_deref().into_iter().chain([&self.half.all]);
        let take = |count: &PlaceCount| {
            let permit = count.free.clone().try_acquire_owned().ok();
            if permit.is_none() {
                none_of(count);
            }
            permit
        };
        Some(Place { _permits: counts.map(take).collect::<Option<_>>()?, of: self.clone() })
    }
}

impl Place {
    /// How long requests have been refused that could have had this place; none if none was refused lately.
    ///
    /// When a whole half is taken, at first the addresses are asked that have half of their part, and after some
    /// seconds all: it may be that none has so many.
    pub fn wanted_for(&self) -> Option<Duration> {
        let AddressPlaces { half, address_count } = &self.of;
        let has_many = address_count.as_ref().is_none_or(|own| own.free.available_permits() * 2 <= own.many);
        let by_others = half.all.wanted_for().filter(|wanted| has_many || *wanted >= SHORT_AFTER);
        address_count.as_ref().and_then(|own| own.wanted_for()).max(by_others)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn address(last: u8) -> Option<ClientNet> {
        Some(ClientNet::new([192, 0, 2, last].into()))
    }

    fn new(many: usize, of_connection: usize) -> Arc<Places> {
        Places::new(many, of_connection, &ConnectionMetrics::default())
    }

    fn take_all(places: &ConnectionPlaces) -> Vec<Place> {
        std::iter::from_fn(|| places.try_take()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_a_part_and_who_has_what_others_want_hurries() {
        let places = new(200, 10);
        let [one, other] = [1, 2].map(|last| places.for_connection(address(last)));
        let first = other.try_take().unwrap();
        let mut taken = take_all(&one);
        assert_eq!(taken.len(), 25);
        assert!(taken[0].wanted_for().is_some() && first.wanted_for().is_none(), "nobody else wants what it has");
        // Another connection of the same address.
        assert!(places.for_connection(address(1)).try_take().is_none());
        sleep(Duration::from_secs(4)).await;
        assert!(one.try_take().is_none());
        sleep(Duration::from_secs(4)).await;
        assert_eq!(taken[0].wanted_for(), Some(Duration::from_secs(8)));
        drop(taken.pop());
        assert!(taken[0].wanted_for().is_none(), "one is free");
        taken.extend(one.try_take());
        sleep(Duration::from_secs(2)).await;
        assert!(taken[0].wanted_for().is_none(), "nobody asks any more");
        drop(first);
        let more: Vec<_> = (2..=4).map(|last| take_all(&places.for_connection(address(last))).len()).collect();
        assert_eq!(more, [25; 3], "they are given back at once");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_many_places_hurries_first_and_then_everybody() {
        let places = new(200, 10);
        let few = places.for_connection(address(5)).try_take().unwrap();
        let mut held: Vec<_> = (1..=4).map(|last| take_all(&places.for_connection(address(last)))).collect();
        let refused = || assert!(places.for_connection(address(6)).try_take().is_none());
        refused();
        assert!(held.iter().all(|held| held[0].wanted_for().is_some()) && few.wanted_for().is_none());
        sleep(SHORT_AFTER - Duration::from_secs(1)).await;
        refused();
        assert!(few.wanted_for().is_none());
        sleep(Duration::from_secs(1)).await;
        assert_eq!(few.wanted_for(), Some(SHORT_AFTER));
        held.remove(0);
        assert!(few.wanted_for().is_none() && held[0][0].wanted_for().is_none(), "some are free");
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_leave_the_places_of_users() {
        let places = new(8, 4);
        let [user, stranger, proxy] = [address(1), address(2), None].map(|address| places.for_connection(address));
        drop([&user, &proxy].map(|places| places.begin_of_user(None)));
        let strangers = [take_all(&stranger), take_all(&proxy)];
        assert_eq!(strangers.each_ref().map(Vec::len), [4, 0], "a proxy sends on what strangers ask for too");
        let users = take_all(&user);
        assert_eq!(users.len(), 4);
        drop(strangers);
        assert!(user.try_take().is_none(), "nor do users have those of strangers");
        // Strangers do not hurry for users who find no place. Their own shortage is over by then.
        let strangers = take_all(&proxy);
        sleep(SHORT_AFTER).await;
        assert!(user.try_take().is_none());
        assert!(users[0].wanted_for().is_some() && strangers[0].wanted_for().is_none());
        drop((users, strangers));
        // What was taken before the proof is given back to strangers.
        let before = stranger.try_take().unwrap();
        drop(stranger.begin_of_user(None));
        assert_eq!((take_all(&stranger).len(), take_all(&proxy).len()), (4, 3));
        drop(before);
        assert_eq!(take_all(&proxy).len(), 4);
        // A long upload of a user, then nothing of his: he may be no user any more.
        let upload = stranger.begin_of_user(None);
        drop(stranger.begin_of_user(None));
        sleep(10 * PROOF_LASTS).await;
        assert_eq!(take_all(&stranger).len(), 4);
        drop(upload);
        sleep(PROOF_LASTS - Duration::from_secs(1)).await;
        assert_eq!(take_all(&stranger).len(), 4);
        sleep(Duration::from_secs(1)).await;
        let strangers = take_all(&proxy);
        assert!(stranger.try_take().is_none());
        let _again = stranger.begin_of_user(None);
        assert_eq!((take_all(&stranger).len(), strangers.len()), (4, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_proves_a_user_gets_a_place_of_users() {
        let places = new(8, 4);
        let [user, other_user, stranger] = [1, 2, 3].map(|last| places.for_connection(address(last)));
        let mut first = user.try_take().unwrap();
        let proof = user.begin_of_user(Some(&mut first));
        let strangers = take_all(&stranger);
        assert_eq!((strangers.len(), take_all(&user).len()), (4, 3));
        assert!(stranger.try_take().is_none());
        assert!(strangers[0].wanted_for().is_some() && first.wanted_for().is_none(), "strangers do not want it");
        drop((first, proof, strangers));
        sleep(2 * PROOF_LASTS).await;
        // No place of users is free: it keeps the one that it has, and nobody was refused.
        let mut late = user.try_take().unwrap();
        let _other_proof = other_user.begin_of_user(None);
        let users = take_all(&other_user);
        sleep(SHORT_AFTER).await;
        let _proof = user.begin_of_user(Some(&mut late));
        assert_eq!((take_all(&stranger).len(), users.len()), (3, 4));
        assert!(users[0].wanted_for().is_none());
        drop(users);
        drop(user.begin_of_user(Some(&mut late)));
        assert_eq!(take_all(&stranger).len(), 4, "some are free by now");
    }

    #[test]
    fn refusals_are_counted_by_their_half() {
        let metrics = ConnectionMetrics::default();
        let places = Places::new(8, 4, &metrics);
        let [user, other] = [1, 2].map(|last| places.for_connection(address(last)));
        let _proof = user.begin_of_user(None);
        let _held = [take_all(&user), take_all(&other)];
        assert!(other.try_take().is_none());
        assert_eq!(["users", "others"].map(|of| metrics.no_place(of).get()), [1, 2]);
    }

    #[test]
    fn a_connection_may_use_all_its_streams() {
        for (many, of_address) in [(2_000, 250), (200, 63), (40, 20), (0, 1)] {
            assert_eq!(take_all(&new(many, 63).for_connection(address(1))).len(), of_address, "{many}");
        }
        assert_eq!(take_all(&new(2_000, 63).for_connection(None)).len(), 1_000, "through a proxy");
    }
}
