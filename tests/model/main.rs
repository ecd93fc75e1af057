//! A model of the operations on subtrees: moving a directory and deleting one, among everybody else, checked in
//! all states of small scenarios.
//!
//! - [`tree`]: what users ask for, and the specification: a plain tree
//! - [`store`]: rows, records and marks; one row's `get` and a plan's `commit` are atomic, nothing else is
//! - [`io`]: how an actor's code runs one store call at a time, and what may go wrong with a call
//! - [`held`]: rows that an operation holds: reading them, writing there, settling, step 5 and the undo
//! - [`subtree`]: the steps 1 to 4; [`writers`]: everybody with one plan; [`readers`]: a listing, a hint
//! - [`scenario`]: who acts, on what, and what may go wrong; [`scenarios`]: all of them
//! - [`model`]: the states of a scenario, and the properties
//! - [`outcomes`]: what two users are told in small scenarios, and what they leave; the program is held to it, too
//! - [`reached`]: the model reaches these outcomes and no others
//! - [`clean`]: the properties hold; [`bugs`], [`seeded`]: without a guard they do not
//!
//! Every transition is one store call, so an actor that pauses, for ever or not, takes none: that everything
//! can be settled is checked in every state. There are two forms. **Embedded**: one process, whose records
//! nobody else undoes while it lives; after a crash, start-up settles them while the first requests come in. A
//! write of unknown fate is its last, and may be replayed by the log. **Cluster**: many processes; a lease may
//! end while its owner still works, and a write of unknown fate may come at any later time.
//!
//! What is left out: `prepare` and `finish` of a plan are part of its instant (the stepwise store of the other
//! tests takes them apart), a listing is one page, and the scan of keys reads its few rows at one instant.
//!
//! `cargo test --test model` takes half a minute; with `-- --ignored`, some more.

// Functions that tests share fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bugs;
mod clean;
mod held;
mod io;
mod model;
mod outcomes;
mod reached;
mod readers;
mod scenario;
mod scenarios;
mod seeded;
mod store;
mod subtree;
mod tree;
mod writers;
