//! The protocol on paper: a model of directory moves and recursive deletes among all other operations, checked in
//! all states of small scenarios. It is a document of its own and shares no code with the program: read it to learn
//! the protocol, change it first to change the protocol. `make test` runs its short form in half a minute
//! (`cargo test --test model`); `-- --ignored` adds larger trees.
//!
//! - [`tree`]: what users ask for, and the specification: a plain tree
//! - [`store`]: rows, records and marks; one row's `get` and a plan's `commit` are atomic, nothing else is
//! - [`io`]: how an actor's code runs one store call at a time, and which faults a call may have
//! - [`locks`]: rows that an operation locks: reading them, writing there, step 5 and the undo
//! - [`subtree`]: the steps 1 to 4; [`writers`]: operations of one plan; [`readers`]: a listing, a query
//! - [`scenario`]: the actors, their requests, and what may go wrong; [`scenarios`]: all of them
//! - [`state_space`]: the states of a scenario, and the properties
//! - [`outcomes`]: the answers of two users in small scenarios, and the tree they leave; the program must match
//! - [`outcomes_reached`]: the model reaches these outcomes and no others
//! - [`correct_protocol`]: the properties hold; [`bugs`], [`bugs_found`]: without a guard they do not
//!
//! Every transition is one store call, so an actor that pauses, for ever or not, takes none: that everything
//! can be resolved is checked in every state. There are two forms. **Embedded**: one process, whose records
//! no other undoes while it lives; after a crash, start-up resolves them while the first requests arrive. A
//! write of unknown fate is its last, and may be replayed by the log. **Cluster**: many processes; a lease may
//! end while its owner still works, and a write of unknown fate may come at any later time.
//!
//! What is left out: `prepare` and `finish` of a plan are part of its instant (the stepwise store of the other
//! tests takes them apart), a listing is one page, and the scan of keys reads its few rows at one instant.

// Functions that tests share fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bugs;
mod bugs_found;
mod correct_protocol;
mod io;
mod locks;
mod outcomes;
mod outcomes_reached;
mod readers;
mod scenario;
mod scenarios;
mod state_space;
mod store;
mod subtree;
mod tree;
mod writers;
