use std::net::{IpAddr, Ipv4Addr};
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;

use super::*;

/// Passwords that are verified at the same time in these tests.
const PENDING: usize = 32;

fn sender(name: u32, net: u32) -> Sender {
    Sender::new(&format!("name{name}"), IpAddr::V4(Ipv4Addr::from_bits(net)))
}

impl Slowdown {
    fn begin_at(&self, sender: Sender, ms: u64) -> Result<Pending, u64> {
        let begun = self.begin(sender, self.0.start + Duration::from_millis(ms));
        begun.map_err(|wait| wait.as_secs())
    }

    /// Sends a wrong password: the seconds to wait, if it was not verified.
    fn wrong(&self, name: u32, net: u32, ms: u64) -> Option<u64> {
        self.begin_at(sender(name, net), ms).map(Pending::wrong).err()
    }

    /// Sends so many, and expects that all are verified.
    fn wrongs(&self, count: u32, who: impl Fn(u32) -> (u32, u32), ms: u64) {
        for n in 0..count {
            let (name, net) = who(n);
            assert_eq!(self.wrong(name, net, ms), None, "the {n}th of {name} from {net}");
        }
    }

    fn right(&self, name: u32, net: u32, ms: u64) -> Option<u64> {
        self.begin_at(sender(name, net), ms).map(Pending::right).err()
    }
}

/// The rules of the contract: who sends the nth password, how many are verified, and how many seconds they count.
type Case = (fn(u32) -> (u32, u32), u32, u64);
const CASES: [Case; 3] = [(|_| (0, 0), 10, 60), (|n| (n, 0), 100, 60), (|n| (0, n), 100, 3_600)];

#[test]
fn each_rule_has_its_limit_and_says_how_long_to_wait() {
    for (who, most, seconds) in CASES {
        let slowdown = Slowdown::new(PENDING);
        slowdown.wrongs(most, who, 500);
        let (name, net) = who(most);
        for (ms, wait) in [(500, seconds), (501, seconds), (1_499, seconds), (1_500, seconds - 1)] {
            assert_eq!(slowdown.wrong(name, net, ms), Some(wait), "{most} in {seconds} s, after {ms} ms");
        }
        assert_eq!(slowdown.wrong(1_000, 1_000, 1_500), None, "another sender");
        // Calls come a little out of order.
        assert_eq!(slowdown.wrong(name, net, 0), Some(seconds - 1), "no later than at 1,500 ms");
        let end = 500 + seconds * 1_000;
        assert_eq!(slowdown.wrong(name, net, end - 1), Some(1));
        assert_eq!(slowdown.wrong(name, net, end), None);
    }
}

#[test]
fn only_wrong_passwords_count() {
    for (who, most, seconds) in CASES {
        let slowdown = Slowdown::new(PENDING);
        let ((name, net), other) = (who(most), who(most + 1));
        slowdown.wrongs(most - 1, who, 0);
        for _ in 0..200 {
            drop(slowdown.begin_at(sender(name, net), 0).unwrap());
        }
        let pending = slowdown.begin_at(sender(name, net), 0).unwrap();
        assert_eq!(slowdown.wrong(other.0, other.1, 0), Some(seconds), "one is being verified");
        pending.right();
        // A right one takes no wrong one back.
        assert_eq!(slowdown.wrong(name, net, 0), None);
        assert_eq!(slowdown.wrong(other.0, other.1, 0), Some(seconds));
    }
}

#[test]
fn a_name_is_spared_where_it_was_right_within_a_day() {
    let (owner, home, away) = (0, 0, 1_000);
    let slowdown = Slowdown::new(PENDING);
    assert_eq!(slowdown.right(owner, home, 0), None);
    // Guesses of the name from elsewhere, and of other names at the same address.
    slowdown.wrongs(100, |n| (owner, 1 + n), 0);
    slowdown.wrongs(100, |n| (1 + n, home), 0);
    assert_eq!(slowdown.right(owner, away, 0), Some(3_600));
    assert_eq!(slowdown.right(500, home, 0), Some(60));
    // The first rule holds, and what is spared counts.
    slowdown.wrongs(10, |_| (owner, home), 0);
    assert_eq!(slowdown.right(owner, home, 0), Some(60));
    assert_eq!(slowdown.right(owner, home, 60_000), None);
    slowdown.wrongs(10, |_| (owner, home), HOUR);
    slowdown.wrongs(90, |n| (owner, 1 + n), HOUR);
    assert_eq!(slowdown.wrong(owner, away, HOUR), Some(3_600));
    // A right password, and one that is not verified, uncover no room for guesses.
    assert_eq!(slowdown.right(owner, home, HOUR + MINUTE), None);
    drop(slowdown.begin_at(sender(owner, home), HOUR + MINUTE));
    assert_eq!(slowdown.wrong(owner, away, HOUR + MINUTE), Some(3_540));
    // A day after the last right one.
    let last = HOUR + MINUTE;
    slowdown.wrongs(100, |n| (owner, 1 + n), last + DAY - 1);
    assert_eq!(slowdown.wrong(owner, home, last + DAY - 1), None);
    assert_eq!(slowdown.wrong(owner, home, last + DAY), Some(3_600));
}

