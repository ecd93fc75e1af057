//! Names and paths: parsed and checked once at the edge, valid from then on.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizer;

use super::value::ValueError;
use crate::any_byte::any_byte;
use crate::table::RowRange;

/// Bytes of a name, after normalisation.
pub const NAME_BYTES: usize = 255;
/// Bytes of a path, after normalisation.
pub const PATH_BYTES: usize = 4096;
/// Levels of a path: `/a/b` has 2.
pub const LEVELS: usize = 128;

/// Why a text is not a name or a path.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("a name is empty: write one slash between names")]
    EmptyName,
    #[error("`.` and `..` are no names")]
    Dots,
    #[error("a name holds no slash and no control character")]
    Character,
    #[error("a name has at most {NAME_BYTES} bytes in UTF-8, this one has {0}")]
    NameTooLong(usize),
    #[error("a path starts with a slash")]
    NotAbsolute,
    #[error("a path has at most {LEVELS} levels, this one has {0}")]
    TooDeep(usize),
    #[error("a path has at most {PATH_BYTES} bytes in UTF-8, this one has {0}")]
    TooLong(usize),
}

/// The canonical composition of a text (Unicode NFC), so that two spellings of one name are the same name.
pub fn nfc(text: &str) -> Cow<'_, str> {
    // ASCII text is already composed, and most names are ASCII.
    if text.is_ascii() { Cow::Borrowed(text) } else { ComposingNormalizer::new_nfc().normalize(text) }
}

/// The form of a name in the name index: the NFC of the full case folding, without a locale.
/// At most twice as long as the name.
pub fn fold(text: &str) -> String {
    nfc(&CaseMapper::new().fold_string(text)).into_owned()
}

