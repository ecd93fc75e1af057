//! Remedies of hot spots: changes of row keys that spread load, by the names of HBase practice (HBase Reference
//! Guide, "Rowkey Design"), and their price for readers.

use rand::RngExt;
use rand::rngs::StdRng;

use super::keys::{Access, hash};

/// A change of all row keys of a table.
#[derive(Clone, Copy)]
pub struct Remedy(
    pub &'static str,
    /// How many row keys or ranges a reader asks for to get a row, to list a folder, to scan a range: 0 if only a scan
    /// of the whole table answers. Of several keys of a row, a writer takes one by chance, a salt.
    [u8; 3],
    /// What a key becomes with such a salt.
    fn(&[u8], u8) -> Vec<u8>,
);

pub const NONE: Remedy = Remedy("none", [1; 3], |key, _| key.to_vec());
// A prefix is one of 4 or 16 at the same distance: even splits lie between them.
pub const SALT_4: Remedy = Remedy("salt 4", [4; 3], |key, salt| prefixed(salt << 6, key));
pub const SALT_16: Remedy = Remedy("salt 16", [16; 3], |key, salt| prefixed(salt << 4, key));
pub const HASH_4: Remedy = Remedy("hash 4", [1, 4, 4], |key, _| prefixed(hash(key)[0] & 0xc0, key));
pub const HASH_16: Remedy = Remedy("hash 16", [1, 16, 16], |key, _| prefixed(hash(key)[0] & 0xf0, key));
/// The files of a folder stay together.
pub const HASH_FOLDER: Remedy = Remedy("hash 16 of the folder", [1, 1, 16], |key, _| {
    let folder = key.rsplitn(2, |byte| *byte == b'/').nth(1).unwrap_or_default();
    prefixed(hash(folder)[0] & 0xf0, key)
});
pub const HASH_KEY: Remedy = Remedy("hash", [1, 0, 0], |key, _| hash(key).into());
pub const HASH_HEXADECIMAL: Remedy =
    Remedy("hash in hexadecimal", [1, 0, 0], |key, _| format!("{:032x}", u128::from_be_bytes(hash(key))).into());
// The bytes of the leading component backwards.
pub const REVERSE_NUMBER: Remedy = Remedy("reverse", [1, 1, 0], |key, _| reversed(key, 0, 8));
pub const REVERSE_TIME: Remedy = Remedy("reverse", [1, 1, 0], |key, _| reversed(key, 1, 9));
pub const REVERSE_NAME: Remedy = Remedy("reverse", [1, 1, 0], |key, _| {
    reversed(key, 0, key.iter().position(|byte| *byte == 0).unwrap_or(key.len()))
});
/// Undoes the drive's reversal.
pub const CREATOR_FORWARDS: Remedy = Remedy("creator not reversed", [1; 3], REVERSE_NAME.2);
/// A number as ten decimal digits, backwards.
pub const REVERSE_DIGITS: Remedy = Remedy("reverse decimal digits", [1, 1, 0], |key, _| {
    let number = key.first_chunk().map_or(0, |number| u64::from_be_bytes(*number));
    format!("{number:010}").bytes().rev().collect()
});
/// Undoes the drive's inversion of times: later times last. A time's key ends in eight bytes of time and an id.
pub const ASCENDING: Remedy = Remedy("times ascending", [1; 3], |key, _| {
    let time = key.len().saturating_sub(24)..key.len().saturating_sub(16);
    key.iter().enumerate().map(|(at, byte)| if time.contains(&at) { !byte } else { *byte }).collect()
});

fn prefixed(prefix: u8, key: &[u8]) -> Vec<u8> {
    [&[prefix], key].concat()
}

fn reversed(key: &[u8], start: usize, end: usize) -> Vec<u8> {
    let mut reversed = key.to_vec();
    reversed.get_mut(start..end).into_iter().for_each(<[u8]>::reverse);
    reversed
}

impl Remedy {
    /// What a get, a listing and a scan ask for, in a table that answers them so.
    pub fn reads(self, answers: [Option<usize>; 3]) -> [Option<u32>; 3] {
        answers.map(|figure| self.1.get(figure?).map(|asked| u32::from(*asked)))
    }

