//! Which events are logged, by `RUST_LOG`: a level, and levels of targets, as in `info,access=warn`.
//!
//! It is stricter than [`Targets`], for which each word that is no level is a target: then a mistyped level alone would
//! turn off every other line, errors too.

use std::ffi::OsStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Parses levels and targets with levels, with commas between them. Blanks around them, and empty parts, have no meaning.
/// If the text is empty, all targets have this `level`. If it names only targets, all others are off. None if it is
/// malformed.
pub fn parse(text: &OsStr, level: LevelFilter) -> Option<Targets> {
    let mut parts = text.to_str()?.split(',').map(str::trim).filter(|part| !part.is_empty()).peekable();
    if parts.peek().is_none() {
        return Some(all(level));
    }
    parts.try_fold(Targets::new(), |filter, part| match part.split_once('=') {
        None => Some(filter.with_default(level_of(part)?)),
        Some((target, level)) => {
            let target = Some(target.trim()).filter(|target| is_target(target))?;
            Some(filter.with_target(target, level_of(level.trim())?))
        }
    })
}

/// Logs all targets at a level.
pub fn all(level: LevelFilter) -> Targets {
    Targets::new().with_default(level)
}

fn level_of(text: &str) -> Option<LevelFilter> {
    // An empty text would be parsed as `error`.
    if text.is_empty() { None } else { text.parse().ok() }
}

/// Whether it may be the path of a module, or a name of its own as `access`.
fn is_target(text: &str) -> bool {
    !text.is_empty()
        && level_of(text).is_none()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b':'))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use tracing::Level;

    use super::*;

    /// Whether requests, audit lines and errors of another target are logged.
    fn logged(text: &str) -> Option<[bool; 3]> {
        let filter = parse(OsStr::new(text), LevelFilter::INFO)?;
        let enables = |target, level: Level| filter.would_enable(target, &level);
        Some([enables("access", Level::INFO), enables("audit", Level::INFO), enables("rowdrive::drive", Level::ERROR)])
    }

    #[test]
    fn levels_and_targets_are_taken() {
        for (text, expected) in [
            ("", [true, true, true]),
            (" , ,", [true, true, true]),
            ("info", [true, true, true]),
            (" INFO ", [true, true, true]),
            ("info,", [true, true, true]),
            ("3", [true, true, true]),
            ("warn", [false, false, true]),
            ("off", [false, false, false]),
            ("info,access=warn", [false, true, true]),
            ("info, access = off ,", [false, true, true]),
            ("warn,audit=info", [false, true, true]),
            ("access=info", [true, false, false]),
            ("off,rowdrive::drive=error", [false, false, true]),
        ] {
            assert_eq!(logged(text), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_level_is_malformed() {
        for text in [
            "wran",
            "access",
            "info;access=warn",
            "=",
            "=warn",
            "access=",
            "info,access=",
            "access=loud",
            "INFO=warn",
            "a=b=c",
            "[request]=debug",
            "info,[request]=debug",
            "a b=warn",
            "6",
        ] {
            assert_eq!(logged(text), None, "{text:?}");
        }
        assert!(parse(OsStr::from_bytes(b"info,\xff=warn"), LevelFilter::INFO).is_none());
    }
}
