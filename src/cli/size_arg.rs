//! Sizes on the command line.
//!
//! By hand and not by `bytesize`: it reads `K` as 1000 bytes and accepts fractions, which round.

/// Bytes: a number, or one with a unit: `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024), `kB`, `MB`, `GB`, `TB`
/// (of 1000).
pub fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end).unwrap_or((text, ""));
    let factor: Option<u64> = match unit.trim_start() {
        "" | "B" => Some(1),
        "kB" | "KB" => Some(1000),
        "MB" => Some(1000 * 1000),
        "GB" => Some(1000 * 1000 * 1000),
        "TB" => Some(1000 * 1000 * 1000 * 1000),
        "K" | "KiB" => Some(1 << 10),
        "M" | "MiB" => Some(1 << 20),
        "G" | "GiB" => Some(1 << 30),
        "T" | "TiB" => Some(1 << 40),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    bytes.ok_or_else(|| "write a number of bytes, or one with a unit, as in 512MiB or 1GiB".to_owned())
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
        }
        for bad in ["", "GiB", "1.5GiB", "-1", "1Gib", "1 GiB ", "99999999999TiB", "1e3"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
