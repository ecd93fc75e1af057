//! Scenarios with users: rights that end, and accounts that change, while requests are under way.

use std::collections::BTreeSet;

use crate::accounts::AccountRequest::{Demote, First, Remove, Revoke};
use crate::scenario::Scenario;
use crate::store::{Account, Grant, User};
use crate::tree::Request::{Create, Delete, Mkdir, Move, MoveFile, Rmdir, Upload};
use crate::tree::{Id, ROOT, path as p};

const ADMIN: User = 1;
const SECOND_ADMIN: User = 2;
const USER: User = 3;
const GIVER: User = 4;

/// The ids of `/a` and `/a/x`.
const A: Id = 1;
const X: Id = 2;
/// The id of `/t`.
const T: Id = 3;

fn admin() -> Account {
    Account { admin: true, ..Account::default() }
}

fn with_grants(grants: &[Grant]) -> Account {
    Account { grants: grants.iter().copied().collect::<BTreeSet<_>>(), ..Account::default() }
}

fn grant(dir: Id) -> Grant {
    Grant { dir, by: None, share: false }
}

/// `/a/x` and `/t`. The user may write in these directories and below them.
fn granted(dirs: &[Id]) -> Scenario {
    let tree = Scenario::new(&[(p("/a"), A), (p("/a/x"), X), (p("/t"), T)], &[(p("/a/f"), 50)]);
    let grants: Vec<Grant> = dirs.iter().map(|dir| grant(*dir)).collect();
    tree.users(&[(ADMIN, admin()), (USER, with_grants(&grants))])
}

/// The user has his right on `/a/x` from another one, who may share `/a`.
fn given() -> Scenario {
    let tree = Scenario::new(&[(p("/a"), A), (p("/a/x"), X), (p("/t"), T)], &[]);
    let user = with_grants(&[Grant { dir: X, by: Some(GIVER), share: false }]);
    let giver = with_grants(&[Grant { share: true, ..grant(A) }]);
    tree.users(&[(ADMIN, admin()), (USER, user), (GIVER, giver)])
}

fn admins() -> Scenario {
    Scenario::new(&[], &[]).users(&[(ADMIN, admin()), (SECOND_ADMIN, admin())])
}

/// A drive without users.
fn anonymous() -> Scenario {
    Scenario::new(&[(p("/a"), A), (p("/a/x"), X)], &[]).users(&[])
}

// A grant ends.

pub fn grant_ends_and_create() -> Scenario {
    granted(&[A]).ask(Create(p("/a/x/n"))).by(USER).account(Revoke(USER, A)).by(ADMIN)
}

pub fn grant_ends_and_upload() -> Scenario {
    granted(&[X]).ask(Upload(p("/a/x/n/f"))).by(USER).account(Revoke(USER, X)).by(ADMIN)
}

pub fn grant_ends_and_file_moved() -> Scenario {
    granted(&[A, T]).ask(MoveFile(p("/a/f"), p("/t/f"))).by(USER).account(Revoke(USER, T)).by(ADMIN)
}

pub fn grant_ends_and_move() -> Scenario {
    granted(&[A, T]).op(1, Move(p("/a/x"), p("/t/x"))).by(USER).account(Revoke(USER, T)).by(ADMIN)
}

pub fn grant_ends_and_delete() -> Scenario {
    granted(&[A]).op(1, Delete(p("/a/x"))).by(USER).account(Revoke(USER, A)).by(ADMIN)
}

pub fn user_removed_and_upload() -> Scenario {
    granted(&[A]).ask(Upload(p("/a/n/f"))).by(USER).account(Remove(USER)).by(ADMIN)
}

// The right of the giver ends.

pub fn giver_loses_right_and_create() -> Scenario {
    given().ask(Create(p("/a/x/n"))).by(USER).account(Revoke(GIVER, A)).by(ADMIN)
}

pub fn giver_removed_and_create() -> Scenario {
    given().ask(Create(p("/a/x/n"))).by(USER).account(Remove(GIVER)).by(ADMIN)
}

