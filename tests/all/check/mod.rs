//! Damage that is planted, each kind alone: it is found and named, and a repair mends what can be mended without
//! touching what a name leads to.

mod plant;
mod program;

use rowdrive::check::Kind;

use crate::drive::model::Op;
use crate::drive::world::World;
use plant::{LARGE, Planted, plant};

const SET_UP: &[Op] =
    &[Op::Put("/a/f", 5), Op::Put("/a/large", LARGE), Op::Put("/a/b/g", 6), Op::Mkdir("/c"), Op::Put("/h", 7)];

#[tokio::test]
async fn a_sound_drive_is_found_sound() {
    let world = World::new(SET_UP).await;
    world.run(Op::Move("/a/b", "/c/b", false)).await.unwrap();
    world.run(Op::Move("/h", "/c/h", false)).await.unwrap();
    world.run(Op::Copy("/a/large", "/c/large", false)).await.unwrap();
    world.run(Op::Remove("/a")).await.unwrap();
    world.nothing_left_over().await;
}

/// What is planted, what a check says of it (kind and path), and whether a repair mends it.
type Case = (Planted, &'static [(Kind, &'static str)], bool);

/// Where no path is told.
const NOWHERE: &str = "";

const CASES: &[Case] = &[
    (Planted::NoFileRow("/a/f"), &[(Kind::FileMissing, "/a/f")], false),
    (Planted::NoFileRow("/a/large"), &[(Kind::FileMissing, "/a/large")], false),
    (Planted::OtherFileRow("/a/f"), &[(Kind::FileDiffers, "/a/f")], false),
    (Planted::NoName("/a/f"), &[(Kind::StrayFile, NOWHERE), (Kind::StrayHint, NOWHERE)], true),
    (Planted::NoName("/a/large"), &[(Kind::StrayFile, NOWHERE), (Kind::StrayHint, NOWHERE)], true),
    (Planted::OldVersion("/a/f"), &[(Kind::StrayFile, NOWHERE)], true),
    (Planted::NoHint("/a/f", "time"), &[(Kind::HintMissing, "/a/f")], true),
    (Planted::NoHint("/a/b/g", "owner"), &[(Kind::HintMissing, "/a/b/g")], true),
    (Planted::NoHint("/h", "name"), &[(Kind::HintMissing, "/h")], true),
    (Planted::OtherHint("/h", "name"), &[(Kind::HintMissing, "/h"), (Kind::StrayHint, NOWHERE)], true),
    (Planted::StrayHint("time"), &[(Kind::StrayHint, NOWHERE)], true),
    (Planted::StrayHint("owner"), &[(Kind::StrayHint, NOWHERE)], true),
    (Planted::StrayHint("name"), &[(Kind::StrayHint, NOWHERE)], true),
    (Planted::UnreadableHint, &[(Kind::StrayHint, NOWHERE)], true),
    (Planted::NoInline("/a/f"), &[(Kind::ContentMissing, "/a/f")], false),
    (Planted::OtherInline("/a/f"), &[(Kind::ContentDamaged, "/a/f")], false),
    (Planted::NoContent("/a/large"), &[(Kind::ContentMissing, "/a/large")], false),
    (Planted::FlippedByte("/a/large", 10), &[(Kind::ContentDamaged, "/a/large")], false),
    (Planted::FlippedByte("/a/large", LARGE + 1), &[(Kind::ContentDamaged, "/a/large")], false),
    (Planted::CutContent("/a/large"), &[(Kind::ContentDamaged, "/a/large")], false),
    (Planted::StrayContent, &[(Kind::StrayContent, NOWHERE)], true),
    (Planted::Foreign, &[(Kind::Foreign, NOWHERE)], false),
    (Planted::Condemned("/a/large"), &[(Kind::ContentCondemned, "/a/large")], true),
    (Planted::NoLink("/a/b"), &[(Kind::Link, "/a/b")], true),
    (Planted::OtherLink("/a/b"), &[(Kind::Link, "/a/b")], true),
    (Planted::StrayLink, &[(Kind::StrayLink, NOWHERE)], true),
    (Planted::DeadMark("/a/b"), &[(Kind::Mark, "/a/b")], true),
    (Planted::DeadStaged("/c/new"), &[(Kind::Mark, NOWHERE)], true),
    (Planted::StrayDirectory("/c/new"), &[(Kind::StrayDirectory, NOWHERE)], true),
    (
        Planted::NoName("/a/b"),
        &[
            (Kind::StrayDirectory, NOWHERE),
            (Kind::StrayFile, NOWHERE),
            (Kind::StrayHint, NOWHERE),
            (Kind::StrayLink, NOWHERE),
        ],
        true,
    ),
    (
        Planted::NoDirectoryRow("/a/b"),
        &[
            (Kind::DirectoryMissing, "/a/b"),
            (Kind::StrayFile, NOWHERE),
            (Kind::StrayHint, NOWHERE),
            (Kind::StrayLink, NOWHERE),
        ],
        false,
    ),
    (Planted::OtherDirectory("/c"), &[(Kind::DirectoryDiffers, "/c")], false),
    (
        Planted::SameId("/c", "/a/b"),
        &[
            (Kind::SameId, "/c"),
            (Kind::Link, "/c"),
            (Kind::StrayLink, NOWHERE),
            (Kind::StrayFile, NOWHERE),
            (Kind::StrayHint, NOWHERE),
        ],
        false,
    ),
    (Planted::SameName("/a/f"), &[(Kind::SameName, "/a/f"), (Kind::DirectoryMissing, "/a/f")], false),
    (Planted::UnreadableEntry("/a"), &[(Kind::Unreadable, "/a")], false),
    (Planted::UnreadableName("/a"), &[(Kind::Unreadable, "/a")], false),
    (Planted::BadKey, &[(Kind::Unreadable, NOWHERE)], false),
    (Planted::SecondName("/a/f", "/c/f"), &[(Kind::FileDiffers, "/c/f"), (Kind::HintMissing, "/c/f")], false),
];

