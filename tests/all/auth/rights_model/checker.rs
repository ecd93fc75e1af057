//! Each answer is allowed by the state at an instant between its request and itself, and each commit is what one
//! request asked for and its requester might do then.

use std::collections::BTreeMap;
use std::fmt::Write;

use rowdrive::schema::Timestamp;

use super::effect::explains;
use super::expected::{Expected, expected};
use super::request::{Answer, Asked, Request};
use super::rights::Asker;
use super::states::{Entry, State};
use super::tally::Tally;

/// A round: requests, and the states between which they ran. A commit is the step from a state to the next one.
pub struct Round {
    pub states: Vec<State>,
    pub requests: Vec<Request>,
}

impl Round {
    /// Checks all answers and all commits. Returns a text for each request and each commit that no state allows.
    pub fn check(&self, tally: &mut Tally) -> Vec<String> {
        let (mut claims, mut wrong) = (Vec::new(), Vec::new());
        for (number, request) in self.requests.iter().enumerate() {
            tally.count(request, &self.verdicts(request));
            if request.answer.is_change() {
                let commits = self.commits_of(request);
                if commits.is_empty() && !self.is_done_without_effect(request) {
                    wrong.push(self.told(request, "no commit between request and answer is what it asked for"));
                }
                claims.extend((!commits.is_empty()).then_some((number, commits)));
            } else if !self.is_allowed(request) {
                wrong.push(self.told(request, "no state allows this answer"));
            }
        }
        wrong.extend(self.match_commits(claims));
        wrong
    }

    /// The states of a request, those that say the same only once.
    fn states_of(&self, request: &Request) -> impl Iterator<Item = (usize, &State)> {
        let is_new = move |at: &usize| {
            let (state, before) = (&self.states[*at], at.checked_sub(1).map(|before| &self.states[before]));
            *at == request.from || before.is_none_or(|before| before.now != state.now || !before.is_same_as(state))
        };
        (request.from..=request.to).filter(is_new).map(|at| (at, &self.states[at]))
    }

    fn verdicts(&self, request: &Request) -> Vec<Expected> {
        self.states_of(request).map(|(_, state)| expected(state, state.now, request)).collect()
    }

    fn is_allowed(&self, request: &Request) -> bool {
        match &request.answer {
            Answer::Busy => true,
            Answer::Shown(shown) if matches!(request.asked, Asked::Find) => {
                let seen = |state: &State| {
                    let asker = Asker::of(state, &request.by, state.now);
                    asker.map_or_else(Default::default, |asker| asker.files())
                };
                let states: Vec<_> = self.states_of(request).map(|(_, state)| seen(state)).collect();
                // A query reads at several instants. It shows no file where the requester could never see it, and each
                // one that he could see all the time.
                let was_seen = |(path, file)| states.iter().any(|seen| seen.get(path) == Some(file));
                let is_in = |seen: &BTreeMap<String, Entry>, file: &Entry| seen.values().any(|other| other == file);
                let mut always = states[0].values().filter(|file| states.iter().all(|seen| is_in(seen, file)));
                shown.iter().all(was_seen) && always.all(|file| is_in(shown, file))
            }
            answer => {
                // Nothing guards a change against the end of a token by time.
                let is_change = request.asked.is_change();
                let times = |state: &State| [Some(state.now), is_change.then(|| self.sent_at(request))];
                let is_answer = |state: &State, now| expected(state, now, request).allows(answer);
                let allows = |state| times(state).into_iter().flatten().any(|now| is_answer(state, now));
                self.states_of(request).any(|(_, state)| allows(state))
            }
        }
    }

    /// The time by which the credential of a change may have ended.
    fn sent_at(&self, request: &Request) -> Timestamp {
        self.states[request.from].now
    }

    fn may_do(&self, state: &State, request: &Request) -> bool {
        match expected(state, self.sent_at(request), request) {
            Expected::Does => true,
            // It ends rights of the directory that was named.
            Expected::Stale => matches!(request.asked, Asked::Take(..)),
            Expected::Refused(_) | Expected::Gets(_) => false,
        }
    }

    fn is_commit(&self, at: usize) -> bool {
        at + 1 < self.states.len() && !self.states[at].is_same_as(&self.states[at + 1])
    }

    /// The commits that have done what was asked for, when it was allowed.
    fn commits_of(&self, request: &Request) -> Vec<usize> {
        let is_his = |at: &usize| {
            let (before, after) = (&self.states[*at], &self.states[*at + 1]);
            self.may_do(before, request) && explains(before, after, self.sent_at(request), request)
        };
        (request.from..request.to).filter(|at| self.is_commit(*at)).filter(is_his).collect()
    }

