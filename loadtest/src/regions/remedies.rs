//! Remedies of hot spots: changes of row keys that spread load, by the names of HBase practice (HBase Reference
//! Guide, "Rowkey Design"), and their price for readers.

use rand::RngExt;
use rand::rngs::StdRng;

use super::keys::{Access, Key, hash};

/// A change of all row keys of a table. A number of prefixes is a power of two: even splits lie between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    None,
    /// One of so many prefixes, by chance: a reader asks for all of them.
    Salt(u8),
    /// One of so many prefixes, computed from the key.
    Hash(u8),
    /// The same from the folder of a path: the files of a folder stay together.
    HashFolder(u8),
    /// A hash replaces the key.
    HashKey,
    /// The same in hexadecimal digits.
    HashHexadecimal,
    /// The bytes of the leading component backwards: a number, a name, a time; undoes the drive's reversal of creators.
    Reverse,
    /// A leading number as ten decimal digits, backwards.
    ReverseDigits,
    /// Undoes the drive's inversion of times: later times last.
    Ascending,
}

impl Remedy {
    /// Its name for a table of such keys, or for all tables of a layout. And how many row keys or ranges a reader of
    /// the table asks for to get a row, to list a folder, to scan a range: 0 if only a scan of the whole table answers,
    /// none if that table never does.
    ///
    /// A range of numbers is a period of creation; where a folder's id leads, a subtree is a range for each folder.
    pub fn name_and_reads(self, key: Option<Key>) -> (String, [Option<u32>; 3]) {
        let (name, reads) = match self {
            Self::None => ("none".to_owned(), [1, 1, 1]),
            Self::Salt(prefixes) => (format!("salt {prefixes}"), [prefixes; 3]),
            Self::Hash(prefixes) => (format!("hash {prefixes}"), [1, prefixes, prefixes]),
            Self::HashFolder(prefixes) => (format!("hash {prefixes} of the folder"), [1, 1, prefixes]),
            Self::HashKey => ("hash".to_owned(), [1, 0, 0]),
            Self::HashHexadecimal => ("hash in hexadecimal".to_owned(), [1, 0, 0]),
            Self::Reverse if key == Some(Key::Owner) => ("creator not reversed".to_owned(), [1, 1, 1]),
            Self::Reverse => ("reverse".to_owned(), [1, 1, 0]),
            Self::ReverseDigits => ("reverse decimal digits".to_owned(), [1, 1, 0]),
            Self::Ascending => ("times ascending".to_owned(), [1, 1, 1]),
        };
        let [get, list, scan] = reads.map(|reads| Some(u32::from(reads)));
        let reads = match key {
            None => [None; 3],
            // A folder is a row.
            Some(Key::Directory(_)) => [get, get, scan],
            Some(Key::Path) => [get, list, scan],
            Some(Key::NumberAndName | Key::IdAndName) => [get, list, None],
            Some(Key::Id) => [get, None, None],
            Some(Key::Number | Key::Name | Key::Time | Key::Owner | Key::FoldedName) => [get, None, scan],
        };
        (name, reads)
    }

    /// How much more readers of such a table ask for, in words.
    pub fn cost(self, key: Key) -> String {
        let (_, reads) = self.name_and_reads(Some(key));
        let reads = ["get", "listing", "scan"].into_iter().zip(reads.map(|reads| reads.unwrap_or(1)));
        let more = reads.filter(|(_, reads)| *reads != 1).map(|(question, reads)| match reads {
            0 => format!("a {question} reads the whole table"),
            _ => format!("a {question} is {reads} reads"),
        });
        let absent = "a write that must not replace a row looks under all prefixes first".to_owned();
        let more = more.chain(matches!(self, Self::Salt(_)).then_some(absent)).collect::<Vec<_>>().join("; ");
        if more.is_empty() { "nothing: a reader computes the key".to_owned() } else { more }
    }