#[tokio::test]
async fn each_planted_damage_is_found_and_named() {
    for (planted, expected, mended) in CASES {
        let world = World::new(SET_UP).await;
        plant(&world, *planted).await;
        let (summary, findings) = world.check(false).await;
        let mut seen: Vec<_> = findings.iter().map(|f| (f.kind, f.path.clone().unwrap_or_default())).collect();
        seen.dedup();
        let wanted: Vec<_> = expected.iter().map(|(kind, path)| (*kind, (*path).to_owned())).collect();
        let all = |of: &[(Kind, String)], others: &[(Kind, String)]| of.iter().all(|one| others.contains(one));
        assert!(all(&seen, &wanted) && all(&wanted, &seen), "{planted:?}: {findings:#?}");
        assert!(!summary.is_right() && summary.repaired == 0, "{planted:?}: {summary:?}");
        assert!(findings.iter().all(|f| !f.row.is_empty() && !f.detail.is_empty()), "{planted:?}: {findings:#?}");
        mend(&world, *planted, *mended).await;
    }
}

/// A repair shows every file as before, but for those that no name leads to.
async fn mend(world: &World, planted: Planted, mended: bool) {
    let (before, found) = (plant::listed(world).await, plant::found(world).await);
    let (summary, findings) = world.check(true).await;
    assert_eq!(summary.is_right(), mended, "{planted:?}: {findings:#?}");
    assert_eq!(plant::listed(world).await, before, "{planted:?}");
    assert!(mended || plant::found(world).await == found, "{planted:?}: files are found elsewhere: {findings:#?}");
    let (summary, findings) = world.check(false).await;
    assert_eq!((summary.wrong, summary.strays) == (0, 0), mended, "{planted:?}, repaired: {findings:#?}");
    if mended {
        // Indexes and tree agree in every way there is to see them.
        world.view().await;
        // What is saved is what the file held.
        plant::saved(world, planted);
    }
}

/// Without the tree as it was, nothing is removed: what looks stray may be what a lost row led to.
#[tokio::test]
async fn a_repair_removes_nothing_below_a_damaged_tree() {
    for planted in [Planted::NoDirectoryRow("/a/b"), Planted::UnreadableEntry("/a"), Planted::BadKey] {
        let world = World::new(SET_UP).await;
        plant(&world, planted).await;
        plant(&world, Planted::NoName("/h")).await;
        let rows = world.rows().await;
        let (summary, findings) = world.check(true).await;
        assert!(summary.strays > 0 && summary.repaired == 0, "{planted:?}: {findings:#?}");
        assert_eq!(world.rows().await, rows, "{planted:?}");
    }
}

/// A drive that was stopped in the middle: what the next start settles is neither wrong nor stray.
#[tokio::test]
async fn what_the_next_start_settles_is_not_wrong() {
    use crate::stepwise::Fault;
    let operations = [Op::Move("/a", "/c/z", false), Op::Remove("/a"), Op::Put("/a/large", LARGE + 1)];
    let mut unsettled = 0;
    for op in operations {
        let clean = World::new(SET_UP).await;
        let begun = clean.store.steps();
        clean.run(op).await.unwrap();
        clean.idle().await;
        for step in begun + 1..=clean.store.steps() {
            let mut world = World::new(SET_UP).await;
            world.store.at(step, Fault::StopAfter);
            let _stopped = world.run(op).await;
            world.drive.close().await;
            let (summary, findings) = world.check(true).await;
            assert_eq!(summary.wrong, 0, "{op:?} stopped after {step}: {findings:#?}");
            // A store without transactions has rows that were prepared for nothing.
            assert!(matches!(op, Op::Put(..)) || summary.strays == 0, "{op:?} stopped after {step}: {findings:#?}");
            unsettled += summary.unsettled;
            world.restart().await;
            world.idle().await;
            world.nothing_wrong().await;
        }
    }
    assert!(unsettled > 20, "{unsettled}");
}
