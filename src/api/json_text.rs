//! Texts in JSON, for those that write many of them.

use crate::any_byte::any_byte;

/// Whether a text needs no escape in JSON.
pub fn is_plain(text: &str) -> bool {
    !any_byte(text, |byte| byte < b' ' || byte == b'"' || byte == b'\\')
}

/// Appends a text in quotes. Most texts need no escape: they are copied whole.
pub fn write_text(to: &mut Vec<u8>, text: &str) {
    if is_plain(text) {
        to.push(b'"');
        to.extend_from_slice(text.as_bytes());
        to.push(b'"');
    } else {
        // Neither a write to memory nor the JSON of a text can fail.
        let _ = serde_json::to_writer(to, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each ASCII character at each place of a text of each length up to some blocks.
    #[test]
    fn an_escape_is_found_wherever_it_is() {
        for c in (0..=0x7f).map(char::from).chain(['é', '\u{2028}']) {
            let is_escaped = c < ' ' || matches!(c, '"' | '\\');
            for (length, at) in (1..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let text: String = (0..length).map(|n| if n == at { c } else { 'n' }).collect();
                assert_eq!(is_plain(&text), !is_escaped, "{text:?}");
                let mut written = Vec::new();
                write_text(&mut written, &text);
                assert_eq!(written, serde_json::to_vec(&text).unwrap());
            }
        }
        assert!(is_plain(""));
    }
}
