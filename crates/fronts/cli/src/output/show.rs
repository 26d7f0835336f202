//! Values, names and sizes as text and as JSON.

use std::fmt::{self, Write};

use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};

use crate::output::value::{ElementValue, widened};

impl fmt::Display for ElementValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(number) => write!(f, "{number}"),
            Self::Unsigned(number) => write!(f, "{number}"),
            Self::Single(number) if number.is_nan() => f.write_str("nan"),
            Self::Single(number) => write!(f, "{number:?}"),
            Self::Double(number) if number.is_nan() => f.write_str("nan"),
            Self::Double(number) => write!(f, "{number:?}"),
            Self::Complex(real, imaginary) => {
                let sign = if imaginary.is_sign_negative() && !imaginary.is_nan() { "" } else { "+" };
                write!(f, "({}{sign}{}j)", brief(*real), brief(*imaginary))
            }
            Self::Bool(is) => write!(f, "{is}"),
            Self::Name(name) => f.write_str(&visible(name)),
            Self::Text(bytes) => quote(bytes, f),
            Self::Bytes(bytes) => f.write_str(&hex(bytes)),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", comma(index))?;
                }
                f.write_str("]")
            }
            Self::Record(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{}: {value}", comma(index), visible(name))?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Serialize for ElementValue<'_> {
    /// Numbers JSON has no word for are strings: `"NaN"`, `"Infinity"`, `"-Infinity"`.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Signed(number) => to.serialize_i64(*number),
            Self::Unsigned(number) => to.serialize_u64(*number),
            Self::Single(number) => double(widened(*number), to),
            Self::Double(number) => double(*number, to),
            Self::Complex(real, imaginary) => {
                let mut pair = to.serialize_seq(Some(2))?;
                pair.serialize_element(&ElementValue::Double(*real))?;
                pair.serialize_element(&ElementValue::Double(*imaginary))?;
                pair.end()
            }
            Self::Bool(is) => to.serialize_bool(*is),
            Self::Name(name) => to.serialize_str(name),
            Self::Text(bytes) => to.serialize_str(&String::from_utf8_lossy(bytes)),
            Self::Bytes(bytes) => to.serialize_str(&hex(bytes)),
            Self::List(items) => to.collect_seq(items),
            Self::Record(members) => {
                let mut map = to.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

fn double<S: Serializer>(number: f64, to: S) -> Result<S::Ok, S::Error> {
    match number {
        number if number.is_finite() => to.serialize_f64(number),
        number if number.is_nan() => to.serialize_str("NaN"),
        number if number > 0.0 => to.serialize_str("Infinity"),
        _ => to.serialize_str("-Infinity"),
    }
}

fn comma(index: usize) -> &'static str {
    if index == 0 { "" } else { ", " }
}

/// A part of a complex number, as Python writes it: `1`, not `1.0`.
fn brief(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{number:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Bytes as `0x` and two digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Text in quotes, on one line whatever is in it.
fn quote(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => f.write_str("\\\"")?,
                '\t' => f.write_str("\\t")?,
                letter => escape(letter, f)?,
            }
        }
        chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
    }
    f.write_str("\"")
}

fn escape(letter: char, f: &mut impl Write) -> fmt::Result {
    match letter {
        '\\' => f.write_str("\\\\"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        letter if letter.is_control() => write!(f, "\\x{:02x}", u32::from(letter)),
        letter => f.write_char(letter),
    }
}

/// A name as it may go to a terminal: no control characters, one line.
pub(crate) fn visible(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len()), |mut text, letter| {
        let _ = escape(letter, &mut text);
        text
    })
}

/// A name on one line, otherwise as it is: what ends a line, and the backslash, are escaped.
pub(crate) fn one_line(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

/// A message for people: names in it cannot move the cursor or start a line.
pub(crate) fn message(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// `text` cut to `most` letters, with `…` for what is gone.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Bytes as people say them: `512 B`, `1.5 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// A shape as Python writes a tuple: `()`, `(3,)`, `(3, 4)`.
pub(crate) fn tuple(lens: &[String]) -> String {
    match lens {
        [one] => format!("({one},)"),
        more => format!("({})", more.join(", ")),
    }
}

/// `1 group`, `2 groups`.
pub(crate) fn count(many: usize, one: &str, more: &str) -> String {
    format!("{many} {}", if many == 1 { one } else { more })
}

/// `9990 samples/s, 163.7 MB/s`.
pub(crate) fn rates(samples: f64, bytes: f64) -> String {
    format!("{samples:.0} samples/s, {:.1} MB/s", bytes / 1e6)
}

/// `12 ms`, `3.4 s`.
pub(crate) fn seconds(time: f64) -> String {
    match time {
        time if time < 0.0995 => format!("{:.0} ms", time * 1e3),
        time if time < 9.995 => format!("{time:.2} s"),
        time => format!("{time:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be_read_back() {
        assert_eq!(ElementValue::Single(0.1).to_string(), "0.1");
        assert_eq!(ElementValue::Double(1e300).to_string(), "1e300");
        assert_eq!(ElementValue::Double(f64::NAN).to_string(), "nan");
        assert_eq!(ElementValue::Single(f32::NEG_INFINITY).to_string(), "-inf");
        assert_eq!(ElementValue::Complex(1.0, -2.5).to_string(), "(1-2.5j)");
        assert_eq!(ElementValue::Complex(0.0, f64::NAN).to_string(), "(0+nanj)");
    }

    #[test]
    fn text_stays_on_its_line() {
        assert_eq!(ElementValue::Text(b"a\"\n\x1b\xff\\").to_string(), r#""a\"\n\x1b\xff\\""#);
        assert_eq!(visible("a\n\x1b[1m"), "a\\n\\x1b[1m");
        assert_eq!(one_line("a\\b\r\n\x1b"), "a\\\\b\\r\\n\x1b");
    }

    #[test]
    fn json_says_what_it_has_no_number_for() {
        let value = ElementValue::List(vec![
            ElementValue::Single(0.1),
            ElementValue::Double(f64::NAN),
            ElementValue::Double(f64::NEG_INFINITY),
        ]);
        assert_eq!(serde_json::to_string(&value).unwrap(), r#"[0.1,"NaN","-Infinity"]"#);
    }

    #[test]
    fn sizes_change_their_unit_before_they_round_to_1024() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size((1 << 20) - 1), "1.0 MiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
    }
}
