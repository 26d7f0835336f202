//! Times as numbers: so many units since a date.

use forebay_source::{Error, ErrorKind, Result};

use super::text;
use crate::Variable;

/// What stands for a missing time, as NumPy's `NaT` does.
pub const NOT_A_TIME: i64 = i64::MIN;

/// What the numbers of a variable count: so many units since a date, by a calendar that computers keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeUnits {
    /// Nanoseconds of one unit.
    unit_ns: i64,
    /// The date they count from, in nanoseconds since 1970.
    reference_ns: i128,
}

/// Names of units, and how many nanoseconds one is.
const UNITS: [(&[&str], i64); 7] = [
    (&["day", "days", "d"], 86_400_000_000_000),
    (&["hour", "hours", "hr", "hrs", "h"], 3_600_000_000_000),
    (&["minute", "minutes", "min", "mins"], 60_000_000_000),
    (&["second", "seconds", "sec", "secs", "s"], 1_000_000_000),
    (&["millisecond", "milliseconds", "msec", "msecs", "millisec", "millisecs", "ms"], 1_000_000),
    (&["microsecond", "microseconds", "microsec", "microsecs"], 1_000),
    (&["nanosecond", "nanoseconds", "nanosec", "nanosecs"], 1),
];

const DAY_NS: i128 = 86_400_000_000_000;

/// The first day of the Gregorian calendar, 1582-10-15, in days since 1970.
const REFORM: i64 = -141_427;

impl TimeUnits {
    /// What the numbers of `variable` count; `None` when its units are not `UNIT since DATE`.
    pub fn of(variable: &Variable) -> Result<Option<Self>> {
        let Some(units) = text(variable, "units").filter(|units| is_time(units)) else { return Ok(None) };
        Self::parse(&units, text(variable, "calendar").as_deref()).map(Some)
    }

    /// The units `units`, such as `hours since 1900-01-01 00:00:00`, by `calendar`; the standard one where none is named.
    pub fn parse(units: &str, calendar: Option<&str>) -> Result<Self> {
        let refuse = |what: String, remedy: &str| {
            Err(Error::new(ErrorKind::Unsupported, what).at(format!("units '{units}'")).hint(remedy))
        };
        let calendar = calendar.unwrap_or("standard").to_ascii_lowercase();
        let is_proleptic = match calendar.as_str() {
            "standard" | "gregorian" => false,
            "proleptic_gregorian" => true,
            _ => {
                let remedy =
                    "read the numbers as they are, and let the Python package cftime make dates of them";
                return refuse(format!("dates of the calendar '{calendar}' are no datetime64"), remedy);
            }
        };
        let Some((unit, date)) = split(units) else {
            return refuse("no units of time".into(), "they are written 'hours since 2000-01-01 00:00:00'");
        };
        let unit = unit.trim().to_ascii_lowercase();
        let Some((_, unit_ns)) = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str())) else {
            let remedy = "months and years differ in length; read the numbers as they are, and let the Python package \
                          cftime make dates of them";
            return refuse(format!("'{unit}' is no unit of one length"), remedy);
        };
        let Some(reference_ns) = Date::parse(date.trim()).and_then(|date| date.nanoseconds(is_proleptic))
        else {
            return refuse(
                format!("'{}' is no date", date.trim()),
                "dates are written '2000-01-01 00:00:00'",
            );
        };
        Ok(Self { unit_ns: *unit_ns, reference_ns })
    }

    /// Nanoseconds from 1970 to `count` units after the date; `None` outside 1677 to 2262.
    pub fn at(self, count: i128) -> Option<i64> {
        let since = count.checked_mul(self.unit_ns.into())?.checked_add(self.reference_ns)?;
        i64::try_from(since).ok().filter(|time| *time != NOT_A_TIME)
    }

    /// The same for a count with a fraction, of which whole nanoseconds are kept; NaN is no time.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is below a nanosecond is cut off, as pandas does"
    )]
    pub fn at_fraction(self, count: f64) -> Option<i64> {
        if count.is_nan() {
            return Some(NOT_A_TIME);
        }
        // From a date that has no datetime64 itself, microseconds are counted, as cftime does.
        let is_near = i64::try_from(self.reference_ns).is_ok();
        let since = match is_near {
            true => (count * self.unit_ns as f64) as i128,
            false => ((count * (self.unit_ns as f64 / 1e3)).round_ties_even() as i128).checked_mul(1000)?,
        };
        let time = since.checked_add(self.reference_ns)?;
        i64::try_from(time).ok().filter(|time| *time != NOT_A_TIME)
    }
}

