//! Times as numbers: so many units since a date.

use forebay_process::{Error, ErrorKind, Result};

use super::calendar::Calendar;
use crate::container::variable::Variable;

/// What stands for a missing time, as NumPy's `NaT` does.
pub const NOT_A_TIME: i64 = i64::MIN;

/// What xarray writes for a missing time among integers, without an attribute that says so.
const NO_COUNT: i128 = NOT_A_TIME as i128;

/// What the numbers of a variable count: so many units since a date of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeUnits {
    /// Nanoseconds of one unit.
    unit_ns: i64,
    /// The date they count from, in nanoseconds since 1970-01-01 of the calendar.
    reference_ns: i128,
    calendar: Calendar,
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

const DAY_NS: i64 = 86_400_000_000_000;

impl TimeUnits {
    /// What the numbers of `variable` count; `None` when its units are not `UNIT since DATE`.
    pub fn of(variable: &Variable) -> Result<Option<Self>> {
        let Some(units) = Self::text_of(variable) else { return Ok(None) };
        Self::parse(&units, variable.text_attribute("calendar").as_deref()).map(Some)
    }

    /// The units of `variable` as they are written, where they are `UNIT since DATE`.
    pub fn text_of(variable: &Variable) -> Option<String> {
        variable.text_attribute("units").filter(|units| is_time(units))
    }

    /// What the durations of `variable` are counted in; `None` unless xarray wrote them, which says so in `dtype`:
    /// units such as `days` alone do not tell a duration from any other number.
    pub fn of_durations(variable: &Variable) -> Option<Self> {
        variable.text_attribute("dtype").filter(|dtype| dtype.starts_with("timedelta64"))?;
        let units = variable.text_attribute("units")?;
        let (_, unit_ns) = UNITS.iter().find(|(names, _)| names.get(1) == Some(&units.as_str()))?;
        Some(Self { unit_ns: *unit_ns, reference_ns: 0, calendar: Calendar::ProlepticGregorian })
    }

    /// The units `units`, such as `hours since 1900-01-01 00:00:00`, by `calendar`; the standard one where none is named.
    pub fn parse(units: &str, calendar: Option<&str>) -> Result<Self> {
        let refuse = |what: String, remedy: &str| {
            Err(Error::new(ErrorKind::Unsupported, what).at(format!("units '{units}'")).hint(remedy))
        };
        let named = calendar.unwrap_or("standard");
        let Some(calendar) = Calendar::parse(named) else {
            let remedy = format!("there are {}; cf='values' gives the numbers as they are", Calendar::NAMES);
            return refuse(format!("'{named}' is no calendar of the CF conventions"), &remedy);
        };
        let Some((unit, date)) = split(units) else {
            return refuse("no units of time".into(), "they are written 'hours since 2000-01-01 00:00:00'");
        };
        let unit = unit.trim().to_ascii_lowercase();
        let Some(unit_ns) = unit_ns(&unit, calendar) else {
            let remedy = "months and years differ in length; cf='values' gives the numbers as they are";
            return refuse(format!("'{unit}' is no unit of one length in the calendar '{named}'"), remedy);
        };
        let Some(reference_ns) = Date::parse(date.trim()).and_then(|date| date.nanoseconds(calendar)) else {
            let what = format!("'{}' is no date of the calendar '{named}'", date.trim());
            return refuse(what, "dates are written '2000-01-01 00:00:00'");
        };
        Ok(Self { unit_ns, reference_ns, calendar })
    }

    /// How many units lie from the date of `other` to this one's, where both count the same units of one calendar and it is a
    /// whole number of them.
    pub fn units_since(self, other: Self) -> Option<i128> {
        let is_alike = self.unit_ns == other.unit_ns && self.calendar == other.calendar;
        let between = self.reference_ns.checked_sub(other.reference_ns)?;
        let unit = i128::from(self.unit_ns);
        (is_alike && between % unit == 0).then(|| between / unit)
    }

    /// The calendar its dates are of.
    pub fn calendar(self) -> Calendar {
        self.calendar
    }

    /// Days from 1970-01-01 of the calendar to `count` units after the date.
    pub fn days(self, count: i128) -> f64 {
        if count == NO_COUNT {
            return f64::NAN;
        }
        let since = count.saturating_mul(self.unit_ns.into()).saturating_add(self.reference_ns);
        whole_and_rest(since)
    }

    /// The same for a count with a fraction; NaN stays NaN.
    pub fn days_fraction(self, count: f64) -> f64 {
        // A day is a whole number of all units that are shorter, and a longer one is a whole number of days.
        let since = match self.unit_ns <= DAY_NS {
            true => count / (DAY_NS / self.unit_ns) as f64,
            false => count * (self.unit_ns / DAY_NS) as f64,
        };
        since + whole_and_rest(self.reference_ns)
    }

