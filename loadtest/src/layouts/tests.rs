//! One conformance test for all layouts: random operations, compared with a map of paths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rowdrive::engines::rocks::{Rocks, RocksOptions};
use rowdrive::schema::Timestamp;
use rowdrive::schema::file::Attributes;
use rowdrive::schema::index::by_time::Clock;
use rowdrive::table::Tables;

use super::kinds::Kind;
use super::relational::Relational;
use super::*;
use crate::data::attributes;

const STEPS: usize = 400;
/// Some of them sort before a slash, some after it, and some are the start of another.
const NAMES: [&str; 7] = ["a", "a-1", "a b", "a.jpg", "a0", "ab", "b"];

/// The paths of all nodes, with the time of a file.
struct Model {
    nodes: BTreeMap<String, Option<i64>>,
    names_repeat: bool,
}

impl Model {
    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.nodes.get(path) == Some(&None)
    }

    fn is_file(&self, path: &str) -> bool {
        matches!(self.nodes.get(path), Some(Some(_)))
    }

    /// Whether something new can stand here.
    fn place(&self, path: &str) -> Verdict {
        let (parent, name) = split(path);
        let taken = |other: &String| if self.names_repeat { other == path } else { split(other).1 == name };
        if !self.is_directory(parent) {
            Verdict::Missing
        } else if self.nodes.keys().any(taken) {
            Verdict::Exists
        } else {
            Verdict::Done
        }
    }

    fn add(&mut self, path: &str, modified: Option<i64>) -> Verdict {
        let verdict = self.place(path);
        if verdict == Verdict::Done {
            self.nodes.insert(path.to_owned(), modified);
        }
        verdict
    }

    /// A new file instead of the one that is there, or none.
    fn replace(&mut self, path: &str, modified: Option<i64>) -> Verdict {
        if !self.is_file(path) {
            return Verdict::Missing;
        }
        self.nodes.remove(path);
        self.nodes.extend(modified.map(|modified| (path.to_owned(), Some(modified))));
        Verdict::Done
    }

    /// Moves a node and all below it.
    fn rename(&mut self, from: &str, to: &str) -> Verdict {
        let keeps_name = !self.names_repeat && split(from).1 == split(to).1;
        let verdict = if keeps_name && self.is_directory(split(to).0) { Verdict::Done } else { self.place(to) };
        if verdict == Verdict::Done {
            let below: Vec<_> = self.nodes.keys().filter(|path| is_within(path, from)).cloned().collect();
            for path in below {
                let node = self.nodes.remove(&path).unwrap();
                self.nodes.insert(format!("{to}{}", &path[from.len()..]), node);
            }
        }
        verdict
    }

    fn children(&self, path: &str) -> BTreeMap<String, Option<i64>> {
        let own = self.nodes.iter().filter(|(child, _)| split(child).0 == path);
        own.map(|(child, node)| (split(child).1.to_owned(), *node)).collect()
    }
}

/// A file of each other moment is another user's, and has content if the layout stores it.
fn file(path: &str, modified: i64) -> NewFile {
    let (creator, added) = (creator(modified).into(), Timestamp::from_ms(1_000 - modified));
    let attributes = Attributes { creator, added, ..attributes(modified) };
    NewFile { path: path.to_owned(), attributes, content: Bytes::from(format!("content {modified}")) }
}

fn creator(modified: i64) -> &'static str {
    if modified % 2 == 0 { "even" } else { "odd" }
}

fn path(random: &mut StdRng) -> String {
    (0..random.random_range(1..=3)).map(|_| format!("/{}", NAMES[random.random_range(0..NAMES.len())])).collect()
}

fn modified(node: &Node) -> Option<i64> {
    match node {
        Node::Directory => None,
        Node::File(attributes) => Some(attributes.modified.ms()),
    }
}

fn named(children: Vec<Child>) -> Vec<(String, Option<i64>)> {
    children.into_iter().map(|child| (child.name, modified(&child.node.unwrap()))).collect()
}

async fn change(layout: &dyn Layout, model: &mut Model, random: &mut StdRng, step: i64) {
    let [one, other] = [path(random), path(random)];
    let said = match random.random_range(0..10) {
        0..=1 => (layout.mkdir(&one).await, model.add(&one, None)),
        2..=5 => (layout.put(&file(&one, step), true).await, model.add(&one, Some(step))),
        6 => (layout.put(&file(&one, step), false).await, model.replace(&one, Some(step))),
        7 => (layout.delete(&one).await, model.replace(&one, None)),
        8 if model.is_directory(&one) && !is_within(&other, &one) => {
            (layout.rename(&one, &other).await, model.rename(&one, &other))
        }
        9 if model.is_file(&one) && one != other => (layout.rename(&one, &other).await, model.rename(&one, &other)),
        _ => return,
    };
    assert_eq!(said.0.unwrap(), said.1, "step {step}, {one}, {other}");
}

