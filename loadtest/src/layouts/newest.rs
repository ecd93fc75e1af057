//! The newest of many files, without all of them in memory: for layouts that have no order by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Period;

/// Holds the newest files of a period that it was offered, each with what is needed to name it.
pub struct Newest<T: Ord> {
    from: i64,
    to: i64,
    limit: usize,
    found: BinaryHeap<Reverse<(i64, T)>>,
}

impl<T: Ord> Newest<T> {
    pub fn new(period: &Period) -> Self {
        Self { from: period.from, to: period.to, limit: period.limit, found: BinaryHeap::new() }
    }

    pub fn offer(&mut self, modified: i64, file: impl FnOnce() -> T) {
        let full = self.found.len() == self.limit;
        if !(self.from..self.to).contains(&modified)
            || full && self.found.peek().is_some_and(|Reverse((oldest, _))| *oldest >= modified)
        {
            return;
        }
        if full {
            self.found.pop();
        }
        self.found.push(Reverse((modified, file())));
    }

    /// Newest first.
    pub fn done(self) -> Vec<(i64, T)> {
        self.found.into_sorted_vec().into_iter().map(|Reverse(file)| file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_of_the_period_are_kept() {
        let mut newest = Newest::new(&Period { from: 10, to: 20, under: String::new(), limit: 2 });
        for modified in [9, 12, 20, 19, 10, 15] {
            newest.offer(modified, || modified);
        }
        assert_eq!(newest.done(), [(19, 19), (15, 15)]);
    }
}
