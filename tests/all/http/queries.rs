//! Files by time and by name; stat.

use super::test_app::TestApp;

const DAY: &str = "2026-03-01T";

/// Four files of four minutes, by two people, in two folders.
async fn filled() -> TestApp {
    let app = TestApp::new().await;
    for (target, minute, user, mime) in [
        ("/v1/fs/a/one.jpg", 1, "dG9tOg==", "image/jpeg"),
        ("/v1/fs/a/b/two.JPG", 2, "ZXZhOg==", "image/png; q=1"),
        ("/v1/fs/c/three.txt", 3, "dG9tOg==", "text/plain"),
        ("/v1/fs/one.jpg.bak", 4, "ZXZhOg==", "application/x-backup"),
    ] {
        let target = format!("{target}?modified={DAY}00:0{minute}:00Z");
        let headers = [("authorization", format!("Basic {user}")), ("content-type", mime.to_owned())];
        let headers: Vec<_> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        app.send("PUT", &target, &headers, "x").await.is(201);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await; // so that all times of addition differ
    }
    app
}

const NEWEST_FIRST: [&str; 4] = ["one.jpg.bak", "three.txt", "two.JPG", "one.jpg"];

#[tokio::test]
async fn files_are_listed_by_time() {
    let app = filled().await;
    let at = |minute: u32| format!("{DAY}00:0{minute}:00Z");
    let (two, four) = (at(2), at(4));
    for (query, names) in [
        (String::new(), &NEWEST_FIRST[..]),
        (format!("?from={two}&to={four}"), &NEWEST_FIRST[1..3]),
        (format!("?from={two}"), &NEWEST_FIRST[..3]),
        (format!("?to={two}"), &NEWEST_FIRST[3..]),
        (format!("?from={two}&to={two}"), &[]),
        (format!("?from={DAY}00:02:00.0001Z"), &NEWEST_FIRST[..2]),
        (format!("?to={DAY}00:02:00.0001Z"), &NEWEST_FIRST[2..]),
        ("?from=2026-03-01T01:03:00%2B01:00".to_owned(), &NEWEST_FIRST[..2]),
        ("?from=2026-03-01T01:03:00+01:00".to_owned(), &NEWEST_FIRST[..2]),
        ("?under=/a".to_owned(), &NEWEST_FIRST[2..]),
        ("?under=/a/".to_owned(), &NEWEST_FIRST[2..]),
        ("?under=/a/b".to_owned(), &["two.JPG"]),
        ("?under=/".to_owned(), &NEWEST_FIRST),
        ("?creator=tom".to_owned(), &["three.txt", "one.jpg"]),
        ("?creator=nobody".to_owned(), &[]),
        ("?type=image/*".to_owned(), &NEWEST_FIRST[2..]),
        ("?type=image/png".to_owned(), &["two.JPG"]),
        ("?type=IMAGE/PNG;a=b".to_owned(), &["two.JPG"]),
        ("?type=image/*&creator=tom&under=/a&order=asc".to_owned(), &["one.jpg"]),
        ("?order=desc&clock=modified&limit=2".to_owned(), &NEWEST_FIRST[..2]),
    ] {
        let page = app.get(&format!("/v1/files{query}")).await.is(200);
        assert_eq!(page.names(), names, "{query}");
        assert_eq!(page.json().as_object().unwrap().len(), 2);
    }
    let mut oldest_first = NEWEST_FIRST;
    oldest_first.reverse();
    assert_eq!(app.get("/v1/files?order=asc").await.names(), oldest_first);
    let added = app.get("/v1/files?clock=added").await;
    assert_eq!(added.names(), NEWEST_FIRST);
    assert_eq!(app.get("/v1/files?clock=added&to=2026-06-01T00:00:00Z").await.names(), [""; 0]);
    assert_eq!(app.get("/v1/files?limit=1").await.json()["entries"][0], app.get("/v1/stat/one.jpg.bak").await.json());
}

