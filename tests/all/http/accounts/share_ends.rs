//! A share that ends before any call of a request by it: the answer is as before that, or as to a wrong link.

use rowdrive::auth::{Auth, Credential, DirChain, NewShare, NewToken, UserChange};
use rowdrive::schema::rights::Right;
use rowdrive::schema::share::{ShareMode, ShareTarget};

use crate::auth::fixture::{grantee, log_in, rights};
use crate::http::access::world::{PASSWORD, World, comparable};
use crate::http::test_app::TestResponse;

/// Method, path below the link, body.
type Ask = (&'static str, &'static str, &'static str);

const READS: [Ask; 6] = [
    ("GET", "", ""),
    ("GET", "?path=/c", ""),
    ("GET", "fs/", ""),
    ("GET", "fs/c/", ""),
    ("GET", "fs/f", ""),
    ("HEAD", "fs/c/g", ""),
];

const UPLOADS: [Ask; 3] = [("GET", "", ""), ("PUT", "fs/new", "x"), ("POST", "", FORM)];

const FORM: &str =
    "--limit\r\nContent-Disposition: form-data; name=\"files\"; filename=\"new\"\r\n\r\nx\r\n--limit--\r\n";

/// What ends a share of Tom's.
#[derive(Clone, Copy, Debug)]
enum Rival {
    Revoke,
    /// Takes his rights on its directory back.
    TakeRights,
    Disable,
}

const RIVALS: [Rival; 3] = [Rival::Revoke, Rival::TakeRights, Rival::Disable];

/// Who ends it: an admin, with what he needs for that.
#[derive(Clone)]
struct Admin {
    auth: Auth,
    admin: Credential,
    dir: DirChain,
}

impl Admin {
    async fn act(&self, rival: Rival, share: &Credential) {
        let Self { auth, admin, dir } = self;
        match rival {
            Rival::Revoke => {
                let owner = share.secret().unwrap();
                auth.revoke(admin, &owner.user, owner.kind, owner.id).await.unwrap();
            }
            Rival::TakeRights => auth.delete_grant(admin, dir, &grantee("tom")).await.unwrap(),
            Rival::Disable => self.disable(true).await,
        }
    }

    /// Lets Tom make shares again.
    async fn renew(&self) {
        let all = rights(&[Right::Write, Right::Share]);
        self.auth.put_grant(&self.admin, &self.dir, &grantee("tom"), all).await.unwrap();
        self.disable(false).await;
    }

    async fn disable(&self, disabled: bool) {
        let change = UserChange { disabled: Some(disabled), ..UserChange::default() };
        self.auth.change_user(&self.admin, "tom", change).await.unwrap();
    }
}

async fn send(world: &World, link: &str, (method, at, body): Ask) -> TestResponse {
    let form = [("origin", "http://localhost:8080"), ("content-type", "multipart/form-data; boundary=limit")];
    let headers = if method == "POST" { &form[..] } else { &[] };
    world.app.send(method, &[link, at].concat(), headers, body).await
}

/// Returns how many of the answers were as to a wrong link.
async fn races(mode: ShareMode, asked: &[Ask]) -> usize {
    let world = World::new().await;
    let (auth, dir) = (world.app.auth.clone(), world.chain("/d").await);
    let target = ShareTarget::Dir(dir.last().unwrap().1);
    let admin = Admin { auth: auth.clone(), admin: world.admin.clone(), dir: dir.clone() };
    let tom = log_in(&auth, "tom", PASSWORD).await.unwrap();
    let tom = auth.make_token(&tom, NewToken::default()).await.unwrap().credential;
    let mut refused = 0;
    for (ask, rival) in asked.iter().flat_map(|ask| RIVALS.map(|rival| (*ask, rival))) {
        let wrong = comparable(&send(&world, &["/s/", &"A".repeat(27), "/"].concat(), ask).await.is(404));
        for call in 1.. {
            admin.renew().await;
            let new = NewShare { target, mode, expires: None, password: None };
            let (share, _) = auth.make_share(&tom, &dir, new).await.unwrap();
            let (admin, credential) = (admin.clone(), share.credential.clone());
            world.app.store.once_before_call(call, async move { admin.act(rival, &credential).await });
            let answer = send(&world, &format!("/s/{}/", share.text), ask).await;
            let title = format!("{rival:?} before call {call} of {ask:?}");
            let is_done = matches!(answer.status, 200 | 201);
            if !world.app.store.has_happened() {
                assert!(call > 3 && is_done, "{title}: {answer:?}");
                break;
            }
            assert!(is_done || comparable(&answer) == wrong, "{title}: {answer:?}");
            refused += usize::from(!is_done);
        }
    }
    refused
}

#[tokio::test]
async fn a_read_by_a_share_that_ends_is_answered_as_before_or_as_a_wrong_link() {
    let refused = races(ShareMode::Read { downloads: None }, &READS).await;
    assert!(refused > 50, "{refused}");
}

#[tokio::test]
async fn an_upload_by_a_share_that_ends_is_answered_as_before_or_as_a_wrong_link() {
    let refused = races(ShareMode::Upload { bytes: 1 << 20 }, &UPLOADS).await;
    assert!(refused > 20, "{refused}");
}
