//! A drive with users over HTTP, and what each caller sends.

use std::collections::BTreeMap;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rowdrive::auth::{Credential, DirChain, NewShare, NewToken, NewUser, UserChange};
use rowdrive::drive::Node;
use rowdrive::schema::account::Quota;
use rowdrive::schema::rights::Right;
use rowdrive::schema::secret::TokenScope;
use rowdrive::schema::share::{ShareMode, ShareTarget};
use rowdrive::schema::{DirId, DrivePath, Timestamp};

use crate::auth::fixture::log_in;
use crate::drive::fixture::run;
use crate::drive::model::Op;
use crate::http::test_app::{TestApp, TestResponse};

pub const PASSWORD: &str = "correct horse";
pub const ADMIN: &str = "Eve@example.org";

/// A drive with an admin; a user, Tom, who may write in `/d`; one, Eva, who has nothing; a disabled one and a removed one.
pub struct World {
    pub app: TestApp,
    pub admin: Credential,
    /// The secret of a share of `/d`, by the admin.
    pub share: String,
    /// That of one with a password.
    pub locked_share: String,
    /// That of one to upload by.
    pub upload_share: String,
    /// That of one that has ended.
    pub ended_share: String,
    /// What each caller sends as `Authorization` or as `Cookie`.
    pub callers: BTreeMap<&'static str, (&'static str, String)>,
}

pub fn new_user(name: &str) -> NewUser {
    let (name, password) = (name.to_owned(), PASSWORD.to_owned());
    NewUser { name, password, display: String::new(), admin: false, quota: Quota::default() }
}

pub fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

fn cookie(session: &str) -> (&'static str, String) {
    ("cookie", format!("theme=dark; rowdrive={session}"))
}

/// Without its id, two refusals for the same reason are the same bytes.
pub fn comparable(answer: &TestResponse) -> (u16, Vec<(String, String)>, String) {
    let own = ["x-request-id", "content-length"];
    let headers = answer.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let headers = headers.filter(|(name, _)| !own.contains(&name.as_str())).collect();
    (answer.status, headers, answer.text().replace(answer.header("x-request-id").unwrap(), ""))
}

impl World {
    pub async fn new() -> Self {
        Self::of(TestApp::new().await).await
    }

    /// `app`: of an empty drive.
    pub async fn of(app: TestApp) -> Self {
        app.files(&["/v1/fs/d/f", "/v1/fs/d/c/g", "/v1/fs/h/f"]).await;
        app.auth.make_first_user(new_user(ADMIN)).await.unwrap();
        let admin = log_in(&app.auth, ADMIN, PASSWORD).await.unwrap();
        for name in ["tom", "eva", "off", "gone"] {
            app.auth.add_user(&admin, new_user(name)).await.unwrap();
        }
        let [share, locked_share, upload_share, ended_share] = [const { String::new() }; 4];
        let callers = BTreeMap::new();
        let mut world = Self { app, admin, share, locked_share, upload_share, ended_share, callers };
        world.add_shares().await;
        let to = world.app.auth.grantee("tom").await.unwrap();
        let (chain, rights) = (world.chain("/d").await, [Right::Read, Right::Write].into_iter().collect());
        world.app.auth.put_grant(&world.admin, &chain, &to, rights).await.unwrap();
        world.add_tokens().await;
        world.add_sessions().await;
        let auth = &world.app.auth;
        let off = UserChange { disabled: Some(true), ..UserChange::default() };
        auth.change_user(&world.admin, "off", off).await.unwrap();
        auth.remove_user(&world.admin, "gone").await.unwrap();
        let authorization = [
            ("wrong password", basic("tom", "incorrect horse")),
            ("unknown name", basic("nobody", PASSWORD)),
            ("disabled", basic("off", PASSWORD)),
            ("removed", basic("gone", PASSWORD)),
            ("no name", basic("", PASSWORD)),
            ("malformed", "Basic ?".to_owned()),
            ("other scheme", "Digest rowdrive".to_owned()),
            ("password of a user", basic("tom", PASSWORD)),
            ("password of an admin", basic(ADMIN, PASSWORD)),
        ];
        world.callers.extend(authorization.map(|(name, value)| (name, ("authorization", value))));
        world
    }