#[tokio::test]
async fn a_time_query_refuses_unknown_parameters() {
    let app = filled().await;
    for bad in [
        "from=yesterday",
        "from=2026-01-01",
        "from=2026-01-01T00:00:00",
        "to=",
        "clock=created",
        "order=up",
        "type=image",
        "type=*/*",
        "type=image/j*",
        "type=",
        "creator=",
        "creator=a%0Ab",
        "under=a",
        "under=",
        "under=//",
        "under=/../a",
        "under=/a/b/two.JPG",
        "limit=0",
        "limit=10001",
        "cursor=x",
        "form=2026-01-01T00:00:00Z",
        "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        "recursive=1",
        "creator=a&creator=a",
    ] {
        app.get(&format!("/v1/files?{bad}")).await.problem(400, "malformed");
    }
    app.get("/v1/files?under=/nothing").await.problem(404, "not-found");
    app.get("/v1/files?under=/nothing&from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z")
        .await
        .problem(404, "not-found");
    let long = format!("/v1/files?under=/{}", "x/".repeat(3000));
    app.get(&long).await.problem(414, "target-too-long");
}

#[tokio::test]
async fn time_cursors_continue_and_are_bound_to_their_filters() {
    let app = filled().await;
    for order in ["asc", "desc"] {
        let (mut seen, mut target) = (Vec::new(), format!("/v1/files?order={order}&limit=1"));
        loop {
            let page = app.get(&target).await.is(200);
            seen.extend(page.names());
            let Some(next) = page.next() else { break };
            target = format!("/v1/files?limit=1&cursor={next}&order={order}");
        }
        assert_eq!(seen, app.get(&format!("/v1/files?order={order}")).await.names());
    }
    let next = app.get("/v1/files?creator=tom&limit=1").await.next().unwrap();
    assert_eq!(app.get(&format!("/v1/files?creator=tom&cursor={next}&limit=9")).await.names(), ["one.jpg"]);
    for other in [
        "",
        "creator=eva&",
        "creator=tom&order=asc&",
        "creator=tom&clock=added&",
        "creator=tom&under=/a&",
        "creator=tom&type=image/*&",
        "creator=tom&from=2026-01-01T00:00:00Z&",
        "creator=tom&to=2027-01-01T00:00:00Z&",
    ] {
        app.get(&format!("/v1/files?{other}cursor={next}")).await.problem(400, "malformed");
    }
    app.get(&format!("/v1/find?name=one.jpg&cursor={next}")).await.problem(400, "malformed");
}

#[tokio::test]
async fn files_are_found_by_name() {
    let app = filled().await;
    app.files(&["/v1/fs/z/Stra%C3%9Fe", "/v1/fs/z/ONE.jpg", "/v1/fs/z/a*"]).await;
    for (query, names) in [
        ("name=three.txt", &["three.txt"][..]),
        ("name=THREE.TXT", &["three.txt"]),
        ("name=STRASSE", &["Straße"]),
        ("name=strasse*", &["Straße"]),
        ("name=one.jpg", &["one.jpg", "ONE.jpg"]),
        ("name=One.j*", &["one.jpg", "ONE.jpg", "one.jpg.bak"]),
        ("name=one.jpg&under=/a", &["one.jpg"]),
        ("name=o*e.jpg", &[]),
        ("name=a**", &["a*"]),
        ("name=nothing", &[]),
        ("name=t*&limit=1", &["three.txt"]),
    ] {
        let page = app.get(&format!("/v1/find?{query}")).await.is(200);
        let mut found = page.names();
        // Files with equal folded names are ordered by id.
        if query.starts_with("name=one.jpg") || query.starts_with("name=One") {
            found.sort_by_key(|n| (n.to_lowercase(), std::cmp::Reverse(n.clone())));
        }
        assert_eq!(found, names, "{query}");
    }
    assert_eq!(app.get("/v1/find?name=*").await.names().len(), 7);
    let (mut seen, mut target) = (0, "/v1/find?name=*&limit=2".to_owned());
    while let Some(next) = {
        let page = app.get(&target).await.is(200);
        seen += page.names().len();
        page.next()
    } {
        target = format!("/v1/find?name=*&cursor={next}&limit=3");
        app.get(&format!("/v1/find?name=o*&cursor={next}")).await.problem(400, "malformed");
        app.get(&format!("/v1/find?name=*&under=/a&cursor={next}")).await.problem(400, "malformed");
    }
    assert_eq!(seen, 7);
    for bad in [
        "",
        "name=",
        "name=a/b",
        "name=.",
        "name=%00",
        "name=a%0A*",
        "name=a&name=b",
        "nam=a",
        "name=a&limit=0",
        "name=a&under=/one.jpg.bak",
        "name=a&under=x",
    ] {
        app.get(&format!("/v1/find?{bad}")).await.problem(400, "malformed");
    }
    app.get("/v1/find?name=a&under=/nothing").await.problem(404, "not-found");
}

