//! What a transfer does with a file if its target has a file of this name: one rule for import and export.

use super::stats::{TransferNote, TransferStats};

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The target has this content, with this time.
    Present,
    /// The target has another file of this name, which is not replaced.
    Skip,
    Transfer,
}

/// Decides on a file. `is_same`: whether the target's file of this name has this content, with this time; none if there
/// is no file of this name. `overwrite`: whether a file with other content is replaced.
pub fn decide(is_same: Option<bool>, overwrite: bool) -> Decision {
    match is_same {
        Some(true) => Decision::Present,
        Some(false) if !overwrite => Decision::Skip,
        _ => Decision::Transfer,
    }
}

/// What a target has in the place of a file, if it is a file too.
pub const OTHER_FILE: &str = "another file";

/// Names the file `shown` as one that is not transferred, since `target`, in words, has `what` of this name.
pub fn note_left(stats: &TransferStats, shown: &str, target: &str, what: &str) {
    let text = format!("{shown}: {target} has {what} of this name, which is left as it is");
    stats.note(TransferNote::Skipped, text);
}
