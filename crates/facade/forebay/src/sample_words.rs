//! What a sample is, in words: as a command line or a configuration says it.

use forebay_container::Number;
use forebay_loader::{AxisLen, AxisName, Boundary, Centres, Convert, FieldSpec, Leads, Offsets};

/// More rows than this follow no window.
const MOST_LEADS: u64 = 1 << 20;

/// Which part of a variable is one sample, such as `fixed:4`, `along:time`, `windows:time=4,lat=16`, `ragged:ptr` or `groups:mol_*`.
pub fn boundary(text: &str) -> Result<Boundary, String> {
    let known = "samples are fixed:ROWS, along:AXIS, windows:SIZE, centres:VARIABLE:SIZE, ragged:OFFSETS, lengths:VARIABLE, \
                 groups:PATTERN, group-rows:PATTERN, whole or constant";
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    match (word, rest) {
        ("whole", "") => Ok(Boundary::Whole),
        ("constant", "") => Ok(Boundary::Constant),
        ("fixed", rows) => match rows.parse() {
            Ok(0) | Err(_) => Err(format!("'{rows}' is no number of rows")),
            Ok(rows) => Ok(Boundary::Fixed { rows }),
        },
        (_, "") => Err(known.into()),
        ("along", axis) => {
            let (axis, rows) = numbered(axis);
            Ok(Boundary::Along { axis: axis_name(axis)?, rows: rows.unwrap_or(1) })
        }
        ("windows", size) => Ok(Boundary::Windows { size: axis_lens(size)?, stride: vec![], step: vec![] }),
        ("centres", rest) => {
            let (variable, size) = rest.rsplit_once(':').ok_or("centres are centres:VARIABLE:SIZE")?;
            let at = Centres::Variable(variable.to_owned());
            Ok(Boundary::Centres { at, size: axis_lens(size)? })
        }
        ("ragged", rest) => {
            let (offsets, axis) = numbered(rest);
            let offsets = match offsets.split_once(',') {
                Some((begin, end)) => Offsets::BeginEnd(begin.to_owned(), end.to_owned()),
                None => Offsets::Variable(offsets.to_owned()),
            };
            Ok(Boundary::Ragged { offsets, axis: usize::try_from(axis.unwrap_or(0)).unwrap_or(usize::MAX) })
        }
        ("lengths", rest) => {
            let (lengths, axis) = numbered(rest);
            let axis = usize::try_from(axis.unwrap_or(0)).unwrap_or(usize::MAX);
            Ok(Boundary::Ragged { offsets: Offsets::Lengths(lengths.to_owned()), axis })
        }
        ("groups", pattern) => Ok(Boundary::Groups { pattern: pattern.to_owned() }),
        ("group-rows", pattern) => Ok(Boundary::GroupRows { pattern: pattern.to_owned() }),
        _ => Err(known.into()),
    }
}

/// A name, and the number behind its last colon; names may have colons of their own.
fn numbered(text: &str) -> (&str, Option<u64>) {
    match text.rsplit_once(':') {
        Some((name, number)) if !name.is_empty() => match number.parse() {
            Ok(number) => (name, Some(number)),
            Err(_) => (text, None),
        },
        _ => (text, None),
    }
}

/// An axis, by position or by name.
pub fn axis_name(text: &str) -> Result<AxisName, String> {
    match text {
        "" => Err("an axis is a name or a position".into()),
        text => Ok(text.parse().map_or_else(|_| AxisName::Name(text.to_owned()), AxisName::Index)),
    }
}

/// Lengths by axis, `time=4,lat=16`, or from axis 0 on, `4,16`.
pub fn axis_lens(text: &str) -> Result<Vec<AxisLen>, String> {
    let lens = text.split(',').enumerate().map(|(position, one)| {
        let (axis, len) = match one.rsplit_once('=') {
            Some((axis, len)) => (axis_name(axis)?, len),
            None => (AxisName::Index(position), one),
        };
        let len = len.parse().ok().filter(|len| *len > 0);
        let len = len.ok_or_else(|| format!("'{one}' is no length along an axis, such as time=4"))?;
        Ok(AxisLen { axis, len })
    });
    lens.collect()
}

/// How far rows lie after a window, `time=1,6` or `time=1-6`.
pub fn lead_times(text: &str) -> Result<Leads, String> {
    let bad = || format!("'{text}' are no lead times, such as time=1,6 or time=1-6");
    let (axis, list) = text.rsplit_once('=').ok_or_else(bad)?;
    let mut after = Vec::new();
    for one in list.split(',') {
        let (first, last) = one.split_once('-').unwrap_or((one, one));
        let (first, last): (u64, u64) = first
            .parse()
            .ok()
            .zip(last.parse().ok())
            .filter(|(first, last)| first <= last)
            .ok_or_else(bad)?;
        if last - first >= MOST_LEADS {
            return Err(bad());
        }
        after.extend(first..=last);
    }
    Ok(Leads { axis: axis_name(axis)?, after })
}

