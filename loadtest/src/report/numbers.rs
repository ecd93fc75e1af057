//! Numbers as a person reads them, the same in the terminal, the page and the plots.

/// `12,345`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// About three digits: `12,345`, `85.2`, `0.91`; `-` for what is no number.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "-".to_owned()
    } else if size >= 1e15 {
        format!("{value:.2e}")
    } else if size >= 99.95 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", grouped(size.round() as u64))
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.01 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1e}")
    }
}

/// [`figure`], or `-` where nothing was measured.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

/// `6.3 %` of a share of 0.063.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "-".to_owned() }
}

/// `1.5 KiB`; `-` for what is no number.
pub fn bytes(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let mut scaled = value;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if scaled.abs() < 1024.0 {
            return if unit == "B" { format!("{scaled:.0} B") } else { format!("{scaled:.1} {unit}") };
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.1} TiB")
}

/// A round latency on an axis: `200 µs`, `5 ms`, `1 s` of microseconds.
pub fn latency(us: f64) -> String {
    let (scaled, unit) = match us {
        us if us < 1e3 => (us, "µs"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", round(scaled))
}

/// A round count on an axis: `500`, `20k`, `1M`.
pub fn compact(value: f64) -> String {
    match value {
        value if value < 1e3 => round(value),
        value if value < 1e6 => format!("{}k", round(value / 1e3)),
        value => format!("{}M", round(value / 1e6)),
    }
}

/// Without the noise of a sum of fractions: `0.3`, not `0.30000000000000004`.
pub fn round(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_about_three_digits() {
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(figure(12_345.4), "12,345");
        assert_eq!(figure(-1_000.0), "-1,000");
        assert_eq!(figure(99.96), "100");
        assert_eq!(figure(85.24), "85.2");
        assert_eq!(figure(0.914), "0.91");
        assert_eq!(figure(0.0), "0.00");
        assert_eq!(figure(0.00042), "4.2e-4");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!(figure(f64::NAN), "-");
        assert_eq!(figure(f64::INFINITY), "-");
        assert_eq!(percent(f64::NAN), "-");
        assert_eq!(bytes(f64::NAN), "-");
        assert_eq!(maybe(None), "-");
    }

    #[test]
    fn units_grow_with_the_number() {
        assert_eq!(bytes(1023.0), "1023 B");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(bytes(3.0 * 1024.0 * 1024.0), "3.0 MiB");
        assert_eq!(latency(200.0), "200 µs");
        assert_eq!(latency(5_000.0), "5 ms");
        assert_eq!(latency(1e6), "1 s");
        assert_eq!(compact(500.0), "500");
        assert_eq!(compact(20_000.0), "20k");
        assert_eq!(round(0.1 + 0.2), "0.3");
    }
}
