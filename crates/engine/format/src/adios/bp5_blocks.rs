//! What a writer put at a step of BP5: one field of its record for each variable, recognised by the field's name.
//!
//! ```text
//! BPg_NAME, BPl_NAME              a value: of all writers, of this one
//! BPG_8_10_NAME, BPL_…, BPJ_…     an array: global, local, joined; bytes of an element, number of its type
//! BPG-LENGTH-EXPRESSION-8_10_NAME a global array that is worked out from others
//! ```

use forebay_process::{Error, ErrorKind, Result};

use super::{
    bp5_steps::Writers,
    ffs::FfsField,
    kind::BpType,
    record::RecordStructure,
    series::{AllSeries, BlockPlace, BpBlock, Filtered, Form},
};

/// What the length is of the axis that blocks are joined along.
const JOINED: u64 = u64::MAX - 1;
/// What stands for the place of values that were not stored.
const NOWHERE: u64 = u64::MAX;

/// Whose record it is.
#[derive(Debug)]
pub(super) struct BpPuts<'a> {
    pub(super) step: u64,
    pub(super) writer: u64,
    pub(super) writers: &'a Writers,
    pub(super) is_column_major: bool,
}

impl BpPuts<'_> {
    /// Notes what `record` says.
    pub(super) fn note(&self, record: RecordStructure<'_>, into: &mut AllSeries) -> Result<()> {
        let count = record.number("BitFieldCount")?;
        let bits = record.numbers("BitField", count)?.unwrap_or_default();
        let bit_count = (8 * record.field("BitField")?.size).max(1);
        let is_own =
            |field: &&FfsField| field.name.starts_with("BitField") || field.name.starts_with("DataBlockSize");
        let variables = record.fields().iter().skip_while(is_own);
        for (index, field) in (0u64..).zip(variables) {
            let word = usize::try_from(index / bit_count).ok().and_then(|word| bits.get(word));
            // Not every variable is put at every step.
            if word.is_none_or(|word| word >> (index % bit_count) & 1 == 0) {
                continue;
            }
            let name = match Name::parse(&field.name) {
                Ok(name) => name,
                Err(error) => {
                    into.refuse(&field.name, error);
                    continue;
                }
            };
            if let Err(error) = self.variable(record, field, &name, into) {
                into.refuse(name.name, error);
            }
        }
        Ok(())
    }

    fn variable(
        &self,
        record: RecordStructure<'_>,
        field: &FfsField,
        name: &Name<'_>,
        into: &mut AllSeries,
    ) -> Result<()> {
        let Some((_, code)) = name.element else {
            let kind = BpType::of_field(&field.type_name, field.size)?;
            let value = if kind == BpType::Text {
                record.text(field)?.to_vec()
            } else {
                record.value(field)?.to_vec()
            };
            let form = if name.shape == b'l' { Form::Values } else { Form::Value };
            let block = BpBlock { start: vec![], count: vec![], place: BlockPlace::Value(value) };
            into.add(name.name, kind, (self.step, form), block);
            return Ok(());
        };
        if !field.type_name.starts_with("MetaArray") {
            let what = "metadata of a version before ADIOS2 2.8";
            return Err(Error::new(ErrorKind::Unsupported, what).hint("rewrite it with a later version"));
        }
        let kind = BpType::of_bp5(code)?;
        for (form, block) in self.blocks(record.inner(field)?)? {
            into.add(name.name, kind, (self.step, form), block);
        }
        Ok(())
    }

    /// The blocks of one array.
    fn blocks(&self, array: RecordStructure<'_>) -> Result<Vec<(Form, BpBlock)>> {
        let (ndim, count) = (array.number("Dims")?, array.number("BlockCount")?);
        let all = array.number("DBCount")?;
        if ndim.checked_mul(count) != Some(all) || (ndim == 0 && count > 1) {
            return Err(Error::corrupt(format!("{count} blocks of {ndim} axes have {all} lengths")));
        }
        let shape = array.numbers("Shape", ndim)?;
        let counts = array.numbers("Count", all)?.ok_or_else(|| Error::corrupt("blocks without lengths"))?;
        let starts = array.numbers("Offset", all)?;
        let places = array.numbers("DataBlockLocation", count)?.unwrap_or_default();
        let lens = if array.has("DataBlockSize") {
            Some(array.numbers("DataBlockSize", count)?.unwrap_or_default())
        } else {
            None
        };
        let ndim = usize::try_from(ndim).unwrap_or(usize::MAX);
        let axes = |numbers: &[u64], block: usize| -> Vec<u64> {
            let axes = numbers.get(block * ndim..(block + 1) * ndim).unwrap_or_default();
            if self.is_column_major { axes.iter().rev().copied().collect() } else { axes.to_vec() }
        };
        let form = form(shape.map(|shape| axes(&shape, 0)));
        let mut blocks = Vec::with_capacity(places.len());
        for (block, offset) in places.iter().enumerate() {
            if *offset == NOWHERE {
                let what = "worked out from other variables: only the expression is stored";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            let (file, at) = self.writers.locate(self.writer, *offset)?;
            let place = match lens.as_ref().map(|lens| lens.get(block)) {
                None => BlockPlace::Stored { file, at },
                Some(len) => {
                    let len = *len.ok_or_else(|| Error::corrupt("a block without a length"))?;
                    BlockPlace::Filtered { file, at, len, filter: Filtered::Operator }
                }
            };
            let start = starts.as_ref().map_or_else(Vec::new, |starts| axes(starts, block));
            blocks.push((form.clone(), BpBlock { start, count: axes(&counts, block), place }));
        }
        Ok(blocks)
    }
}