    /// Nanoseconds from 1970 to `count` units after the date, which is what `datetime64[ns]` is where the calendar is
    /// that of computers; `None` outside 1677 to 2262.
    pub fn at(self, count: i128) -> Option<i64> {
        if count == NO_COUNT {
            return Some(NOT_A_TIME);
        }
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

/// The time `ns` nanoseconds after 1970 as ISO 8601 writes it, without a fraction where it has none; `NaT` for none.
pub fn iso_time(ns: i64) -> String {
    if ns == NOT_A_TIME {
        return "NaT".to_owned();
    }
    let (days, rest) = (ns.div_euclid(DAY_NS), ns.rem_euclid(DAY_NS));
    // Days from 0000-03-01, of which every 400 years have as many: a year that begins in March has its leap day last.
    let since = days + 719_468;
    let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let of_years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_years + of_years / 4 - of_years / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = of_years + era * 400 + i64::from(month <= 2);
    let (seconds, fraction) = (rest / 1_000_000_000, rest % 1_000_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let time = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    match fraction {
        0 => time,
        fraction => format!("{time}.{}", format!("{fraction:09}").trim_end_matches('0')),
    }
}

/// Nanoseconds as days, rounded as few times as can be.
fn whole_and_rest(ns: i128) -> f64 {
    let day = i128::from(DAY_NS);
    ns.div_euclid(day) as f64 + ns.rem_euclid(day) as f64 / day as f64
}

/// Nanoseconds of what `calendar` calls `unit`, where all are of one length.
fn unit_ns(unit: &str, calendar: Calendar) -> Option<i64> {
    match (unit, calendar) {
        ("month" | "months", Calendar::Day360) => return Some(30 * DAY_NS),
        ("common_year" | "common_years", Calendar::NoLeap) => return Some(365 * DAY_NS),
        _ => {}
    }
    UNITS.iter().find(|(names, _)| names.contains(&unit)).map(|(_, ns)| *ns)
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

    /// Nanoseconds since 1970-01-01 of `calendar`, where that has such a date.
    fn nanoseconds(self, calendar: Calendar) -> Option<i128> {
        let days = calendar.days(self.year, self.month, self.day)?;
        Some(i128::from(days) * i128::from(DAY_NS) + self.time_ns)
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
    fn a_count_of_days_is_one_of_its_own_calendar() {
        let days = |units: &str, calendar| TimeUnits::parse(units, Some(calendar)).unwrap().days(1);
        assert_eq!(days("days since 1971-01-01", "noleap"), 366.0);
        assert_eq!(days("days since 1971-01-01", "all_leap"), 367.0);
        assert_eq!(days("months since 1971-01-01", "360_day"), 390.0);
        assert_eq!(days("common_years since 1970-01-01", "365_day"), 365.0);
        assert_eq!(days("hours since 1970-01-02", "julian"), 1.0 + 1.0 / 24.0);
        let units = TimeUnits::parse("hours since 1970-01-02", Some("julian")).unwrap();
        assert_eq!(units.days_fraction(1.0), units.days(1));
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
        assert_eq!(days.at(i64::MIN.into()), Some(NOT_A_TIME));
        assert!(days.days(i64::MIN.into()).is_nan());
    }

    #[test]
    fn what_has_no_length_or_no_calendar_is_refused_by_name() {
        let month = TimeUnits::parse("months since 2000-01-01", None).unwrap_err();
        assert!(format!("{month}{month:?}").contains("month"), "{month}");
        assert!(TimeUnits::parse("days since 2000-01-01", Some("lunar")).is_err());
        assert!(TimeUnits::parse("months since 2000-01-01", Some("noleap")).is_err());
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

    #[test]
    fn times_are_written_as_iso_8601_has_them() {
        let day = 86_400_000_000_000;
        assert_eq!(iso_time(0), "1970-01-01T00:00:00");
        assert_eq!(iso_time(-1), "1969-12-31T23:59:59.999999999");
        assert_eq!(iso_time(18_321 * day + 3_600_000_000_000), "2020-02-29T01:00:00");
        assert_eq!(iso_time(-25_509 * day + 500_000_000), "1900-02-28T00:00:00.5");
        assert_eq!(iso_time(NOT_A_TIME), "NaT");
        for (year, days) in [(2000, 10_957), (2100, 47_482), (1899, -25_932)] {
            assert_eq!(iso_time(days * day), format!("{year}-01-01T00:00:00"));
        }
    }

    #[test]
    fn dates_of_one_unit_lie_whole_units_apart_or_cannot_be_compared() {
        let units = |text: &str| TimeUnits::parse(text, None).unwrap();
        let hours = units("hours since 2020-01-01");
        assert_eq!(units("hours since 2020-02-01").units_since(hours), Some(744));
        assert_eq!(hours.units_since(units("hours since 2020-01-01 00:30")), None);
        assert_eq!(units("days since 2020-02-01").units_since(hours), None);
        assert_eq!(
            TimeUnits::parse("hours since 2020-02-01", Some("noleap")).unwrap().units_since(hours),
            None
        );
    }
}
