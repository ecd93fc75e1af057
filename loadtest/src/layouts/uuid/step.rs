//! The steps from the worked example's tables to the drive's, one addition each.

/// What a step adds to the tables of the worked example.
pub trait Step: Clone + Send + Sync + 'static {
    const NAME: &'static str;
    /// Whether `sub:f_<name>` has a copy of the file's attributes beside its UUID.
    const COPIES: bool;
    /// Whether there are rows by time, creator and name, and what finds a path from them: the position in the file row
    /// and the row of each directory's parent.
    const INDEXES: bool;
}

/// The tables of the worked example: `sub:f_<name>` is the file's UUID, and the attributes are in the file table alone.
#[derive(Clone)]
pub struct Bare;

impl Step for Bare {
    const NAME: &'static str = "uuid-bare";
    const COPIES: bool = false;
    const INDEXES: bool = false;
}

/// With attributes copied into the directory table, so that a list reads one row.
#[derive(Clone)]
pub struct Copied;

impl Step for Copied {
    const NAME: &'static str = "uuid-copied";
    const COPIES: bool = true;
    const INDEXES: bool = false;
}

/// With the indexes too: the drive's tables.
#[derive(Clone)]
pub struct Indexed;

impl Step for Indexed {
    const NAME: &'static str = "uuid";
    const COPIES: bool = true;
    const INDEXES: bool = true;
}