    /// How much more readers of such a table ask for, in words.
    pub fn cost(self, answers: [Option<usize>; 3]) -> String {
        let reads = ["get", "listing", "scan"].into_iter().zip(self.reads(answers));
        let more = reads.filter_map(|(question, reads)| match reads? {
            0 => Some(format!("a {question} reads the whole table")),
            1 => None,
            reads => Some(format!("a {question} is {reads} reads")),
        });
        let absent = "a write that must not replace a row looks under all prefixes first".to_owned();
        let more = more.chain((self.1[0] > 1).then_some(absent)).collect::<Vec<_>>().join("; ");
        if more.is_empty() { "nothing: a reader computes the key".to_owned() } else { more }
    }

    /// The keys that a client writes or reads instead of this one.
    pub fn apply(self, access: Access, key: &[u8], salts: &mut StdRng) -> Vec<Vec<u8>> {
        let mut asked = 0..self.1[0];
        if access == Access::Write && asked.len() > 1 {
            let salt = salts.random_range(asked);
            asked = salt..salt + 1;
        }
        asked.map(|salt| (self.2)(key, salt)).collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::super::keys::{GET, LIST, SCAN};
    use super::*;

    #[test]
    fn each_remedy_changes_a_key_as_by_hand() {
        // SHA-256 of "abc" (FIPS 180-2, appendix B.1), its first half.
        let abc = 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223_u128.to_be_bytes();
        let ascending = [b"\x01", &[0xff; 7][..], b"\xf00123456789abcdef"].concat();
        let salts = &mut StdRng::seed_from_u64(1);
        let examples: [(Remedy, &[u8], &[u8]); 12] = [
            (NONE, b"abc", b"abc"),
            (HASH_4, b"abc", b"\x80abc"),
            (HASH_16, b"abc", b"\xb0abc"),
            (HASH_FOLDER, b"abc/d", b"\xb0abc/d"),
            (HASH_KEY, b"abc", &abc),
            (HASH_HEXADECIMAL, b"abc", b"ba7816bf8f01cfea414140de5dae2223"),
            (REVERSE_NUMBER, b"\0\0\0\0\0\0\x01\x02ab", b"\x02\x01\0\0\0\0\0\0ab"),
            (REVERSE_TIME, b"\x01abcdefghid", b"\x01hgfedcbaid"),
            (REVERSE_NAME, b"a1\0fid", b"1a\0fid"),
            (REVERSE_NAME, b"a1", b"1a"),
            (REVERSE_DIGITS, b"\0\0\0\0\0\0\x01\x02", b"8520000000"),
            (ASCENDING, b"\x01\0\0\0\0\0\0\0\x0f0123456789abcdef", &ascending),
        ];
        for (remedy, key, changed) in examples {
            assert_eq!(remedy.apply(Access::Write, key, salts), [changed], "{}", remedy.0);
        }
    }

    #[test]
    fn a_salt_is_any_prefix_and_a_reader_asks_for_all() {
        let salts = &mut StdRng::seed_from_u64(1);
        let asked = SALT_4.apply(Access::Read, b"a", salts);
        assert_eq!(asked, [b"\x00a", b"\x40a", b"\x80a", b"\xc0a"]);
        assert!(SALT_16.apply(Access::Read, b"", salts).concat().into_iter().eq((0..=u8::MAX).step_by(16)));
        let written: Vec<_> = (0..1_000).flat_map(|_| SALT_4.apply(Access::Write, b"a", salts)).collect();
        let counts = asked.iter().map(|key| written.iter().filter(|other| *other == key).count());
        assert!(counts.clone().all(|count| (200..300).contains(&count)) && counts.sum::<usize>() == 1_000);
    }

    #[test]
    fn the_cost_of_a_remedy_is_that_of_what_a_table_answers() {
        let absent = "a get is 4 reads; a write that must not replace a row looks under all prefixes first";
        for (remedy, answers, cost) in [
            (NONE, [GET, LIST, SCAN], "nothing: a reader computes the key"),
            (HASH_16, [GET, LIST, SCAN], "a listing is 16 reads; a scan is 16 reads"),
            (HASH_KEY, [GET, GET, SCAN], "a scan reads the whole table"),
            (HASH_KEY, [GET, LIST, None], "a listing reads the whole table"),
            (SALT_4, [GET, None, None], absent),
        ] {
            assert_eq!(remedy.cost(answers), cost, "{}", remedy.0);
        }
    }
}
