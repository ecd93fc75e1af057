//! The page for logins, and who is sent there.

use super::access::world::{PASSWORD, basic, new_user};
use super::test_app::{TestApp, TestResponse};

const ADMIN: &str = "eve";
const OWN: (&str, &str) = ("origin", "http://localhost:8080");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

async fn with_users() -> TestApp {
    let app = TestApp::new().await;
    app.auth.make_first_user(new_user(ADMIN)).await.unwrap();
    app
}

fn fields(password: &str, next: &str) -> String {
    format!("user=EVE&password={}&next={next}", password.replace(' ', "+"))
}

async fn post(app: &TestApp, headers: &[(&str, &str)], body: String) -> TestResponse {
    app.send("POST", "/login", headers, body).await
}

#[tokio::test]
async fn a_page_sends_its_reader_to_the_login_and_back() {
    let app = with_users().await;
    for (target, login) in [
        ("/docs/", "/login?next=%2Fdocs%2F"),
        ("/docs", "/login?next=%2Fdocs"),
        ("/docs/?a=b&c", "/login?next=%2Fdocs%2F%3Fa%3Db%26c"),
    ] {
        let sent = app.get(target).await.is(303);
        assert_eq!(sent.header("location"), Some(login));
        assert!(sent.header("www-authenticate").is_none(), "no window of the browser");
        app.send("HEAD", target, &[], "").await.is(303);
    }
    // Who sends a credential is a program: it learns that this one is wrong.
    let wrong = basic(ADMIN, "wrong password");
    app.send("GET", "/docs/", &[("authorization", &wrong)], "").await.problem(401, "unauthorized");
    let ended = app.send("GET", "/docs/", &[("cookie", "rowdrive=ended")], "").await;
    assert_eq!(ended.is(303).header("location"), Some("/login?next=%2Fdocs%2F"));
    for target in ["/v1/fs/", "/openapi.json", "/metrics", "/docs/none.js"] {
        app.get(target).await.problem(401, "unauthorized");
    }

    let page = app.get("/login?next=%2Fdocs%2F%3Fa%3Db%26c").await.is(200);
    assert!(page.text().contains(r#"name="next" value="/docs/?a=b&amp;c""#), "{}", page.text());
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{policy}");
    assert!(policy.contains("form-action 'self'") && !policy.contains("unsafe"), "{policy}");
    // The style of all pages for people.
    assert!(page.text().contains("<style>body{") && policy.contains("style-src 'sha256-"), "{policy}: {}", page.text());
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let done = post(&app, &[OWN, FORM], fields(PASSWORD, "/docs/%3Fa%3Db%26c")).await.is(303);
    assert_eq!(done.header("location"), Some("/docs/?a=b&c"));
    let set = done.header("set-cookie").unwrap();
    assert!(set.starts_with("rowdrive=") && set.ends_with("; HttpOnly; SameSite=Lax"), "{set}");
    let cookie = set.split(';').next().unwrap();
    app.send("GET", "/docs/", &[("cookie", cookie)], "").await.is(200);
}

#[tokio::test]
async fn the_start_page_has_a_button_to_log_out() {
    let app = with_users().await;
    let done = post(&app, &[OWN, FORM], fields(PASSWORD, "/")).await.is(303);
    let cookie = ("cookie", done.header("set-cookie").unwrap().split(';').next().unwrap());
    let html = ("accept", "text/html");
    let page = app.send("GET", "/", &[cookie, html], "").await.is(200);
    assert!(page.text().contains(r#"<form method="post" action="/logout">"#), "{}", page.text());
    // Without a session there is nothing to end.
    let basic = basic(ADMIN, PASSWORD);
    let by_password = app.send("GET", "/", &[("authorization", &basic), html], "").await.is(200);
    assert!(!by_password.text().contains("logout"), "{}", by_password.text());
    // A page of another site sends no such form.
    for foreign in [vec![cookie, FORM], vec![cookie, FORM, ("origin", "https://evil.example")]] {
        app.send("POST", "/logout", &foreign, "").await.problem(403, "foreign-origin");
    }
    app.send("GET", "/v1/session", &[cookie], "").await.is(200);
    let out = app.send("POST", "/logout", &[cookie, OWN, FORM], "").await.is(303);
    assert_eq!(out.header("location"), Some("/login"));
    assert!(out.header("set-cookie").unwrap().starts_with("rowdrive=; Path=/; Max-Age=0"), "{out:?}");
    app.send("GET", "/v1/session", &[cookie], "").await.problem(401, "unauthorized");
    // Again, in another tab.
    let again = app.send("POST", "/logout", &[cookie, OWN, FORM], "").await.is(303);
    assert_eq!((again.header("location"), again.header("www-authenticate")), (Some("/login"), None));
}

#[tokio::test]
async fn the_start_is_a_page_with_links_for_who_is_logged_in() {
    let app = with_users().await;
    let browser = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let sent = app.send("GET", "/", &[browser], "").await.is(303);
    assert_eq!(sent.header("location"), Some("/login?next=%2F"));
    let done = post(&app, &[OWN, FORM], format!("user=eve&password={}", PASSWORD.replace(' ', "+"))).await.is(303);
    assert_eq!(done.header("location"), Some("/"));
    let cookie = ("cookie", done.header("set-cookie").unwrap().split(';').next().unwrap());
    let page = app.send("GET", "/", &[browser, cookie], "").await.is(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text().contains("<style>body{"), "{}", page.text());
    let links: Vec<_> = page.text().split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(links, ["/v1/fs/", "/v1/session", "/docs/"]);
    for link in links {
        app.send("GET", link, &[browser, cookie], "").await.is(200);
    }
    // A program finds nothing, and is not sent to the login.
    app.send("GET", "/", &[cookie], "").await.problem(404, "no-such-route");
    app.get("/").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_login_leads_to_no_other_server() {
    let app = with_users().await;
    for next in [
        "//evil.example",
        "/%5Cevil.example",
        "%5C%5Cevil.example",
        "https://evil.example/",
        "/%09/evil.example",
        "javascript:x",
        "/%0D%0ASet-Cookie:x",
    ] {
        let page = app.get(&format!("/login?next={next}")).await.is(200);
        assert!(page.text().contains(r#"name="next" value="/""#), "{next}: {}", page.text());
        let done = post(&app, &[OWN, FORM], fields(PASSWORD, next)).await.is(303);
        assert_eq!(done.header("location"), Some("/"), "{next}");
    }
    let quoted = app.get("/login?next=/%22%3E%3Cscript%3E").await.is(200);
    assert!(!quoted.text().contains("<script>"), "{}", quoted.text());
}

/// A page of another site can send the form, and would log its reader in as someone else.
#[tokio::test]
async fn the_form_comes_from_the_page_alone() {
    let app = with_users().await;
    for headers in [
        &[FORM][..],
        &[FORM, ("origin", "null")],
        &[FORM, ("origin", "http://evil.example")],
        &[FORM, ("origin", "http://localhost:8081")],
        &[FORM, OWN, ("sec-fetch-site", "cross-site")],
        &[FORM, OWN, ("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")],
    ] {
        let refused = post(&app, headers, fields(PASSWORD, "/")).await.problem(403, "foreign-origin");
        assert!(refused.header("set-cookie").is_none(), "{headers:?}");
    }
    post(&app, &[OWN, ("content-type", "text/plain")], fields(PASSWORD, "/")).await.problem(415, "media-type");
    post(&app, &[OWN, FORM], "user=eve&more=x".into()).await.problem(400, "malformed");
    post(&app, &[OWN, FORM], format!("user={}", "x".repeat(17 << 10))).await.problem(413, "body-too-large");
    // A link of another site opens the page.
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    app.send("GET", "/login", &link, "").await.is(200);
    app.send("GET", "/docs/", &link, "").await.is(303);
}

#[tokio::test]
async fn the_page_says_what_was_wrong_without_a_window_of_the_browser() {
    let app = with_users().await;
    let navigate = ("sec-fetch-mode", "navigate");
    for password in ["wrong password", ""] {
        let refused = post(&app, &[OWN, FORM, navigate], fields(password, "/docs/x")).await.is(401);
        assert_eq!(refused.header("www-authenticate"), Some(r#"Session realm="Rowdrive""#));
        assert!(refused.text().contains("is wrong") && refused.text().contains(r#"value="/docs/x""#));
        assert!(refused.header("set-cookie").is_none());
    }
    for _ in 0..8 {
        post(&app, &[OWN, FORM], fields("wrong password", "/")).await.is(401);
    }
    let slowed = post(&app, &[OWN, FORM], fields(PASSWORD, "/")).await.is(429);
    assert!(slowed.header("retry-after").is_some() && slowed.text().contains("Too many wrong passwords"));
    let without = TestApp::new().await;
    let refused = without.get("/login").await.problem(409, "no-users");
    assert!(refused.text().contains("rowdrive user add NAME --data"), "{}", refused.text());
    without.get("/docs/").await.is(200);
}
