//! The states that a drive may have after a sequence of answered and unanswered operations.

use reqwest::StatusCode;

use crate::drive::model::{Op, OpError, View};

/// The knowledge about a drive, or about a folder that only one client uses.
pub struct Oracle {
    /// One view, or several while the outcome of an operation is unknown.
    views: Vec<View>,
    pub acknowledged: usize,
    /// Operations without an answer, or with one that leaves the outcome open.
    pub unknown: usize,
}

impl Oracle {
    pub fn new(view: View) -> Self {
        Self { views: vec![view], acknowledged: 0, unknown: 0 }
    }

    /// Records an operation and its answer; `None`: there was no complete answer.
    pub fn record(&mut self, op: Op, answer: Option<StatusCode>) {
        let before = std::mem::take(&mut self.views);
        let done = before.iter().filter_map(|view| view.after(op).ok());
        let mut after: Vec<View> = match answer {
            Some(status) if status.is_success() => {
                self.acknowledged += 1;
                done.collect()
            }
            // A write that was refused because of a full disk leaves nothing.
            Some(StatusCode::INSUFFICIENT_STORAGE) => before.clone(),
            Some(status) if !status.is_server_error() => {
                let refuses = |view: &&View| view.after(op).err().is_some_and(|no| refusal(no) == status);
                before.iter().filter(refuses).cloned().collect()
            }
            Some(_) | None => {
                self.unknown += 1;
                before.iter().cloned().chain(done).collect()
            }
        };
        assert!(!after.is_empty(), "{op:?} answers {answer:?} on {before:#?}");
        let all = std::mem::take(&mut after);
        all.into_iter().for_each(|view| {
            if !after.contains(&view) {
                after.push(view);
            }
        });
        self.views = after;
    }

    /// One of the possible views.
    pub fn view(&self) -> &View {
        &self.views[0]
    }

    /// Returns an error if the view is none of the possible ones.
    pub fn allows(&self, seen: &View) -> Result<(), String> {
        if self.views.contains(seen) {
            return Ok(());
        }
        let all: Vec<String> = self.views.iter().map(|view| difference(view, seen)).collect();
        Err(format!("the drive is none of {} possible ones: {}", all.len(), all.join("; or ")))
    }

    /// Like [`allows`](Self::allows), and the view becomes the known one. Only right after a restart: before it, an
    /// operation of unknown outcome may still take effect.
    pub fn observe(&mut self, seen: View) -> Result<(), String> {
        self.allows(&seen)?;
        self.views = vec![seen];
        Ok(())
    }
}

fn refusal(no: OpError) -> StatusCode {
    match no {
        OpError::NotFound => StatusCode::NOT_FOUND,
        OpError::Conflict => StatusCode::CONFLICT,
        OpError::Precondition => StatusCode::PRECONDITION_FAILED,
        other => panic!("{other:?} is no answer of the model"),
    }
}

/// The files that are missing in `seen`, and those that should not be there.
pub fn difference(known: &View, seen: &View) -> String {
    let files = |of: &View, other: &View| -> Vec<String> {
        let differs = of.files.iter().filter(|(path, size)| other.files.get(*path) != Some(size));
        differs.map(|(path, size)| format!("{path} of {size} bytes")).collect()
    };
    let (lost, more) = (files(known, seen), files(seen, known));
    let lost_dirs: Vec<_> = known.dirs.difference(&seen.dirs).collect();
    let more_dirs: Vec<_> = seen.dirs.difference(&known.dirs).collect();
    format!("missing {lost:?} {lost_dirs:?}, too much {more:?} {more_dirs:?}")
}

/// The part of a view in this folder, including the folder.
pub fn within(view: &View, folder: &str) -> View {
    let inside = |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    View {
        dirs: view.dirs.iter().filter(|path| inside(path)).cloned().collect(),
        files: view.files.iter().filter(|(path, _)| inside(path)).map(|(path, size)| (path.clone(), *size)).collect(),
    }
}

#[test]
fn the_oracle_keeps_every_possible_outcome_until_one_is_observed() {
    let (put, gone) = (Op::Put("/f", 1), Op::Delete("/f"));
    let mut oracle = Oracle::new(View::default());
    oracle.record(put, Some(StatusCode::CREATED));
    oracle.record(gone, None);
    oracle.record(Op::Put("/g", 2), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!((oracle.views.len(), oracle.acknowledged, oracle.unknown), (4, 1, 2));
    let both = View::default().after(put).unwrap().after(Op::Put("/g", 2)).unwrap();
    assert_eq!(oracle.observe(both.clone()), Ok(()));
    assert!(oracle.allows(&View::default()).unwrap_err().contains("missing [\"/f of 1 bytes\", \"/g of 2 bytes\"]"));
    assert_eq!(within(&both, "/f").files.len(), 1);
    assert_eq!(within(&both, "/").files.len(), 0);
}
