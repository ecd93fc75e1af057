//! The steps of a plan, and the faults that can happen at a step.

use std::fmt::{self, Display, Formatter};

use rowdrive::table::{Change, Check, Plan, RowKey};

/// The part of a plan that a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanPart {
    Prepare,
    ConditionalRow,
    Finish,
}

/// One step, as hooks and the log see it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Counted from 1 over the whole life of the store.
    pub number: usize,
    /// The plan it belongs to, counted from 1.
    pub plan: usize,
    pub part: PlanPart,
    /// The rows of the step: one, or several for `guarded`.
    pub rows: Vec<(&'static str, RowKey)>,
    /// Its checks and changes, for messages.
    pub what: String,
    /// Whether this is a delayed step or a second copy that arrives now.
    pub late: bool,
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let late = if self.late { " (late)" } else { "" };
        write!(f, "step {}{late}, plan {}, {:?}: {}", self.number, self.plan, self.part, self.what)
    }
}

/// A call that reads one row, or that finds the next row of a [`Store::scan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub call: &'static str,
    pub table: &'static str,
    /// The requested row; in a scan the last row so far, empty at first.
    pub row: RowKey,
}

/// The fault at a step.
///
/// Whatever the caller's answer is, the rest of its plan runs only if there is none.
///
/// | fault | the step | the caller | the store |
/// |---|---|---|---|
/// | `Stop` | is never done | `Unknown` | stops |
/// | `StopAfter` | is done | `Unknown` | stops |
/// | `Lose` | is never done | `Unknown` | lives |
/// | `LoseAnswer` | is done | `Unknown` | lives |
/// | `Delay` | waits for [`Stepwise::deliver`](super::Stepwise::deliver) | `finish`: nothing; else `Unknown` | lives |
/// | `DelayAndStop` | waits for [`Stepwise::deliver`](super::Stepwise::deliver) | `Unknown` | stops |
/// | `Slow` | is done a little later | nothing | lives |
/// | `Twice` | is done, and again at [`Stepwise::deliver`](super::Stepwise::deliver) | nothing | lives |
/// | `Fill` | is never done | `Unknown`, full | lives, and reports that it waits for free space |
/// | `EndWrites` | is done | `Unknown` | lives for reads; takes no plan any more |
///
/// A read can be stopped, lost (it fails) and delayed; every other fault acts on it like one of these.
///
/// A delayed step of `prepare` in a table without immutable cells, and delayed `guarded` rows, arrive only if none of
/// their rows was written meanwhile: engines compare and set. For the same reason they never arrive twice: there
/// `Twice` does nothing. Checks are evaluated when the step is delayed: an engine sends no write whose checks fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Stop,
    StopAfter,
    Lose,
    LoseAnswer,
    Delay,
    DelayAndStop,
    Twice,
    Slow,
    Fill,
    EndWrites,
}

/// When the steps of `finish` without a fault of their own are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    #[default]
    Now,
    /// Now, and again at [`Stepwise::deliver`](super::Stepwise::deliver).
    Twice,
    /// Not before [`Stepwise::deliver`](super::Stepwise::deliver).
    Delayed,
}

/// The rows of a write, and its checks and changes as text.
pub fn described(write: &Plan) -> (Vec<(&'static str, RowKey)>, String) {
    let change = |change: &Change| match change {
        Change::Put { family, qualifier, value } => {
            format!("put {family}:{} ({} bytes)", qualifier.escape_ascii(), value.len())
        }
        Change::Delete { family, qualifier } => format!("delete {family}:{}", qualifier.escape_ascii()),
        Change::DeleteFamily { family } => format!("delete {family}"),
        Change::Add { family, qualifier, amount } => format!("add {amount} to {family}:{}", qualifier.escape_ascii()),
    };
    let check = |check: &Check| match check {
        Check::Absent(c) => format!("if absent {}:{}", c.family, c.qualifier.escape_ascii()),
        Check::Equals(c, _) => format!("if equal {}:{}", c.family, c.qualifier.escape_ascii()),
        Check::FamilyEmpty(family) => format!("if empty {family}"),
        Check::AtMost(c, limit) => format!("if {}:{} at most {limit}", c.family, c.qualifier.escape_ascii()),
    };
    let mut rows = Vec::new();
    let mut parts = Vec::new();
    for guarded in &write.guarded {
        rows.push((guarded.table, guarded.row.clone()));
        let what: Vec<_> = guarded.checks.iter().map(check).chain(guarded.changes.iter().map(change)).collect();
        parts.push(format!("{} {}: {}", guarded.table, guarded.row.escape_ascii(), what.join(", ")));
    }
    for row in write.prepare.iter().chain(&write.finish) {
        rows.push((row.table, row.row.clone()));
        let what: Vec<_> = row.changes.iter().map(change).collect();
        parts.push(format!("{} {}: {}", row.table, row.row.escape_ascii(), what.join(", ")));
    }
    (rows, parts.join("; "))
}