async fn look(layout: &dyn Layout, kind: Kind, model: &Model, random: &mut StdRng) {
    let one = path(random);
    let there = layout.stat(&one).await.unwrap();
    assert_eq!(there.as_ref().map(modified), model.nodes.get(&one).copied(), "{one}");
    if let Some(Node::File(found)) = there {
        let NewFile { attributes, content, .. } = file(&one, found.modified.ms());
        match kind {
            // The drive finds out the others itself.
            Kind::Drive => assert_eq!((found.mime, found.creator), (attributes.mime, attributes.creator)),
            _ => assert_eq!(found, attributes, "{one}"),
        }
        if kind.is_in_store() {
            assert_eq!(layout.read(&one).await.unwrap(), Some(content), "{one}");
        }
    }
    let name = NAMES[random.random_range(0..NAMES.len())];
    let found: BTreeSet<String> = layout.find(name).await.unwrap().into_iter().collect();
    let files = || model.nodes.iter().filter_map(|(path, modified)| Some(((*modified)?, path.clone())));
    assert_eq!(found, files().filter(|(_, path)| split(path).1 == name).map(|(_, path)| path).collect());
    for under in ["", "/a", "/a-1", "/ab/a"] {
        if !model.is_directory(under) {
            continue;
        }
        for (clock, of) in [(Clock::Modified, None), (Clock::Modified, Some("odd")), (Clock::Added, None)] {
            let is_added = clock == Clock::Added;
            if is_added && !kind.keeps_added() {
                continue;
            }
            let time = |modified| if is_added { 1_000 - modified } else { modified };
            let (from, to) = if is_added { (700, 950) } else { (50, 300) };
            let period = Period { clock, creator: of.map(str::to_owned), from, to, under: under.into(), limit: 3 };
            let is_asked = |modified: i64, path: &str| {
                (from..to).contains(&time(modified))
                    && is_within(path, under)
                    && of.is_none_or(|of| of == creator(modified))
            };
            let asked = files().filter(|(modified, path)| is_asked(*modified, path));
            let mut expected: Vec<_> = asked.map(|(modified, path)| (time(modified), path)).collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            expected.truncate(3);
            assert_eq!(layout.period(&period).await.unwrap(), expected, "{period:?}");
        }
    }
}

async fn look_everywhere(layout: &dyn Layout, model: &Model) {
    let directories = model.nodes.keys().map(String::as_str).filter(|path| model.is_directory(path)).chain([""]);
    for directory in directories {
        let expected = model.children(directory);
        let names = layout.list(directory, &List::Names).await.unwrap().unwrap();
        let mut names: Vec<_> = names.into_iter().map(|child| child.name).collect();
        names.sort_unstable();
        assert!(names.iter().eq(expected.keys()), "{directory:?}: {names:?}");
        let mut children = named(layout.list(directory, &List::Attributes).await.unwrap().unwrap());
        children.sort_unstable();
        assert!(children.iter().cloned().eq(expected.clone()), "{directory:?}: {children:?}");
        let files: Vec<_> = expected.into_iter().filter(|(_, node)| node.is_some()).collect();
        let mut after = String::new();
        for page in files.chunks(2).chain([&[][..]]) {
            let ask = List::Page { after: after.clone(), limit: 2 };
            let found = named(layout.list(directory, &ask).await.unwrap().unwrap());
            assert_eq!(found, page, "{directory:?} after {after:?}");
            after = page.last().map_or(after, |(name, _)| name.clone());
        }
    }
    for missing in ["/z", "/a/z", "/z/a"] {
        for ask in [List::Names, List::Attributes, List::Page { after: String::new(), limit: 2 }] {
            assert_eq!(layout.list(missing, &ask).await.unwrap(), None);
        }
    }
}

/// A folder moves with more children than are read at a time, and with a folder of as many in it.
async fn move_a_full_folder(layout: &dyn Layout, model: &mut Model) {
    for folder in ["/full", "/full/below"] {
        assert_eq!(layout.mkdir(folder).await.unwrap(), model.add(folder, None));
        for n in 0..7 {
            // Of a name that no other has.
            let path = format!("{folder}/{n}-{}", folder.len());
            assert_eq!(layout.put(&file(&path, n), true).await.unwrap(), model.add(&path, Some(n)));
        }
    }
    assert_eq!(layout.rename("/full", "/moved").await.unwrap(), model.rename("/full", "/moved"));
    assert_eq!(model.children("/moved/below").len(), 7);
}

async fn conforms(kind: Kind, layout: &dyn Layout) {
    let mut random = StdRng::seed_from_u64(3);
    let mut model = Model { nodes: BTreeMap::new(), names_repeat: kind.names_repeat() };
    for directory in ["/a", "/ab"] {
        assert_eq!(layout.load_directory(directory).await.unwrap(), Verdict::Done);
        model.nodes.insert(directory.into(), None);
    }
    let files =
        [("/a/l1", 60), ("/a/l2", 61), ("/ab/l1", 62), ("/l3", 63)].map(|(path, modified)| file(path, modified));
    let is_new = |file: &&NewFile| model.add(&file.path, Some(file.attributes.modified.ms())) == Verdict::Done;
    let expected = files.iter().filter(is_new).count() as u64;
    assert_eq!(layout.load(&files, 1).await.unwrap(), expected);
    move_a_full_folder(layout, &mut model).await;
    look_everywhere(layout, &model).await;
    for step in 0..STEPS {
        change(layout, &mut model, &mut random, step as i64 + 100).await;
        look(layout, kind, &model, &mut random).await;
        if step % 20 == 0 {
            look_everywhere(layout, &model).await;
        }
    }
    look_everywhere(layout, &model).await;
    layout.close().await.unwrap();
}

#[tokio::test]
async fn layouts_conform() {
    for kind in Kind::value_variants() {
        let dir = tempfile::tempdir().unwrap();
        eprintln!("{}", kind.name());
        if kind.is_in_store() {
            let store = Rocks::open(&dir.path().join("db"), RocksOptions::with_memory(64 << 20)).unwrap();
            let layout = kind.in_store(&Tables::new(Arc::new(store)), dir.path()).await.unwrap();
            conforms(*kind, layout.as_ref()).await;
        } else {
            conforms(*kind, &Relational::open(dir.path(), 1 << 20).await.unwrap()).await;
        }
    }
}
