//! A source file as the rules see it: its module, the modules that it declares, the paths that it uses, its re-exports,
//! the types that it defines, and the types with methods in it. Items under `#[cfg(test)]` are left out everywhere.

use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemImpl, ItemUse, Type, UseTree, Visibility};

/// One source file.
pub struct Source {
    /// Relative to the folder of all sources.
    pub path: PathBuf,
    /// The module of the file, as a path from the crate's root; empty for the root.
    pub module: Vec<String>,
    /// Every path in the file that leads to an item of the crate, from the crate's root.
    pub paths: Vec<Vec<String>>,
    /// The re-exported names, and their origins.
    pub exports: Vec<(String, Vec<String>)>,
    /// The types and traits that the file defines.
    pub types: Vec<String>,
    /// The types with an inherent `impl` block in the file.
    pub methods_of: Vec<String>,
}

/// All source files below a folder, sorted by path.
pub fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Reads all sources below `src`, without files that contain only tests. `library`: the name of the library in the same
/// folder as its program, if there is one.
pub fn read_all(src: &Path, library: &str) -> Vec<Source> {
    let relative = |path: &PathBuf| path.strip_prefix(src).unwrap().to_owned();
    let of_tests = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let paths = files(src);
    let product = paths.iter().filter(|path| !of_tests(&relative(path)));
    product.map(|path| Source::parse(&relative(path), &fs::read_to_string(path).unwrap(), library)).collect()
}

impl Source {
    /// Parses one file. `path` is relative to the folder of all sources, `library` as for [`read_all`].
    pub fn parse(path: &Path, text: &str, library: &str) -> Self {
        let module = module_of(path);
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut reader = Reader::default();
        reader.visit_file(&file);
        let Reader { children, paths, exports, types, methods_of, .. } = reader;
        // A path that begins with a child of this module needs no `self::`.
        let absolute = |path| absolute(&module, &children, path, library);
        let paths = paths.into_iter().filter_map(absolute).collect();
        let exports = exports.into_iter().filter_map(|(name, path)| Some((name, absolute(path)?))).collect();
        Self { path: path.to_owned(), module, paths, exports, types, methods_of }
    }
}

fn module_of(path: &Path) -> Vec<String> {
    let mut module: Vec<String> = path.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    let file = module.pop().unwrap();
    match file.trim_end_matches(".rs") {
        "mod" | "lib" | "main" => {}
        name => module.push(name.to_owned()),
    }
    module
}

/// A path from the crate's root; none if it leads to another crate or starts with a local name.
fn absolute(module: &[String], children: &[String], path: Vec<String>, library: &str) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        name if name == library => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let above = path.iter().take_while(|part| *part == "super").count();
            let (from, rest) = (module.get(..module.len().checked_sub(above)?)?, path.get(above..)?);
            Some([from, rest].concat())
        }
        _ if children.contains(first) => Some([module, &path].concat()),
        _ => None,
    }
}

#[derive(Default)]
struct Reader {
    children: Vec<String>,
    paths: Vec<Vec<String>>,
    exports: Vec<(String, Vec<String>)>,
    types: Vec<String>,
    methods_of: Vec<String>,
}

fn only_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| a.path().is_ident("cfg") && a.parse_args::<syn::Ident>().is_ok_and(|arg| arg == "test"))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The paths of a `use`, each with its local name.
fn flatten(tree: &UseTree, before: &[String], found: &mut Vec<(String, Vec<String>)>) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(&path.ident), found),
        UseTree::Name(name) if name.ident == "self" => {
            found.push((before.last().cloned().unwrap_or_default(), before.to_vec()));
        }
        UseTree::Name(name) => found.push((name.ident.to_string(), with(&name.ident))),
        UseTree::Rename(renamed) => found.push((renamed.rename.to_string(), with(&renamed.ident))),
        UseTree::Glob(_) => found.push(("*".into(), before.to_vec())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, found)),
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        if only_for_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(module) if module.content.is_none() => self.children.push(module.ident.to_string()),
            Item::Struct(item) => self.types.push(item.ident.to_string()),
            Item::Enum(item) => self.types.push(item.ident.to_string()),
            Item::Trait(item) => self.types.push(item.ident.to_string()),
            Item::Type(item) => self.types.push(item.ident.to_string()),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let mut found = Vec::new();
        flatten(&item.tree, &[], &mut found);
        for (name, path) in found {
            if !matches!(item.vis, Visibility::Inherited) {
                self.exports.push((name, path.clone()));
            }
            self.paths.push(path);
        }
    }

    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        if let (None, Type::Path(path)) = (&item.trait_, &*item.self_ty) {
            self.methods_of.push(path.path.segments.last().unwrap().ident.to_string());
        }
        visit::visit_item_impl(self, item);
    }

    /// `pub(super)` and `pub(in ..)` use nothing.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    /// Paths in the arguments of a macro, which are not parsed.
    fn visit_macro(&mut self, of: &'a syn::Macro) {
        let text = of.tokens.to_string();
        for start in ["crate", "super", "self", "rowdrive"] {
            for (at, _) in text.match_indices(&format!("{start} ::")) {
                let is_word =
                    text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
                let parts = text[at..].split("::").map(str::trim);
                let word = |part: &&str| part.chars().all(|c| c.is_alphanumeric() || c == '_');
                let last = text[at..].split("::").map(str::trim).find(|part| !word(part));
                let mut path: Vec<String> = parts.take_while(word).map(str::to_owned).collect();
                path.extend(last.map(|part| part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()));
                if is_word {
                    self.paths.push(path);
                }
            }
        }
        visit::visit_macro(self, of);
    }
}
