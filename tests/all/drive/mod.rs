//! The drive on a store that does every plan step by step, held to a model.
//!
//! - `world`: a drive to work with, one to watch it with, and what a watcher sees
//! - `model`: what each operation does, in the plainest terms
//! - `modelled`: the outcomes of small scenarios are those that the model of the protocol reaches
//! - `steps`: every step of every operation stopped, lost, held and doubled
//! - `rivals`: every operation before every call of every other, reads included
//! - `behind`: two operations while the clean-up of a third is stopped before each of its calls
//! - `shortcuts`: what makes an answer fast is not used where it would make it wrong
//! - `races`: every operation in the middle of every other
//! - `crossing`: two operations, both half done at once
//! - `paused`: an operation that stops where a test wants it to
//! - `queries`: changes in the middle of listings, time queries and finds
//! - `replaced`: new versions, new names and moved folders in the middle of one page of a query
//! - `periods`: files of a period below a folder, held to a full scan
//! - `background`: clean-up that goes on after errors, and stops when the drive is closed
//! - `damage`: content that is not what its entry says
//! - `held`: rows that an operation on a subtree holds

mod background;
mod behind;
mod crossing;
mod damage;
mod held;
pub mod model;
mod modelled;
mod paused;
mod periods;
mod queries;
mod races;
mod replaced;
mod rivals;
mod shortcuts;
mod steps;
pub mod world;
