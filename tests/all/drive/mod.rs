//! The drive on a store that does every plan step by step, held to a model.
//!
//! - `fixture`: a drive to work with, one to watch it with, and what a watcher sees
//! - `model`: what each operation does, in the plainest terms
//! - `protocol_model`: the outcomes of small scenarios are those that the model of the protocol reaches
//! - `steps`: every step of every operation stopped, lost, held and doubled
//! - `races_at_every_call`: every operation before every call of every other, reads included
//! - `cleanup_races`: two operations while the clean-up of a third is stopped before each of its calls
//! - `caches`: caches and shortcuts never make an answer wrong
//! - `races`: every operation in the middle of every other
//! - `interleavings`: two operations, both half done at once
//! - `paused`: an operation that stops where a test wants it to
//! - `query_races`: changes in the middle of listings, time queries and finds
//! - `index_races`: new versions, new names and moved folders in the middle of one page of a query
//! - `time_query_plans`: files of a period below a folder, held to a full scan
//! - `cleanup`: clean-up that goes on after errors, and stops when the drive is closed
//! - `damage`: content that differs from its entry
//! - `locked_rows`: rows that a subtree operation has locked

mod caches;
mod cleanup;
mod cleanup_races;
mod damage;
pub mod fixture;
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
