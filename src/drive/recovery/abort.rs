//! What is not committed and never will be: aborted first, then its marks go, then its record.

use super::batch::Batch;
use super::forget;
use crate::drive::{Drive, Result};
use crate::schema::dir::{self, State};
use crate::schema::op::{self, Kind, Phase, What};
use crate::schema::{CF, DrivePath, OpId};
use crate::table::{Ask, Outcome, Plan};

impl Drive {
    /// Prepared to aborted. What it is then: the record may have been committed meanwhile, or be gone.
    pub(in crate::drive) async fn abort(&self, id: OpId) -> Result<Option<Phase>> {
        let guarded = vec![op::decide(id, Phase::Aborted)];
        match self.inner.tables.commit(Plan { guarded, reserve: true, ..Plan::default() }).await? {
            Outcome::Committed => Ok(Some(Phase::Aborted)),
            Outcome::Refused(_) => Ok(self.record(id).await?.map(|(phase, _)| phase)),
        }
    }

    /// Takes the mark off one row of an operation that is aborted or gone, or removes the row if it was staged.
    pub(in crate::drive) async fn clear(&self, path: &DrivePath, state: State) -> Result<()> {
        let mut batch = Batch::new(self);
        batch.add(state.clear(path));
        batch.commit().await.map(|_| ())
    }

    pub(in crate::drive) async fn undo_operation(&self, id: OpId, what: &What) -> Result<()> {
        if self.abort(id).await? == Some(Phase::Committed) {
            return self.finish_operation(id, what).await;
        }
        let mut roots = vec![&what.from];
        if let Kind::Move { to } = &what.kind {
            roots.push(to);
        }
        let marks = [State::Closed(id), State::Staged(id)].map(|state| (state.encode(), state));
        for root in roots {
            let mut keys = self.keys(root, Ask::cells(vec![dir::state_column()]));
            while let Some(rows) = keys.next(self).await? {
                self.inner.background.go_on()?;
                let mut batch = Batch::new(self);
                for (key, row) in &rows {
                    let mine = marks.iter().find(|(mark, _)| row.get(CF, dir::STATE) == Some(mark));
                    if let Some((_, state)) = mine {
                        batch.add(state.clear(&DrivePath::from_key(key)?));
                    }
                }
                batch.commit().await?;
            }
        }
        self.inner.tables.commit(forget(id)).await?;
        self.inner.metrics.ended(what, false);
        Ok(())
    }
}
