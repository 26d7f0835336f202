//! Any text at all as units of time: read, and times reckoned by it.
#![no_main]

use forebay_container::cf::TimeUnits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for calendar in [None, Some("proleptic_gregorian"), Some(&*text)] {
        let Ok(units) = TimeUnits::parse(&text, calendar) else { continue };
        for count in [0, -1, i128::from(i64::MAX), i128::MIN] {
            let _ = units.at(count);
        }
        for count in [0.5, -1e300, f64::INFINITY, f64::NAN] {
            let _ = units.at_fraction(count);
        }
    }
});