#[tokio::test]
async fn stat_describes_files_and_directories() {
    let app = filled().await;
    for (target, kind) in [("/v1/stat/a", "directory"), ("/v1/stat/a/", "directory"), ("/v1/stat/a/one.jpg", "file")] {
        assert_eq!(app.get(target).await.is(200).json()["kind"], kind, "{target}");
    }
    let root = app.get("/v1/stat/").await.is(200).json();
    assert_eq!((&root["path"], &root["name"], &root["kind"]), (&"/".into(), &"".into(), &"directory".into()));
    for target in ["/v1/stat/nothing", "/v1/stat/a/one.jpg/", "/v1/stat/a/one.jpg/x", "/v1/stat/no/thing"] {
        app.get(target).await.problem(404, "not-found");
    }
    app.get("/v1/stat/a?x=1").await.problem(400, "malformed");
}

#[tokio::test]
async fn a_page_is_filled_even_if_many_files_are_skipped() {
    let app = TestApp::new().await;
    app.put("/v1/fs/old.png?modified=2026-01-01T00:00:00Z", "x").await.is(201);
    for n in 0..70 {
        app.put(&format!("/v1/fs/{n}.txt?modified=2026-01-02T00:00:00Z"), "x").await.is(201);
    }
    let page = app.get("/v1/files?type=image/*&limit=1").await.is(200);
    assert_eq!((page.names(), page.next()), (vec!["old.png".to_owned()], None));
}

/// The target of `Link: <...>; rel="next"` (RFC 8288).
fn linked(page: &super::test_app::TestResponse) -> Option<String> {
    let link = page.header("link")?;
    let target = link.strip_prefix('<').and_then(|rest| rest.strip_suffix(">; rel=\"next\""));
    Some(target.unwrap_or_else(|| panic!("{link}")).to_owned())
}

#[tokio::test]
async fn the_link_header_of_a_page_equals_its_cursor() {
    let app = TestApp::new().await;
    for n in 0..7 {
        app.files(&[&format!("/v1/fs/%C3%BC%3E%22/x/cat%20{n}.jpg")]).await;
    }
    for first in [
        "/v1/fs/%C3%BC%3E%22/x/?limit=2",
        "/v1/fs/%C3%BC%3E%22/x/?kind=file&limit=3&prefix=cat%20",
        "/v1/files?limit=2&under=/%C3%BC%3E%22&order=asc",
        "/v1/find?name=cat*&limit=3&under=%2F%C3%BC%3E%22/x",
    ] {
        let all = app.get(&first.replace("limit=2", "limit=100").replace("limit=3", "limit=100")).await.is(200);
        assert_eq!((all.names().len(), all.header("link")), (7, None), "{first}");
        let (mut by_link, mut by_cursor, mut pages) = (Vec::new(), Vec::new(), 0);
        let mut at = Some(first.to_owned());
        let mut cursor = String::new();
        while let Some(target) = at {
            let page = app.get(&target).await.is(200);
            by_link.extend(page.names());
            let same = app.get(&format!("{first}{cursor}")).await.is(200);
            by_cursor.extend(same.names());
            assert_eq!(linked(&page).is_some(), page.next().is_some(), "{target}");
            cursor = same.next().map(|next| format!("&cursor={next}")).unwrap_or_default();
            at = linked(&page);
            pages += 1;
        }
        assert!(pages >= 3, "{first}: {pages} pages");
        assert_eq!(by_link, by_cursor, "{first}");
        assert_eq!(by_link, all.names(), "{first}");
    }
}
