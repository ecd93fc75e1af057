//! Two changes of accounts: the second one runs whole, before any call of the store that the first one makes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rowdrive::auth::{Auth, AuthError, Credential, DirChain, NewSecret, NewUser, UserChange};
use rowdrive::engines::memory::Memory;
use rowdrive::migrate;
use rowdrive::schema::CF;
use rowdrive::schema::account;
use rowdrive::schema::grant::GRANT;
use rowdrive::schema::rights::Rights;
use rowdrive::schema::secret::{self, SecretKind, SecretOwner};
use rowdrive::table::{RowCursor, RowQuery, RowRange, Store, Tables};

use super::fixture::{ADMIN, PASSWORD, grantee, log_in, new_user, now, user};
use crate::stepwise::Stepwise;

/// A store with two admins and a user.
struct Base {
    store: Memory,
    admin: Credential,
    eva: Credential,
    login: Credential,
}

async fn auth(store: Arc<dyn Store>) -> Auth {
    let tables = Tables::new(store);
    migrate::open(&tables).await.unwrap();
    Auth::new(tables, now)
}

async fn empty() -> Arc<Memory> {
    let memory = Arc::new(Memory::default());
    migrate::up(&Tables::new(memory.clone())).await.unwrap();
    memory
}

impl Base {
    async fn new() -> Self {
        let memory = empty().await;
        let auth = auth(memory.clone()).await;
        auth.make_first_user(new_user(ADMIN)).await.unwrap();
        let admin = log_in(&auth, ADMIN, PASSWORD).await.unwrap();
        auth.add_user(&admin, NewUser { admin: true, ..new_user("eva") }).await.unwrap();
        auth.add_user(&admin, new_user("tom")).await.unwrap();
        let eva = log_in(&auth, "eva", PASSWORD).await.unwrap();
        let login = log_in(&auth, "tom", PASSWORD).await.unwrap();
        Self { store: (*memory).clone(), admin, eva, login }
    }
}

type Run<T> = Box<dyn Fn(Auth) -> BoxFuture<'static, T>>;
type Rival = Arc<dyn Fn(Auth) -> BoxFuture<'static, ()> + Send + Sync>;

/// Runs `change` again and again on copies of a store, with `rival` before another call each time. `check` gets the
/// result of the change, once both have ended.
async fn at_every_call<T>(store: &Memory, change: Run<T>, rival: Rival, check: impl AsyncFn(Auth, T)) {
    let of_auth = async |_: Tables, auth: Auth, done: T| check(auth, done).await;
    with_tables_at_every_call(store, change, rival, of_auth).await;
}

/// As [`at_every_call`], for a check that looks into the tables.
async fn with_tables_at_every_call<T>(
    store: &Memory,
    change: Run<T>,
    rival: Rival,
    check: impl AsyncFn(Tables, Auth, T),
) {
    for call in 1.. {
        let stepwise = Stepwise::new(Arc::new(store.clone()));
        let (changing, other) = (auth(stepwise.clone()).await, auth(stepwise.inner()).await);
        let (rival, has_run) = (rival.clone(), Arc::new(AtomicBool::new(false)));
        let (ran, rivals) = (has_run.clone(), other.clone());
        stepwise.once_before_call(stepwise.calls() + call, move || async move {
            ran.store(true, Ordering::SeqCst);
            rival(rivals).await;
        });
        let done = change(changing).await;
        if !has_run.load(Ordering::SeqCst) {
            assert!(call > 2, "{call} calls");
            return;
        }
        let tables = Tables::new(stepwise.inner());
        migrate::open(&tables).await.unwrap();
        check(tables, other, done).await;
    }
}

/// A session of a user, after his login.
fn makes_session(login: Credential) -> Run<Result<NewSecret, AuthError>> {
    Box::new(move |auth| {
        let login = login.clone();
        Box::pin(async move { auth.make_session(&login).await })
    })
}

/// A change of a user, which must succeed.
fn changes(by: Credential, name: &'static str, change: UserChange) -> Rival {
    Arc::new(move |auth| {
        let (by, change) = (by.clone(), change.clone());
        Box::pin(async move { drop(auth.change_user(&by, name, change).await.unwrap()) })
    })
}

