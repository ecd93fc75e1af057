//! Which files a query may return, by the directories that they are in.

use std::collections::HashSet;
use std::sync::Arc;

use crate::schema::DirId;

/// The directories whose files a query may return, each with all that is below it. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All.
    Everything,
    /// This one.
    Below(DirId),
    /// These.
    BelowAny(Arc<HashSet<DirId>>),
}

impl Scope {
    /// This directory; the root means everything.
    pub fn below(dir: DirId) -> Self {
        if dir == DirId::ROOT { Self::Everything } else { Self::Below(dir) }
    }

    pub fn is_everything(&self) -> bool {
        matches!(self, Self::Everything)
    }

    /// Whether it names this directory, without regard to those above it.
    pub fn names(&self, dir: DirId) -> bool {
        match self {
            Self::Everything => true,
            Self::Below(scope) => *scope == dir,
            Self::BelowAny(scopes) => scopes.contains(&dir),
        }
    }
}
