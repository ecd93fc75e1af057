//! The outcomes of small scenarios: the answers to two users, and the resulting tree. The model asserts that it reaches
//! exactly these (`outcomes_reached`); the tests of the drive assert that the program reaches no others
//! (`tests/all/drive/protocol_model.rs`). So they find a guard that the model has and the program lacks.
//!
//! This file depends neither on the model nor on the program: both include it.

use UserRequest::{Create, Delete, Mkdir, Move, MoveFile, Rmdir};

/// A request of a user. Names have one letter, as in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserRequest {
    /// A new file in an existing directory.
    Create(&'static str),
    Mkdir(&'static str),
    Rmdir(&'static str),
    MoveFile(&'static str, &'static str),
    Move(&'static str, &'static str),
    /// A directory with all its contents.
    Delete(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub dirs: &'static [&'static str],
    pub files: &'static [&'static str],
    pub first: UserRequest,
    pub second: UserRequest,
    /// The process of the first user stops at any time, and the second user asks the next process while it starts.
    pub crash: bool,
    /// Both answers and the final tree, in the form of [`outcome`].
    pub outcomes: &'static [&'static str],
}

/// `busy`: the operation gave up; `lost`: the process stopped first. Directories end in a slash.
pub fn outcome(answers: [&str; 2], mut tree: Vec<String>) -> String {
    tree.sort_unstable();
    format!("{} {}: {}", answers[0], answers[1], tree.join(" "))
}

/// `/a/x`, with a file in it.
const DEEP: Case = case(&["/a", "/a/x"], &["/a/x/f"]);
/// `/a`, with a file in it.
const FLAT: Case = case(&["/a"], &["/a/f"]);
/// `/a` and `/t`, both empty.
const TWO: Case = case(&["/a", "/t"], &[]);

const fn case(dirs: &'static [&'static str], files: &'static [&'static str]) -> Case {
    Case { dirs, files, first: Mkdir("/"), second: Mkdir("/"), crash: false, outcomes: &[] }
}

const fn two(tree: Case, first: UserRequest, second: UserRequest, outcomes: &'static [&'static str]) -> Case {
    Case { first, second, outcomes, ..tree }
}

const fn crashed(tree: Case, first: UserRequest, second: UserRequest, outcomes: &'static [&'static str]) -> Case {
    Case { crash: true, ..two(tree, first, second, outcomes) }
}

const MOVE: UserRequest = Move("/a", "/b");
const DELETE: UserRequest = Delete("/a");

pub const CASES: &[Case] = &[
    two(
        DEEP,
        MOVE,
        Create("/a/x/n"),
        &["done busy: /b/ /b/x/ /b/x/f", "done done: /b/ /b/x/ /b/x/f /b/x/n", "done refused: /b/ /b/x/ /b/x/f"],
    ),
    two(DEEP, DELETE, Create("/a/x/n"), &["done busy: ", "done done: ", "done refused: "]),
    two(
        DEEP,
        MOVE,
        MoveFile("/a/x/f", "/f"),
        &["done busy: /b/ /b/x/ /b/x/f", "done done: /b/ /b/x/ /f", "done refused: /b/ /b/x/ /b/x/f"],
    ),
    two(FLAT, MOVE, Mkdir("/b"), &["done busy: /b/ /b/f", "done refused: /b/ /b/f", "refused done: /a/ /a/f /b/"]),
    two(FLAT, MOVE, Create("/b/n"), &["done busy: /b/ /b/f", "done done: /b/ /b/f /b/n", "done refused: /b/ /b/f"]),
    two(FLAT, MOVE, Mkdir("/a"), &["done done: /a/ /b/ /b/f", "done refused: /b/ /b/f"]),
    two(FLAT, MOVE, DELETE, &["busy done: ", "done busy: /b/ /b/f", "done refused: /b/ /b/f", "refused done: "]),
    two(
        TWO,
        MOVE,
        Rmdir("/a"),
        &["busy done: /t/", "done busy: /b/ /t/", "done refused: /b/ /t/", "refused done: /t/"],
    ),
    two(
        TWO,
        MOVE,
        Move("/t", "/b"),
        &["busy done: /a/ /b/", "done busy: /b/ /t/", "done refused: /b/ /t/", "refused done: /a/ /b/"],
    ),
    two(
        TWO,
        Move("/a", "/t/a"),
        Move("/t", "/a/t"),
        &[
            "busy busy: /a/ /t/",
            "busy done: /a/ /a/t/",
            "done busy: /t/ /t/a/",
            "done refused: /t/ /t/a/",
            "refused done: /a/ /a/t/",
        ],
    ),
    two(
        DEEP,
        DELETE,
        Move("/a/x", "/x"),
        &[
            "busy busy: /a/ /a/x/ /a/x/f",
            "busy done: /a/ /x/ /x/f",
            "done busy: ",
            "done done: /x/ /x/f",
            "done refused: ",
        ],
    ),
    crashed(
        DEEP,
        MOVE,
        Create("/a/x/n"),
        &["done refused: /b/ /b/x/ /b/x/f", "lost done: /a/ /a/x/ /a/x/f /a/x/n", "lost refused: /b/ /b/x/ /b/x/f"],
    ),
    crashed(FLAT, MOVE, Mkdir("/b"), &["done refused: /b/ /b/f", "lost done: /a/ /a/f /b/", "lost refused: /b/ /b/f"]),
    crashed(DEEP, DELETE, Mkdir("/a"), &["done done: /a/", "lost done: /a/", "lost refused: /a/ /a/x/ /a/x/f"]),
];
