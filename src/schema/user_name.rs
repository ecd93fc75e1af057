//! Names of users, and the `username` table: from the folded form of a name to the name itself.
//!
//! The folded form is equal for names that people take for the same one. A row is never removed, so a name is given once.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizer, DecomposingNormalizer};
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};

use super::CF;
use super::path::nfc;
use super::value::{ValueError, ValueReader, ValueWriter};
use crate::table::{Change, Check, Column, ConditionalRow};

/// The name of the table.
pub const TABLE: &str = "username";
/// The qualifier of the name as its user wrote it.
pub const NAME: &[u8] = b"name";

/// Bytes of a user name.
pub const USER_NAME_BYTES: usize = 64;
/// The creator of what was stored before there were users.
const ANONYMOUS: &str = "anonymous";

/// Why a text is not the name of a user.
#[expect(missing_docs, reason = "the message of each variant describes it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserNameError {
    #[error("a user name starts with a letter or a digit")]
    First,
    #[error("a user name has letters, digits and . _ - @ + only, not {0:?}")]
    Character(char),
    #[error("a user name has at most {USER_NAME_BYTES} bytes in UTF-8, this one has {0}")]
    TooLong(usize),
    #[error("the name {ANONYMOUS} means that nobody is logged in: choose another one")]
    Reserved,
}

/// The name of a user, cheap to clone: NFC, 1 to 64 bytes of letters, marks, digits and `. _ - @ +`, first a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(Arc<str>);

impl UserName {
    /// Normalises a text and checks it.
    pub fn parse(text: &str) -> Result<Self, UserNameError> {
        let name = nfc(text);
        if name.len() > USER_NAME_BYTES {
            return Err(UserNameError::TooLong(name.len()));
        }
        if !name.chars().next().is_some_and(|first| is_letter(first) || is_digit(first)) {
            return Err(UserNameError::First);
        }
        let may_stand =
            |c: &char| is_letter(*c) || is_digit(*c) || is_mark(*c) || matches!(*c, '.' | '_' | '-' | '@' | '+');
        if let Some(other) = name.chars().find(|c| !may_stand(c)) {
            return Err(UserNameError::Character(other));
        }
        match fold(&name).as_str() {
            // A letter that is shown as nothing, such as a Hangul filler.
            "" => Err(UserNameError::First),
            ANONYMOUS => Err(UserNameError::Reserved),
            _ => Ok(Self(name.into())),
        }
    }

    /// The user whose name a creator is, also before there is such a user; none if there can be none.
    pub fn of_creator(creator: &str) -> Option<Self> {
        if creator == ANONYMOUS {
            return None;
        }
        // A creator is compared with the name as it is: another spelling is another creator.
        Self::parse(creator).ok().filter(|name| *name.0 == *creator)
    }

    /// The name in a stored value.
    pub(super) fn read(r: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let text = r.text()?;
        Self::parse(text).map_err(|_| r.damaged())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The row key in this table.
    pub fn folded_key(&self) -> Bytes {
        fold(&self.0).into()
    }

    /// Creates the row of this name. The plan is refused if the name was given before.
    pub fn make_row(&self) -> ConditionalRow {
        let name = ValueWriter::new(1).bytes(self.0.as_bytes()).done();
        let (checks, changes) = (vec![Check::Absent(column())], vec![Change::put(CF, NAME, name)]);
        ConditionalRow { table: TABLE, row: self.folded_key(), checks, changes }
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The only cell of a row.
pub fn column() -> Column {
    Column::new(CF, NAME)
}

/// Decodes the only cell of a row.
pub fn decode(value: &[u8]) -> Result<UserName, ValueError> {
    let mut r = ValueReader::version_1("user name", value)?;
    let name = UserName::read(&mut r)?;
    r.end()?;
    Ok(name)
}

fn is_letter(c: char) -> bool {
    GeneralCategoryGroup::Letter.contains(category(c))
}

fn is_mark(c: char) -> bool {
    GeneralCategoryGroup::Mark.contains(category(c))
}

fn is_digit(c: char) -> bool {
    category(c) == GeneralCategory::DecimalNumber
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

/// The compatibility caseless form of a name (Unicode's definition D146), without characters that are shown as nothing.
fn fold(name: &str) -> String {
    let (nfkc, fold) = (ComposingNormalizer::new_nfkc(), CaseMapper::new());
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let shown: String = name.chars().filter(|c| !ignorable.contains(*c)).collect();
    let decomposed = DecomposingNormalizer::new_nfd().normalize(&shown).into_owned();
    let once = nfkc.normalize(&fold.fold_string(&decomposed)).into_owned();
    nfkc.normalize(&fold.fold_string(&once)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> UserName {
        UserName::parse(text).unwrap()
    }

    #[test]
    fn names_are_checked_and_composed() {
        for text in ["tom", "7", "Tom.Müller-2_x@example.org+drive", "日本", "नमस्ते", &"a".repeat(64)] {
            assert_eq!(name(text).as_str(), text);
        }
        assert_eq!(name("e\u{301}va").as_str(), "éva");
        for text in ["", ".tom", "-a", "@", "\u{301}a", "\u{3164}"] {
            assert_eq!(UserName::parse(text), Err(UserNameError::First), "{text:?}");
        }
        for (text, bad) in
            [("a b", ' '), ("a/b", '/'), ("a\0", '\0'), ("a:b", ':'), ("a*", '*'), ("a\u{200b}", '\u{200b}')]
        {
            assert_eq!(UserName::parse(text), Err(UserNameError::Character(bad)));
        }
        assert_eq!(UserName::parse(&"é".repeat(33)), Err(UserNameError::TooLong(66)));
        for text in ["anonymous", "Anonymous", "ａｎｏｎｙｍｏｕｓ"] {
            assert_eq!(UserName::parse(text), Err(UserNameError::Reserved));
        }
    }

    #[test]
    fn a_creator_is_a_user_only_by_his_name_as_it_is() {
        assert_eq!(UserName::of_creator("Tom"), Some(name("Tom")));
        for other in ["anonymous", "ANONYMOUS", "e\u{301}va", "", "two words", "*"] {
            assert_eq!(UserName::of_creator(other), None, "{other:?}");
        }
    }

    #[test]
    fn names_that_look_the_same_have_one_row() {
        for (one, other) in
            [("Tom", "tom"), ("STRASSE", "Straße"), ("ｔｏｍ", "tom"), ("ﬁ", "FI"), ("to\u{fe0f}m", "TOM")]
        {
            assert_eq!(name(one).folded_key(), name(other).folded_key(), "{one} {other}");
        }
        assert_ne!(name("tom").folded_key(), name("tóm").folded_key());
    }

    #[test]
    fn golden_bytes() {
        let row = name("Tom").make_row();
        assert_eq!(
            (row.row.as_ref(), &row.checks),
            (b"tom".as_slice(), &vec![Check::Absent(Column::new("cf", "name"))])
        );
        assert_eq!(row.changes, [Change::put("cf", "name", b"\x01\x03Tom".as_slice())]);
        assert_eq!(decode(b"\x01\x03Tom"), Ok(name("Tom")));
        assert!(decode(b"\x01\x02Tom").is_err() && decode(b"\x01\x01/").is_err());
    }
}
