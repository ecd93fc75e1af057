//! The small trees, and the conflicting operations on them.

use crate::scenario::Scenario;
use crate::tree::Request::{Create, Delete, Mkdir, Move, MoveFile, Rmdir, Upload};
use crate::tree::{Id, path as p};

/// The file of most trees.
pub const FILE: Id = 50;

/// `/a/x`, with a file in it.
fn tree() -> Scenario {
    Scenario::new(&[(p("/a"), 1), (p("/a/x"), 2)], &[(p("/a/x/f"), FILE)])
}

/// `/a/x`, empty.
fn empty() -> Scenario {
    Scenario::new(&[(p("/a"), 1), (p("/a/x"), 2)], &[])
}

/// `/a` and `/t`, both empty.
fn two() -> Scenario {
    Scenario::new(&[(p("/a"), 1), (p("/t"), 3)], &[])
}

/// `/a`, with this many files in it.
fn flat(files: usize) -> Scenario {
    let all = [(p("/a/f"), FILE), (p("/a/g"), FILE + 1)];
    Scenario::new(&[(p("/a"), 1)], &all[..files])
}

fn moved(tree: Scenario) -> Scenario {
    tree.op(1, Move(p("/a"), p("/b")))
}

fn deleted(tree: Scenario) -> Scenario {
    tree.op(1, Delete(p("/a")))
}

pub fn move_alone() -> Scenario {
    moved(tree()).unknown(2).full(1)
}

pub fn delete_alone() -> Scenario {
    deleted(tree()).unknown(2).full(1)
}

pub fn move_and_create_below() -> Scenario {
    moved(tree()).ask(Create(p("/a/x/n")))
}

pub fn delete_and_create_below() -> Scenario {
    deleted(tree()).ask(Create(p("/a/x/n")))
}

pub fn move_and_mkdir_at_target() -> Scenario {
    moved(flat(1)).ask(Mkdir(p("/b")))
}

pub fn move_and_create_at_target() -> Scenario {
    moved(flat(1)).ask(Create(p("/b")))
}

pub fn move_and_upload_at_target() -> Scenario {
    moved(tree()).ask(Upload(p("/b/n")))
}

pub fn move_and_create_below_target() -> Scenario {
    moved(tree()).ask(Create(p("/b/n")))
}

pub fn move_and_mkdir_at_old_path() -> Scenario {
    moved(tree()).ask(Mkdir(p("/a")))
}

pub fn move_and_upload_at_old_path() -> Scenario {
    moved(tree()).ask(Upload(p("/a/n"))).ask(Mkdir(p("/a/x")))
}

pub fn delete_and_upload_at_old_path() -> Scenario {
    deleted(tree()).ask(Upload(p("/a/n"))).ask(Mkdir(p("/a/x")))
}

pub fn move_and_rmdir_below() -> Scenario {
    moved(empty()).ask(Rmdir(p("/a/x")))
}

pub fn move_and_rmdir_of_moved() -> Scenario {
    moved(empty()).ask(Rmdir(p("/b/x")))
}

pub fn rmdir_and_create_in_it() -> Scenario {
    empty().ask(Rmdir(p("/a/x"))).ask(Create(p("/a/x/n")))
}

pub fn move_and_file_moved_out() -> Scenario {
    moved(tree()).ask(MoveFile(p("/a/x/f"), p("/f")))
}

pub fn delete_and_file_moved_out() -> Scenario {
    deleted(tree()).ask(MoveFile(p("/a/x/f"), p("/f")))
}

pub fn move_and_file_moved_in() -> Scenario {
    let tree = Scenario::new(&[(p("/a"), 1), (p("/a/x"), 2)], &[(p("/g"), FILE)]);
    moved(tree).ask(MoveFile(p("/g"), p("/a/x/g")))
}

pub fn move_and_list_old() -> Scenario {
    moved(tree()).list(p("/a"))
}

pub fn move_and_list_new() -> Scenario {
    moved(flat(2)).halves().list(p("/b"))
}

pub fn move_and_list_new_and_create() -> Scenario {
    moved(flat(2)).halves().list(p("/b")).ask(Create(p("/b/n")))
}

pub fn delete_and_list() -> Scenario {
    deleted(tree()).list(p("/a/x"))
}

pub fn halves_and_rival() -> Scenario {
    moved(flat(2)).halves().ask(Mkdir(p("/b"))).ask(Rmdir(p("/b")))
}

pub fn crossing() -> Scenario {
    two().op(1, Move(p("/a"), p("/t/a"))).op(2, Move(p("/t"), p("/a/t")))
}

pub fn crossing_other_way() -> Scenario {
    two().op(2, Move(p("/a"), p("/t/a"))).op(1, Move(p("/t"), p("/a/t")))
}

pub fn two_moves_of_one() -> Scenario {
    moved(flat(1)).op(2, Move(p("/a"), p("/t")))
}

pub fn move_of_child_out() -> Scenario {
    moved(tree()).op(2, Move(p("/a/x"), p("/x")))
}

pub fn move_of_child_out_first() -> Scenario {
    tree().op(2, Move(p("/a"), p("/b"))).op(1, Move(p("/a/x"), p("/x")))
}

pub fn move_into_moved() -> Scenario {
    moved(two()).op(2, Move(p("/t"), p("/a/t")))
}

pub fn move_and_back() -> Scenario {
    moved(flat(1)).op(2, Move(p("/b"), p("/a")))
}

