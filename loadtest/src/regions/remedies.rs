//! Remedies of hot spots: changes of row keys that spread load, by the names of HBase practice (HBase Reference
//! Guide, "Rowkey Design"), and their price for readers.

use rand::RngExt;
use rand::rngs::StdRng;

use super::keys::{self, Access, Key};

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

/// Row keys or ranges that a reader asks for to get a row, to list a folder, to scan a range, as in
/// [`HotSpot`](crate::report::model::HotSpot).
pub type Price = [Option<u32>; 3];

impl Remedy {
    pub fn name(self, key: Option<Key>) -> String {
        let name = match self {
            Self::Salt(prefixes) => return format!("salt {prefixes}"),
            Self::Hash(prefixes) => return format!("hash {prefixes}"),
            Self::HashFolder(prefixes) => return format!("hash {prefixes} of the folder"),
            Self::None => "none",
            Self::HashKey => "hash",
            Self::HashHexadecimal => "hash in hexadecimal",
            Self::Reverse if key == Some(Key::Owner) => "creator not reversed",
            Self::Reverse => "reverse",
            Self::ReverseDigits => "reverse decimal digits",
            Self::Ascending => "times ascending",
        };
        name.to_owned()
    }

    /// For a table of such keys. A range of numbers is a period of creation; where a folder's id leads, a subtree is a
    /// range for each folder.
    pub fn price(self, key: Key) -> Price {
        let row = matches!(key, Key::Directory(_));
        let list = row || matches!(key, Key::Path | Key::NumberAndName | Key::IdAndName);
        let scan = !matches!(key, Key::Id | Key::NumberAndName | Key::IdAndName);
        // 0: only a scan of the whole table answers.
        let reads = match self {
            Self::None | Self::Ascending => [1, 1, 1],
            Self::Salt(prefixes) => [prefixes; 3],
            Self::Hash(prefixes) => [1, if row { 1 } else { prefixes }, prefixes],
            Self::HashFolder(prefixes) => [1, 1, prefixes],
            Self::HashKey | Self::HashHexadecimal => [1, u8::from(row), 0],
            Self::Reverse if key == Key::Owner => [1, 1, 1],
            Self::Reverse | Self::ReverseDigits => [1, 1, 0],
        };
        let [get, listing, range] = reads.map(|reads| (reads > 0).then_some(u32::from(reads)));
        [get, listing.filter(|_| list), range.filter(|_| scan)]
    }

    /// How much more readers of such a table ask for, in words.
    pub fn cost(self, key: Key) -> Option<String> {
        let prices = ["get", "listing", "scan"].into_iter().zip(Self::None.price(key)).zip(self.price(key));
        let more = prices.filter(|((_, before), after)| before != after).map(|((read, _), after)| match after {
            Some(reads) => format!("a {read} is {reads} reads"),
            None => format!("a {read} reads the whole table"),
        });
        let absent = "a write that must not replace a row looks under all prefixes first".to_owned();
        let more = more.chain(matches!(self, Self::Salt(_)).then_some(absent)).collect::<Vec<_>>().join("; ");
        let cost = if more.is_empty() { "nothing: a reader computes the key".to_owned() } else { more };
        (self != Self::None).then_some(cost)
    }

    /// The keys that a client writes or reads instead of this one, which has this hash.
    pub fn apply(
        self,
        made_of: Key,
        access: Access,
        key: &[u8],
        hash: impl Fn() -> [u8; 16],
        salts: &mut StdRng,
    ) -> Vec<Vec<u8>> {
        let salted = |salt: u8, prefixes: u8| [&[salt.wrapping_mul(step(prefixes))], key].concat();
        let lead = made_of.lead(key);
        let (head, rest) = key.split_at(lead.start.min(key.len()));
        let (lead, tail) = rest.split_at(lead.len().min(rest.len()));
        let changed = match (self, access) {
            (Self::None, _) => key.to_vec(),
            (Self::Salt(prefixes), Access::Read) => return (0..prefixes).map(|salt| salted(salt, prefixes)).collect(),
            (Self::Salt(prefixes), Access::Write) => salted(salts.random_range(0..prefixes), prefixes),
            (Self::Hash(prefixes), _) => salted(hash()[0] / step(prefixes), prefixes),
            (Self::HashFolder(prefixes), _) => {
                let folder = key.rsplitn(2, |byte| *byte == b'/').nth(1).unwrap_or_default();
                salted(keys::hash(folder)[0] / step(prefixes), prefixes)
            }
            (Self::HashKey, _) => hash().into(),
            (Self::HashHexadecimal, _) => format!("{:032x}", u128::from_be_bytes(hash())).into(),
            (Self::Reverse, _) => head.iter().chain(lead.iter().rev()).chain(tail).copied().collect(),
            (Self::ReverseDigits, _) => {
                let number = lead.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
                format!("{number:010}").bytes().rev().chain(tail.iter().copied()).collect()
            }
            (Self::Ascending, _) => {
                // A time's key ends in eight bytes of time and an id.
                let time = key.len().saturating_sub(24)..key.len().saturating_sub(16);
                key.iter().enumerate().map(|(at, byte)| if time.contains(&at) { !byte } else { *byte }).collect()
            }
        };
        vec![changed]
    }
}

