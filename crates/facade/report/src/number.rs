//! Bytes, counts and times as people read them: three digits and the unit that fits.

/// Formats a number of bytes with binary units: `1.44 GiB`.
pub fn bytes_text(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", digits(value), UNITS[unit])
}

/// Formats a time: `320 µs`, `1.4 s`, `2 min 5 s`.
pub fn time_text(seconds: f64) -> String {
    match seconds {
        _ if seconds <= 0.0 => "0 s".to_owned(),
        _ if seconds < 1e-6 => format!("{} ns", digits(seconds * 1e9)),
        _ if seconds < 1e-3 => format!("{} µs", digits(seconds * 1e6)),
        _ if seconds < 1.0 => format!("{} ms", digits(seconds * 1e3)),
        _ if seconds < 120.0 => format!("{} s", digits(seconds)),
        _ => format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), seconds % 60.0),
    }
}

/// Formats a count: `1,044`, `12.5`.
pub fn count_text(value: f64) -> String {
    if value < 1000.0 {
        return digits(value);
    }
    let whole = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a value with three digits.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit_that_fits() {
        assert_eq!(
            [0.0, 1023.0, 1536.0, 6.5e9].map(bytes_text),
            ["0.00 B", "1023 B", "1.50 KiB", "6.05 GiB"]
        );
        assert_eq!(
            [0.0, 3.2e-4, 0.0125, 1.44, 125.0].map(time_text),
            ["0 s", "320 µs", "12.5 ms", "1.44 s", "2 min 5 s"]
        );
        assert_eq!([12.5, 999.0, 1044.4, 1_234_567.0].map(count_text), ["12.5", "999", "1,044", "1,234,567"]);
    }
}