fn demote() -> UserChange {
    UserChange { admin: Some(false), ..UserChange::default() }
}

async fn is_admin(auth: &Auth, credential: &Credential) -> bool {
    auth.authority(credential).await.is_ok_and(|authority| authority.is_admin())
}

#[tokio::test]
async fn of_two_admins_who_remove_each_other_one_stays() {
    let Base { store, admin, eva, .. } = Base::new().await;
    let (one, other) = (admin.clone(), eva.clone());
    let change: Run<_> = Box::new(move |auth| {
        let admin = one.clone();
        Box::pin(async move { auth.remove_user(&admin, "eva").await })
    });
    let rival: Rival = Arc::new(move |auth| {
        let eva = other.clone();
        Box::pin(async move { drop(auth.remove_user(&eva, ADMIN).await) })
    });
    at_every_call(&store, change, rival, async |auth: Auth, done: Result<(), AuthError>| {
        let (is_eva, is_admin) = (is_admin(&auth, &eva).await, is_admin(&auth, &admin).await);
        assert!(is_eva != is_admin && done.is_ok() == is_admin, "{done:?}");
    })
    .await;
}

#[tokio::test]
async fn of_two_admins_who_demote_themselves_one_stays() {
    let Base { store, admin, eva, .. } = Base::new().await;
    let (one, other) = (admin.clone(), eva.clone());
    let change: Run<_> = Box::new(move |auth| {
        let admin = one.clone();
        Box::pin(async move { auth.change_user(&admin, ADMIN, demote()).await })
    });
    let rival: Rival = Arc::new(move |auth| {
        let eva = other.clone();
        Box::pin(async move { drop(auth.change_user(&eva, "eva", demote()).await) })
    });
    at_every_call(&store, change, rival, async |auth: Auth, done: Result<_, AuthError>| {
        let is_refused = matches!(done, Err(AuthError::LastAdmin));
        assert!(done.is_ok() || is_refused, "{done:?}");
        assert_eq!((is_admin(&auth, &admin).await, is_admin(&auth, &eva).await), (is_refused, !is_refused));
    })
    .await;
}

/// The first demotion has counted her out already.
#[tokio::test]
async fn who_is_demoted_twice_at_once_is_not_the_last_admin() {
    let Base { store, admin, .. } = Base::new().await;
    let one = admin.clone();
    let change: Run<_> = Box::new(move |auth| {
        let admin = one.clone();
        Box::pin(async move { auth.change_user(&admin, "eva", demote()).await })
    });
    at_every_call(&store, change, changes(admin, "eva", demote()), async |_: Auth, done: Result<_, AuthError>| {
        assert!(done.is_ok(), "{done:?}");
    })
    .await;
}

/// He gets the answer of one who is disabled, and not that his session is there no more.
#[tokio::test]
async fn who_is_disabled_learns_nothing_more_of_his_sessions() {
    let Base { store, admin, login, .. } = Base::new().await;
    let store = Arc::new(store);
    let made = auth(store.clone()).await.make_session(&login).await.unwrap();
    let owner = made.credential.secret().unwrap().clone();
    let change: Run<_> = Box::new(move |auth| {
        let (login, owner) = (login.clone(), owner.clone());
        Box::pin(async move { auth.revoke(&login, &owner.user, owner.kind, owner.id).await })
    });
    let disable = UserChange { disabled: Some(true), ..UserChange::default() };
    at_every_call(&store, change, changes(admin, "tom", disable), async |_: Auth, done: Result<(), AuthError>| {
        assert!(matches!(done, Ok(()) | Err(AuthError::Unauthorized)), "{done:?}");
    })
    .await;
}

#[tokio::test]
async fn an_admin_who_is_demoted_changes_nothing_more() {
    let Base { store, admin, eva, .. } = Base::new().await;
    let (one, other) = (admin.clone(), eva.clone());
    let change: Run<_> = Box::new(move |auth| {
        let eva = other.clone();
        Box::pin(async move { auth.put_grant(&eva, &DirChain::root(), &grantee("tom"), Rights::ALL).await })
    });
    at_every_call(&store, change, changes(one, "eva", demote()), async |auth: Auth, done: Result<bool, AuthError>| {
        assert!(matches!(done, Err(AuthError::Forbidden)), "{done:?}");
        let given = auth.grants_on(&admin, &DirChain::root()).await.unwrap();
        assert!(given.is_empty(), "{given:?}");
    })
    .await;
}