/// The name of a file or directory: NFC, 1 to 255 bytes, no `/`, no control character (Unicode Cc), not `.`
/// or `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// Normalises a text and checks it.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Self::check(text).map(|name| Self(name.into_owned()))
    }

    /// As [`parse`](Self::parse), but the text stays borrowed if it is normal already.
    pub fn check(text: &str) -> Result<Cow<'_, str>, PathError> {
        // Most names. With three bytes or more they are neither `.` nor `..`.
        if (3..=NAME_BYTES).contains(&text.len()) && is_plain_ascii(text) {
            return Ok(Cow::Borrowed(text));
        }
        let name = nfc(text);
        match name.as_ref() {
            "" => Err(PathError::EmptyName),
            "." | ".." => Err(PathError::Dots),
            name if has_bad_character(name) => Err(PathError::Character),
            name if name.len() > NAME_BYTES => Err(PathError::NameTooLong(name.len())),
            _ => Ok(name),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// See [`fold`].
    pub fn folded(&self) -> String {
        fold(&self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text is ASCII without a bad character: then it is also normal. IMPORTANT: it refuses each
/// ASCII character that [`has_bad_character`] refuses.
fn is_plain_ascii(text: &str) -> bool {
    !any_byte(text, |byte| !(b' '..=b'~').contains(&byte) || byte == b'/')
}

/// Whether a text has a slash or a control character.
fn has_bad_character(text: &str) -> bool {
    text.contains(|c: char| c == '/' || c.is_control())
}

/// The full path of a file or directory: `/` or names, each with a slash before it. At most 4,096 bytes and
/// 128 levels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrivePath(String);

impl DrivePath {
    /// The path `/`.
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Parses a path of JSON or a query parameter: it starts with a slash, and may end with one.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let rest = text.strip_prefix('/').ok_or(PathError::NotAbsolute)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.is_empty() {
            return if text == "/" { Ok(Self::root()) } else { Err(PathError::EmptyName) };
        }
        if text.len() > 4 * PATH_BYTES {
            return Err(PathError::TooLong(text.len())); // before the names are parsed one by one
        }
        let mut is_normal = true;
        for name in rest.split('/') {
            is_normal &= matches!(Name::check(name)?, Cow::Borrowed(_));
        }
        if is_normal {
            // Most paths: without a text for each name.
            let path = text.strip_suffix('/').unwrap_or(text);
            return Self(path.to_owned()).bounded();
        }
        let names: Vec<Name> = rest.split('/').map(Name::parse).collect::<Result<_, _>>()?;
        Self::from_names(&names)
    }

    /// The path made of these names, from the root down.
    pub fn from_names(names: &[Name]) -> Result<Self, PathError> {
        if names.is_empty() {
            return Ok(Self::root());
        }
        Self(names.iter().flat_map(|n| ["/", n.as_str()]).collect()).bounded()
    }

    fn bounded(self) -> Result<Self, PathError> {
        match (self.levels(), self.0.len()) {
            (_, bytes) if bytes > PATH_BYTES => Err(PathError::TooLong(bytes)),
            (levels, _) if levels > LEVELS => Err(PathError::TooDeep(levels)),
            _ => Ok(self),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/`.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The path of a child of this directory.
    pub fn join(&self, name: &Name) -> Result<Self, PathError> {
        self.check_child(name.as_str())?;
        Ok(Self([self.before_slash(), "/", name.as_str()].concat()))
    }

    /// Checks that a child of this name has a path that is neither too long nor too deep.
    pub fn check_child(&self, name: &str) -> Result<(), PathError> {
        let bytes = self.before_slash().len() + 1 + name.len();
        if bytes > PATH_BYTES {
            return Err(PathError::TooLong(bytes));
        }
        // A level has two bytes or more, so the levels of a short path need not be counted.
        if self.0.len() >= 2 * LEVELS && self.levels() >= LEVELS {
            return Err(PathError::TooDeep(self.levels() + 1));
        }
        Ok(())
    }

    /// What paths of children have before the slash and their names: nothing below the root.
    pub fn before_slash(&self) -> &str {
        if self.is_root() { "" } else { &self.0 }
    }

    /// What the path has before its last slash, and after it: the name. Both are empty for the root.
    pub fn around_slash(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or_default()
    }

    /// The parent directory and the name in it; none for the root.
    pub fn split(&self) -> Option<(Self, Name)> {
        let (parent, name) = self.0.rsplit_once('/')?;
        if name.is_empty() {
            return None;
        }
        let parent = if parent.is_empty() { Self::root() } else { Self(parent.to_owned()) };
        Some((parent, Name(name.to_owned())))
    }

    /// The last name; empty for the root.
    pub fn last(&self) -> &str {
        self.around_slash().1
    }

    /// The names from the root down.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = Name> + '_ {
        self.0.split('/').filter(|n| !n.is_empty()).map(|n| Name(n.to_owned()))
    }

    /// How many names it has; 0 for the root.
    pub fn levels(&self) -> usize {
        // By bytes, which compilers count many at a time.
        if self.is_root() { 0 } else { self.0.bytes().filter(|byte| *byte == b'/').count() }
    }

    /// Whether this path is `other` or lies below it.
    pub fn is_within(&self, other: &Self) -> bool {
        other.is_root() || self.0.strip_prefix(&other.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The row key in the directory table.
    pub fn key(&self) -> Bytes {
        Bytes::copy_from_slice(self.0.as_bytes())
    }

    /// The path of a row of the directory table.
    pub fn from_key(key: &[u8]) -> Result<Self, ValueError> {
        let path = std::str::from_utf8(key).ok().and_then(|path| Self::parse(path).ok());
        path.ok_or(ValueError::Damaged { what: "directory's path" })
    }

    /// The row keys of all directories below this one, without its own: `[p + "/", p + "0")`, since
    /// `0` follows `/`; below the root all but the root itself.
    pub fn below(&self) -> RowRange {
        use std::ops::Bound::{Excluded, Included};
        let base = if self.is_root() { "" } else { self.0.as_str() };
        let from = Bytes::from(format!("{base}/"));
        RowRange {
            from: if self.is_root() { Excluded(from) } else { Included(from) },
            to: Excluded(Bytes::from(format!("{base}0"))),
        }
    }
}

impl fmt::Display for DrivePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> DrivePath {
        DrivePath::parse(text).unwrap()
    }

    #[test]
    fn names_are_nfc_and_bounded() {
        assert_eq!(Name::parse("e\u{301}").unwrap(), Name::parse("\u{e9}").unwrap());
        assert_eq!(Name::parse("a\\b").unwrap().as_str(), "a\\b");
        assert_eq!(Name::parse(&"x".repeat(256)), Err(PathError::NameTooLong(256)));
        assert_eq!(Name::parse(&"\u{2126}".repeat(85)).unwrap().as_str().len(), 170); // OHM SIGN is 3 bytes, its NFC 2
        for bad in ["", ".", "..", "a/b", "a\0", "\u{85}", "\u{7f}", "\n"] {
            assert!(Name::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["...", "..a", "~", "\u{202e}", "照片.jpg", "😀", " ", "%2F"] {
            assert_eq!(Name::parse(good).unwrap().as_str(), good);
        }
    }

    /// Each character at each place of a name of each length up to some blocks.
    #[test]
    fn a_bad_character_is_found_wherever_it_is() {
        let others = ['é', '照', '\u{85}', '\u{9f}', '\u{a0}', '\u{301}', '\u{2126}'];
        for c in (0..=0x7f).map(char::from).chain(others) {
            let is_bad = c == '/' || c.is_control();
            for (length, at) in (1..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let name: String = (0..length).map(|n| if n == at { c } else { 'n' }).collect();
                let expected = if is_bad { Err(PathError::Character) } else { Ok(nfc(&name)) };
                // `.` is good in longer names, and here it is alone in the shortest.
                let expected = if name == "." { Err(PathError::Dots) } else { expected };
                assert_eq!(Name::check(&name), expected, "{name:?}");
            }
        }
        for length in [254, 255, 256, 257, 300] {
            let [plain, dotted] = ["x", "."].map(|text| text.repeat(length));
            let expected = if length > NAME_BYTES { Err(PathError::NameTooLong(length)) } else { Ok(()) };
            for name in [plain, dotted] {
                assert_eq!(Name::check(&name).map(drop), expected, "{length}");
                assert_eq!(Name::check(&(name + "/")).map(drop), Err(PathError::Character), "{length}");
            }
        }
    }

    #[test]
    fn folding_is_full_and_composed() {
        assert_eq!(fold("Straße"), "strasse");
        assert_eq!(fold("ÉTÉ"), "été");
        assert_eq!(fold("Σίσυφος"), fold("ΣΊΣΥΦΟΣ"));
        assert_eq!(fold("\u{390}"), "\u{390}"); // expands to three characters, composed again
        assert_eq!(fold("I"), "i"); // no locale
    }

    #[test]
    fn paths_are_parsed_printed_and_split() {
        for text in ["/", "/a", "/a/b", "/a b/ü"] {
            assert_eq!(path(text).as_str(), text);
            assert_eq!(DrivePath::from_names(&path(text).names().collect::<Vec<_>>()).unwrap(), path(text));
        }
        assert_eq!(path("/a/b/"), path("/a/b"));
        assert_eq!(path("/a/b").split(), Some((path("/a"), Name::parse("b").unwrap())));
        assert_eq!(path("/a").split(), Some((DrivePath::root(), Name::parse("a").unwrap())));
        assert_eq!(DrivePath::root().split(), None);
        assert_eq!((path("/a/b").levels(), path("/").levels(), path("/a/b").last()), (2, 0, "b"));
        for bad in ["", "a", "//", "/a//b", "/a/../b", "/./a", "/a//"] {
            assert!(DrivePath::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn limits_are_exact() {
        let deep = |n: usize| "/a".repeat(n);
        assert!(DrivePath::parse(&deep(128)).is_ok());
        assert_eq!(DrivePath::parse(&deep(129)), Err(PathError::TooDeep(129)));
        let long = |n: usize| format!("{}/{}", format!("/{}", "x".repeat(255)).repeat(15), "y".repeat(n));
        assert_eq!(path(&long(255)).as_str().len(), 4096);
        let over = format!("{}/z", format!("/{}", "x".repeat(255)).repeat(16));
        assert_eq!(DrivePath::parse(&over), Err(PathError::TooLong(4098)));
        let name = Name::parse("a").unwrap();
        assert_eq!(path(&deep(128)).join(&name), Err(PathError::TooDeep(129)));
        assert_eq!(path(&long(255)).join(&name), Err(PathError::TooLong(4098)));
        // The shortest paths of the most levels, and longer ones.
        for level in ["/a", "/ab", "/é", "/abc"] {
            assert_eq!(path(&level.repeat(127)).check_child("a"), Ok(()), "{level}");
            assert_eq!(path(&level.repeat(128)).check_child("a"), Err(PathError::TooDeep(129)), "{level}");
        }
        assert_eq!(path(&long(253)).check_child("a"), Ok(()));
        assert_eq!(path(&long(254)).check_child("a"), Err(PathError::TooLong(4097)));
        assert_eq!(DrivePath::root().check_child("a"), Ok(()));
    }

    #[test]
    fn below_contains_the_subtree_and_nothing_else() {
        let below = path("/a").below();
        assert!(below.contains(b"/a/b") && below.contains(b"/a/b/c"));
        assert!(
            !below.contains(b"/a") && !below.contains(b"/ab") && !below.contains(b"/a b") && !below.contains(b"/a0")
        );
        let all = DrivePath::root().below();
        assert!(all.contains(b"/a") && all.contains("/ü".as_bytes()) && !all.contains(b"/"));
        assert!(path("/a/b").is_within(&path("/a")) && path("/a").is_within(&path("/a")));
        assert!(!path("/ab").is_within(&path("/a")) && path("/a").is_within(&DrivePath::root()));
    }
}
