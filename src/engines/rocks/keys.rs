//! The bytes of a RocksDB key: `escape(row) 00 qualifier`.
//!
//! `escape` maps `00` to `01 01` and `01` to `01 02`, and copies every other byte, so its result has no `00`:
//! the first `00` of a key ends its row. If one row is a prefix of another, it ends with `00`, which is less than any
//! next byte of the longer row. So the order of keys is (row, qualifier), each in byte order.
//! The family is not part of the key: each family is a column family of its own.

use std::ops::Bound;

use bytes::Bytes;
use memchr::{memchr, memchr2};

const END: u8 = 0x00;
const ESCAPE: u8 = 0x01;
const ZERO: u8 = 0x01;
const ONE: u8 = 0x02;
/// The least byte that can follow an escaped row in the key of another row.
const AFTER_END: u8 = 0x01;

/// A range of keys; the upper end is exclusive. Without one it extends to the end of the column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

impl KeyRange {
    /// Whether it contains no key, as if its ends are in the wrong order.
    pub fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// All keys of one row.
    pub fn row(row: &[u8]) -> Self {
        Self { from: row_start(row), to: Some(row_end(row)) }
    }

    /// The keys of one row whose qualifiers lie within the bounds.
    pub fn within_row(row: &[u8], from: &Bound<Bytes>, to: &Bound<Bytes>) -> Self {
        let lower = match from {
            Bound::Included(qualifier) => key(row, qualifier),
            Bound::Excluded(qualifier) => next_key(row, qualifier),
            Bound::Unbounded => row_start(row),
        };
        let upper = match to {
            Bound::Included(qualifier) => next_key(row, qualifier),
            Bound::Excluded(qualifier) => key(row, qualifier),
            Bound::Unbounded => row_end(row),
        };
        Self { from: lower, to: Some(upper) }
    }

    /// The keys of all rows within the bounds.
    pub fn rows(from: &Bound<Bytes>, to: &Bound<Bytes>) -> Self {
        let lower = match from {
            Bound::Included(row) => row_start(row),
            Bound::Excluded(row) => row_end(row),
            Bound::Unbounded => Vec::new(),
        };
        let upper = match to {
            Bound::Included(row) => Some(row_end(row)),
            Bound::Excluded(row) => Some(row_start(row)),
            Bound::Unbounded => None,
        };
        Self { from: lower, to: upper }
    }
}

pub(super) fn key(row: &[u8], qualifier: &[u8]) -> Vec<u8> {
    let mut key = row_start(row);
    key.extend_from_slice(qualifier);
    key
}

/// The least byte string above `key(row, qualifier)`.
fn next_key(row: &[u8], qualifier: &[u8]) -> Vec<u8> {
    let mut next = key(row, qualifier);
    next.push(0);
    next
}

/// The prefix of all keys of the row, and of no other key.
pub(super) fn row_start(row: &[u8]) -> Vec<u8> {
    // Capacity for a qualifier of common length, so that `key` need not grow the vector.
    let mut start = Vec::with_capacity(row.len() + 48);
    escape(row, &mut start);
    start.push(END);
    start
}

/// The least byte string above all keys of the row, and not above any key of a later row.
pub(super) fn row_end(row: &[u8]) -> Vec<u8> {
    let mut end = Vec::with_capacity(row.len() + 8);
    escape(row, &mut end);
    end.push(AFTER_END);
    end
}

/// `row_end` of the row whose `row_start` this is.
pub(super) fn end_of(row_start: &[u8]) -> Vec<u8> {
    let mut end = row_start.to_vec();
    if let Some(last) = end.last_mut() {
        *last = AFTER_END;
    }
    end
}

fn escape(row: &[u8], into: &mut Vec<u8>) {
    let mut rest = row;
    while let Some(at) = memchr2(END, ESCAPE, rest)
        && let Some((run, [byte, after @ ..])) = rest.split_at_checked(at)
    {
        into.extend_from_slice(run);
        into.extend_from_slice(&[ESCAPE, if *byte == END { ZERO } else { ONE }]);
        rest = after;
    }
    into.extend_from_slice(rest);
}

/// Splits a key after the end byte of its row: (`row_start`, qualifier). None if there is no end byte.
pub(super) fn split(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(END, key)?;
    key.split_at_checked(end + 1)
}

/// The row whose `row_start` this is. None if it is not the encoding of a row.
pub(super) fn row_of(row_start: &[u8]) -> Option<Bytes> {
    let mut row = Vec::with_capacity(row_start.len());
    unescape(row_start, &mut row)?;
    Some(row.into())
}

