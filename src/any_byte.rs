//! A vectorized test of the bytes of a text.

/// Whether `test` holds for any byte of a text. Tests blocks of 16 or 8 bytes, which the compiler vectorizes (a page has
/// hundreds of texts); shorter texts byte by byte.
pub fn any_byte(text: &str, test: impl Fn(u8) -> bool + Copy) -> bool {
    let bytes = text.as_bytes();
    // The last block overlaps the one before it.
    if let Some(last) = bytes.last_chunk::<16>() {
        let (blocks, _) = bytes.as_chunks::<16>();
        return blocks.iter().fold(any_of(last, test), |found, block| found | any_of(block, test));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return any_of(first, test) | any_of(last, test);
    }
    bytes.iter().any(|byte| test(*byte))
}

/// Whether `test` holds for any byte of a block.
fn any_of<const N: usize>(block: &[u8; N], test: impl Fn(u8) -> bool) -> bool {
    block.iter().fold(0, |found, byte| found | u8::from(test(*byte))) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_at_any_place_of_a_text_of_any_length() {
        for length in 0..70 {
            assert!(!any_byte(&"a".repeat(length), |byte| byte == b'x'), "{length}");
            for at in 0..length {
                let text = format!("{}x{}", "a".repeat(at), "a".repeat(length - at - 1));
                assert!(any_byte(&text, |byte| byte == b'x'), "{length} {at}");
            }
        }
    }
}
