//! The spellings of names in a tar. A drive stores the canonical composition of a name (NFC), so that files with
//! different names in a tar may have one name on the drive: the first spelling has it, and the others are refused.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;

use crate::budget::{Budget, Permit};
use crate::http::response::memory;
use crate::http::response::problem::Result;
use crate::schema::DrivePath;

/// Spellings for which memory is taken at a time, and bytes for each: of a map of numbers, while it grows. Together more
/// than a small buffer, as the lines of an answer.
const STEP: usize = 2048;
const BYTES: usize = 64;

/// How the files of a tar are spelled, by numbers that their names give, to save memory.
#[derive(Default)]
pub struct Spellings {
    of_path: HashMap<u64, u64>,
    numbers: RandomState,
    memory: Vec<Permit>,
}

impl Spellings {
    /// Whether an earlier file of the tar has this path by another spelling of it. `name`: that of the member.
    ///
    /// Errors: there is no memory for a while.
    pub async fn differs(&mut self, path: &DrivePath, name: &str, budget: &Budget) -> Result<bool> {
        if !has_others(path.as_str()) {
            return Ok(false);
        }
        if self.of_path.len() >= self.memory.len() * STEP {
            self.memory.push(memory::within(budget, budget.take(STEP * BYTES)).await?);
        }
        let spelling = self.numbers.hash_one(name.split('/').filter(|part| is_name(part)).collect::<Vec<_>>());
        match self.of_path.entry(self.numbers.hash_one(path)) {
            Entry::Occupied(first) => Ok(*first.get() != spelling),
            Entry::Vacant(new) => {
                new.insert(spelling);
                Ok(false)
            }
        }
    }
}

/// Whether a part of a member's name is a name: as programs that unpack tars do, `.` and repeated slashes are skipped.
pub fn is_name(part: &str) -> bool {
    !matches!(part, "" | ".")
}

/// Whether other texts may have this canonical composition. Of ASCII these characters alone are one: of U+212A (kelvin
/// sign), U+037E (Greek question mark) and U+1FEF (Greek varia).
fn has_others(composed: &str) -> bool {
    composed.contains(|c: char| !c.is_ascii() || matches!(c, 'K' | ';' | '`'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::path::nfc;

    #[test]
    fn no_other_text_has_a_composition_of_the_other_ascii_characters() {
        for c in '\u{80}'..=char::MAX {
            let composed = nfc(&c.to_string()).into_owned();
            assert!(has_others(&composed), "{c:?} {composed:?}");
        }
    }

    #[tokio::test]
    async fn the_first_spelling_has_the_path() {
        let budget = Budget::new(1 << 20);
        let mut all = Spellings::default();
        for (name, differs) in [
            ("e\u{301}/K", false),
            ("./e\u{301}//K", false),
            ("\u{e9}/K", true),
            ("e\u{301}/\u{212a}", true),
            ("e\u{301}/K", false),
            ("plain", false),
            ("plain", false),
        ] {
            let path = name.split('/').filter(|part| is_name(part)).fold(String::new(), |path, part| path + "/" + part);
            let path = DrivePath::parse(&path).unwrap();
            assert_eq!(all.differs(&path, name, &budget).await.unwrap(), differs, "{name}");
        }
        assert_eq!((all.of_path.len(), all.memory.len()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn spellings_take_memory_of_the_budget() {
        let budget = Budget::new(1 << 20);
        let mut all = Spellings::default();
        let mut stored = 0;
        while all.differs(&DrivePath::parse(&format!("/\u{e9}{stored}")).unwrap(), "x", &budget).await.is_ok() {
            stored += 1;
        }
        assert!((STEP..=(1 << 20) / BYTES).contains(&stored), "{stored}");
        drop(all);
        assert!(budget.try_take(STEP * BYTES).is_some());
    }
}
