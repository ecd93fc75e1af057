//! The JSON of rights, and their words.

use serde::{Deserialize, Serialize};

/// A right. `write` and `share` include `read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RightJson {
    /// To see and download what is there.
    Read,
    /// To add, replace, move and delete what is in it.
    Write,
    /// To give rights to other users, and to make shares.
    Share,
}

/// Rights, as `read,write`.
pub fn in_words(rights: &[RightJson]) -> String {
    let word = |right: &RightJson| match right {
        RightJson::Read => "read",
        RightJson::Write => "write",
        RightJson::Share => "share",
    };
    rights.iter().map(word).collect::<Vec<_>>().join(",")
}
