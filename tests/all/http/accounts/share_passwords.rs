//! Shares with a password: nothing without it, by HTTP Basic or by the form.

use std::net::IpAddr;

use rowdrive::http::Options;
use serde_json::{Value, json};

use super::shares::{make, put, with_files};
use super::{ADMIN, Api, walk};
use crate::http::access::world::{PASSWORD, basic, comparable};
use crate::http::test_app::TestResponse;

const SESAME: &str = "sesame, open";
const OWN: (&str, &str) = ("origin", "http://localhost:8080");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A link to `/home/tom/a` with a password.
async fn locked(api: &Api) -> (String, Value) {
    make(api, "tom", json!({"path": "/home/tom/a", "mode": "read", "password": SESAME})).await
}

impl Api {
    async fn at(&self, url: &str, path: &str, headers: &[(&str, &str)]) -> TestResponse {
        self.app.send("GET", &[url, path].concat(), headers, "").await
    }

    async fn with_password(&self, url: &str, path: &str, password: &str) -> TestResponse {
        self.at(url, path, &[("authorization", &basic("anyone", password))]).await
    }

    /// Sends the form of a share.
    async fn form(&self, url: &str, headers: &[(&str, &str)], password: &str) -> TestResponse {
        let fields = format!("password={}", password.replace(' ', "+"));
        self.app.send("POST", &format!("{url}login"), headers, fields).await
    }

