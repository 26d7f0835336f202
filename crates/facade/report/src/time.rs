//! Dates and times by ISO 8601 in UTC, without a zone, as DLIO writes them.

/// Formats `seconds` since 1970 as `2024-08-13T09:30:00.000000`.
pub fn iso_time(seconds: f64) -> String {
    let micros_of_all = (seconds.max(0.0) * 1e6).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded, not negative, and below 2^64"
    )]
    let micros_of_all = micros_of_all as u64;
    let (seconds, micros) = (micros_of_all / 1_000_000, micros_of_all % 1_000_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// Returns year, month and day of the day `days` after 1970-01-01, by the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is the last one; 719468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `date -u -d @N --iso-8601=seconds`
    #[test]
    fn seconds_since_1970_become_dates() {
        for (seconds, date) in [
            (0.0, "1970-01-01T00:00:00.000000"),
            (951_782_400.0, "2000-02-29T00:00:00.000000"),
            (1_723_541_400.25, "2024-08-13T09:30:00.250000"),
            (4_107_542_399.0, "2100-02-28T23:59:59.000000"),
            (4_107_542_400.0, "2100-03-01T00:00:00.000000"),
        ] {
            assert_eq!(iso_time(seconds), date);
        }
    }
}
