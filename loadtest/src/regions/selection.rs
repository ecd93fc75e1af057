//! Which loads, remedies and splits are worth a line for which table.

use super::keys::{Keyed, Table};
use super::loads::Load;
use super::measure::Case;
use super::remedies::Remedy;
use super::splits::Splitting;

pub const LOADS: [Load; 8] = [
    Load::OneTree,
    Load::Users(8),
    Load::Users(64),
    Load::NewUsers,
    Load::JustModified,
    Load::Reads(0.8),
    Load::Reads(0.99),
    Load::Reads(1.2),
];

const BOTH: &[Splitting] = &[Splitting::Quantiles, Splitting::Even];
const QUANTILES: &[Splitting] = &[Splitting::Quantiles];

const SALTS: &[Remedy] = &[Remedy::Salt(1), Remedy::Salt(4), Remedy::Salt(16)];
const SALT: &[Remedy] = &[Remedy::Salt(16)];

/// The cases of a layout under a load; none if the load says nothing new of it.
pub fn cases(load: Load, layout: Keyed) -> Vec<Case> {
    let mut cases = Vec::new();
    for table in tables(load, layout) {
        let splittings = if matches!(load, Load::Reads(_) | Load::Users(8)) { QUANTILES } else { BOTH };
        push(&mut cases, *table, &[Remedy::None], splittings);
        for (remedies, splittings) in remedies(load, layout, *table) {
            push(&mut cases, *table, remedies, splittings);
        }
    }
    cases
}

fn push(cases: &mut Vec<Case>, table: Table, remedies: &[Remedy], splittings: &[Splitting]) {
    for remedy in remedies {
        cases.extend(splittings.iter().map(|splitting| Case { table, remedy: *remedy, splitting: *splitting }));
    }
}

fn tables(load: Load, layout: Keyed) -> &'static [Table] {
    match (load, layout) {
        (Load::Reads(_), _) => layout.tables_read(),
        // Only these two have a time in their keys.
        (Load::JustModified, Keyed::Uuid) => &[Table::Time, Table::Owner],
        (Load::JustModified, _) => &[],
        _ => layout.tables(),
    }
}

type Remedies = Vec<(&'static [Remedy], &'static [Splitting])>;

/// Remedies for the tables that the load makes hot, and those that others would be tempted to try.
fn remedies(load: Load, layout: Keyed, table: Table) -> Remedies {
    use Remedy::{Ascending, CreatorForward, Hash, HashFolder, Reverse};
    match (load, layout, table) {
        (Load::OneTree, Keyed::RowkeyId, _) => vec![(SALTS, BOTH), (&[Hash, Reverse], BOTH)],
        (Load::OneTree, Keyed::FullPath, _) => vec![(SALTS, BOTH), (&[Hash, HashFolder, Reverse], BOTH)],
        (Load::OneTree, Keyed::DiridName, Table::File) => vec![(SALT, BOTH), (&[HashFolder, Reverse], BOTH)],
        (Load::OneTree, Keyed::Uuid, Table::Dir) => vec![(SALT, BOTH), (&[Hash, HashFolder, Reverse], BOTH)],
        (Load::OneTree, Keyed::Name, _) => vec![(SALT, BOTH), (&[Hash], BOTH)],
        (Load::JustModified, Keyed::Uuid, Table::Time) => {
            vec![(&[Ascending], BOTH), (SALTS, BOTH), (&[Hash], QUANTILES)]
        }
        (Load::JustModified, Keyed::Uuid, Table::Owner) => vec![(&[Ascending], QUANTILES), (SALT, BOTH)],
        (Load::NewUsers | Load::Users(_), Keyed::Uuid, Table::Owner) => vec![(&[CreatorForward], BOTH)],
        (Load::NewUsers, Keyed::FullPath, _) | (Load::NewUsers, Keyed::Uuid, Table::Dir) => {
            vec![(SALT, BOTH), (&[HashFolder], QUANTILES)]
        }
        (Load::Users(64), Keyed::FullPath, _) | (Load::Users(64), Keyed::Uuid, Table::Dir) => {
            vec![(SALT, QUANTILES), (&[HashFolder], QUANTILES)]
        }
        (Load::Reads(_), Keyed::FullPath, _) | (Load::Reads(_), Keyed::Uuid, Table::Dir) => {
            vec![(SALT, QUANTILES), (&[Hash], QUANTILES)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_case_comes_twice_and_there_are_not_too_many() {
        let mut count = 0;
        for load in LOADS {
            for layout in Keyed::ALL {
                let cases = cases(load, layout);
                assert!(cases.iter().enumerate().all(|(at, case)| !cases[..at].contains(case)), "{load:?} {layout:?}");
                count += cases.len();
            }
        }
        assert!((100..=200).contains(&count), "{count}");
    }
}
