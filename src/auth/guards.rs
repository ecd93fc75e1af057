//! Rows of a plan that only guard a decision. A plan names a row once, so their checks are added to the row that
//! changes, if it is the same one.

use crate::table::{ConditionalRow, Plan};

/// Adds a row to the guarded rows of a plan.
pub fn add(rows: &mut Vec<ConditionalRow>, more: ConditionalRow) {
    let same = rows.iter_mut().find(|row| row.table == more.table && row.row == more.row);
    let Some(row) = same else { return rows.push(more) };
    for check in more.checks {
        if !row.checks.contains(&check) {
            row.checks.push(check);
        }
    }
    row.changes.extend(more.changes);
}

/// As [`add`], and puts the row behind all others: its new checks are the last ones of the plan.
pub fn add_last(rows: &mut Vec<ConditionalRow>, more: ConditionalRow) {
    let same = rows.iter().position(|row| row.table == more.table && row.row == more.row);
    let mut last: Vec<_> = same.map(|at| rows.remove(at)).into_iter().collect();
    add(&mut last, more);
    rows.append(&mut last);
}

/// Adds rows to the guarded rows of a plan.
pub fn add_all(plan: &mut Plan, rows: impl IntoIterator<Item = ConditionalRow>) {
    rows.into_iter().for_each(|row| add(&mut plan.guarded, row));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Change, Check, Column};

    fn row(key: &'static [u8], check: &'static [u8], changes: Vec<Change>) -> ConditionalRow {
        ConditionalRow { table: "t", row: key.into(), checks: vec![Check::Absent(Column::new("cf", check))], changes }
    }

    #[test]
    fn a_row_is_named_once_with_all_its_checks() {
        let change = Change::delete("cf", "x");
        let mut plan = Plan { guarded: vec![row(b"a", b"1", vec![change.clone()])], ..Plan::default() };
        add_all(&mut plan, [row(b"b", b"1", vec![]), row(b"a", b"2", vec![]), row(b"a", b"1", vec![])]);
        let both = [b"1", b"2"].map(|q| Check::Absent(Column::new("cf", q.as_slice()))).to_vec();
        let first = ConditionalRow { checks: both, ..row(b"a", b"1", vec![change]) };
        assert_eq!(plan.guarded, [first.clone(), row(b"b", b"1", vec![])]);
        add_last(&mut plan.guarded, row(b"a", b"3", vec![]));
        let all = [b"1", b"2", b"3"].map(|q| Check::Absent(Column::new("cf", q.as_slice()))).to_vec();
        assert_eq!(plan.guarded, [row(b"b", b"1", vec![]), ConditionalRow { checks: all, ..first }]);
        add_last(&mut plan.guarded, row(b"c", b"1", vec![]));
        assert_eq!(plan.guarded.last(), Some(&row(b"c", b"1", vec![])));
    }
}