#[test]
fn of_many_at_once_no_more_are_verified() {
    for (who, most, _) in CASES {
        let slowdown = Slowdown::new(PENDING);
        slowdown.wrongs(most - 10, who, 0);
        let start = Barrier::new(PENDING);
        let begun: Vec<Result<Pending, u64>> = thread::scope(|scope| {
            let threads = (0..PENDING as u32).map(|n| {
                let (slowdown, start) = (&slowdown, &start);
                scope.spawn(move || {
                    let (name, net) = who(1_000 + n);
                    start.wait();
                    slowdown.begin_at(sender(name, net), 0)
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut verified: Vec<Pending> = begun.into_iter().filter_map(Result::ok).collect();
        assert_eq!(verified.len(), 10);
        verified.drain(..4).for_each(Pending::wrong);
        drop(verified);
        slowdown.wrongs(6, |n| who(2_000 + n), 0);
        let (name, net) = who(3_000);
        assert!(slowdown.wrong(name, net, 0).is_some());
    }
}

#[test]
fn a_flood_neither_hides_an_attacker_nor_refuses_others() {
    let slowdown = Slowdown::new(PENDING);
    slowdown.wrongs(10, |_| (0, 0), 0);
    slowdown.wrongs(90, |n| (0, 1 + n), 0);
    slowdown.wrongs(90, |n| (1 + n, 0), 0);
    // As many as Argon2 verifies in a minute, three times over.
    slowdown.wrongs(9_000, |n| (10_000 + n, 10_000 + n), 1_000);
    assert_eq!(slowdown.wrong(0, 0, 2_000), Some(3_598), "the name");
    assert_eq!(slowdown.wrong(0, 20_000, 2_000), Some(3_598), "the name from elsewhere");
    assert_eq!(slowdown.wrong(20_000, 0, 2_000), Some(58), "the address");
    slowdown.wrongs(9, |_| (30_000, 30_000), 2_000);
}

/// Small limits, so that few passwords reach them.
fn rules(keys: [usize; 3]) -> Rules {
    Rules {
        sender: Rate { most: 2, window: 1_000 },
        net: Rate { most: 4, window: 1_000 },
        name: Rate { most: 5, window: 4_000 },
        spared: 6_000,
        keys,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Wrong,
    Right,
    Left,
}

/// A password is sent by a sender after a pause; before that, one that is pending ends.
type Step = (u64, u32, u32, Option<(usize, End)>);

fn steps(names: u32, nets: u32) -> impl Strategy<Value = Vec<Step>> {
    let end = prop_oneof![4 => Just(End::Wrong), 1 => Just(End::Right), 1 => Just(End::Left)];
    let pause = prop_oneof![6 => 0..120u64, 1 => 0..3_000u64];
    prop::collection::vec((pause, 0..names, 0..nets, prop::option::weighted(0.9, (any::<usize>(), end))), 1..80)
}

/// All passwords in a list.
#[derive(Default)]
struct Oracle {
    /// The sender, the time, and whether it counts.
    sent: Vec<(u32, u32, u64, bool)>,
    right: Vec<(u32, u32, u64)>,
}

impl Oracle {
    /// For each rule that holds for a sender `now`: how many were sent in two windows by all senders, how many of his
    /// count `at` a time, the rate, and the keys of the table.
    fn counts(&self, name: u32, net: u32, now: u64, at: u64, rules: &Rules) -> Vec<(usize, usize, Rate, usize)> {
        let is_spared = self.right.iter().any(|(n, a, time)| (*n, *a) == (name, net) && now - time < rules.spared);
        let of_sender = |n: u32, a: u32| (n, a) == (name, net);
        let of_net = |_: u32, a: u32| a == net;
        let of_name = |n: u32, _: u32| n == name;
        let mut found = Vec::new();
        let mut count = |rate: Rate, keys: usize, is_of: &dyn Fn(u32, u32) -> bool| {
            let live = |time: u64, window: u64| at < time + window;
            let counted =
                |(n, a, time, counts): &&(u32, u32, u64, bool)| *counts && is_of(*n, *a) && live(*time, rate.window);
            let all = self.sent.iter().filter(|(_, _, time, _)| live(*time, 2 * rate.window)).count();
            found.push((all, self.sent.iter().filter(counted).count(), rate, keys));
        };
        count(rules.sender, rules.keys[0], &of_sender);
        if !is_spared {
            count(rules.net, rules.keys[1], &of_net);
            count(rules.name, rules.keys[2], &of_name);
        }
        found
    }

    /// Milliseconds until one more is verified.
    fn wait(&self, name: u32, net: u32, now: u64, rules: &Rules) -> u64 {
        let windows = [rules.sender.window, rules.net.window, rules.name.window];
        let ends = self.sent.iter().flat_map(|(_, _, time, _)| windows.map(|window| time + window));
        let mut times: Vec<u64> = ends.filter(|end| *end > now).chain([now]).collect();
        times.sort_unstable();
        let is_free = |at: &u64| self.counts(name, net, now, *at, rules).iter().all(|(_, n, rate, _)| *n < rate.most);
        times.into_iter().find(is_free).unwrap() - now
    }
}

/// Sends passwords to both, and compares each answer.
fn compare(steps: Vec<Step>, rules: Rules, is_same: impl Fn(&Oracle, (u32, u32, u64), Option<u64>)) {
    let (slowdown, mut oracle) = (Slowdown::with(rules, 8), Oracle::default());
    let mut pending: Vec<(Pending, usize)> = Vec::new();
    let mut now = 0;
    for (pause, name, net, end) in steps {
        let end = if pending.len() == 8 { Some(end.unwrap_or((0, End::Wrong))) } else { end };
        if let Some((at, end)) = end.filter(|_| !pending.is_empty()) {
            let (ended, sent) = pending.remove(at % pending.len());
            match end {
                End::Wrong => ended.wrong(),
                End::Left => drop(ended),
                End::Right => {
                    let (name, net, time, _) = oracle.sent[sent];
                    oracle.right.push((name, net, time));
                    ended.right();
                }
            }
            oracle.sent[sent].3 = end == End::Wrong;
        }
        now += pause;
        let begun = slowdown.begin_at(sender(name, net), now);
        is_same(&oracle, (name, net, now), begun.as_ref().err().copied());
        if let Ok(begun) = begun {
            pending.push((begun, oracle.sent.len()));
            oracle.sent.push((name, net, now, true));
        }
    }
    let counted = slowdown.counted();
    let lengths = [counted.senders.len(), counted.nets.len(), counted.names.len()];
    assert!(lengths.iter().zip(rules.keys).all(|(length, keys)| *length <= keys), "{lengths:?}");
    drop(counted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// With room for all keys, exactly what the contract says.
    #[test]
    fn answers_are_those_of_a_list_of_all(steps in steps(3, 3)) {
        let rules = rules([100; 3]);
        compare(steps, rules, |oracle, (name, net, now), answer| {
            let wait = oracle.wait(name, net, now, &rules);
            assert_eq!(answer, (wait > 0).then(|| wait.div_ceil(1_000)));
        });
    }

    /// With room for few keys: nothing is verified that the contract slows, and nothing else is slowed unless as many
    /// passwords as the table has keys were sent for each one that is missing.
    #[test]
    fn a_full_table_forgets_nothing_and_adds_little(steps in steps(12, 12)) {
        let rules = rules([6, 3, 3]);
        compare(steps, rules, |oracle, (name, net, now), answer| match answer {
            None => assert_eq!(oracle.wait(name, net, now, &rules), 0),
            Some(_) => {
                let counts = oracle.counts(name, net, now, now, &rules);
                let may_be_slowed = |(all, own, rate, keys): &(usize, usize, Rate, usize)| own + all / keys >= rate.most;
                assert!(counts.iter().any(may_be_slowed), "{counts:?}");
            }
        });
    }
}
