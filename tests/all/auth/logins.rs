//! Logins that are slowed, and those that are not.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rowdrive::auth::{AuthError, UserChange};
use rowdrive::schema::rights::Right;
use rowdrive::table::Store;
use tempfile::TempDir;

use super::fixture::{PASSWORD, World, memory, new_user, rocks};
use crate::faults::number;

const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// The name of the user, the seconds to wait, or none if the password is wrong.
async fn log_in(world: &World, name: &str, password: &str, from: IpAddr, now: Instant) -> Option<Result<String, u64>> {
    match world.auth.log_in(name, password, from, now).await {
        Ok(login) => {
            // As the server does: so the same password is known when it is sent again.
            world.auth.authority(&login).await.unwrap();
            Some(Ok(login.user().unwrap().to_string()))
        }
        Err(AuthError::Slowed(wait)) => Some(Err(wait)),
        Err(AuthError::Unauthorized) => None,
        Err(error) => panic!("{error:?}"),
    }
}

async fn wrong(world: &World, count: usize, name: &str, from: IpAddr, now: Instant) {
    let guesses: Vec<String> = (0..count).map(|n| format!("guess no. {n}")).collect();
    let refused = join_all(guesses.iter().map(|guess| log_in(world, name, guess, from, now))).await;
    assert_eq!(refused, vec![None; count], "{name}");
}

async fn world_with_tom() -> World {
    world_on(memory()).await
}

async fn world_on(store: (Arc<dyn Store>, TempDir)) -> World {
    let world = World::new(store).await;
    let admin = world.admin().await;
    for name in ["tom", "off"] {
        world.auth.add_user(&admin, new_user(name)).await.unwrap();
    }
    let change = UserChange { disabled: Some(true), ..UserChange::default() };
    world.auth.change_user(&admin, "off", change).await.unwrap();
    world
}

#[tokio::test]
async fn names_with_and_without_a_user_are_slowed_alike() {
    let (world, now) = (world_with_tom().await, Instant::now());
    for (name, spelling) in [("tom", "TOM"), ("nobody", "Nobody"), ("off", "OFF"), ("*", "*")] {
        wrong(&world, 5, name, HOME, now).await;
        wrong(&world, 5, spelling, HOME, now).await;
        assert_eq!(log_in(&world, name, PASSWORD, HOME, now).await, Some(Err(60)), "{name}");
    }
    let later = now + Duration::from_secs(60);
    assert_eq!(log_in(&world, "tom", PASSWORD, HOME, later).await, Some(Ok("tom".into())));
    assert_eq!(log_in(&world, "off", PASSWORD, HOME, later).await, None);
}

#[tokio::test]
async fn a_password_that_was_right_within_a_minute_is_never_slowed() {
    for store in [memory(), rocks()] {
        remembers(&world_on(store).await).await;
    }
}

async fn remembers(world: &World) {
    let now = Instant::now();
    let tom = || Some(Ok("tom".to_owned()));
    assert_eq!(log_in(world, "tom", PASSWORD, HOME, now).await, tom());
    wrong(world, 10, "tom", HOME, now).await;
    wrong(world, 10, "tom", AWAY, now).await;
    assert_eq!(log_in(world, "tom", "guess again", HOME, now).await, Some(Err(60)));
    assert_eq!(log_in(world, "TOM", PASSWORD, HOME, now).await, tom());
    assert_eq!(log_in(world, "tom", PASSWORD, AWAY, now).await, Some(Err(60)), "it was never right there");
    // A new password is another one, also while the old one is remembered.
    let admin = world.session(super::fixture::ADMIN).await.credential;
    let change = UserChange { password: Some("battery staple".into()), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", change).await.unwrap();
    let slowed = log_in(world, "tom", PASSWORD, HOME, now).await;
    assert!(matches!(slowed, Some(Err(1..=60))), "{slowed:?}");
    let later = now + Duration::from_secs(60);
    assert_eq!(log_in(world, "tom", PASSWORD, HOME, later).await, None);
    assert_eq!(log_in(world, "tom", "battery staple", HOME, later).await, tom());
    let change = UserChange { disabled: Some(true), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", change).await.unwrap();
    assert_eq!(log_in(world, "tom", "battery staple", HOME, later).await, None, "disabled");
}

/// Of what is sent all the time, each request counts as a use.
#[tokio::test]
async fn a_password_that_is_sent_all_the_time_stays_remembered() {
    for store in [memory(), rocks()] {
        let (world, begin) = (world_on(store).await, Instant::now());
        for at in 0..225 {
            let now = begin + at * Duration::from_millis(400);
            assert_eq!(log_in(&world, "tom", PASSWORD, HOME, now).await, Some(Ok("tom".into())), "{at}");
            if at == 100 {
                // Until the end of this test nothing else is verified.
                wrong(&world, 10, "tom", HOME, now).await;
            }
        }
    }
}

/// Welch's t of two samples.
fn t(samples: &[Vec<f64>; 2]) -> f64 {
    let [one, other] = samples.each_ref().map(|sample| {
        let (count, mean) = (sample.len() as f64, sample.iter().sum::<f64>() / sample.len() as f64);
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    });
    (one.0 - other.0) / (one.1 + other.1).sqrt()
}

/// Times logins of a name with a user, who has many grants, and of one without. `address`: of a sample.
async fn timed(world: &World, samples: usize, address: impl Fn(u32) -> (IpAddr, Instant)) -> f64 {
    let mut times = [Vec::new(), Vec::new()];
    for n in 0..samples as u32 {
        // In another order each time, so that nothing periodic is in one of them alone.
        for which in if n.count_ones() % 2 == 0 { [0, 1] } else { [1, 0] } {
            let (from, now) = address(n);
            let begin = Instant::now();
            let refused = world.auth.log_in(["tom", "tim"][which], "guess of a name", from, now).await;
            times[which].push(begin.elapsed().as_secs_f64());
            assert!(refused.is_err());
        }
    }
    t(&times)
}

/// `ROWDRIVE_TIMED=1000` measures so many logins of each of the two names: by this nobody learns which users there are.
#[tokio::test]
#[ignore = "measures times, so nothing else may run"]
async fn a_name_without_a_user_takes_as_long() {
    let samples = number("ROWDRIVE_TIMED").unwrap_or(1_000) as usize;
    let world = World::new(rocks()).await;
    let admin = world.admin().await;
    world.auth.add_user(&admin, new_user("tom")).await.unwrap();
    for n in 0..300 {
        let dir = format!("/d{n}");
        world.mkdir(&dir).await;
        world.give(&admin, &dir, "tom", &[Right::Read]).await;
    }
    let now = Instant::now();
    // Each from another address, and an hour after the one before: none is slowed.
    let verified = |n: u32| (IpAddr::from((10 << 24 | n).to_be_bytes()), now + Duration::from_secs(3_600) * n);
    let verified = timed(&world, samples, verified).await;
    // And all slowed.
    let late = now + Duration::from_secs(3_600) * (samples as u32 + 1);
    for name in ["tom", "tim"] {
        wrong(&world, 10, name, HOME, late).await;
    }
    let slowed = timed(&world, samples, |_| (HOME, late)).await;
    println!("t of {samples} logins each: {verified:.2} verified, {slowed:.2} slowed");
    assert!(verified.abs() < 4.5 && slowed.abs() < 4.5);
}