    /// Whether all was as it was asked for already.
    fn is_done_without_effect(&self, request: &Request) -> bool {
        let is_done =
            |state: &State| self.may_do(state, request) && explains(state, state, self.sent_at(request), request);
        self.states_of(request).any(|(_, state)| is_done(state))
    }

    /// Gives each commit a request of its own. Returns a text for each of both that is left.
    fn match_commits(&self, mut claims: Vec<(usize, Vec<usize>)>) -> Vec<String> {
        let needs_none = |number: usize| self.is_done_without_effect(&self.requests[number]);
        // A request that has a commit keeps one. So those that need one are first.
        claims.sort_by_cached_key(|(number, _)| needs_none(*number));
        let (owners, mut wrong) = (vec![None; self.states.len()], Vec::new());
        let mut matching = Matching { claims: &claims, owners };
        for (claim, (number, _)) in claims.iter().enumerate() {
            if !matching.assign(claim, &mut Vec::new()) && !needs_none(*number) {
                wrong.push(self.told(&self.requests[*number], "its commits are those of other requests"));
            }
        }
        let commits = (0..self.states.len()).filter(|at| self.is_commit(*at));
        wrong.extend(commits.filter(|at| matching.owners[*at].is_none()).map(|at| self.told_of_commit(at)));
        wrong
    }

    /// A request, and what each of its states says.
    fn told(&self, request: &Request, what: &str) -> String {
        let mut text = format!("{what}\n{request}\n");
        for at in request.from..=request.to {
            let state = &self.states[at];
            if at > request.from {
                writeln!(text, "  then {}", differences(&self.states[at - 1], state)).unwrap();
            }
            let verdict = expected(state, state.now, request);
            writeln!(text, "state {at}: {verdict:?}").unwrap();
        }
        text.push_str("\nbefore:\n");
        text.push_str(&described(&self.states[request.from]));
        text.push_str("\nother requests:\n");
        self.write_overlapping(&mut text, request.from, request.to);
        text
    }

    fn told_of_commit(&self, at: usize) -> String {
        let change = differences(&self.states[at], &self.states[at + 1]);
        let mut text = format!("no request asked for commit {at}, or its requester might not then: {change}\n");
        self.write_overlapping(&mut text, at, at);
        text.push_str("\nbefore:\n");
        text.push_str(&described(&self.states[at]));
        text
    }

    fn write_overlapping(&self, text: &mut String, from: usize, to: usize) {
        for request in self.requests.iter().filter(|request| request.from <= to && request.to >= from) {
            writeln!(text, "  {request}").unwrap();
        }
    }
}

/// Which claim has which commit: the matching of Kuhn.
struct Matching<'a> {
    claims: &'a [(usize, Vec<usize>)],
    owners: Vec<Option<usize>>,
}

impl Matching<'_> {
    fn assign(&mut self, claim: usize, tried: &mut Vec<usize>) -> bool {
        for commit in self.claims[claim].1.clone() {
            if tried.contains(&commit) {
                continue;
            }
            tried.push(commit);
            let is_free = match self.owners[commit] {
                None => true,
                Some(other) => self.assign(other, tried),
            };
            if is_free {
                self.owners[commit] = Some(claim);
                return true;
            }
        }
        false
    }
}

/// What differs between two states, for people.
fn differences(before: &State, after: &State) -> String {
    let mut found = Vec::new();
    if before.now != after.now {
        found.push(format!("the clock is {}", after.now.ms()));
    }
    for (path, entry) in &before.tree.nodes {
        if after.tree.nodes.get(path) != Some(entry) {
            found.push(format!("- {path} {entry:?}"));
        }
    }
    for (path, entry) in &after.tree.nodes {
        if before.tree.nodes.get(path) != Some(entry) {
            found.push(format!("+ {path} {entry:?}"));
        }
    }
    for (name, account) in after.accounts.iter().filter(|(name, account)| before.accounts.get(*name) != Some(account)) {
        found.push(format!("{} is {account:?}", name.as_str()));
    }
    if found.is_empty() { "nothing".to_owned() } else { found.join("\n       ") }
}

fn described(state: &State) -> String {
    let mut text = String::new();
    for (path, entry) in &state.tree.nodes {
        writeln!(text, "  {path} {entry:?}").unwrap();
    }
    let is_user = |profile: &rowdrive::schema::account::Profile| !profile.removed;
    for (name, account) in state.accounts.iter().filter(|(_, account)| account.profile.as_ref().is_none_or(is_user)) {
        writeln!(text, "  {}: {account:?}", name.as_str()).unwrap();
    }
    text
}