    /// The keys that a client writes or reads instead of this one.
    pub fn apply(self, made_of: Key, access: Access, key: &[u8], salts: &mut StdRng) -> Vec<Vec<u8>> {
        // Prefixes have the same distance.
        let step = |prefixes: u8| u8::MAX / prefixes + 1;
        let prefixed = |number: u8, prefixes: u8| [&[number * step(prefixes)], key].concat();
        let hashed = |part: &[u8], prefixes: u8| prefixed(hash(part)[0] / step(prefixes), prefixes);
        let changed = match self {
            Self::None => key.to_vec(),
            Self::Salt(prefixes) if access == Access::Read => {
                return (0..prefixes).map(|salt| prefixed(salt, prefixes)).collect();
            }
            Self::Salt(prefixes) => prefixed(salts.random_range(0..prefixes), prefixes),
            Self::Hash(prefixes) => hashed(key, prefixes),
            Self::HashFolder(prefixes) => {
                hashed(key.rsplitn(2, |byte| *byte == b'/').nth(1).unwrap_or_default(), prefixes)
            }
            Self::HashKey => hash(key).into(),
            Self::HashHexadecimal => format!("{:032x}", u128::from_be_bytes(hash(key))).into(),
            Self::Reverse => {
                let lead = match made_of {
                    Key::Number | Key::NumberAndName => 0..8,
                    Key::Time => 1..9,
                    _ => 0..key.iter().position(|byte| *byte == 0).unwrap_or(key.len()),
                };
                let mut reversed = key.to_vec();
                reversed.get_mut(lead).into_iter().for_each(<[u8]>::reverse);
                reversed
            }
            Self::ReverseDigits => {
                let number = key.first_chunk().map_or(0, |number| u64::from_be_bytes(*number));
                format!("{number:010}").bytes().rev().collect()
            }
            Self::Ascending => {
                // A time's key ends in eight bytes of time and an id.
                let time = key.len().saturating_sub(24)..key.len().saturating_sub(16);
                key.iter().enumerate().map(|(at, byte)| if time.contains(&at) { !byte } else { *byte }).collect()
            }
        };
        vec![changed]
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// A remedy, what keys are made of, a key before and after it, and what it costs.
    type Example<'a> = (Remedy, Key, &'a [u8], &'a [u8], &'a str);

    #[test]
    fn each_remedy_and_its_cost_by_hand() {
        // SHA-256 of "abc" (FIPS 180-2, appendix B.1), its first half.
        let abc = 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223_u128.to_be_bytes();
        let ascending = [b"\x01", &[0xff; 7][..], b"\xf00123456789abcdef"].concat();
        let [nothing, all, prefixes] =
            ["nothing: a reader computes the key", "a scan reads the whole table", "a scan is 16 reads"];
        let both = "a listing reads the whole table; a scan reads the whole table";
        let cases: [Example<'_>; 13] = [
            (Remedy::HashFolder(16), Key::Path, b"abc/d", b"\xb0abc/d", prefixes),
            (Remedy::Hash(4), Key::Path, b"abc", b"\x80abc", "a listing is 4 reads; a scan is 4 reads"),
            // A folder is a row.
            (Remedy::Hash(16), Key::Directory(true), b"abc", b"\xb0abc", prefixes),
            (Remedy::HashKey, Key::Directory(true), b"abc", &abc, all),
            (Remedy::HashKey, Key::Path, b"abc", &abc, both),
            (Remedy::HashHexadecimal, Key::Path, b"abc", b"ba7816bf8f01cfea414140de5dae2223", both),
            (Remedy::Reverse, Key::NumberAndName, b"\0\0\0\0\0\0\x01\x02ab", b"\x02\x01\0\0\0\0\0\0ab", nothing),
            (Remedy::Reverse, Key::FoldedName, b"a1\0fid", b"1a\0fid", all),
            (Remedy::Reverse, Key::Time, b"\x01abcdefghid", b"\x01hgfedcbaid", all),
            (Remedy::Reverse, Key::Owner, b"ave\0rest", b"eva\0rest", nothing),
            (Remedy::ReverseDigits, Key::Number, b"\0\0\0\0\0\0\x01\x02", b"8520000000", all),
            (Remedy::Ascending, Key::Time, b"\x01\0\0\0\0\0\0\0\x0f0123456789abcdef", &ascending, nothing),
            (Remedy::None, Key::Path, b"abc", b"abc", nothing),
        ];
        let salts = &mut StdRng::seed_from_u64(1);
        for (remedy, made_of, key, changed, cost) in cases {
            assert_eq!(remedy.apply(made_of, Access::Write, key, salts), [changed], "{remedy:?} {made_of:?}");
            assert_eq!(remedy.cost(made_of), cost, "{remedy:?} {made_of:?}");
        }
    }

    #[test]
    fn a_salt_is_any_prefix_and_a_reader_asks_for_all() {
        let salts = &mut StdRng::seed_from_u64(1);
        let mut salt = |access| Remedy::Salt(4).apply(Key::Path, access, b"a", salts);
        let asked = salt(Access::Read);
        assert_eq!(asked, [b"\x00a", b"\x40a", b"\x80a", b"\xc0a"]);
        let written: Vec<_> = (0..1_000).flat_map(|_| salt(Access::Write)).collect();
        let counts = asked.iter().map(|key| written.iter().filter(|other| *other == key).count());
        assert!(counts.clone().all(|count| (200..300).contains(&count)) && counts.sum::<usize>() == 1_000);
        let reads = |key| Remedy::Salt(4).name_and_reads(Some(key)).1;
        assert_eq!([Key::Path, Key::Id].map(reads), [[Some(4); 3], [Some(4), None, None]]);
        let absent = "a get is 4 reads; a write that must not replace a row looks under all prefixes first";
        assert_eq!(Remedy::Salt(4).cost(Key::Id), absent);
    }
}
