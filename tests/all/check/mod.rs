//! Each kind of damage is injected alone: a check finds and names it, and a repair mends what it can, without changing
//! any file that has a name.

mod command;
mod inject;

use std::path::Path;

use rowdrive::check::{CheckEvent, CheckOptions, CheckSummary, Finding, FindingKind, check};
use rowdrive::table::Tables;

use crate::drive::fixture::Fixture;
use crate::drive::model::Op;
use inject::{Damage, LARGE, inject_damage};

const SET_UP: &[Op] =
    &[Op::Put("/a/f", 5), Op::Put("/a/large", LARGE), Op::Put("/a/b/g", 6), Op::Mkdir("/c"), Op::Put("/h", 7)];

/// A check with all content.
pub async fn run(tables: &Tables, data: &Path, repair: bool) -> (CheckSummary, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut handle_event = |event: CheckEvent<'_>| {
        if let CheckEvent::Finding(finding) = event {
            findings.push(finding.clone());
        }
    };
    let options = CheckOptions { content: true, repair };
    let summary = check(tables, data, &options, &mut handle_event).await.unwrap();
    (summary, findings)
}

#[tokio::test]
async fn a_check_of_an_intact_drive_finds_nothing() {
    let fixture = Fixture::new(SET_UP).await;
    fixture.run(Op::Move("/a/b", "/c/b", false)).await.unwrap();
    fixture.run(Op::Move("/h", "/c/h", false)).await.unwrap();
    fixture.run(Op::Copy("/a/large", "/c/large", false)).await.unwrap();
    fixture.run(Op::Remove("/a")).await.unwrap();
    fixture.nothing_left_over().await;
}

/// The injected damage, the findings of a check (kind and path), and whether a repair mends all of them.
type DamageCase = (Damage, &'static [(FindingKind, &'static str)], bool);

/// The finding has no path.
const NOWHERE: &str = "";