/// The distance of prefixes.
fn step(prefixes: u8) -> u8 {
    u8::MAX / prefixes.max(2) + 1
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::regions::keys::hash;

    #[test]
    fn each_remedy_by_hand() {
        // SHA-256 of "abc" (FIPS 180-2, appendix B.1), its first half.
        let abc = 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223_u128.to_be_bytes();
        let ascending = [b"\x01", &[0xff; 7][..], b"\xf00123456789abcdef"].concat();
        let cases: [(Remedy, Key, &[u8], &[u8]); 11] = [
            (Remedy::HashFolder(16), Key::Path, b"abc/d", b"\xb0abc/d"),
            (Remedy::Hash(4), Key::Name, b"abc", b"\x80abc"),
            (Remedy::Hash(16), Key::Name, b"abc", b"\xb0abc"),
            (Remedy::HashKey, Key::Path, b"abc", &abc),
            (Remedy::HashHexadecimal, Key::Path, b"abc", b"ba7816bf8f01cfea414140de5dae2223"),
            (Remedy::Reverse, Key::NumberAndName, b"\0\0\0\0\0\0\x01\x02ab", b"\x02\x01\0\0\0\0\0\0ab"),
            (Remedy::Reverse, Key::FoldedName, b"a1\0fid", b"1a\0fid"),
            (Remedy::Reverse, Key::Time, b"\x01abcdefghid", b"\x01hgfedcbaid"),
            (Remedy::Reverse, Key::Owner, b"ave\0rest", b"eva\0rest"),
            (Remedy::ReverseDigits, Key::Number, b"\0\0\0\0\0\0\x01\x02", b"8520000000"),
            (Remedy::Ascending, Key::Time, b"\x01\0\0\0\0\0\0\0\x0f0123456789abcdef", &ascending),
        ];
        let salts = &mut StdRng::seed_from_u64(1);
        for (remedy, made_of, key, changed) in cases {
            assert_eq!(
                remedy.apply(made_of, Access::Write, key, || hash(key), salts),
                [changed],
                "{remedy:?} {made_of:?}"
            );
            // A key that is too short is no error.
            remedy.apply(made_of, Access::Read, b"", || hash(b""), salts);
        }
        // A salt is any prefix; a reader asks for all.
        let mut salt = |access| Remedy::Salt(4).apply(Key::Path, access, b"a", || hash(b"a"), salts);
        let asked = salt(Access::Read);
        assert_eq!(asked, [b"\x00a", b"\x40a", b"\x80a", b"\xc0a"]);
        let written: Vec<_> = (0..1_000).flat_map(|_| salt(Access::Write)).collect();
        let counts = asked.iter().map(|key| written.iter().filter(|other| *other == key).count());
        assert!(counts.clone().all(|count| (200..300).contains(&count)) && counts.sum::<usize>() == 1_000);
    }

    #[test]
    fn the_price_is_that_of_the_very_table() {
        let (dir, one) = (Key::Directory(true), Some(1));
        let prices = [
            (Remedy::None, Key::Path, [one, one, one]),
            (Remedy::Salt(16), Key::Path, [Some(16); 3]),
            (Remedy::Hash(16), Key::Path, [one, Some(16), Some(16)]),
            (Remedy::HashFolder(16), Key::Path, [one, one, Some(16)]),
            (Remedy::HashKey, Key::Path, [one, None, None]),
            // A folder is a row.
            (Remedy::Hash(16), dir, [one, one, Some(16)]),
            (Remedy::HashKey, dir, [one, one, None]),
            (Remedy::Salt(16), Key::Id, [Some(16), None, None]),
            (Remedy::Reverse, Key::Time, [one, None, None]),
            (Remedy::Reverse, Key::Owner, [one, None, one]),
        ];
        for (remedy, key, price) in prices {
            assert_eq!(remedy.price(key), price, "{remedy:?} {key:?}");
        }
        let cost = |remedy: Remedy, key| remedy.cost(key).unwrap();
        assert_eq!(cost(Remedy::HashKey, dir), "a scan reads the whole table");
        assert_eq!(cost(Remedy::Hash(4), Key::Path), "a listing is 4 reads; a scan is 4 reads");
        assert_eq!(cost(Remedy::Reverse, Key::NumberAndName), "nothing: a reader computes the key");
    }
}
