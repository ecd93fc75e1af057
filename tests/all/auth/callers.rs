//! Caller, operation, object: what each one gets.

use rowdrive::drive::{ListQuery, NodeKind, PutOptions, whole_body};
use rowdrive::schema::rights::Right;

use super::base::{Base, Case, ask};
use super::fixture::{World, memory, path};
use crate::drive::fixture::{bytes, run};
use crate::drive::model::Op;

/// An operation, and what it answers to an admin, to Tom, to Eva, and to the holder of Tom's token.
type Row = (&'static str, [&'static str; 4]);

const READS: &[Row] = &[
    ("stat /a", ["ok", "ok", "404", "404"]),
    ("stat /a/f", ["ok", "ok", "404", "404"]),
    ("stat /a/c", ["ok", "ok", "404", "ok"]),
    ("stat /a/c/g", ["ok", "ok", "404", "ok"]),
    ("stat /r/d", ["ok", "ok", "404", "404"]),
    ("stat /w", ["ok", "ok", "404", "404"]),
    ("stat /w/f", ["ok", "404", "404", "404"]),
    ("stat /w/x", ["ok", "ok", "404", "404"]),
    ("stat /w/x/f", ["ok", "404", "404", "404"]),
    ("stat /w/x/y/f", ["ok", "ok", "404", "404"]),
    ("stat /w/o", ["ok", "404", "404", "404"]),
    ("stat /h", ["ok", "404", "404", "404"]),
    ("stat /h/f", ["ok", "404", "404", "404"]),
    ("stat /no", ["404"; 4]),
    ("list /", ["/a /h /r /t /w", "/a /r /t /w", "404", "404"]),
    ("list /a", ["/a/c /a/e /a/f", "/a/c /a/e /a/f", "404", "404"]),
    ("list /a/c", ["/a/c/g /a/c/h", "/a/c/g /a/c/h", "404", "/a/c/g /a/c/h"]),
    ("list /w", ["/w/f /w/o /w/x", "/w/x", "404", "404"]),
    ("list /w/x", ["/w/x/f /w/x/y", "/w/x/y", "404", "404"]),
    ("list /w/x/y", ["/w/x/y/f", "/w/x/y/f", "404", "404"]),
    ("list /h", ["/h/d /h/f", "404", "404", "404"]),
    ("list /a/f", ["404"; 4]),
    ("open /r/f", ["ok", "ok", "404", "404"]),
    ("open /h/f", ["ok", "404", "404", "404"]),
    ("open /w", ["409", "409", "404", "404"]),
    ("open /w/f", ["ok", "404", "404", "404"]),
];

const QUERIES: &[Row] = &[
    (
        "",
        [
            "/a/c/g /a/c/h /a/f /h/d/g /h/f /r/d/g /r/f /w/f /w/o/f /w/x/f /w/x/y/f",
            "/a/c/g /a/c/h /a/f /r/d/g /r/f /w/x/y/f",
            "none",
            "/a/c/g /a/c/h",
        ],
    ),
    (" /a", ["/a/c/g /a/c/h /a/f", "/a/c/g /a/c/h /a/f", "404", "404"]),
    (" /a/c", ["/a/c/g /a/c/h", "/a/c/g /a/c/h", "404", "/a/c/g /a/c/h"]),
    (" /w", ["/w/f /w/o/f /w/x/f /w/x/y/f", "/w/x/y/f", "404", "404"]),
    (" /h", ["/h/d/g /h/f", "404", "404", "404"]),
    (" /no", ["404"; 4]),
];