type Request = fn(Auth, Credential, SecretOwner) -> BoxFuture<'static, Result<(), AuthError>>;

/// What an admin asks for, of Tom and of herself.
const ASKED: [Request; 7] = [
    |auth, eva, _| {
        let disable = UserChange { disabled: Some(true), ..UserChange::default() };
        Box::pin(async move { auth.change_user(&eva, "tom", disable).await.map(drop) })
    },
    |auth, eva, _| Box::pin(async move { auth.remove_user(&eva, "tom").await }),
    |auth, eva, _| Box::pin(async move { auth.add_user(&eva, new_user("max")).await.map(drop) }),
    |auth, eva, _| Box::pin(async move { auth.delete_grant(&eva, &DirChain::root(), &grantee("tom")).await }),
    |auth, eva, owner| Box::pin(async move { auth.revoke(&eva, &owner.user, owner.kind, owner.id).await }),
    |auth, eva, owner| Box::pin(async move { auth.revoke_sessions(&eva, &owner.user).await }),
    // Who is no admin sends his present password, too.
    |auth, eva, _| {
        let change = UserChange { password: Some("battery staple".into()), ..UserChange::default() };
        Box::pin(async move { auth.change_user(&eva, "eva", change).await.map(drop) })
    },
];

/// All accounts, as they are stored.
async fn accounts(store: Arc<dyn Store>) -> String {
    let tables = Tables::new(store);
    migrate::open(&tables).await.unwrap();
    let all = RowQuery::families(&[CF, GRANT, account::SESSION, account::TOKEN, account::SHARE]);
    let mut cursor = RowCursor::new(account::TABLE, RowRange::all(), all, 100);
    let mut found = Vec::new();
    while let Some(rows) = cursor.next(&tables).await.unwrap() {
        found.extend(rows);
    }
    format!("{found:#?}")
}

#[tokio::test]
async fn no_account_is_changed_by_an_admin_after_she_is_demoted() {
    let Base { store, admin, eva, login } = Base::new().await;
    let store = Arc::new(store);
    let first = auth(store.clone()).await;
    let owner = first.make_session(&login).await.unwrap().credential.secret().unwrap().clone();
    first.put_grant(&admin, &DirChain::root(), &grantee("tom"), Rights::ALL).await.unwrap();
    for (number, ask) in ASKED.into_iter().enumerate() {
        let mut refused = 0;
        for call in 1.. {
            let stepwise = Stepwise::new(Arc::new((*store).clone()));
            let (changing, other) = (auth(stepwise.clone()).await, auth(stepwise.inner()).await);
            let (inner, by, then) = (stepwise.inner(), admin.clone(), Arc::new(Mutex::new(None)));
            let seen = then.clone();
            stepwise.once_before_call(stepwise.calls() + call, move || async move {
                other.change_user(&by, "eva", demote()).await.unwrap();
                *seen.lock().unwrap() = Some(accounts(inner).await);
            });
            let done = ask(changing, eva.clone(), owner.clone()).await;
            let Some(then) = then.lock().unwrap().take() else { break };
            assert!(matches!(done, Ok(()) | Err(AuthError::Forbidden)), "{number} before call {call}: {done:?}");
            assert_eq!(accounts(stepwise.inner()).await, then, "{number} before call {call}: {done:?}");
            refused += usize::from(done.is_err());
        }
        assert!(refused > 2, "{number}: {refused}");
    }
}

#[tokio::test]
async fn no_session_outlives_the_password_of_its_login() {
    let Base { store, admin, login, .. } = Base::new().await;
    let change = UserChange { password: Some("battery staple".into()), ..UserChange::default() };
    at_every_call(
        &store,
        makes_session(login),
        changes(admin, "tom", change),
        async |_: Auth, done: Result<_, AuthError>| {
            assert!(matches!(done, Err(AuthError::Unauthorized)), "{done:?}");
        },
    )
    .await;
}

