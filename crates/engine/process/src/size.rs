//! Sizes as people write them.

/// The bytes of `64MiB`, `2GB`, `1.5 g` or a plain number: `KB` is 1000, `K` and `KiB` are 1024.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().to_ascii_lowercase();
    let no_size = || format!("'{text}' is no size; sizes look like 64MiB, 2GB or 1048576");
    let scale = scale(&unit).ok_or_else(no_size)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // Digits beyond these are less than a byte of any size.
    let fraction = fraction.get(..18).unwrap_or(fraction);
    let digits = |digits: &str| digits.parse::<u64>().map(u128::from).map_err(|_| no_size());
    let over = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let bytes = digits(whole)? * scale + digits(fraction)? * scale / over;
    u64::try_from(bytes).map_err(|_| format!("'{text}' is more than can be counted"))
}

/// `bytes` in the largest unit that says them exactly: `64MiB`, `1536KiB`, `7`; [`parse`] reads it back.
pub fn exact(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut amount, mut unit) = (bytes, 0);
    while amount > 0 && amount % 1024 == 0 && unit + 1 < UNITS.len() {
        amount /= 1024;
        unit += 1;
    }
    format!("{amount}{}", UNITS[unit])
}

/// How many bytes `unit` has.
fn scale(unit: &str) -> Option<u128> {
    if matches!(unit, "" | "b") {
        return Some(1);
    }
    let letter = unit.chars().next()?;
    let power = u32::try_from("kmgtp".find(letter)?).ok()? + 1;
    match &unit[1..] {
        "" | "ib" => Some(1024u128.pow(power)),
        "b" => Some(1000u128.pow(power)),
        _ => None,
    }
}
