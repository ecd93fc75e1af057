//! Media types (RFC 9110 section 8.3.1), parsed strictly: text that a browser could parse in another way is refused. And
//! the type that a name suggests.

/// The type and subtype of a media type with any parameters; none if the text is malformed.
pub fn essence(text: &str) -> Option<&str> {
    let end = text.find([';', ' ', '\t']).unwrap_or(text.len());
    let (essence, parameters) = text.split_at_checked(end)?;
    (is_essence(essence) && are_parameters(parameters)).then_some(essence)
}

/// The media type that the name of a file suggests.
pub fn guess(name: &str) -> String {
    mime_guess::from_path(name).first_or_octet_stream().essence_str().to_owned()
}

/// Two tokens and a slash.
fn is_essence(text: &str) -> bool {
    text.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// RFC 9110 section 5.6.6: a semicolon precedes each parameter, and a parameter may be empty.
fn are_parameters(mut text: &str) -> bool {
    loop {
        text = text.trim_start_matches([' ', '\t']);
        if text.is_empty() {
            return true;
        }
        let Some(rest) = text.strip_prefix(';') else { return false };
        let rest = rest.trim_start_matches([' ', '\t']);
        if rest.is_empty() || rest.starts_with(';') {
            text = rest;
            continue;
        }
        let Some((name, value)) = rest.split_once('=') else { return false };
        let after = value.strip_prefix('"').map_or_else(|| after_token(value), after_quoted);
        let (true, Some(after)) = (is_token(name), after) else { return false };
        text = after;
    }
}

/// The text after a token.
fn after_token(text: &str) -> Option<&str> {
    let (token, after) = text.split_at_checked(text.find([';', ' ', '\t']).unwrap_or(text.len()))?;
    is_token(token).then_some(after)
}

/// The text after the closing quote.
fn after_quoted(text: &str) -> Option<&str> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if !matches!(byte, b'\t' | b' '..=b'~') => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return text.get(at + 1..),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_parsed_strictly() {
        for (text, read) in [
            ("image/png", "image/png"),
            ("Text/Plain;charset=utf-8", "Text/Plain"),
            ("text/plain ; charset=utf-8\t;a=b", "text/plain"),
            ("text/plain; a=\"x, text/html; \\\" y\"; b=c", "text/plain"),
            ("application/vnd.x+json;", "application/vnd.x+json"),
            ("text/plain;; a=b ;", "text/plain"),
        ] {
            assert_eq!(essence(text), Some(read), "{text}");
        }
        for bad in [
            "",
            "image",
            "/jpeg",
            "image/",
            "image/jpeg/x",
            "a b/c",
            " image/png",
            "image/png;, text/html",
            "image/png, text/html",
            "image/png; a=b, text/html",
            "image/png a=b",
            "image/png; a",
            "image/png; a=",
            "image/png; a =b",
            "image/png; a= b",
            "image/png; =b",
            "image/png; a=\"b",
            "image/png; a=\"b\\",
            "image/png; a=\"b\"c",
            "image/png; a=\"b\"; c",
            "image/png; a=\"\u{7f}\"",
        ] {
            assert_eq!(essence(bad), None, "{bad}");
        }
    }
}
