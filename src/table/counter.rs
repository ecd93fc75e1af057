//! Counters: cells with a number that plans add to without reading it first.
//!
//! Many plans add to one counter at once, and none refuses another. With [`Check::Equals`] on the number that was read,
//! one plan of each group would commit, and the others would read again.
//!
//! - The value is the number in eight bytes, big-endian, without a version byte. The number is from 0 to `i64::MAX`, so
//!   that values sort as their numbers do.
//! - A missing cell counts as 0. [`Change::Add`] creates it, also if the amount is 0.
//! - A cell with the number 0 stays. A plan may delete it with [`Check::Equals`] on `encode(0)`: without that check it
//!   would lose additions. [`Change::Put`] sets a counter, with [`Check::Equals`] on the number that was read.
//! - A plan that would take a counter out of its range, or that adds to another value or checks it with
//!   [`Check::AtMost`], fails with [`StoreError::BadCounter`]: no conditional row changes.
//! - An addition is not idempotent. A plan that adds, and that may be sent again after an unknown outcome, needs a
//!   check that fails once the plan is committed.
//!
//! [`Change::Add`]: super::Change::Add
//! [`Change::Put`]: super::Change::Put
//! [`Check::AtMost`]: super::Check::AtMost
//! [`Check::Equals`]: super::Check::Equals

use bytes::Bytes;

use super::row::Column;
use super::store::StoreError;

/// Why a value is no counter, or cannot be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// The length of the value.
    #[error("a value of {0} bytes is none, which has eight")]
    Length(usize),
    /// The number in the value.
    #[error("it holds {0}, which is below zero")]
    Negative(i64),
    /// The number in the counter, and what a plan adds to it.
    #[error("it holds {0} and a plan adds {1}: the sum is not from 0 to 2^63 - 1")]
    OutOfRange(i64, i64),
}

impl CounterError {
    /// The error of a plan, with the cell.
    pub fn at(self, table: &str, row: &[u8], column: &Column) -> StoreError {
        let (row, qualifier) = (row.escape_ascii(), column.qualifier.escape_ascii());
        StoreError::BadCounter(format!("{table} row \"{row}\", cell {}:{qualifier}: {self}", column.family))
    }
}

/// The value of a cell that holds this number.
pub fn encode(number: i64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// The number in a cell; 0 if there is no cell.
pub fn decode(value: Option<&[u8]>) -> Result<i64, CounterError> {
    let Some(value) = value else { return Ok(0) };
    match value.try_into().map(i64::from_be_bytes) {
        Ok(number) if number < 0 => Err(CounterError::Negative(number)),
        Ok(number) => Ok(number),
        Err(_) => Err(CounterError::Length(value.len())),
    }
}

/// The value of the cell after an addition.
pub fn add(value: Option<&[u8]>, amount: i64) -> Result<Bytes, CounterError> {
    let number = decode(value)?;
    match number.checked_add(amount) {
        Some(sum) if sum >= 0 => Ok(encode(sum)),
        _ => Err(CounterError::OutOfRange(number, amount)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_eight_bytes_that_sort_as_numbers_and_a_missing_one_is_zero() {
        assert_eq!(encode(258).as_ref(), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(decode(None), Ok(0));
        let numbers = [0, 1, 255, 256, i64::from(u32::MAX), i64::MAX];
        assert!(numbers.map(encode).is_sorted());
        for number in numbers {
            assert_eq!(decode(Some(&encode(number))), Ok(number));
        }
    }

    #[test]
    fn a_sum_is_exact_or_an_error() {
        assert_eq!(add(None, 7), Ok(encode(7)));
        assert_eq!(add(Some(&encode(5)), -5), Ok(encode(0)));
        assert_eq!(add(Some(&encode(1)), i64::MAX - 1), Ok(encode(i64::MAX)));
        for (number, amount) in [(0, -1), (5, -6), (1, i64::MAX), (i64::MAX, i64::MAX), (i64::MAX, i64::MIN)] {
            assert_eq!(add(Some(&encode(number)), amount), Err(CounterError::OutOfRange(number, amount)));
        }
    }

    #[test]
    fn an_error_names_the_cell() {
        let values: [&[u8]; 3] = [b"", b"1", b"123456789"];
        for value in values {
            let error = CounterError::Length(value.len());
            assert_eq!((decode(Some(value)), add(Some(value), 1)), (Err(error), Err(error)));
        }
        let negative = encode(-3);
        assert_eq!(decode(Some(&negative)), Err(CounterError::Negative(-3)));
        assert_eq!(add(Some(&negative), 5), Err(CounterError::Negative(-3)), "although the sum is in range");
        let named = CounterError::Negative(-3).at("dir", b"/a\0", &Column::new("cf", "n")).to_string();
        assert!(named.contains("dir row \"/a\\x00\", cell cf:n: ") && named.contains("-3"), "{named}");
    }
}
