//! Sizes on the command line.
//!
//! By hand and not by `bytesize`: it reads `K` as 1000 bytes and accepts fractions, which round.

/// Bytes: a number, or one with a unit in upper or lower case: `K` or `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024),
/// `kB`, `MB`, `GB`, `TB` (of 1000).
pub fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end).unwrap_or((text, ""));
    let factor: Option<u64> = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "kb" => Some(1000),
        "mb" => Some(1000 * 1000),
        "gb" => Some(1000 * 1000 * 1000),
        "tb" => Some(1000 * 1000 * 1000 * 1000),
        "k" | "kib" => Some(1 << 10),
        "m" | "mib" => Some(1 << 20),
        "g" | "gib" => Some(1 << 30),
        "t" | "tib" => Some(1 << 40),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    bytes.ok_or_else(|| {
        "write a number of bytes, or one with a unit: KiB, MiB, GiB or TiB, or kB, MB, GB or TB, as in 512MiB"
            .to_owned()
    })
}

/// The least `--memory`, in MiB. With it the parts of strangers keep to their limits.
const LEAST_MEMORY: u64 = 32;

/// As [`parse`], for `--memory`.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse(text)?;
    if bytes < LEAST_MEMORY << 20 { Err(format!("give at least {LEAST_MEMORY}MiB")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        for (text, bytes) in
            [("0", 0), ("123", 123), ("1KiB", 1024), ("2 MiB", 2 << 20), ("1GiB", 1 << 30), ("5GB", 5_000_000_000)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(parse(&text.to_lowercase()), Ok(bytes), "{text}");
        }
        for (text, bytes) in
            [("1g", 1 << 30), ("1G", 1 << 30), ("3Gib", 3 << 30), ("2k", 2048), ("2KB", 2000), ("7b", 7)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for bad in ["", "GiB", "1.5GiB", "-1", "1Gi", "1 GiB ", "99999999999TiB", "1e3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_memory("32MiB"), Ok(32 << 20));
        for bad in ["32MB", "0", "much"] {
            assert!(parse_memory(bad).is_err(), "{bad}");
        }
    }
}