fn form(shape: Option<Vec<u64>>) -> Form {
    let Some(shape) = shape else { return Form::Local };
    match shape.iter().position(|len| *len == JOINED) {
        Some(axis) => Form::Joined(axis),
        None => Form::Global(shape),
    }
}

/// The name of a field, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    /// `g`, `l`, `G`, `L` or `J`.
    shape: u8,
    /// For arrays, bytes of an element and the number of its type.
    element: Option<(u64, u64)>,
    name: &'a str,
}

impl<'a> Name<'a> {
    fn parse(field: &'a str) -> Result<Self> {
        let wrong = || Error::corrupt(format!("a field called '{field}'"));
        let rest = field.strip_prefix("BP").ok_or_else(wrong)?;
        let shape = *rest.as_bytes().first().ok_or_else(wrong)?;
        if matches!(shape, b'g' | b'l') {
            return Ok(Self { shape, element: None, name: rest[1..].strip_prefix('_').ok_or_else(wrong)? });
        }
        if !matches!(shape, b'G' | b'L' | b'J') {
            return Err(wrong());
        }
        let rest = match rest[1..].strip_prefix('-') {
            None => rest[1..].strip_prefix('_').ok_or_else(wrong)?,
            Some(derived) => {
                let (len, rest) = derived.split_once('-').ok_or_else(wrong)?;
                let len: usize = len.parse().map_err(|_| wrong())?;
                rest.get(len..).and_then(|rest| rest.strip_prefix('-')).ok_or_else(wrong)?
            }
        };
        let (len, rest) = rest.split_once('_').ok_or_else(wrong)?;
        let (code, mut name) = rest.split_once('_').ok_or_else(wrong)?;
        let (len, code) = (len.parse().map_err(|_| wrong())?, code.parse().map_err(|_| wrong())?);
        if BpType::of_bp5(code).is_ok_and(|kind| kind == BpType::Struct) {
            // The id of the structure stands before the name.
            name = name.split_once('_').ok_or_else(wrong)?.1;
        }
        Ok(Self { shape, element: Some((len, code)), name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_come_apart() {
        let parse = |field: &'static str| Name::parse(field).unwrap();
        assert_eq!(parse("BPg_a_1_2"), Name { shape: b'g', element: None, name: "a_1_2" });
        assert_eq!(parse("BPG_8_10_a_1_2"), Name { shape: b'G', element: Some((8, 10)), name: "a_1_2" });
        assert_eq!(parse("BPL_1_1_"), Name { shape: b'L', element: Some((1, 1)), name: "" });
        assert_eq!(parse("BPG-4-eHgA-8_10_sum"), Name { shape: b'G', element: Some((8, 10)), name: "sum" });
        for wrong in ["", "BP", "BPx_a", "BPG", "BPG_8", "BPG_8_10", "BPG_é_1_a", "BPG-9-a-8_10_b", "BPG-1"]
        {
            assert!(Name::parse(wrong).is_err(), "{wrong}");
        }
    }
}
