//! From where a name was last sent with the right password.

use std::collections::{HashMap, VecDeque};

use crate::auth::sender::{Sender, SentName};
use crate::client_net::ClientNet;

/// Names that are kept.
const NAMES: usize = 4_096;
/// Addresses that are kept of a name.
const NETS: usize = 16;

/// The times of right passwords, in bounded memory. Only who knows the password of a name adds to it, and then to the
/// addresses of this name alone.
#[derive(Debug, Default)]
pub struct Successes(HashMap<SentName, VecDeque<(ClientNet, u64)>>);

impl Successes {
    /// Whether the name was right from this address after a time; none: ever.
    pub fn is_since(&self, sender: &Sender, time: Option<u64>) -> bool {
        let mut nets = self.0.get(&sender.name).into_iter().flatten();
        nets.any(|(net, right)| *net == sender.net && Some(*right) > time)
    }

    /// Notes that it was right at a time. What is full loses its oldest.
    pub fn note(&mut self, sender: &Sender, time: u64) {
        if self.0.len() >= NAMES && !self.0.contains_key(&sender.name) {
            let oldest = self.0.iter().min_by_key(|(_, nets)| nets.back().map(|(_, time)| *time));
            if let Some(oldest) = oldest.map(|(name, _)| *name) {
                self.0.remove(&oldest);
            }
        }
        let nets = self.0.entry(sender.name).or_default();
        // Passwords that are verified at the same time end in any order.
        let known = nets.iter().position(|(net, _)| *net == sender.net).and_then(|at| nets.remove(at));
        nets.push_back((sender.net, known.map_or(time, |(_, known)| known.max(time))));
        if nets.len() > NETS {
            nets.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn sender(name: usize, net: u32) -> Sender {
        Sender::new(&name.to_string(), Ipv4Addr::from_bits(net).into())
    }

    #[test]
    fn the_oldest_is_lost_first() {
        let mut successes = Successes::default();
        successes.note(&sender(0, 0), 5);
        assert!(successes.is_since(&sender(0, 0), Some(4)) && !successes.is_since(&sender(0, 0), Some(5)));
        assert!(!successes.is_since(&sender(0, 1), Some(4)) && !successes.is_since(&sender(1, 0), Some(4)));
        (1..40).for_each(|net| successes.note(&sender(1, net), 6));
        assert_eq!(successes.0[&sender(1, 0).name].len(), NETS);
        assert!(successes.is_since(&sender(0, 0), Some(4)), "another name takes no room of this one");
        assert!(successes.is_since(&sender(1, 39), Some(5)) && !successes.is_since(&sender(1, 1), Some(5)));
        successes.note(&sender(1, 30), 7);
        successes.note(&sender(1, 30), 3);
        assert_eq!(successes.0[&sender(1, 0).name].len(), NETS);
        (2..=NAMES).for_each(|name| successes.note(&sender(name, 0), 8));
        assert_eq!(successes.0.len(), NAMES);
        assert!(!successes.is_since(&sender(0, 0), Some(0)) && successes.is_since(&sender(1, 30), Some(6)));
    }
}
