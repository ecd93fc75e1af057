//! Tests that all properties hold in every state of scenarios.

use stateright::{Checker, Model};

use crate::scenario::Scenario;

pub fn holds(scene: Scenario) {
    let run = scene.checker().spawn_bfs().join();
    println!("{} states", run.unique_state_count());
    run.assert_properties();
}

/// One test for each of these scenarios of a module, after the change `$how`.
macro_rules! hold {
    ($scenarios:ident, $form:ident, |$scene:ident| $how:expr; $($scenario:ident)*) => {
        mod $form {
            $(
                #[test]
                fn $scenario() {
                    let $scene = crate::$scenarios::$scenario();
                    crate::hold::holds($how);
                }
            )*
        }
    };
}

pub(crate) use hold;
