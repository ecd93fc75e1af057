//! What has happened in a run: without a wrong answer a run shows something only if all of this was there.

use std::collections::BTreeMap;
use std::fmt;

use rowdrive::schema::secret::SecretKind;

use super::expected::Expected;
use super::request::{Asked, Request};

const ANSWERS: [&str; 8] = ["done", "made", "seen", "shown", "missing", "forbidden", "unauthorized", "conflict"];

const CHANGES: [&str; 14] = [
    "put",
    "mkdir",
    "delete",
    "rmdir",
    "remove",
    "move",
    "give",
    "take",
    "change",
    "make session",
    "make token",
    "make share",
    "end",
    "add user",
];

const GROUPS: [&str; 5] = ["a read", "a change of files", "a change of accounts", "anything by a token", "a share"];

/// One of so many requests may be given up.
const BUSY: usize = 50;

/// Counts of requests.
#[derive(Default)]
pub struct Tally {
    all: usize,
    answers: BTreeMap<&'static str, usize>,
    changes: BTreeMap<&'static str, usize>,
    /// Of requests during which the right that they need came or went: by what they are, and whether they were refused.
    overlaps: BTreeMap<(&'static str, bool), usize>,
}

impl Tally {
    /// `verdicts`: what the states say between the request and its answer.
    pub fn count(&mut self, request: &Request, verdicts: &[Expected]) {
        self.all += 1;
        *self.answers.entry(request.answer.kind()).or_default() += 1;
        if request.answer.is_change() {
            *self.changes.entry(request.asked.kind()).or_default() += 1;
        }
        let refusals = verdicts.iter().filter(|verdict| verdict.is_refusal()).count();
        if refusals > 0 && refusals < verdicts.len() {
            let is_refused = verdicts.iter().any(|verdict| verdict.is_refusal() && verdict.allows(&request.answer));
            *self.overlaps.entry((group(request), is_refused)).or_default() += 1;
        }
    }

    /// Asserts that each of these things has happened, and that few requests were given up.
    pub fn assert_nothing_is_missing(&self) {
        let of_answers = ANSWERS.iter().filter(|kind| !self.answers.contains_key(*kind));
        let of_changes = CHANGES.iter().filter(|kind| !self.changes.contains_key(*kind));
        let missing: Vec<_> = of_answers.chain(of_changes).collect();
        assert!(missing.is_empty(), "no request has got or done {missing:?}: {self}");
        let overlaps = GROUPS.iter().flat_map(|group| [(*group, false), (*group, true)]);
        let missing: Vec<_> = overlaps.filter(|kind| !self.overlaps.contains_key(kind)).collect();
        assert!(missing.is_empty(), "no right of {missing:?} has come or gone: {self}");
        let busy = self.answers.get("busy").copied().unwrap_or_default();
        assert!(busy * BUSY <= self.all, "too many requests were given up: {self}");
    }
}

fn group(request: &Request) -> &'static str {
    match (request.by.secret().map(|owner| owner.kind), &request.asked) {
        (Some(SecretKind::Share), _) => "a share",
        (Some(SecretKind::Token), _) => "anything by a token",
        (_, asked) if !asked.is_change() => "a read",
        (
            _,
            Asked::Put(_) | Asked::Mkdir(_) | Asked::Delete(_) | Asked::Rmdir(_) | Asked::Remove(_) | Asked::Move(..),
        ) => "a change of files",
        _ => "a change of accounts",
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} requests, answers {:?}", self.all, self.answers)?;
        writeln!(f, "changes {:?}", self.changes)?;
        for ((group, is_refused), count) in &self.overlaps {
            let answer = if *is_refused { "refused" } else { "allowed" };
            writeln!(f, "the right to {group} came or went, {answer}: {count}")?;
        }
        Ok(())
    }
}