const CHANGES: &[Row] = &[
    ("put /a/f", ["ok", "ok", "403", "403"]),
    ("put /a/c/new", ["ok", "ok", "403", "403"]),
    ("put /a/n/m/new", ["ok", "ok", "403", "403"]),
    ("put /a/f/x", ["409", "409", "403", "403"]),
    ("put /a/c", ["409", "409", "403", "403"]),
    ("put /r/f", ["ok", "403", "403", "403"]),
    ("put /r/f/x", ["409", "403", "403", "403"]),
    ("put /h/f", ["ok", "403", "403", "403"]),
    ("put /h/f/x", ["409", "403", "403", "403"]),
    ("put /w/x/n", ["ok", "403", "403", "403"]),
    ("put /no/new", ["ok", "403", "403", "403"]),
    ("mkdir /", ["ok", "ok", "403", "403"]),
    ("mkdir /a/new", ["ok", "ok", "403", "403"]),
    ("mkdir /a/c", ["ok", "ok", "403", "ok"]),
    ("mkdir /a/f", ["409", "409", "403", "403"]),
    ("mkdir /w/x", ["ok", "ok", "403", "403"]),
    ("mkdir /r", ["ok", "ok", "403", "403"]),
    ("mkdir /h", ["ok", "403", "403", "403"]),
    ("mkdir /h/f", ["409", "403", "403", "403"]),
    ("below /a/n", ["ok", "ok", "403", "403"]),
    ("below /r", ["ok", "403", "403", "403"]),
    ("below /h/f", ["409", "403", "403", "403"]),
    ("delete /a/f", ["ok", "ok", "404", "404"]),
    ("delete /a/c/g", ["ok", "ok", "404", "403"]),
    ("delete /a/no", ["404"; 4]),
    ("delete /a", ["409", "403", "404", "404"]),
    ("delete /r/f", ["ok", "403", "404", "404"]),
    ("delete /r/no", ["404"; 4]),
    ("delete /h/f", ["ok", "404", "404", "404"]),
    ("delete /w", ["409", "403", "404", "404"]),
    ("rmdir /a/e", ["ok", "ok", "404", "404"]),
    ("rmdir /a", ["409", "403", "404", "404"]),
    ("rmdir /r/d", ["409", "403", "404", "404"]),
    ("remove /a/c", ["ok", "ok", "404", "403"]),
    ("remove /a", ["ok", "403", "404", "404"]),
    ("remove /w", ["ok", "403", "404", "404"]),
    ("remove /h", ["ok", "404", "404", "404"]),
    ("move /a/f /t/f", ["ok", "ok", "404", "404"]),
    ("move /a/f /r/n", ["ok", "403", "404", "404"]),
    ("move /a/f /h/n", ["ok", "403", "404", "404"]),
    ("move /a/no /r/n", ["404"; 4]),
    ("move /a/c/g /t/g", ["ok", "ok", "404", "403"]),
    ("move /a/c /t/c", ["ok", "ok", "404", "403"]),
    ("move /a/c /r/c", ["ok", "403", "404", "403"]),
    ("move /a /b", ["ok", "403", "404", "404"]),
    ("move /r/f /a/n", ["ok", "403", "404", "404"]),
    ("move /h/f /a/n", ["ok", "404", "404", "404"]),
    ("copy /r/f /a/n", ["ok", "ok", "404", "404"]),
    ("copy /r /a/n", ["ok", "ok", "404", "404"]),
    ("copy /h/f /a/n", ["ok", "404", "404", "404"]),
    ("copy /w /a/n", ["ok", "403", "404", "404"]),
    ("copy /w/x/y /a/n", ["ok", "ok", "404", "404"]),
    ("copy /a/f /r/n", ["ok", "403", "404", "404"]),
    ("copy /a/c/g /a/n", ["ok", "ok", "404", "403"]),
];

async fn compare(base: &Base, case: &Case, asked: &str, expected: &str, caller: usize) -> Option<String> {
    let credential = [&base.admin, &base.tom, &base.eva, &base.token][caller];
    let found = ask(&case.drive(credential), asked).await;
    let who = ["admin", "tom", "eva", "token"][caller];
    (found != expected).then(|| format!("{asked} by {who}: {found}, not {expected}"))
}

