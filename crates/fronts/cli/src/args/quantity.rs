//! Short times and bandwidths, parsed from how people write them.

use std::time::Duration;

use forebay::size;

/// The longest time that is taken: an hour.
const LONGEST: Duration = Duration::from_secs(3600);

/// The time of `2ms`, `500us`, `0.1 s` or `0`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let no_time = || format!("'{text}' is no time; times look like 2ms, 500us or 0.1s");
    let number: f64 = number.parse().map_err(|_| no_time())?;
    let seconds = match unit.trim_start() {
        "s" => number,
        "ms" => number / 1e3,
        "us" | "µs" => number / 1e6,
        "" if number == 0.0 => 0.0,
        _ => return Err(no_time()),
    };
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= LONGEST);
    time.ok_or_else(|| format!("'{text}' is longer than an hour"))
}

/// The bytes per second of `200MiB/s`.
pub(crate) fn bandwidth(text: &str) -> Result<u64, String> {
    size::parse(text.trim().strip_suffix("/s").unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_meant() {
        let times = ["2ms", "500us", "0.1 s", "0", "1.5ms", "0ms"];
        let micros = [2000, 500, 100_000, 0, 1500, 0];
        assert_eq!(times.map(|text| time(text).unwrap().as_micros()), micros);
    }

    #[test]
    fn what_is_no_time_says_what_one_looks_like() {
        for text in ["", "ms", "2", "2 minutes", "-1ms", "1.2.3s"] {
            assert!(time(text).unwrap_err().contains("look like 2ms"), "{text}");
        }
        assert!(time("2000000s").unwrap_err().contains("longer than an hour"));
    }
}