/// True for `UNIT since DATE`.
fn is_time(units: &str) -> bool {
    split(units).is_some_and(|(unit, date)| !unit.trim().is_empty() && !date.trim().is_empty())
}

fn split(units: &str) -> Option<(&str, &str)> {
    units
        .rsplit_once(" since ")
        .or_else(|| units.rsplit_once(" SINCE "))
        .or_else(|| units.rsplit_once(" Since "))
}

/// A date with the time of day, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
    /// Nanoseconds since midnight, in Greenwich.
    time_ns: i128,
}

impl Date {
    /// Reads `2000-1-1`, then perhaps `T` or a space and `6:30:00.5`, then perhaps `Z`, `UTC` or `+01:30`.
    fn parse(text: &str) -> Option<Self> {
        let (date, rest) = match text.find(['T', 't', ' ']) {
            Some(at) => (&text[..at], text[at + 1..].trim()),
            None => (text, ""),
        };
        let (sign, digits) = date.strip_prefix('-').map_or((1, date), |digits| (-1, digits));
        let mut parts = digits.split('-').map(number);
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(1))?);
        if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let (clock, zone_ns) = zone(rest)?;
        Some(Self { year: sign * year, month, day, time_ns: clock_ns(clock)? - zone_ns })
    }

    /// Nanoseconds since 1970; the standard calendar is Julian before 1582-10-15.
    fn nanoseconds(self, is_proleptic: bool) -> Option<i128> {
        let gregorian = civil_days(self.year, self.month, self.day);
        let days = match is_proleptic || gregorian >= REFORM {
            true => gregorian,
            false => julian_days(self.year, self.month, self.day),
        };
        // The ten days that were left out are no dates; nor is the 30th of February.
        let exists = is_proleptic || gregorian >= REFORM || days < REFORM;
        let is_leap = |year: i64| match is_proleptic || gregorian >= REFORM {
            true => year % 4 == 0 && (year % 100 != 0 || year % 400 == 0),
            false => year % 4 == 0,
        };
        let longest = match self.month {
            2 => 28 + i64::from(is_leap(self.year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        (exists && self.day <= longest).then(|| i128::from(days) * DAY_NS + self.time_ns)
    }
}

/// At most nine digits, so that no sum of dates overflows.
fn number(digits: &str) -> Option<i64> {
    let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// `6:30:00.5` in nanoseconds.
fn clock_ns(clock: &str) -> Option<i128> {
    if clock.is_empty() {
        return Some(0);
    }
    let mut parts = clock.split(':');
    let (hours, minutes) = (number(parts.next()?)?, parts.next().map_or(Some(0), number)?);
    let (seconds, fraction) = match parts.next() {
        None => (0, ""),
        Some(text) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            (number(whole)?, fraction)
        }
    };
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let fraction_ns = match fraction {
        "" => 0,
        digits => number(digits)? * 10i64.pow(9 - u32::try_from(digits.len()).ok()?),
    };
    Some(i128::from((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + i128::from(fraction_ns))
}

/// The time of day and what is added to Greenwich's to have it, in nanoseconds.
fn zone(rest: &str) -> Option<(&str, i128)> {
    for name in ["UTC", "utc", "GMT", "Z", "z"] {
        if let Some(clock) = rest.strip_suffix(name) {
            return Some((clock.trim(), 0));
        }
    }
    let Some(at) = rest.find(['+', '-']) else { return Some((rest, 0)) };
    let (clock, zone) = (rest[..at].trim(), &rest[at + 1..]);
    let (hours, minutes) = match zone.split_once(':') {
        Some((hours, minutes)) => (number(hours)?, number(minutes)?),
        None if zone.len() == 4 => (number(zone.get(..2)?)?, number(zone.get(2..)?)?),
        None => (number(zone)?, 0),
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let zone_ns = i128::from(hours * 60 + minutes) * 60_000_000_000;
    Some((clock, if rest[at..].starts_with('-') { -zone_ns } else { zone_ns }))
}

/// Days from 1970 to a date of the Gregorian calendar; years begin in March, so that leap days come last.
fn civil_days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The same of the Julian calendar.
fn julian_days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(4);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(4) * 1461 + of_era * 365 + of_year - 719_470
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(units: &str) -> i128 {
        TimeUnits::parse(units, None).unwrap().reference_ns
    }

    #[test]
    fn dates_are_read_as_people_write_them() {
        let new_year = 946_684_800_000_000_000;
        for date in ["2000-01-01", "2000-1-1 0:0:0", "2000-01-01T00:00:00Z", "2000-01-01 00:00:00.0 UTC"] {
            assert_eq!(reference(&format!("days since {date}")), new_year, "{date}");
        }
        let half_past = new_year + 5_400_000_000_000;
        assert_eq!(reference("seconds since 2000-01-01 03:00:00 +1:30"), half_past);
        assert_eq!(reference("s since 1999-12-31 22:00 -0330"), half_past);
        for date in [
            "2000-13-01",
            "2000-02-30",
            "2000",
            "soon",
            "2000-01-01 25:00",
            "1582-10-10",
            "2000-01-01 1:2:3:4",
        ] {
            assert!(TimeUnits::parse(&format!("days since {date}"), None).is_err(), "{date}");
        }
    }

    #[test]
    fn the_standard_calendar_is_julian_before_the_reform() {
        let gap = civil_days(1582, 10, 15) - julian_days(1582, 10, 4);
        assert_eq!((gap, civil_days(1582, 10, 15), civil_days(1970, 1, 1)), (1, REFORM, 0));
        let days = |calendar| TimeUnits::parse("days since 0001-01-01", Some(calendar)).unwrap().at(730_500);
        let two = days("proleptic_gregorian").unwrap() - days("standard").unwrap();
        assert_eq!(i128::from(two), 2 * DAY_NS);
    }

    #[test]
    fn times_outside_what_64_bits_count_are_none() {
        let days = TimeUnits::parse("days since 1970-01-01", None).unwrap();
        assert_eq!(days.at(1), Some(86_400_000_000_000));
        assert_eq!(days.at(200_000), None);
        assert_eq!(days.at_fraction(0.5), Some(43_200_000_000_000));
        assert_eq!(days.at_fraction(f64::NAN), Some(NOT_A_TIME));
        assert_eq!(days.at_fraction(1e300), None);
        assert_eq!(days.at(i128::MAX), None);
    }

    #[test]
    fn what_has_no_length_or_another_calendar_is_refused_by_name() {
        let month = TimeUnits::parse("months since 2000-01-01", None).unwrap_err();
        assert!(format!("{month}{month:?}").contains("month"), "{month}");
        assert!(TimeUnits::parse("days since 2000-01-01", Some("noleap")).is_err());
    }

    #[test]
    fn any_text_is_units_or_an_error() {
        let good = "hours since 1900-01-01T00:00:0.0 +01:30";
        for cut in 0..good.len() {
            let _ = TimeUnits::parse(&good[..cut], None);
            for byte in [0, b' ', b'-', b':', b'.', b'+', b'9', 0x7f, 0xff] {
                let mut bytes = good.as_bytes().to_vec();
                bytes[cut] = byte;
                if let Ok(units) = TimeUnits::parse(&String::from_utf8_lossy(&bytes), None) {
                    assert!(units.at(i128::MIN).is_none() && units.at_fraction(-1e300).is_none());
                }
            }
        }
    }
}
