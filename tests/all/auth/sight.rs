//! What a user may not read changes no page of his: neither the files, nor how many pages there are, nor how long each is.

use rowdrive::drive::{ListQuery, MimeFilter, NameQuery, Node, PutOptions, TimeQuery, UserDrive, whole_body};
use rowdrive::schema::Timestamp;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::schema::rights::Right;

use super::fixture::{World, memory, path, rocks, stepwise};
use crate::drive::fixture::{find_all, time_query};

/// More than an index reads at once, so that a page that has only them to read goes on in further steps.
const HIDDEN: i64 = 400;

/// The paths on each page.
type Pages = Vec<Vec<String>>;

/// All pages of a query. `ask`: one page, by the cursor before it, and the cursor after it.
async fn walk<C>(mut ask: impl AsyncFnMut(Option<C>) -> (Vec<Node>, Option<C>)) -> Pages {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let (nodes, next) = ask(after).await;
        pages.push(nodes.iter().map(|node| node.path().to_string()).collect());
        if next.is_none() {
            return pages;
        }
        after = next;
    }
}

async fn by_time(drive: &UserDrive, query: TimeQuery) -> Pages {
    walk(async |after| {
        let page = drive.files_by_time(&TimeQuery { after, ..query.clone() }).await.unwrap();
        (page.nodes, page.next)
    })
    .await
}

async fn by_name(drive: &UserDrive, query: NameQuery) -> Pages {
    walk(async |after| {
        let page = drive.files_by_name(&NameQuery { after, ..query.clone() }).await.unwrap();
        (page.nodes, page.next)
    })
    .await
}

async fn list(drive: &UserDrive, limit: usize) -> Pages {
    walk(async |after| {
        let query = ListQuery { kind: None, prefix: String::new(), after, limit };
        let page = drive.list(&path("/"), &query).await.unwrap();
        (page.nodes, page.next)
    })
    .await
}

/// The pages of every query, with their names.
async fn all_pages(drive: &UserDrive) -> Vec<(String, Pages)> {
    let mut all = Vec::new();
    for limit in [1, 2, 3, 6, 7] {
        for under in [None, Some(path("/a"))] {
            let text = format!("limit {limit}, under {under:?}");
            for (clock, ascending) in
                [Clock::Modified, Clock::Added].map(|clock| [(clock, true), (clock, false)]).concat()
            {
                let ask = TimeQuery { ascending, limit, under: under.clone(), ..time_query(clock) };
                let of_tom = TimeQuery { creator: Some("tom".into()), ..ask.clone() };
                let texts = TimeQuery { mime: Some(MimeFilter::Exact("text/plain".into())), ..ask.clone() };
                for (which, ask) in [("all", ask), ("of Tom", of_tom), ("texts", texts)] {
                    let name = format!("{which} by {clock:?}, ascending {ascending}, {text}");
                    all.push((name, by_time(drive, ask).await));
                }
            }
            let ask = NameQuery { limit, under, ..find_all() };
            all.push((format!("by name, {text}"), by_name(drive, ask).await));
        }
        all.push((format!("list, limit {limit}"), list(drive, limit).await));
    }
    all
}

async fn put(world: &World, at: &str, modified: i64) {
    let modified = Some(Timestamp::from_ms(modified));
    let options = PutOptions { modified, ..PutOptions::new("text/plain", "tom") };
    world.drive.unrestricted().put(&path(at), options, whole_body("x")).await.unwrap();
}

#[tokio::test]
async fn hidden_files_change_no_page() {
    for store in [memory(), stepwise(), rocks()] {
        change_no_page(World::new(store).await).await;
    }
}

async fn change_no_page(world: World) {
    let admin = world.admin().await;
    let eva = world.user(&admin, "eva").await;
    for (at, modified) in [("/a/f1", 10), ("/a/f2", 20), ("/b/f3", 30), ("/b/c/f4", 40), ("/b/f5", 50), ("/a/f6", 60)] {
        put(&world, at, modified).await;
    }
    world.mkdir("/h").await;
    for dir in ["/a", "/b"] {
        world.give(&admin, dir, "eva", &[Right::Read]).await;
    }
    let drive = world.drive.for_requester(world.auth.requester(eva));
    let before = all_pages(&drive).await;
    // Around, between and behind the files that she may read, in each order.
    for n in 0..HIDDEN {
        put(&world, &format!("/h/{n}"), n / 5).await;
        put(&world, &format!("/h/f{n}"), n / 5).await;
    }
    world.mkdir("/zz").await;
    let after = all_pages(&drive).await;
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        assert_eq!(before, after, "{name}");
        assert!(before.last().is_some_and(|page| !page.is_empty()), "{name}: an empty page at the end");
    }
    assert_eq!(before.len(), after.len());
}

/// The index answers alone, where the folders that she may read are large and few of their files are asked for.
#[tokio::test]
async fn no_cursor_tells_of_hidden_files_behind_a_full_page() {
    for store in [memory(), stepwise(), rocks()] {
        end_where_only_hidden_files_follow(World::new(store).await).await;
    }
}

async fn end_where_only_hidden_files_follow(world: World) {
    let admin = world.admin().await;
    let eva = world.user(&admin, "eva").await;
    for n in 0..HIDDEN {
        put(&world, &format!("/a/{n}"), 1_000 + n).await;
    }
    put(&world, "/a/y1", 120).await;
    put(&world, "/b/y2", 160).await;
    for dir in ["/a", "/b"] {
        world.give(&admin, dir, "eva", &[Right::Read]).await;
    }
    // Before, between and behind both.
    for n in 0..10 {
        put(&world, &format!("/h/y{n}"), 105 + 10 * n).await;
    }
    let drive = world.drive.for_requester(world.auth.requester(eva));
    let at = |ms| Some(Timestamp::from_ms(ms));
    for limit in [1, 2, 3] {
        let pages = |all: [&str; 2]| -> Pages {
            all.chunks(limit).map(|page| page.iter().map(|at| (*at).into()).collect()).collect()
        };
        for (ascending, all) in [(true, ["/a/y1", "/b/y2"]), (false, ["/b/y2", "/a/y1"])] {
            let ask = TimeQuery { ascending, limit, from: at(100), to: at(200), ..time_query(Clock::Modified) };
            assert_eq!(by_time(&drive, ask).await, pages(all), "ascending {ascending}, limit {limit}");
        }
        let ask = NameQuery { name: "y".into(), limit, ..find_all() };
        assert_eq!(by_name(&drive, ask).await, pages(["/a/y1", "/b/y2"]), "by name, limit {limit}");
    }
}
