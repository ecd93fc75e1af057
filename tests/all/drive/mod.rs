//! The drive on a store that executes every plan step by step, compared with a model.
//!
//! - `fixture`: a drive under test, a second handle to watch it, and the view of a watcher
//! - `model`: the effect of each operation on a plain tree
//! - `protocol_model`: the outcomes of small scenarios are those that the model of the protocol reaches
//! - `steps`: every step of every operation stopped, lost, delayed and repeated
//! - `races_at_every_call`: every operation before every call of every other, reads included
//! - `cleanup_races`: two operations while the clean-up of a third is stopped before each of its calls
//! - `caches`: caches and shortcuts never make an answer wrong
//! - `races`: every operation in the middle of every other
//! - `interleavings`: two operations, both half done at once
//! - `paused`: an operation that stops at a point that the test chooses
//! - `query_races`: changes in the middle of listings, time queries and finds
//! - `index_races`: new versions, new names and moved folders in the middle of one page of a query
//! - `time_query_plans`: files of a period below a folder, compared with a full scan
//! - `folder_keys`: the same by keys of the folder that are in memory
//! - `cleanup`: clean-up that continues after errors, and stops when the drive is closed
//! - `damage`: content that differs from its entry
//! - `locked_rows`: rows that a subtree operation has locked
//! - `usage`: what each creator has is counted

mod caches;
mod cleanup;
mod cleanup_races;
mod damage;
mod exact_rows;
pub mod fixture;
mod folder_keys;
mod index_races;
mod interleavings;
mod locked_rows;
pub mod model;
mod paused;
mod protocol_model;
mod query_races;
mod races;
mod races_at_every_call;
mod steps;
mod time_query_plans;
pub mod usage;
