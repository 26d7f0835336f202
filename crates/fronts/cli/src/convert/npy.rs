//! One variable as an NPY file.

use std::io::Write;

use forebay::{
    Error, ErrorKind, Result, Selection, Values, Variable,
    container::{Dtype, Number},
};

use super::job::{ConvertJob, Done, Written};
use crate::partial_file::PartialFile;

/// Values are read and written in pieces of about this size.
const SLAB_BYTES: u64 = 64 << 20;
/// NumPy maps files, and wants values to begin on such a border.
const ALIGNED: usize = 64;

/// Why a variable cannot be kept by an NPY file, if it cannot.
pub(super) fn refusal(variable: &Variable) -> Option<String> {
    let why = variable.dtype.refusal();
    why.or_else(|| match description(&variable.dtype) {
        Some(_) => None,
        None => Some(format!("NPY has no type for {}; Zarr keeps texts of any length", variable.dtype)),
    })
}

/// Writes the one variable of `job`.
pub(super) fn write(job: &ConvertJob<'_>) -> Result<Done> {
    let Some(variable) = job.variables.first() else { return Ok(Some(Vec::new())) };
    let head = head(variable).ok_or_else(|| Error::new(ErrorKind::Unsupported, "no type of NPY"))?;
    let mut file = PartialFile::create(job.output)?;
    let put = |file: &mut PartialFile, bytes: &[u8]| {
        file.write_all(bytes).map_err(|error| Error::from_io(error).at(job.output.display()))
    };
    put(&mut file, &head)?;
    let mut stored = head.len() as u64;
    let all = Selection::all(&variable.grid.shape);
    for slab in job.opened.slabs(variable, &all, SLAB_BYTES) {
        let Values::Fixed(bytes) = job.opened.read(variable, &slab)?.values else {
            return Err(Error::new(ErrorKind::Bug, "values of other lengths than their type's"));
        };
        put(&mut file, &bytes)?;
        stored += bytes.len() as u64;
        job.bar.inc(bytes.len() as u64);
    }
    file.finish()?;
    Ok(Some(vec![Written {
        name: variable.name.clone(),
        shape: variable.grid.shape.clone(),
        chunk: None,
        chunk_count: 0,
        logical_bytes: variable.logical_len(),
        stored_bytes: stored,
    }]))
}

/// What stands before the values.
fn head(variable: &Variable) -> Option<Vec<u8>> {
    let (description, inner) = description(&variable.dtype)?;
    let shape: Vec<String> = variable.grid.shape.iter().chain(&inner).map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': {description}, 'fortran_order': False, 'shape': ({}{comma}), }}",
        shape.join(", ")
    );
    // Version 3 is version 2 in UTF-8; the first has two bytes for the length, and is what all programs know.
    let version: u8 = match () {
        () if !text.is_ascii() => 3,
        () if text.len() + 2 * ALIGNED > usize::from(u16::MAX) => 2,
        () => 1,
    };
    let before = if version == 1 { 10 } else { 12 };
    let padded = (before + text.len() + 1).next_multiple_of(ALIGNED) - before;
    text.push_str(&" ".repeat(padded - text.len() - 1));
    text.push('\n');
    let mut head = b"\x93NUMPY".to_vec();
    head.extend([version, 0]);
    match version {
        1 => head.extend(u16::try_from(text.len()).ok()?.to_le_bytes()),
        _ => head.extend(u32::try_from(text.len()).ok()?.to_le_bytes()),
    }
    head.extend(text.as_bytes());
    Some(head)
}

/// A type as NumPy's `descr` has it, and the axes an element has within itself.
fn description(dtype: &Dtype) -> Option<(String, Vec<u64>)> {
    let code = match dtype {
        dtype if dtype.is_bool() => "|b1".to_owned(),
        Dtype::Number { number, .. } | Dtype::Bits { number, .. } | Dtype::Nonstandard { number, .. } => {
            number_code(*number)?.to_owned()
        }
        Dtype::Enum { base, .. } => return description(base),
        Dtype::Complex { part: Number::F32, .. } => "<c8".to_owned(),
        Dtype::Complex { part: Number::F64, .. } => "<c16".to_owned(),
        Dtype::Text { len, .. } => format!("|S{len}"),
        Dtype::Opaque { len, .. } => format!("|V{len}"),
        Dtype::Array { shape, item } => {
            let (item, inner) = description(item)?;
            return Some((item, [&shape[..], &inner].concat()));
        }
        Dtype::Compound { len, fields } => {
            let mut order: Vec<_> = fields.iter().collect();
            order.sort_by_key(|field| field.offset);
            let (mut members, mut end) = (Vec::new(), 0);
            for field in order {
                // Members that overlap have no words in `descr`.
                members.extend(gap(field.offset.checked_sub(end)?));
                let (member, inner) = description(&field.dtype)?;
                let axes = inner.iter().map(|len| format!("{len},")).collect::<String>();
                let axes = if inner.is_empty() { String::new() } else { format!(", ({axes})") };
                members.push(format!("({}, {member}{axes})", quoted(&field.name)));
                end = field.offset + field.dtype.stored_len();
            }
            members.extend(gap(len.checked_sub(end)?));
            return Some((format!("[{}]", members.join(", ")), Vec::new()));
        }
        _ => return None,
    };
    Some((format!("'{code}'"), Vec::new()))
}

fn gap(len: usize) -> Option<String> {
    (len > 0).then(|| format!("('', '|V{len}')"))
}

/// A name as Python writes it.
fn quoted(name: &str) -> String {
    let mut text = String::from("'");
    for letter in name.chars() {
        match letter {
            '\'' | '\\' => text.extend(['\\', letter]),
            letter if letter.is_control() => text.push_str(&format!("\\x{:02x}", u32::from(letter))),
            letter => text.push(letter),
        }
    }
    text.push('\'');
    text
}

/// NumPy's code of a number; it has none for bfloat16.
fn number_code(number: Number) -> Option<&'static str> {
    Some(match number {
        Number::I8 => "|i1",
        Number::I16 => "<i2",
        Number::I32 => "<i4",
        Number::I64 => "<i8",
        Number::U8 => "|u1",
        Number::U16 => "<u2",
        Number::U32 => "<u4",
        Number::U64 => "<u8",
        Number::F16 => "<f2",
        Number::F32 => "<f4",
        Number::F64 => "<f8",
        Number::Bf16 => return None,
    })
}

#[cfg(test)]
mod tests {
    use forebay::container::Field;

    use super::*;

    #[test]
    fn a_head_ends_on_a_border_and_a_compound_keeps_its_gaps() {
        let field =
            |name: &str, offset, number| Field { name: name.into(), offset, dtype: Dtype::native(number) };
        let dtype =
            Dtype::Compound { len: 16, fields: vec![field("b", 8, Number::F32), field("a'", 0, Number::U8)] };
        let head = head(&Variable::new("v", dtype, vec![7])).unwrap();
        assert_eq!(head.len() % ALIGNED, 0);
        let text = String::from_utf8_lossy(&head[10..]).into_owned();
        let wanted = r"[('a\'', '|u1'), ('', '|V7'), ('b', '<f4'), ('', '|V4')]";
        assert!(text.contains(wanted) && text.contains("'shape': (7,)"), "{text}");
    }
}