    async fn add_tokens(&mut self) {
        let auth = &self.app.auth;
        let tom = log_in(auth, "tom", PASSWORD).await.unwrap();
        let eva = log_in(auth, "eva", PASSWORD).await.unwrap();
        let scope = |dir, rights: &[Right]| Some(TokenScope { dir, rights: rights.iter().copied().collect() });
        let below = scope(self.dir("/d/c").await, &[Right::Read]);
        let root = scope(DirId::ROOT, &[Right::Read, Right::Write, Right::Share]);
        let past = Some(Timestamp::from_ms(1));
        let token = async |by: &Credential, new: NewToken| auth.make_token(by, new).await.unwrap();
        let of_user = token(&tom, NewToken::default()).await.text;
        let of_admin = token(&self.admin, NewToken::default()).await.text;
        let of_other = token(&eva, NewToken::default()).await.text;
        let for_directory = token(&tom, NewToken { scope: below, ..NewToken::default() }).await.text;
        let for_root = token(&self.admin, NewToken { scope: root, ..NewToken::default() }).await.text;
        let expired = token(&self.admin, NewToken { expires: past, ..NewToken::default() }).await.text;
        let ended = token(&self.admin, NewToken::default()).await;
        let owner = ended.credential.secret().unwrap();
        auth.revoke(&self.admin, &owner.user, owner.kind, owner.id).await.unwrap();
        let bearer = |text: &str| ("authorization", format!("Bearer {text}"));
        let sent = [
            ("token of a user", bearer(&of_user)),
            ("token of an admin", bearer(&of_admin)),
            ("token of another user", bearer(&of_other)),
            ("token for a directory", bearer(&for_directory)),
            ("token for the root", bearer(&for_root)),
            ("expired token", bearer(&expired)),
            ("ended token", bearer(&ended.text)),
            ("token by name", ("authorization", basic("eve@EXAMPLE.org", &of_admin))),
            ("token without name", ("authorization", basic("", &of_admin))),
            ("token by another name", ("authorization", basic("tom", &of_admin))),
            ("token as cookie", cookie(&of_admin)),
        ];
        self.callers.extend(sent);
    }

    async fn add_shares(&mut self) {
        let (auth, chain) = (&self.app.auth, self.chain("/d").await);
        let target = ShareTarget::Dir(chain.last().unwrap().1);
        let new = NewShare { target, mode: ShareMode::Read { downloads: None }, expires: None, password: None };
        let (share, _) = auth.make_share(&self.admin, &chain, new.clone()).await.unwrap();
        let locked = NewShare { password: Some(PASSWORD.to_owned()), ..new.clone() };
        let (locked, _) = auth.make_share(&self.admin, &chain, locked).await.unwrap();
        let upload = NewShare { mode: ShareMode::Upload { bytes: 1 << 20 }, ..new.clone() };
        let (upload, _) = auth.make_share(&self.admin, &chain, upload).await.unwrap();
        let (ended, _) = auth.make_share(&self.admin, &chain, new).await.unwrap();
        let owner = ended.credential.secret().unwrap();
        auth.revoke(&self.admin, &owner.user, owner.kind, owner.id).await.unwrap();
        (self.share, self.locked_share) = (share.text, locked.text);
        (self.upload_share, self.ended_share) = (upload.text, ended.text);
    }

    async fn add_sessions(&mut self) {
        let auth = &self.app.auth;
        let tom = log_in(auth, "tom", PASSWORD).await.unwrap();
        let off = log_in(auth, "off", PASSWORD).await.unwrap();
        let session = async |by: &Credential| auth.make_session(by).await.unwrap().text;
        let (of_user, of_admin, of_disabled) = (session(&tom).await, session(&self.admin).await, session(&off).await);
        let sent = [
            ("session of a user", cookie(&of_user)),
            ("session of an admin", cookie(&of_admin)),
            ("session of a disabled user", cookie(&of_disabled)),
            ("session as token", ("authorization", format!("Bearer {of_admin}"))),
            ("session under the name for TLS", ("cookie", format!("__Host-rowdrive={of_admin}"))),
            ("two sessions", ("cookie", format!("rowdrive={of_user}; rowdrive={of_admin}"))),
        ];
        self.callers.extend(sent);
    }

    pub fn sends_authorization(&self, caller: &str) -> bool {
        self.callers.get(caller).is_some_and(|(name, _)| *name == "authorization")
    }

    pub async fn send(&self, caller: &str, method: &str, target: &str, headers: &[(&str, &str)]) -> TestResponse {
        self.send_body(caller, method, target, headers, "").await
    }

    pub async fn send_body(
        &self,
        caller: &str,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> TestResponse {
        let sent = self.callers.get(caller).map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<_> = headers.iter().copied().chain(sent).collect();
        self.app.send(method, target, &headers, body).await
    }

    /// The directories of a path.
    pub async fn chain(&self, text: &str) -> DirChain {
        let (mut chain, mut at) = (DirChain::root(), DrivePath::root());
        for name in DrivePath::parse(text).unwrap().names() {
            at = at.join(&name).unwrap();
            let Node::Directory { entry, .. } = self.app.drive.unrestricted().stat(&at).await.unwrap() else {
                panic!("a file")
            };
            chain.push(at.clone(), entry.id);
        }
        chain
    }

    async fn dir(&self, text: &str) -> DirId {
        self.chain(text).await.last().unwrap().1
    }

    /// Makes the files and directories as they were.
    pub async fn renew(&self) {
        for op in [
            Op::Delete("/d/new"),
            Op::Delete("/d/c/new"),
            Op::Delete("/h/new"),
            Op::Remove("/d/made"),
            Op::Remove("/none"),
            Op::Put("/d/f", 1),
            Op::Put("/d/c/g", 2),
            Op::Put("/h/f", 3),
        ] {
            let _done = run(&self.app.drive, op).await;
        }
    }
}