    /// The cookie that the form sets.
    async fn cookie(&self, url: &str) -> String {
        let done = self.form(url, &[OWN, FORM], SESAME).await.is(303);
        done.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_share_with_a_password_shows_nothing_without_it() {
    let api = with_files().await;
    put(&api, "/v1/fs/home/tom/a/secret-name", "x").await;
    let (url, made) = locked(&api).await;
    assert_eq!(made["password"], true);
    let listed = walk(&api, "tom", "/v1/shares?limit=1", "shares").await;
    assert_eq!(listed[0]["password"], true);
    assert!(!format!("{made} {listed:?}").contains("argon2"), "{made} {listed:?}");
    for path in ["fs/", "fs/f", "fs/none", "fs/b/", "fs", "none", "fs/%00", "fs/../x"] {
        let refused = api.at(&url, path, &[]).await.problem(401, "unauthorized");
        assert_eq!(refused.header("www-authenticate"), Some(r#"Basic realm="Rowdrive", charset="UTF-8""#), "{path}");
        assert_eq!(refused.header("cache-control"), Some("no-store"));
        let script = api.at(&url, path, &[("sec-fetch-mode", "cors")]).await.is(401);
        assert_eq!(script.header("www-authenticate"), Some(r#"Session realm="Rowdrive""#));
    }
    for (method, path) in [("HEAD", "fs/f"), ("PUT", "fs/f"), ("DELETE", "fs/f"), ("POST", ""), ("GET", "login")] {
        api.app.send(method, &[&url, path].concat(), &[], "").await.is(401);
    }
    // The page is a form, which tells nothing of what there is.
    let page = api.at(&url, "", &[("sec-fetch-mode", "navigate")]).await.is(401);
    assert_eq!(page.header("www-authenticate"), Some(r#"Session realm="Rowdrive""#), "no window of the browser");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    assert!(page.text().contains(r#"<form method="post" action="login">"#), "{}", page.text());
    let secret = url.split('/').nth(2).unwrap();
    for hidden in ["tom", "secret-name", "fs/", "script", secret] {
        assert!(!page.text().contains(hidden), "{hidden}: {}", page.text());
    }
    let to = api.stranger(url.trim_end_matches('/')).await.is(308);
    assert_eq!(to.header("location"), Some(url.as_str()));
    // The accounts of the drive do not count, also not that of the maker.
    for authorization in [basic("tom", PASSWORD), basic(ADMIN, PASSWORD), "Basic ?".into(), "Bearer rd_none".into()] {
        api.at(&url, "fs/f", &[("authorization", &authorization)]).await.problem(401, "unauthorized");
    }
    // A program gets no form.
    api.with_password(&url, "", "wrong password").await.problem(401, "unauthorized");
    for name in ["", "anyone", "tom"] {
        let right = basic(name, SESAME);
        assert_eq!(api.at(&url, "fs/f", &[("authorization", &right)]).await.is(200).text(), "x");
        assert!(api.at(&url, "", &[("authorization", &right)]).await.is(200).text().contains("secret-name"));
        api.at(&url, "fs/none", &[("authorization", &right)]).await.problem(404, "not-found");
        let refused = api.app.send("PUT", &format!("{url}fs/f"), &[("authorization", &right)], "x").await.is(405);
        assert_eq!(refused.header("allow"), Some("GET, HEAD"));
    }
}

#[tokio::test]
async fn what_has_ended_asks_for_no_password() {
    let api = with_files().await;
    let ((url, made), (gone, _), (hidden, _)) = (locked(&api).await, locked(&api).await, locked(&api).await);
    let disable = async |disabled: bool| {
        api.by(ADMIN, "PATCH", "/v1/users/tom", json!({"disabled": disabled})).await.is(200);
    };
    disable(true).await;
    api.is_nothing(&url).await;
    disable(false).await;
    api.at(&url, "fs/f", &[]).await.is(401);
    let id = made["id"].as_str().unwrap();
    api.by("tom", "DELETE", &format!("/v1/shares/{id}"), Value::Null).await.is(204);
    api.is_nothing(&url).await;
    // Whether there is still what a share is of, or whether its maker sees it, is for who knows the password.
    let give = async |rights: Value| {
        let grant = json!({"path": "/home/tom", "user": "tom", "rights": rights});
        api.by(ADMIN, "PUT", "/v1/grants", grant).await.is(200);
    };
    let answers =
        async |url: &str| [api.at(url, "fs/f", &[]).await.status, api.with_password(url, "fs/f", SESAME).await.status];
    assert_eq!(answers(&hidden).await, [401, 200]);
    give(json!(["read", "write"])).await;
    assert_eq!(answers(&hidden).await, [401, 404]);
    give(json!(["share", "write"])).await;
    assert_eq!(answers(&hidden).await, [401, 200]);
    api.by("tom", "DELETE", "/v1/fs/home/tom/a/?recursive=true", Value::Null).await.is(204);
    assert_eq!(answers(&gone).await, [401, 404]);
}

#[tokio::test]
async fn the_form_sets_a_cookie_of_one_share_for_a_day() {
    let api = with_files().await;
    let ((url, made), (other, _)) = (locked(&api).await, locked(&api).await);
    let done = api.form(&url, &[OWN, FORM], SESAME).await.is(303);
    assert_eq!(done.header("location"), Some(url.as_str()));
    let set = done.header("set-cookie").unwrap();
    let end = format!("; Path={url}; Max-Age=86400; HttpOnly; SameSite=Strict");
    assert!(set.starts_with("rowdrive-share=") && set.ends_with(&end), "{set}");
    let cookie = set.split(';').next().unwrap();
    assert_ne!(cookie, api.cookie(&url).await, "it is sealed anew each time");
    let get = async |url: &str, path: &str, cookie: &str| api.at(url, path, &[("cookie", cookie)]).await;
    assert_eq!(get(&url, "fs/f", cookie).await.is(200).text(), "x");
    assert!(get(&url, "", &format!("theme=dark; {cookie}; rowdrive=x")).await.is(200).text().contains("fs/f"));
    // One of another server on this host is there too.
    get(&url, "fs/f", &format!("rowdrive-share=x; {cookie}")).await.is(200);
    get(&url, "login", cookie).await.problem(405, "method-not-allowed");
    // It is of use for nothing else.
    let of_other = api.cookie(&other).await;
    get(&other, "fs/f", &of_other).await.is(200);
    get(&other, "fs/f", cookie).await.problem(401, "unauthorized");
    get(&url, "fs/f", &of_other).await.problem(401, "unauthorized");
    let value = cookie.split_once('=').unwrap().1;
    for changed in [
        format!("rowdrive-share={}", &value[1..]),
        format!("rowdrive-share={value}A"),
        format!("rowdrive-share={}", value.to_lowercase()),
        format!("__Secure-rowdrive-share={value}"),
        format!("rowdrive={value}"),
        "rowdrive-share=".into(),
    ] {
        get(&url, "fs/f", &changed).await.problem(401, "unauthorized");
    }
    api.app.send("GET", "/v1/session", &[("cookie", &format!("rowdrive={value}"))], "").await.is(401);
    // A credential goes before the cookie.
    let both = [("cookie", cookie), ("authorization", &basic("x", "wrong password"))];
    api.at(&url, "fs/f", &both).await.problem(401, "unauthorized");
    // A cookie of the share is no cursor of it, nor the other way round.
    let page = api.at(&url, "fs/?limit=1", &[("cookie", cookie)]).await.is(200);
    let cursor = page.next().unwrap();
    get(&url, &format!("fs/?cursor={value}"), cookie).await.problem(400, "malformed");
    get(&url, "fs/f", &format!("rowdrive-share={cursor}")).await.problem(401, "unauthorized");
    let id = made["id"].as_str().unwrap();
    api.by("tom", "DELETE", &format!("/v1/shares/{id}"), Value::Null).await.is(204);
    get(&url, "fs/f", cookie).await.problem(404, "not-found");
}

#[tokio::test]
async fn by_tls_the_cookie_of_a_share_is_sent_by_tls_alone() {
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let api = Api::with(Options { proxies, hosts: vec!["drive.example".into()], ..Options::default() }).await;
    api.app.auth.make_first_user(crate::http::access::world::new_user(ADMIN)).await.unwrap();
    let by_tls = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https"), ("host", "drive.example")];
    let (url, _) = make(&api, ADMIN, json!({"path": "/", "mode": "read", "password": SESAME})).await;
    let origin = ("origin", "https://drive.example");
    let done = api.form(&url, &[&by_tls[..], &[origin, FORM]].concat(), SESAME).await.is(303);
    let set = done.header("set-cookie").unwrap();
    assert!(set.starts_with("__Secure-rowdrive-share=") && set.ends_with("; SameSite=Strict; Secure"), "{set}");
    let cookie = ("cookie", set.split(';').next().unwrap());
    api.at(&url, "fs/", &[&by_tls[..], &[cookie]].concat()).await.is(200);
    api.at(&url, "fs/", &[cookie]).await.is(401);
}

/// A page of another site can send the form.
#[tokio::test]
async fn the_form_of_a_share_comes_from_its_page_alone() {
    let api = with_files().await;
    let (url, _) = locked(&api).await;
    for headers in [
        &[FORM][..],
        &[FORM, ("origin", "null")],
        &[FORM, ("origin", "http://evil.example")],
        &[FORM, ("origin", "http://localhost:8081")],
    ] {
        let refused = api.form(&url, headers, SESAME).await.problem(403, "foreign-origin");
        assert!(refused.header("set-cookie").is_none(), "{headers:?}");
    }
    api.form(&url, &[OWN, ("content-type", "text/plain")], SESAME).await.problem(415, "media-type");
    let post = async |target: &str, body: &str| {
        api.app.send("POST", &[&url, target].concat(), &[OWN, FORM], body.to_owned()).await
    };
    post("login", "password=x&user=tom").await.problem(400, "malformed");
    post("login?next=/", "password=x").await.problem(400, "malformed");
    post("login", &format!("password={}", "x".repeat(17 << 10))).await.problem(413, "body-too-large");
    // What changes something by the cookie names its origin.
    let cookie = api.cookie(&url).await;
    let put = async |headers: &[(&str, &str)]| api.app.send("PUT", &format!("{url}fs/f"), headers, "x").await;
    put(&[("cookie", &cookie)]).await.problem(403, "foreign-origin");
    put(&[("cookie", &cookie), OWN]).await.problem(405, "method-not-allowed");
    // A link without a password leads to its page all the same.
    let (open, _) = make(&api, "tom", json!({"path": "/home/tom/a", "mode": "read"})).await;
    let to = api.form(&open, &[OWN, FORM], "anything").await.is(303);
    assert_eq!((to.header("location"), to.header("set-cookie")), (Some(open.as_str()), None));
}

#[tokio::test]
async fn guesses_of_the_password_of_a_share_slow_it_alone() {
    let mut api = with_files().await;
    let ((url, _), (other, _)) = (locked(&api).await, locked(&api).await);
    for n in 0..5 {
        api.with_password(&url, "fs/f", &format!("guess no. {n}")).await.problem(401, "unauthorized");
        let refused = api.form(&url, &[OWN, FORM], &format!("form no. {n}")).await.is(401);
        assert!(refused.text().contains("is wrong") && refused.header("set-cookie").is_none(), "{}", refused.text());
        assert_eq!(refused.header("www-authenticate"), Some(r#"Session realm="Rowdrive""#));
    }
    let slowed = api.with_password(&url, "fs/f", SESAME).await.problem(429, "too-many-attempts");
    assert!(slowed.header("retry-after").is_some() && !slowed.text().contains("token"), "{}", slowed.text());
    let slowed = api.form(&url, &[OWN, FORM], SESAME).await.is(429);
    assert!(slowed.header("retry-after").is_some() && slowed.text().contains("Too many wrong passwords"));
    assert!(slowed.header("set-cookie").is_none());
    // Neither its maker, nor another share of his, nor the share from elsewhere.
    api.by("tom", "GET", "/v1/session", Value::Null).await.is(200);
    api.with_password(&other, "fs/f", SESAME).await.is(200);
    api.app.peer = IpAddr::from([127, 0, 0, 2]);
    let cookie = api.cookie(&url).await;
    // Who has the cookie guesses nothing.
    api.app.peer = IpAddr::from([127, 0, 0, 1]);
    api.at(&url, "fs/f", &[("cookie", &cookie)]).await.is(200);
    // Guesses of what there is not are no guesses: they are 404, as late as before.
    let of_nobody = ["/s/", &"A".repeat(27), "/"].concat();
    let missing = comparable(&api.with_password(&of_nobody, "fs/f", "guess no. 0").await.is(404));
    assert_eq!(comparable(&api.stranger(&format!("{of_nobody}fs/f")).await), missing);
}

#[tokio::test]
async fn a_password_of_a_share_is_as_those_of_users() {
    let api = with_files().await;
    let share = |password: Value| json!({"path": "/home/tom/a", "mode": "read", "password": password});
    for password in [json!("short"), json!("rd_is a token"), json!("x".repeat(1_025)), json!(12_345_678), json!("")] {
        api.by("tom", "POST", "/v1/shares", share(password)).await.problem(400, "malformed");
    }
    let missing = json!({"path": "/none", "mode": "read", "password": "short"});
    api.by("tom", "POST", "/v1/shares", missing).await.problem(400, "malformed");
    assert_eq!(walk(&api, "tom", "/v1/shares?limit=1", "shares").await.len(), 0);
    let (open, made) = make(&api, "tom", share(Value::Null)).await;
    assert_eq!(made["password"], false);
    api.stranger(&format!("{open}fs/f")).await.is(200);
    // In any spelling of the same text.
    let (url, _) = make(&api, "tom", share(json!("e\u{301}va's pictures"))).await;
    api.with_password(&url, "fs/f", "\u{e9}va's pictures").await.is(200);
    // It counts downloads, and those alone.
    let counted = json!({"path": "/home/tom/a", "mode": "read", "password": SESAME, "downloads": 1});
    let (url, _) = make(&api, "tom", counted).await;
    api.at(&url, "fs/f", &[]).await.is(401);
    api.with_password(&url, "fs/f", SESAME).await.is(200);
    api.is_nothing(&url).await;
}