const CASES: &[DamageCase] = &[
    (Damage::NoFileRow("/a/f"), &[(FindingKind::FileMissing, "/a/f")], false),
    (Damage::NoFileRow("/a/large"), &[(FindingKind::FileMissing, "/a/large")], false),
    (Damage::OtherFileRow("/a/f"), &[(FindingKind::FileDiffers, "/a/f")], false),
    (
        Damage::NoName("/a/f"),
        &[
            (FindingKind::StrayFile, NOWHERE),
            (FindingKind::StrayIndexEntry, NOWHERE),
            (FindingKind::UsageDiffers, NOWHERE),
        ],
        true,
    ),
    (
        Damage::NoName("/a/large"),
        &[
            (FindingKind::StrayFile, NOWHERE),
            (FindingKind::StrayIndexEntry, NOWHERE),
            (FindingKind::UsageDiffers, NOWHERE),
        ],
        true,
    ),
    (Damage::OldVersion("/a/f"), &[(FindingKind::StrayFile, NOWHERE)], true),
    (Damage::NoIndexRow("/a/f", "time"), &[(FindingKind::IndexEntryMissing, "/a/f")], true),
    (Damage::NoIndexRow("/a/b/g", "owner"), &[(FindingKind::IndexEntryMissing, "/a/b/g")], true),
    (Damage::NoIndexRow("/h", "name"), &[(FindingKind::IndexEntryMissing, "/h")], true),
    (
        Damage::OtherIndexRow("/h", "name"),
        &[(FindingKind::IndexEntryMissing, "/h"), (FindingKind::StrayIndexEntry, NOWHERE)],
        true,
    ),
    (Damage::StrayIndexRow("time"), &[(FindingKind::StrayIndexEntry, NOWHERE)], true),
    (Damage::StrayIndexRow("owner"), &[(FindingKind::StrayIndexEntry, NOWHERE)], true),
    (Damage::StrayIndexRow("name"), &[(FindingKind::StrayIndexEntry, NOWHERE)], true),
    (Damage::UnreadableIndexRow, &[(FindingKind::StrayIndexEntry, NOWHERE)], true),
    (Damage::NoInline("/a/f"), &[(FindingKind::ContentMissing, "/a/f")], false),
    (Damage::OtherInline("/a/f"), &[(FindingKind::ContentDamaged, "/a/f")], false),
    (Damage::NoContent("/a/large"), &[(FindingKind::ContentMissing, "/a/large")], false),
    (Damage::FlippedByte("/a/large", 10), &[(FindingKind::ContentDamaged, "/a/large")], false),
    (Damage::FlippedByte("/a/large", LARGE + 1), &[(FindingKind::ContentDamaged, "/a/large")], false),
    (Damage::CutContent("/a/large"), &[(FindingKind::ContentDamaged, "/a/large")], false),
    (Damage::StrayContent, &[(FindingKind::StrayContent, NOWHERE)], true),
    (Damage::Foreign, &[(FindingKind::ForeignFile, NOWHERE)], false),
    (Damage::Condemned("/a/large"), &[(FindingKind::ContentPendingUnlink, "/a/large")], true),
    (Damage::NoLink("/a/b"), &[(FindingKind::DirParent, "/a/b")], true),
    (Damage::OtherLink("/a/b"), &[(FindingKind::DirParent, "/a/b")], true),
    (Damage::StrayLink, &[(FindingKind::StrayDirParent, NOWHERE)], true),
    (Damage::DeadMark("/a/b"), &[(FindingKind::OrphanedLock, "/a/b")], true),
    (Damage::DeadStaged("/c/new"), &[(FindingKind::OrphanedLock, NOWHERE)], true),
    (Damage::StrayDirectory("/c/new"), &[(FindingKind::StrayDirectory, NOWHERE)], true),
    (
        Damage::NoName("/a/b"),
        &[
            (FindingKind::StrayDirectory, NOWHERE),
            (FindingKind::StrayFile, NOWHERE),
            (FindingKind::StrayIndexEntry, NOWHERE),
            (FindingKind::StrayDirParent, NOWHERE),
            (FindingKind::UsageDiffers, NOWHERE),
        ],
        true,
    ),
    (
        Damage::NoDirectoryRow("/a/b"),
        &[
            (FindingKind::DirectoryMissing, "/a/b"),
            (FindingKind::StrayFile, NOWHERE),
            (FindingKind::StrayIndexEntry, NOWHERE),
            (FindingKind::StrayDirParent, NOWHERE),
        ],
        false,
    ),
    (
        Damage::OtherDirectory("/c"),
        &[(FindingKind::DirectoryDiffers, "/c"), (FindingKind::UsageDiffers, NOWHERE)],
        false,
    ),
    (
        Damage::SameId("/c", "/a/b"),
        &[
            (FindingKind::SameId, "/c"),
            (FindingKind::DirParent, "/c"),
            (FindingKind::StrayDirParent, NOWHERE),
            (FindingKind::StrayFile, NOWHERE),
            (FindingKind::StrayIndexEntry, NOWHERE),
        ],
        false,
    ),
    (Damage::SameName("/a/f"), &[(FindingKind::SameName, "/a/f"), (FindingKind::DirectoryMissing, "/a/f")], false),
    (Damage::UnreadableEntry("/a"), &[(FindingKind::Unreadable, "/a")], false),
    (Damage::UnreadableName("/a"), &[(FindingKind::Unreadable, "/a")], false),
    (Damage::BadKey, &[(FindingKind::Unreadable, NOWHERE)], false),
    (
        Damage::SecondName("/a/f", "/c/f"),
        &[
            (FindingKind::FileDiffers, "/c/f"),
            (FindingKind::IndexEntryMissing, "/c/f"),
            (FindingKind::UsageDiffers, NOWHERE),
        ],
        false,
    ),
];

