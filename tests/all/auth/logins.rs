//! Logins that are slowed, and those that are not.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rowdrive::auth::{AuthError, UserChange};

use super::fixture::{PASSWORD, World, memory, new_user};

const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// The name of the user, the seconds to wait, or none if the password is wrong.
async fn log_in(world: &World, name: &str, password: &str, from: IpAddr, now: Instant) -> Option<Result<String, u64>> {
    match world.auth.log_in(name, password, from, now).await {
        Ok(login) => Some(Ok(login.user().unwrap().to_string())),
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
    let world = World::new(memory()).await;
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
    let (world, now) = (world_with_tom().await, Instant::now());
    let tom = || Some(Ok("tom".to_owned()));
    assert_eq!(log_in(&world, "tom", PASSWORD, HOME, now).await, tom());
    wrong(&world, 10, "tom", HOME, now).await;
    wrong(&world, 10, "tom", AWAY, now).await;
    assert_eq!(log_in(&world, "tom", "guess again", HOME, now).await, Some(Err(60)));
    assert_eq!(log_in(&world, "TOM", PASSWORD, HOME, now).await, tom());
    assert_eq!(log_in(&world, "tom", PASSWORD, AWAY, now).await, Some(Err(60)), "it was never right there");
    // A new password is another one, also while the old one is remembered.
    let admin = world.session(super::fixture::ADMIN).await.credential;
    let change = UserChange { password: Some("battery staple".into()), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", change).await.unwrap();
    assert_eq!(log_in(&world, "tom", PASSWORD, HOME, now).await, Some(Err(60)));
    let later = now + Duration::from_secs(60);
    assert_eq!(log_in(&world, "tom", PASSWORD, HOME, later).await, None);
    assert_eq!(log_in(&world, "tom", "battery staple", HOME, later).await, tom());
    let change = UserChange { disabled: Some(true), ..UserChange::default() };
    world.auth.change_user(&admin, "tom", change).await.unwrap();
    assert_eq!(log_in(&world, "tom", "battery staple", HOME, later).await, None, "disabled");
}
