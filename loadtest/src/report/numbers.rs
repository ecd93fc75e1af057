//! Numbers as a person reads them, the same in every file.

/// `12,345`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// About three digits: `12,345`, `85.2`, `0.91`, `0.0026`; `-` for what is no number.
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".to_owned(),
        size if size >= 1e15 => format!("{value:.2e}"),
        size if size >= 99.95 => format!("{}{}", if value < 0.0 { "-" } else { "" }, grouped(size.round() as u64)),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.2}"),
        size if size >= 0.0001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// `6.3 %` of a share of 0.063.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "-".to_owned() }
}

/// `1.5 KiB`; `-` for what is no number.
pub fn bytes(value: f64) -> String {
    let fits = |n: &i32| value.abs() < 1024_f64.powi(n + 1);
    match (0..4).find(fits).unwrap_or(4) {
        _ if !value.is_finite() => "-".to_owned(),
        0 => format!("{value:.0} B"),
        n => format!("{:.1} {}iB", value / 1024_f64.powi(n), ["", "K", "M", "G", "T"].get(n as usize).unwrap_or(&"")),
    }
}

/// A latency on an axis: `200 µs`, `5 ms`, `1 s` of microseconds.
pub fn latency(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.0} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_about_three_digits_and_what_is_none_is_a_dash() {
        assert_eq!([999, 1_234_567].map(grouped), ["999", "1,234,567"]);
        let figures = [12_345.4, -1_000.0, 99.96, 85.24, 0.914, 0.0, 0.0026, 0.000042].map(figure);
        assert_eq!(figures, ["12,345", "-1,000", "100", "85.2", "0.91", "0.00", "0.0026", "4.2e-5"]);
        assert_eq!([1023.0, 1536.0, 3_145_728.0, f64::NAN].map(bytes), ["1023 B", "1.5 KiB", "3.0 MiB", "-"]);
        assert_eq!([200.0, 5e3, 1e6].map(latency), ["200 µs", "5 ms", "1 s"]);
        assert_eq!([figure(f64::INFINITY), percent(f64::NAN), percent(0.063)], ["-", "-", "6.3 %"]);
    }
}