/// The directory leaves the one where the giver has his right.
pub fn given_moved_out_and_create() -> Scenario {
    given().op(1, Move(p("/a/x"), p("/t/x"))).by(ADMIN).ask(Create(p("/a/x/n"))).by(USER)
}

// The directory of the right changes its place.

pub fn granted_moved_and_create() -> Scenario {
    granted(&[A]).op(1, Move(p("/a"), p("/b"))).by(ADMIN).ask(Create(p("/a/x/n"))).by(USER)
}

pub fn moved_out_of_granted_and_create() -> Scenario {
    granted(&[A]).op(1, Move(p("/a/x"), p("/t/x"))).by(ADMIN).ask(Create(p("/a/x/n"))).by(USER)
}

/// The user moves a directory out of the one where he may write, while that one is moved itself.
pub fn granted_moved_and_move_of_child() -> Scenario {
    granted(&[A, T]).op(1, Move(p("/t"), p("/b"))).by(ADMIN).op(2, Move(p("/a/x"), p("/t/x"))).by(USER)
}

/// Another directory of the same path is not the granted one.
pub fn granted_replaced_and_create() -> Scenario {
    let tree = Scenario::new(&[(p("/a"), A)], &[]).users(&[(ADMIN, admin()), (USER, with_grants(&[grant(A)]))]);
    let replaced = tree.ask(Rmdir(p("/a"))).by(ADMIN).ask(Mkdir(p("/a"))).by(ADMIN).in_turn();
    replaced.ask(Create(p("/a/n"))).by(USER)
}

/// A directory is moved out of the granted one, and back to the same path, where another parent is by then.
pub fn moved_out_of_granted_and_back() -> Scenario {
    let users = [(ADMIN, admin()), (USER, with_grants(&[grant(A)]))];
    let tree = Scenario::new(&[(p("/a"), A), (p("/a/x"), X)], &[]).users(&users);
    let out = tree.op(1, Move(p("/a/x"), p("/x"))).by(ADMIN).ask(Rmdir(p("/a"))).by(ADMIN).in_turn();
    let back = out.ask(Mkdir(p("/a"))).by(ADMIN).in_turn().op(2, Move(p("/x"), p("/a/x"))).by(ADMIN).in_turn();
    back.ask(Create(p("/a/x/n"))).by(USER)
}

// The first user, and the last admin.

pub fn two_first_users() -> Scenario {
    anonymous().account(First(ADMIN)).account(First(SECOND_ADMIN))
}

pub fn anonymous_upload_and_first_user() -> Scenario {
    anonymous().ask(Upload(p("/n/f"))).account(First(ADMIN))
}

pub fn anonymous_move_and_first_user() -> Scenario {
    anonymous().op(1, Move(p("/a"), p("/b"))).account(First(ADMIN))
}

pub fn admins_remove_each_other() -> Scenario {
    admins().account(Remove(SECOND_ADMIN)).by(ADMIN).account(Remove(ADMIN)).by(SECOND_ADMIN)
}

pub fn admins_demote_themselves() -> Scenario {
    admins().account(Demote(ADMIN)).by(ADMIN).account(Demote(SECOND_ADMIN)).by(SECOND_ADMIN)
}

pub fn admin_demoted_and_create() -> Scenario {
    admins().ask(Create(p("/n"))).by(SECOND_ADMIN).account(Demote(SECOND_ADMIN)).by(ADMIN)
}

pub fn admin_demoted_and_revoke() -> Scenario {
    let users = [(ADMIN, admin()), (SECOND_ADMIN, admin()), (USER, with_grants(&[grant(A)]))];
    let scene = Scenario::new(&[(p("/a"), A)], &[]).users(&users);
    scene.account(Revoke(USER, A)).by(SECOND_ADMIN).account(Demote(SECOND_ADMIN)).by(ADMIN)
}

/// The root has no row that could be locked: the right is bound to it all the same.
pub fn grant_on_root_ends_and_create() -> Scenario {
    granted(&[ROOT]).ask(Create(p("/t/n"))).by(USER).account(Revoke(USER, ROOT)).by(ADMIN)
}