/// A field, `NAME` or `NAME=VARIABLE`, either with the number type it is cast to, as `NAME:float32`.
pub fn field(text: &str) -> Result<FieldSpec, String> {
    let (rest, to) = match text.rsplit_once(':') {
        // Names may have colons of their own.
        Some((rest, dtype)) if number(dtype).is_some() => (rest, number(dtype)),
        _ => (text, None),
    };
    let (name, variable) = rest.split_once('=').unwrap_or((rest, rest));
    if name.is_empty() || variable.is_empty() {
        return Err("a field is NAME, NAME=VARIABLE or NAME:float32".into());
    }
    let convert = Convert { to, ..Convert::default() };
    Ok(FieldSpec { variable: variable.to_owned(), convert, ..FieldSpec::new(name) })
}

/// The number that NumPy and PyTorch call `name`.
fn number(name: &str) -> Option<Number> {
    Some(match name {
        "int8" => Number::I8,
        "int16" => Number::I16,
        "int32" => Number::I32,
        "int64" => Number::I64,
        "uint8" => Number::U8,
        "uint16" => Number::U16,
        "uint32" => Number::U32,
        "uint64" => Number::U64,
        "float16" => Number::F16,
        "bfloat16" => Number::Bf16,
        "float32" => Number::F32,
        "float64" => Number::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_may_be_renamed_and_cast() {
        let parsed = |text| field(text).map(|field| (field.name, field.variable, field.convert.to));
        let expected = |name: &str, variable: &str, to| Ok((name.to_owned(), variable.to_owned(), to));
        assert_eq!(parsed("image"), expected("image", "image", None));
        assert_eq!(parsed("x=grid/t2m:float16"), expected("x", "grid/t2m", Some(Number::F16)));
        assert_eq!(parsed("a:b"), expected("a:b", "a:b", None));
        assert!(parsed("=image").is_err() && parsed("x=").is_err() && parsed(":float32").is_err());
    }

    fn len(axis: &str, len: u64) -> AxisLen {
        AxisLen { axis: axis_name(axis).unwrap(), len }
    }

    #[test]
    fn boundaries_are_read_and_others_refused() {
        assert_eq!(boundary("fixed:3"), Ok(Boundary::Fixed { rows: 3 }));
        assert_eq!(boundary("whole"), Ok(Boundary::Whole));
        assert_eq!(boundary("constant"), Ok(Boundary::Constant));
        let ragged = |offsets, axis| Ok(Boundary::Ragged { offsets, axis });
        assert_eq!(boundary("ragged:ptr"), ragged(Offsets::Variable("ptr".into()), 0));
        assert_eq!(boundary("ragged:a:b:1"), ragged(Offsets::Variable("a:b".into()), 1));
        assert_eq!(boundary("ragged:begin,end"), ragged(Offsets::BeginEnd("begin".into(), "end".into()), 0));
        assert_eq!(boundary("lengths:n"), ragged(Offsets::Lengths("n".into()), 0));
        let along = |axis, rows| Ok(Boundary::Along { axis, rows });
        assert_eq!(boundary("along:time"), along(AxisName::Name("time".into()), 1));
        assert_eq!(boundary("along:2:4"), along(AxisName::Index(2), 4));
        let windows = |size| Ok(Boundary::Windows { size, stride: vec![], step: vec![] });
        assert_eq!(boundary("windows:time=4,lat=2"), windows(vec![len("time", 4), len("lat", 2)]));
        assert_eq!(boundary("windows:4,2"), windows(vec![len("0", 4), len("1", 2)]));
        let at = Centres::Variable("sites".into());
        assert_eq!(
            boundary("centres:sites:8,8"),
            Ok(Boundary::Centres { at, size: vec![len("0", 8), len("1", 8)] })
        );
        assert_eq!(boundary("groups:mol_*"), Ok(Boundary::Groups { pattern: "mol_*".into() }));
        for text in [
            "along:",
            "fixed",
            "fixed:0",
            "fixed:x",
            "ragged:",
            "windows",
            "windows:0",
            "centres:x",
            "whole:1",
        ] {
            assert!(boundary(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lead_times_are_listed_or_a_range() {
        let after = |text| lead_times(text).map(|leads| leads.after);
        assert_eq!(after("time=1,6"), Ok(vec![1, 6]));
        assert_eq!(after("0=1-3,8"), Ok(vec![1, 2, 3, 8]));
        assert!(after("1,6").is_err() && after("time=6-1").is_err() && after("time=").is_err());
    }
}