/// Appends the row whose `row_start` this is. None if it is not the encoding of a row; then a part of it is appended.
pub(super) fn unescape(row_start: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let (last, mut rest) = row_start.split_last()?;
    if *last != END {
        return None;
    }
    while let Some(at) = memchr2(END, ESCAPE, rest) {
        let (run, escaped) = rest.split_at_checked(at)?;
        let [ESCAPE, code, after @ ..] = escaped else { return None };
        into.extend_from_slice(run);
        into.push(match *code {
            ZERO => END,
            ONE => ESCAPE,
            _ => return None,
        });
        rest = after;
    }
    into.extend_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_of_keys() {
        assert_eq!(key(b"ab", b"q"), b"ab\x00q");
        assert_eq!(key(b"", b"q"), b"\x00q");
        assert_eq!(key(b"\x00", b"\x00"), b"\x01\x01\x00\x00");
        assert_eq!(key(b"a\x01b\x00\xff", b"\x01"), b"a\x01\x02b\x01\x01\xff\x00\x01");
        assert_eq!(row_start(b"a\x00"), b"a\x01\x01\x00");
        assert_eq!(row_end(b"a\x00"), b"a\x01\x01\x01");
        assert_eq!(end_of(&row_start(b"a\x00")), row_end(b"a\x00"));
    }

    #[test]
    fn invalid_keys_are_not_decoded() {
        assert_eq!(split(b"abc"), None);
        assert_eq!(row_of(b"a"), None);
        assert_eq!(row_of(b""), None);
        assert_eq!(row_of(b"\x01\x03\x00"), None);
        assert_eq!(row_of(b"a\x01\x00"), None);
        assert_eq!(row_of(b"a\x00b\x00"), None);
        // As above, behind a run that is copied at once.
        let long = |end: &[u8]| row_of(&[&[b'a'; 40], end].concat());
        assert_eq!(long(b"\x01\x01b\x00").unwrap(), [&[b'a'; 40], b"\x00b".as_slice()].concat());
        assert_eq!(long(b"\x01\x02\x01\x03\x00"), None);
        assert_eq!(long(b"\x01\x02\x01\x00"), None);
        assert_eq!(long(b"\x01\x02b\x00b\x00"), None);
    }

    #[test]
    fn ranges_the_wrong_way_round_are_empty() {
        let at = |row: &'static [u8]| Bytes::from_static(row);
        assert!(KeyRange::rows(&Bound::Included(at(b"b")), &Bound::Excluded(at(b"a"))).is_empty());
        assert!(KeyRange::rows(&Bound::Excluded(at(b"a")), &Bound::Excluded(at(b"a"))).is_empty());
        assert!(KeyRange::rows(&Bound::Excluded(at(b"a")), &Bound::Included(at(b"a"))).is_empty());
        assert!(KeyRange::within_row(b"r", &Bound::Excluded(at(b"a")), &Bound::Included(at(b"a"))).is_empty());
        assert!(!KeyRange::within_row(b"r", &Bound::Included(at(b"a")), &Bound::Included(at(b"a"))).is_empty());
        assert!(!KeyRange::rows(&Bound::Unbounded, &Bound::Unbounded).is_empty());
    }

    /// Few different bytes, so that prefixes and escaped bytes are frequent.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(2), Just(b'a'), Just(0xfe), Just(0xff), any::<u8>()];
        proptest::collection::vec(byte, 0..8)
    }

    /// Runs of plain bytes of any length, with escaped bytes before, between and behind them.
    fn runs() -> impl Strategy<Value = Vec<u8>> {
        let run = proptest::collection::vec(prop_oneof![2u8.., Just(2), Just(0xff)], 0..40);
        let special = proptest::collection::vec(0..2u8, 0..3);
        let parts = proptest::collection::vec((special, run), 0..5);
        parts.prop_map(|parts| parts.into_iter().flat_map(|(special, run)| [special, run].concat()).collect())
    }

    /// `row_start`, byte by byte.
    fn row_start_by_bytes(row: &[u8]) -> Vec<u8> {
        let escaped = |byte: &u8| match *byte {
            0 => vec![1, 1],
            1 => vec![1, 2],
            other => vec![other],
        };
        row.iter().flat_map(escaped).chain([0]).collect()
    }

    fn bound() -> impl Strategy<Value = Bound<Bytes>> {
        prop_oneof![
            Just(Bound::Unbounded),
            bytes().prop_map(|b| Bound::Included(b.into())),
            bytes().prop_map(|b| Bound::Excluded(b.into())),
        ]
    }

    fn holds(range: &KeyRange, key: &[u8]) -> bool {
        key >= range.from.as_slice() && range.to.as_ref().is_none_or(|to| key < to.as_slice())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn order_is_row_then_qualifier(a in bytes(), q in bytes(), b in bytes(), p in bytes()) {
            prop_assert_eq!(key(&a, &q).cmp(&key(&b, &p)), (&a, &q).cmp(&(&b, &p)));
        }

        #[test]
        fn decoding_inverts(row in bytes(), qualifier in bytes()) {
            let key = key(&row, &qualifier);
            let (start, rest) = split(&key).unwrap();
            prop_assert_eq!(row_of(start).unwrap(), row);
            prop_assert_eq!(rest, qualifier);
        }

        #[test]
        fn runs_and_escapes_alternate(row in runs(), other in runs(), qualifier in runs()) {
            let start = row_start_by_bytes(&row);
            prop_assert_eq!(&row_start(&row), &start);
            prop_assert_eq!(row.cmp(&other), start.cmp(&row_start(&other)));
            let key = key(&row, &qualifier);
            prop_assert_eq!(split(&key), Some((start.as_slice(), qualifier.as_slice())));
            let mut decoded = b"before".to_vec();
            unescape(&start, &mut decoded).unwrap();
            prop_assert_eq!(decoded, [b"before".as_slice(), &row].concat());
        }

        #[test]
        fn ranges_contain_the_keys_within_their_bounds(
            from in bound(), to in bound(), row in bytes(), other in bytes(), qualifier in bytes(),
        ) {
            let range = crate::table::RowRange { from: from.clone(), to: to.clone() };
            prop_assert_eq!(holds(&KeyRange::rows(&from, &to), &key(&row, &qualifier)), range.contains(&row));
            let within = KeyRange::within_row(&row, &from, &to);
            prop_assert_eq!(holds(&within, &key(&row, &qualifier)), range.contains(&qualifier));
            let same = row == other;
            prop_assert_eq!(holds(&KeyRange::row(&row), &key(&other, &qualifier)), same);
        }
    }
}
