//! The calendars of the CF conventions, which climate models keep instead of that of computers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A calendar: which dates there are, and how many days lie between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calendar {
    /// Gregorian, and Julian before 1582-10-15: `standard`, `gregorian`.
    Standard,
    /// Gregorian always.
    ProlepticGregorian,
    /// Julian always.
    Julian,
    /// Years of 365 days: `noleap`, `365_day`.
    NoLeap,
    /// Years of 366 days: `all_leap`, `366_day`.
    AllLeap,
    /// Months of 30 days: `360_day`.
    Day360,
}

/// The first day of the Gregorian calendar, 1582-10-15, in days since 1970.
const REFORM: i64 = -141_427;

/// Days of a year before each month, where it has no leap day.
const BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

impl Calendar {
    /// What the conventions call them, for messages.
    pub(super) const NAMES: &str = "standard, proleptic_gregorian, julian, noleap, all_leap and 360_day";

    /// The calendar that the conventions call `name`; letters may be large or small.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "standard" | "gregorian" => Self::Standard,
            "proleptic_gregorian" => Self::ProlepticGregorian,
            "julian" => Self::Julian,
            "noleap" | "365_day" => Self::NoLeap,
            "all_leap" | "366_day" => Self::AllLeap,
            "360_day" => Self::Day360,
            _ => return None,
        })
    }

    /// The name that the conventions prefer.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::ProlepticGregorian => "proleptic_gregorian",
            Self::Julian => "julian",
            Self::NoLeap => "noleap",
            Self::AllLeap => "all_leap",
            Self::Day360 => "360_day",
        }
    }

    /// True when its dates since 1582 are those of computers, so that they can be a `datetime64`.
    pub fn is_of_computers(self) -> bool {
        matches!(self, Self::Standard | Self::ProlepticGregorian)
    }

    /// Days from 1970-01-01 of this calendar to a date of it; `None` where it has no such date.
    pub(super) fn days(self, year: i64, month: i64, day: i64) -> Option<i64> {
        if !(1..=12).contains(&month) || !(1..=self.month_len(year, month)).contains(&day) {
            return None;
        }
        let before = BEFORE_MONTH[usize::try_from(month - 1).ok()?];
        let since = year - 1970;
        Some(match self {
            Self::ProlepticGregorian => gregorian_days(year, month, day),
            Self::Julian => julian_days(year, month, day) - julian_days(1970, 1, 1),
            Self::NoLeap => since * 365 + before + day - 1,
            Self::AllLeap => since * 366 + before + i64::from(month > 2) + day - 1,
            Self::Day360 => since * 360 + (month - 1) * 30 + day - 1,
            Self::Standard => {
                let (gregorian, julian) = (gregorian_days(year, month, day), julian_days(year, month, day));
                match gregorian >= REFORM {
                    true => gregorian,
                    // The ten days that were left out are no dates.
                    false if julian >= REFORM => return None,
                    false => julian,
                }
            }
        })
    }

    fn month_len(self, year: i64, month: i64) -> i64 {
        let of_julian = year % 4 == 0;
        let of_gregorian = of_julian && (year % 100 != 0 || year % 400 == 0);
        let is_leap = match self {
            Self::Day360 => return 30,
            Self::Standard if gregorian_days(year, month, 1) < REFORM => of_julian,
            Self::Standard | Self::ProlepticGregorian => of_gregorian,
            Self::Julian => of_julian,
            Self::NoLeap => false,
            Self::AllLeap => true,
        };
        match month {
            2 => 28 + i64::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

impl fmt::Display for Calendar {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// Days from 1970 to a date of the Gregorian calendar; years begin in March, so that leap days come last.
fn gregorian_days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The same for a date of the Julian calendar.
fn julian_days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(4);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(4) * 1461 + of_era * 365 + of_year - 719_470
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_calendar_is_julian_before_the_reform() {
        let days = |year, month, day| Calendar::Standard.days(year, month, day);
        assert_eq!(days(1582, 10, 15), Some(REFORM));
        assert_eq!(days(1582, 10, 4), Some(REFORM - 1));
        assert_eq!(days(1582, 10, 10), None);
        assert_eq!((days(1500, 2, 29).is_some(), days(1900, 2, 29)), (true, None));
        let proleptic = |year, month, day| Calendar::ProlepticGregorian.days(year, month, day);
        assert_eq!(proleptic(1, 1, 1).unwrap() - days(1, 1, 1).unwrap(), 2);
        assert!(proleptic(1582, 10, 10).is_some() && proleptic(1500, 2, 29).is_none());
    }

    #[test]
    fn every_calendar_counts_from_its_own_1970_and_leaves_no_day_out() {
        for name in ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"] {
            let calendar = Calendar::parse(name).unwrap();
            assert_eq!((calendar.name(), calendar.days(1970, 1, 1)), (name, Some(0)));
            let dates = (1575..2110).flat_map(|year| (1..=12).map(move |month| (year, month)));
            let all = dates
                .flat_map(|(year, month)| (1..=31).filter_map(move |day| calendar.days(year, month, day)));
            let all: Vec<i64> = all.collect();
            assert!(all.windows(2).all(|two| two[1] == two[0] + 1), "{name}");
        }
    }

    #[test]
    fn names_are_known_in_either_spelling() {
        assert_eq!(Calendar::parse("365_day"), Calendar::parse("NoLeap"));
        assert_eq!(Calendar::parse("366_day"), Some(Calendar::AllLeap));
        assert_eq!(Calendar::parse("gregorian"), Some(Calendar::Standard));
        assert_eq!(Calendar::parse("lunar"), None);
    }
}
