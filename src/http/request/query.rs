//! The parameters of a request: every name is known, and none is repeated.

use std::fmt::Write;

use super::path::{decode, parse_text};
use crate::http::response::problem::{Problem, Result};
use crate::schema::path::NAME_BYTES;
use crate::schema::path::nfc;
use crate::schema::timestamp::InvalidTimestamp;
use crate::schema::{DrivePath, Timestamp};

/// The largest page, and the default.
const MAX_LIMIT: usize = 10_000;
const DEFAULT_LIMIT: usize = 1_000;

/// The parameters of a request, decoded.
#[derive(Debug, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Parses a query as HTML forms encode it (a plus sign is a space). A name that is not `known`, or that is repeated, is
    /// an error.
    pub fn parse(query: Option<&str>, known: &[&str]) -> Result<Self> {
        let mut params: Vec<(String, String)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (form(name)?, form(value)?);
            if !known.contains(&name.as_str()) {
                return Err(unknown(&name, known));
            }
            if params.iter().any(|(n, _)| *n == name) {
                return Err(Problem::malformed(format!("Send the parameter `{name}` once.")));
            }
            params.push((name, value));
        }
        Ok(Self(params))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// `true` or `1`, `false` or `0`.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.text(name) {
            None => Ok(default),
            Some("true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(_) => Err(Problem::malformed(format!("`{name}` is true or false."))),
        }
    }

    /// One of these words.
    pub fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.map(Some).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            Problem::malformed(format!("`{name}` is one of: {}.", words.join(", ")))
        })
    }

    /// The number of entries of a page, at most. A value out of range is an error.
    pub fn limit(&self) -> Result<usize> {
        let Some(text) = self.text("limit") else {
            return Ok(DEFAULT_LIMIT);
        };
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(limit) if digits && (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
            _ => Err(Problem::malformed(format!("`limit` is a number from 1 to {MAX_LIMIT}."))),
        }
    }

    pub fn path(&self, name: &str) -> Result<Option<DrivePath>> {
        self.text(name).map(|text| parse_text(name, text)).transpose()
    }

    /// A time, parsed by one of the functions of [`Timestamp`].
    pub fn time(
        &self,
        name: &str,
        parse: fn(&str) -> std::result::Result<Timestamp, InvalidTimestamp>,
    ) -> Result<Option<Timestamp>> {
        let read = |text: &str| parse(&restore_plus(text)).map_err(|e| Problem::malformed(format!("`{name}` is {e}.")));
        self.text(name).map(read).transpose()
    }

    /// The start of a name, in NFC.
    pub fn name_start(&self, name: &str) -> Result<Option<String>> {
        self.text(name).map(|text| name_start(name, text)).transpose()
    }
}

/// Checks the start of a name: no slash, no control character, not longer than a name.
pub fn name_start(what: &str, text: &str) -> Result<String> {
    let text = nfc(text);
    if text.len() > NAME_BYTES || text.contains(|c: char| c == '/' || c.is_control()) {
        return Err(Problem::malformed(format!(
            "`{what}` cannot be part of a name: no slash, no control character, at most {NAME_BYTES} bytes."
        )));
    }
    Ok(text.into_owned())
}

fn form(raw: &str) -> Result<String> {
    Ok(decode(&raw.replace('+', " "))?.into_owned())
}

/// Restores the plus sign of an offset: `+01:00` arrives as ` 01:00` if the client did not encode it. A space in this
/// place can mean nothing else.
fn restore_plus(time: &str) -> String {
    match time.rsplit_once(' ') {
        Some((local, offset)) if local.len() > 10 => format!("{local}+{offset}"),
        _ => time.to_owned(),
    }
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let mut detail = format!("There is no parameter `{}` here: ", name.chars().take(64).collect::<String>());
    let _ = match known {
        [] => write!(detail, "send none."),
        known => write!(detail, "use {}.", known.join(", ")),
    };
    Problem::malformed(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_not_repeated() {
        let known = ["limit", "prefix"];
        let params = Params::parse(Some("limit=5&prefix=a%2Bb+c"), &known).unwrap();
        assert_eq!((params.limit().unwrap(), params.text("prefix")), (5, Some("a+b c")));
        assert!(Params::parse(Some(""), &known).is_ok() && Params::parse(None, &known).is_ok());
        for bad in ["limt=5", "limit=5&limit=5", "limit=5&limi%74=6", "Limit=5", "limit=%", "prefix=%ff", "=5"] {
            assert!(Params::parse(Some(bad), &known).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_are_never_clamped() {
        for (text, limit) in [
            ("1", Some(1)),
            ("10000", Some(10_000)),
            ("0", None),
            ("10001", None),
            ("-1", None),
            ("%2B1", None),
            ("", None),
            ("x", None),
        ] {
            let params = Params::parse(Some(&format!("limit={text}")), &["limit"]).unwrap();
            assert_eq!(params.limit().ok(), limit, "{text}");
        }
    }

    #[test]
    fn a_plus_sign_of_an_offset_may_be_bare() {
        for text in [
            "2026-01-02T03:04:05+01:00",
            "2026-01-02T03:04:05%2B01:00",
            "2026-01-02+03:04:05%2B01:00",
            "2026-01-02T02:04:05Z",
        ] {
            let params = Params::parse(Some(&format!("from={text}")), &["from"]).unwrap();
            let time = params.time("from", Timestamp::parse).unwrap().unwrap();
            assert_eq!(time.rfc3339(), "2026-01-02T02:04:05.000Z", "{text}");
        }
    }
}