pub fn move_and_on() -> Scenario {
    moved(flat(1)).op(2, Move(p("/b"), p("/t")))
}

pub fn move_and_another_to_old_path() -> Scenario {
    moved(two()).op(2, Move(p("/t"), p("/a")))
}

pub fn two_moves_to_one_target() -> Scenario {
    moved(two()).op(2, Move(p("/t"), p("/b")))
}

pub fn move_and_delete() -> Scenario {
    moved(flat(1)).op(2, Delete(p("/a")))
}

pub fn move_and_delete_new() -> Scenario {
    moved(flat(1)).op(2, Delete(p("/b")))
}

pub fn delete_and_child_moved_out() -> Scenario {
    deleted(tree()).op(2, Move(p("/a/x"), p("/x")))
}

pub fn delete_and_delete_child() -> Scenario {
    tree().op(2, Delete(p("/a"))).op(1, Delete(p("/a/x")))
}

pub fn move_into_deleted() -> Scenario {
    two().op(1, Move(p("/a"), p("/t/a"))).op(2, Delete(p("/t")))
}

pub fn move_into_rmdir() -> Scenario {
    two().op(1, Move(p("/a"), p("/t/a"))).ask(Rmdir(p("/t")))
}

pub fn move_and_find() -> Scenario {
    moved(flat(1)).find(FILE)
}

pub fn move_and_back_and_find() -> Scenario {
    move_and_back().find(FILE)
}

/// Four moves in turn: enough to bring the file back between two equal lookups, twice.
pub fn moves_to_and_fro_and_find() -> Scenario {
    let once = moved(flat(1)).op(2, Move(p("/b"), p("/a"))).in_turn();
    let twice = once.op(3, Move(p("/a"), p("/b"))).in_turn().op(4, Move(p("/b"), p("/a"))).in_turn();
    twice.find(FILE)
}

pub fn move_and_rmdir() -> Scenario {
    moved(two()).ask(Rmdir(p("/a")))
}

pub fn delete_and_find() -> Scenario {
    deleted(tree()).find(FILE)
}

/// Another directory is moved to the path while a file is created there.
pub fn replaced_and_create() -> Scenario {
    move_and_another_to_old_path().ask(Create(p("/a/n")))
}

// More rows than one batch of step 5 takes.

/// `/a/x/y` and `/a/z`, with a file at the bottom.
fn large() -> Scenario {
    let dirs = [(p("/a"), 1), (p("/a/x"), 2), (p("/a/x/y"), 3), (p("/a/z"), 4)];
    Scenario::new(&dirs, &[(p("/a/x/y/f"), FILE)])
}

pub fn move_large_and_writers() -> Scenario {
    moved(large()).ask(Create(p("/a/x/y/n"))).ask(Rmdir(p("/a/z")))
}

pub fn move_large_and_old_path() -> Scenario {
    moved(large()).ask(Upload(p("/a/n"))).ask(Mkdir(p("/a/z")))
}

pub fn delete_large_and_old_path() -> Scenario {
    deleted(large()).ask(Mkdir(p("/a"))).ask(Upload(p("/a/x/n")))
}

pub fn move_large_and_child_moved_out() -> Scenario {
    moved(large()).op(2, Move(p("/a/x"), p("/x")))
}

pub fn crashed_move_large_and_writers() -> Scenario {
    moved(large()).full(1).unknown(1).crash().ask(Upload(p("/a/n"))).ask(Rmdir(p("/b/z")))
}

pub fn crashed_delete_large_and_writers() -> Scenario {
    deleted(large()).full(1).unknown(1).crash().ask(Mkdir(p("/a"))).ask(Mkdir(p("/a/x")))
}

pub fn crashed_move_large_and_child_moved_out() -> Scenario {
    moved(large()).crash().op(2, Move(p("/a/x"), p("/x"))).list(p("/b/x"))
}

// The process crashes, and another one starts while its first requests arrive.

pub fn crashed_move_and_writers() -> Scenario {
    moved(tree()).unknown(1).crash().ask(Create(p("/a/x/n"))).list(p("/b/x"))
}

pub fn crashed_move_and_target() -> Scenario {
    moved(flat(1)).unknown(1).crash().ask(Mkdir(p("/b"))).ask(Create(p("/b/n")))
}

pub fn crashed_move_and_old_path() -> Scenario {
    moved(flat(1)).unknown(1).crash().ask(Mkdir(p("/a"))).ask(Create(p("/a/n")))
}

pub fn crashed_move_and_same_again() -> Scenario {
    moved(flat(1)).unknown(1).crash().op(2, Move(p("/a"), p("/b")))
}

pub fn crashed_move_and_back() -> Scenario {
    moved(flat(1)).unknown(1).crash().op(2, Move(p("/b"), p("/a")))
}

pub fn crashed_delete_and_writers() -> Scenario {
    deleted(tree()).unknown(1).crash().ask(Create(p("/a/x/n"))).ask(Mkdir(p("/a")))
}

fn ring_of(ids: [u8; 3]) -> Scenario {
    let tree = Scenario::new(&[(p("/a"), 1), (p("/t"), 3), (p("/u"), 4)], &[]);
    let [a, t, u] = ids;
    tree.op(a, Move(p("/a"), p("/t/a"))).op(t, Move(p("/t"), p("/u/t"))).op(u, Move(p("/u"), p("/a/u")))
}

pub fn ring() -> Scenario {
    ring_of([1, 2, 3])
}

pub fn ring_other_way() -> Scenario {
    ring_of([3, 2, 1])
}