#[tokio::test]
async fn a_check_finds_and_names_each_injected_damage() {
    for (damage, expected, mended) in CASES {
        let fixture = Fixture::new(SET_UP).await;
        inject_damage(&fixture, *damage).await;
        let (summary, findings) = fixture.check(false).await;
        let mut seen: Vec<_> = findings.iter().map(|f| (f.kind, f.path.clone().unwrap_or_default())).collect();
        seen.dedup();
        let wanted: Vec<_> = expected.iter().map(|(kind, path)| (*kind, (*path).to_owned())).collect();
        let all =
            |of: &[(FindingKind, String)], others: &[(FindingKind, String)]| of.iter().all(|one| others.contains(one));
        assert!(all(&seen, &wanted) && all(&wanted, &seen), "{damage:?}: {findings:#?}");
        assert!(!summary.is_right() && summary.repaired == 0, "{damage:?}: {summary:?}");
        assert!(findings.iter().all(|f| !f.row.is_empty() && !f.detail.is_empty()), "{damage:?}: {findings:#?}");
        mend(&fixture, *damage, *mended).await;
    }
}

/// After a repair every file is as before, except files without a name.
async fn mend(fixture: &Fixture, damage: Damage, mended: bool) {
    let (before, found) = (inject::listed(fixture).await, inject::found(fixture).await);
    let (summary, findings) = fixture.check(true).await;
    assert_eq!(summary.is_right(), mended, "{damage:?}: {findings:#?}");
    assert_eq!(inject::listed(fixture).await, before, "{damage:?}");
    assert!(mended || inject::found(fixture).await == found, "{damage:?}: files are found elsewhere: {findings:#?}");
    let (summary, findings) = fixture.check(false).await;
    assert_eq!((summary.wrong, summary.strays) == (0, 0), mended, "{damage:?}, repaired: {findings:#?}");
    if mended {
        // Indexes and tree agree in every kind of read.
        fixture.view().await;
        // The saved file has the content of the removed one.
        inject::saved(fixture, damage);
    }
}

/// Below a damaged tree nothing is removed: a row that looks stray may belong to a lost row.
#[tokio::test]
async fn a_repair_removes_nothing_below_a_damaged_tree() {
    for damage in [Damage::NoDirectoryRow("/a/b"), Damage::UnreadableEntry("/a"), Damage::BadKey] {
        let fixture = Fixture::new(SET_UP).await;
        inject_damage(&fixture, damage).await;
        inject_damage(&fixture, Damage::NoName("/h")).await;
        let rows = fixture.rows().await;
        let (summary, findings) = fixture.check(true).await;
        assert!(summary.strays > 0 && summary.repaired == 0, "{damage:?}: {findings:#?}");
        assert_eq!(fixture.rows().await, rows, "{damage:?}");
    }
}

/// A drive that stopped in the middle of operations: the work that the next start finishes is neither wrong nor stray.
#[tokio::test]
async fn work_that_the_next_start_finishes_is_no_finding() {
    use crate::stepwise::Fault;
    let operations = [Op::Move("/a", "/c/z", false), Op::Remove("/a"), Op::Put("/a/large", LARGE + 1)];
    let mut unfinished = 0;
    for op in operations {
        let clean = Fixture::new(SET_UP).await;
        let begun = clean.store.steps();
        clean.run(op).await.unwrap();
        clean.idle().await;
        for step in begun + 1..=clean.store.steps() {
            let mut fixture = Fixture::new(SET_UP).await;
            fixture.store.at(step, Fault::StopAfter);
            let _stopped = fixture.run(op).await;
            fixture.drive.close().await;
            let (summary, findings) = fixture.check(true).await;
            assert_eq!(summary.wrong, 0, "{op:?} stopped after {step}: {findings:#?}");
            // A store without transactions keeps prepared rows of refused plans.
            assert!(matches!(op, Op::Put(..)) || summary.strays == 0, "{op:?} stopped after {step}: {findings:#?}");
            unfinished += summary.pending;
            fixture.restart().await;
            fixture.idle().await;
            fixture.nothing_wrong().await;
        }
    }
    assert!(unfinished > 20, "{unfinished}");
}