/// A login that the new password ends leaves no index entry.
#[tokio::test]
async fn sessions_that_end_leave_no_index_entry() {
    let Base { store, admin, login, .. } = Base::new().await;
    let (by, seen) = (admin.clone(), admin);
    let logs_in: Rival = Arc::new(move |auth| {
        let login = login.clone();
        Box::pin(async move { drop(auth.make_session(&login).await) })
    });
    let ends: [UserChange; 2] = [
        UserChange { password: Some("battery staple".into()), ..UserChange::default() },
        UserChange { disabled: Some(true), ..UserChange::default() },
    ];
    let mut changes: Vec<Run<Result<(), AuthError>>> = Vec::new();
    for change in ends {
        let by = by.clone();
        changes.push(Box::new(move |auth| {
            let (by, change) = (by.clone(), change.clone());
            Box::pin(async move { auth.change_user(&by, "tom", change).await.map(drop) })
        }));
    }
    changes.push(Box::new(move |auth| {
        let by = by.clone();
        Box::pin(async move { auth.remove_user(&by, "tom").await })
    }));
    for change in changes {
        let check = async |tables: Tables, auth: Auth, done: Result<(), AuthError>| {
            done.unwrap();
            let sessions = auth.secrets(&seen, &user("tom"), SecretKind::Session).await.unwrap();
            assert!(sessions.is_empty(), "{sessions:?}");
            let entries = RowCursor::new(secret::TABLE, RowRange::all(), RowQuery::families(&[CF]), 100);
            let entries = entries.rest(&tables).await.unwrap();
            assert!(entries.is_empty(), "{entries:?}");
        };
        with_tables_at_every_call(&store, change, logs_in.clone(), check).await;
    }
}

/// The index entry of the refused plan may be there: it is put again, and never deleted before.
#[tokio::test]
async fn a_secret_is_found_although_its_first_plan_was_refused() {
    let Base { store, admin, login, .. } = Base::new().await;
    let change = UserChange { display: Some("Tom".into()), ..UserChange::default() };
    at_every_call(
        &store,
        makes_session(login),
        changes(admin, "tom", change),
        async |auth: Auth, done: Result<_, AuthError>| {
            let found = auth.find_secret(&done.unwrap().text).await.unwrap();
            auth.authority(&found).await.unwrap();
        },
    )
    .await;
}

#[tokio::test]
async fn of_two_first_users_one_is_made() {
    let store = empty().await;
    let change: Run<_> = Box::new(|auth| Box::pin(async move { auth.make_first_user(new_user("tom")).await }));
    let rival: Rival = Arc::new(|auth| Box::pin(async move { drop(auth.make_first_user(new_user("eva")).await) }));
    at_every_call(&store, change, rival, async |auth: Auth, done: Result<_, AuthError>| {
        let logins = [log_in(&auth, "tom", PASSWORD).await.is_ok(), log_in(&auth, "eva", PASSWORD).await.is_ok()];
        assert_eq!(logins, [done.is_ok(), done.is_err()], "{done:?}");
    })
    .await;
}

#[tokio::test]
async fn a_name_is_given_once() {
    let Base { store, admin, eva, .. } = Base::new().await;
    let one = admin.clone();
    let change: Run<_> = Box::new(move |auth| {
        let admin = one.clone();
        Box::pin(async move { auth.add_user(&admin, new_user("Max")).await })
    });
    let rival: Rival = Arc::new(move |auth| {
        let eva = eva.clone();
        Box::pin(async move { drop(auth.add_user(&eva, new_user("max")).await) })
    });
    at_every_call(&store, change, rival, async |auth: Auth, done: Result<_, AuthError>| {
        let users = auth.users(&admin).await.unwrap();
        let named = users.iter().filter(|user| user.name.as_str().eq_ignore_ascii_case("max"));
        let names: Vec<&str> = named.map(|user| user.name.as_str()).collect();
        assert_eq!(names, [if done.is_ok() { "Max" } else { "max" }], "{done:?}");
    })
    .await;
}
