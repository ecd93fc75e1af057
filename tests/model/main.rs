//! A model of the protocol of subtree operations: directory moves and recursive deletes among all other operations,
//! and of the rights of users, checked in all states of small scenarios. It shares no code with the program: read it to
//! learn the protocol, and change it first to change the protocol. `make test` runs its short form in half a minute
//! (`cargo test --test model`); `-- --ignored` adds larger trees.
//!
//! - [`tree`]: the requests of users, and the specification: a plain tree
//! - [`store`]: rows, records and locks; a `get` of one row and the `commit` of a plan are atomic, nothing else is
//! - [`io`]: how an actor's code runs one store call at a time, and which faults a call may have
//! - [`locks`]: locked rows: how they are read, how writers clear them, step 5 and the rollback
//! - [`subtree`]: steps 1 to 4; [`writers`]: operations of one plan; [`readers`]: a listing, a query
//! - [`rights`]: who may do what, and what a decision guards; [`accounts`]: changes of users and their grants
//! - [`scenario`]: the actors, their requests, and the possible faults; [`scenarios`], [`scenarios_of_rights`]: all
//!   scenarios
//! - [`state_space`]: the states of a scenario, and the properties
//! - [`outcomes`]: the answers of two users in small scenarios, and the resulting tree; the program must match
//! - [`outcomes_reached`]: the model reaches these outcomes and no others
//! - [`correct_protocol`], [`correct_rights`]: the properties hold ([`hold`]); [`bugs`], [`bugs_found`]: without a guard they do not
//!
//! Every transition is one store call. An actor that pauses, perhaps for ever, takes no transition: so every state is
//! checked for whether all operations can be resolved from it. There are two forms. **Embedded**: one process, and
//! nobody else rolls back its records while it lives; after a crash, start-up resolves them while the first requests
//! arrive. A write of unknown outcome is the last of its process, and the log may replay it. **Cluster**: many
//! processes; a lease may end while its owner still works, and a write of unknown outcome may take effect at any later
//! time.
//!
//! The model simplifies: the `prepare` and `finish` rows of a plan change at the same instant as the others (the
//! stepwise store of the other tests takes them apart), a listing is one page, and the scan of keys reads its few rows
//! at one instant.

// Functions that tests share fail loudly, as `clippy.toml` allows it in the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod accounts;
mod bugs;
mod bugs_found;
mod correct_protocol;
mod correct_rights;
mod hold;
mod io;
mod locks;
mod outcomes;
mod outcomes_reached;
mod readers;
mod rights;
mod scenario;
mod scenarios;
mod scenarios_of_rights;
mod state_space;
mod store;
mod subtree;
mod tree;
mod writers;