#[tokio::test]
async fn each_caller_sees_what_he_may_read_and_what_leads_there() {
    let base = Base::new().await;
    let mut wrong = Vec::new();
    for (caller, atomic) in (0..4).flat_map(|caller| [(caller, false), (caller, true)]) {
        let case = base.on(atomic).await;
        for (asked, answers) in READS {
            wrong.extend(compare(&base, &case, asked, answers[caller], caller).await);
        }
        for (under, answers) in QUERIES {
            for kind in ["time", "find"] {
                wrong.extend(compare(&base, &case, &format!("{kind}{under}"), answers[caller], caller).await);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn each_caller_changes_what_he_may_write() {
    let base = Base::new().await;
    let mut wrong = Vec::new();
    for (asked, answers) in CHANGES {
        for (caller, answer) in answers.iter().enumerate() {
            let case = base.case().await;
            let before = case.fixture.view().await;
            wrong.extend(compare(&base, &case, asked, answer, caller).await);
            let after = case.fixture.view().await;
            if *answer != "ok" && after != before {
                wrong.push(format!("{asked}: {answer} has changed the drive"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Changes that an admin makes, and then what Tom asks and gets.
type Changed = (&'static [Op], &'static [(&'static str, &'static str)]);

#[tokio::test]
async fn rights_follow_their_directories() {
    let base = Base::new().await;
    let cases: &[Changed] = &[
        // Moved out of the granted one, and into it.
        (
            &[Op::Move("/a/c", "/h/c", false), Op::Move("/h/d", "/r/h", false)],
            &[("stat /h/c", "404"), ("list /a", "/a/e /a/f"), ("stat /r/h/g", "ok"), ("time /r", "/r/d/g /r/f /r/h/g")],
        ),
        // The granted one moves: below a hidden one, which becomes a way.
        (
            &[Op::Move("/a", "/h/a", false)],
            &[
                ("list /", "/h /r /t /w"),
                ("list /h", "/h/a"),
                ("put /h/a/f", "ok"),
                ("stat /h/f", "404"),
                ("put /a/f", "403"),
                ("find /h", "/h/a/c/g /h/a/c/h /h/a/f"),
            ],
        ),
        // Another one is made at the same path.
        (
            &[Op::Remove("/r"), Op::Put("/r/f", 30)],
            &[("stat /r", "404"), ("open /r/f", "404"), ("list /", "/a /t /w"), ("time /r", "404")],
        ),
        (&[Op::Remove("/w/x")], &[("stat /w", "404"), ("list /", "/a /r /t"), ("put /w/x/y/f", "403")]),
    ];
    for (changes, asked) in cases {
        let case = base.case().await;
        // What is cached before the change must not be used after it.
        for (ask_first, _) in *asked {
            if ask_first.starts_with("stat") || ask_first.starts_with("list") || ask_first.starts_with("time") {
                ask(&case.drive(&base.tom), ask_first).await;
            }
        }
        for op in *changes {
            run(&case.fixture.drive, *op).await.unwrap();
        }
        for (asked, expected) in *asked {
            assert_eq!(ask(&case.drive(&base.tom), asked).await, *expected, "{asked} after {changes:?}");
        }
    }
}

/// Each user has his right from the one before: the rows that guard it fit in the plan of the deepest upload.
#[tokio::test]
async fn the_longest_chain_of_givers_guards_the_deepest_upload() {
    let world = World::new(memory()).await;
    let admin = world.admin().await;
    world.mkdir("/a").await;
    let mut giver = admin.clone();
    let file = format!("/a{}/f", "/d".repeat(126));
    for given in 0..18 {
        let name = format!("u{given}");
        let user = world.user(&admin, &name).await;
        let rights = if given == 0 { &[Right::Write, Right::Share][..] } else { &[Right::Write] };
        world.give(&giver, "/a", &name, rights).await;
        if given >= 16 {
            let drive = world.drive.for_requester(world.auth.requester(user.clone()));
            let done = drive.put(&path(&file), PutOptions::new("a/b", "tom"), whole_body(bytes(1))).await;
            assert_eq!(done.is_ok(), given == 16, "{given} givers: {done:?}");
            if given == 16 {
                world.drive.unrestricted().delete_subtree(&path("/a/d")).await.unwrap();
            }
        }
        if given > 0 {
            // Beside the right from his giver he may share.
            world.give(&admin, "/a", &name, &[Right::Share]).await;
        }
        giver = user;
    }
}

/// The pages of a directory that shows ways alone.
#[tokio::test]
async fn ways_are_listed_page_by_page() {
    let base = Base::new().await;
    let case = base.case().await;
    let drive = case.drive(&base.tom);
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let query = ListQuery { kind: None, prefix: String::new(), after, limit: 1 };
        let page = drive.list(&path("/"), &query).await.unwrap();
        seen.extend(page.nodes.iter().map(|node| node.path().to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["/a", "/r", "/t", "/w"]);
    for (kind, prefix, count) in [(Some(NodeKind::File), "", 0), (Some(NodeKind::Directory), "", 4), (None, "r", 1)] {
        let query = ListQuery { kind, prefix: prefix.into(), after: None, limit: 10 };
        assert_eq!(drive.list(&path("/"), &query).await.unwrap().nodes.len(), count, "{kind:?} {prefix}");
    }
}
