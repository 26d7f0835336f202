//! The index of BP1 to BP4: entries of variables and attributes, each with sets of characteristics.
//!
//! ```text
//! index   count u32 │ bytes u64 │ entry …
//! entry   bytes u32 │ id u32 │ group │ name │ path │ type u8 │ sets u64 │ set …
//! set     count u8  │ bytes u32 │ (id u8 │ value) …
//! ```

use std::collections::BTreeMap;

use forebay_filter::ByteCursor;
use forebay_process::{Error, ErrorKind, Result};

use super::{
    kind::BpType,
    series::{AllSeries, BlockPlace, BpBlock, Filtered, Form},
};
use forebay_container::{Array, ByteOrder, Values, native};

/// What an axis's length is where the variable is one value for each writer.
const LOCAL_VALUE: u64 = u64::MAX - 2;
/// What the length is of the axis that blocks are joined along.
const JOINED: u64 = u64::MAX - 1;

/// Attributes by name: their values, or why they cannot be read.
pub(super) type Attributes = BTreeMap<String, std::result::Result<Array, String>>;

/// Which version of the format an index is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BpVersion {
    /// Paths are texts, values are in the same file.
    Bp3,
    /// Two bytes stand for the path.
    Bp4,
}

/// How the entries of an index are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexReading {
    pub(super) version: BpVersion,
    pub(super) order: ByteOrder,
    /// True where the axes are written in Fortran's order, the fastest first.
    pub(super) is_column_major: bool,
    /// The step the index belongs to, where it is about one alone.
    pub(super) step: Option<u64>,
}

/// What one entry is of.
struct IndexEntry<'a> {
    name: String,
    /// Its type, and whether it is an array of texts.
    kind: Result<(BpType, bool)>,
    set_count: u64,
    sets: ByteCursor<'a>,
}

/// One set of characteristics.
#[derive(Debug, Default)]
struct Set {
    /// Lengths of the block, of the whole array, and the block's corner; nothing where no axes are named.
    count: Vec<u64>,
    shape: Vec<u64>,
    start: Vec<u64>,
    value: Option<Vec<Vec<u8>>>,
    payload: u64,
    file: u64,
    time: u64,
    operator: Option<Operator>,
}

/// What was done to a block's values.
#[derive(Debug)]
struct Operator {
    name: String,
    /// Notes of the operator's own.
    notes: Vec<u8>,
}

impl IndexReading {
    /// Notes the variables of the index at `index`.
    pub(super) fn variables(&self, mut index: ByteCursor<'_>, into: &mut AllSeries) -> Result<()> {
        for_each_entry(&mut index, |entry| {
            let entry = self.entry(entry)?;
            let name = entry.name.clone();
            if let Err(error) = self.variable(entry, into) {
                into.refuse(&name, error);
            }
            Ok(())
        })
    }

    /// Notes the attributes of the index at `index`.
    pub(super) fn attributes(&self, mut index: ByteCursor<'_>, into: &mut Attributes) -> Result<()> {
        for_each_entry(&mut index, |entry| {
            let entry = self.entry(entry)?;
            let name = entry.name.clone();
            into.insert(name, self.attribute(entry).map_err(|error| error.to_string()));
            Ok(())
        })
    }

    fn attribute(&self, mut entry: IndexEntry<'_>) -> Result<Array> {
        let (kind, is_text_array) = entry.kind?;
        let set = self.set(&mut entry.sets, kind, is_text_array)?;
        // One number and an array of one number are written alike.
        let is_array = is_text_array || (kind != BpType::Text && set.count.iter().any(|len| *len > 1));
        let values = set.value.ok_or_else(|| Error::corrupt("a value that is not there"))?;
        attribute(kind, self.order, &values, is_array)
    }

    fn entry<'a>(&self, mut entry: ByteCursor<'a>) -> Result<IndexEntry<'a>> {
        entry.uint(4)?;
        text(&mut entry)?;
        let name = text(&mut entry)?;
        let path = match self.version {
            BpVersion::Bp3 => text(&mut entry)?,
            BpVersion::Bp4 => {
                entry.take(2)?;
                String::new()
            }
        };
        let name = if path.is_empty() { name } else { format!("{}/{name}", path.trim_end_matches('/')) };
        let kind = BpType::of_bp4(entry.u8()?);
        let set_count = entry.u64()?;
        Ok(IndexEntry { name, kind, set_count, sets: entry })
    }

    fn variable(&self, entry: IndexEntry<'_>, into: &mut AllSeries) -> Result<()> {
        let (kind, _) = entry.kind?;
        let mut sets = entry.sets;
        for _ in 0..entry.set_count {
            let at = sets.position();
            let set =
                self.set(&mut sets, kind, false).map_err(|error| error.at(format!("index at {at:#x}")))?;
            let step = self.step.unwrap_or_else(|| set.time.saturating_sub(1));
            let (form, block) = self.block(set)?;
            into.add(&entry.name, kind, (step, form), block);
        }
        Ok(())
    }

    /// What a set says of a block.
    fn block(&self, mut set: Set) -> Result<(Form, BpBlock)> {
        if self.is_column_major {
            for axes in [&mut set.count, &mut set.shape, &mut set.start] {
                axes.reverse();
            }
        }
        let is_local_value = set.shape == [LOCAL_VALUE];
        let form = if is_local_value {
            Form::Values
        } else if set.count.is_empty() {
            Form::Value
        } else if let Some(axis) = set.shape.iter().position(|len| *len == JOINED) {
            Form::Joined(axis)
        } else if set.shape.iter().all(|len| *len == 0) {
            Form::Local
        } else {
            Form::Global(set.shape)
        };
        let place = match (set.operator, set.value) {
            (_, Some(mut values)) if matches!(form, Form::Value | Form::Values) => {
                BlockPlace::Value(values.pop().unwrap_or_default())
            }
            (_, _) if matches!(form, Form::Value | Form::Values) => {
                return Err(Error::corrupt("a value that is not there"));
            }
            (Some(operator), _) => operator.place(set.file, set.payload),
            (None, _) => BlockPlace::Stored { file: set.file, at: set.payload },
        };
        Ok((form, BpBlock { start: set.start, count: set.count, place }))
    }

    /// The next set of characteristics.
    fn set(&self, sets: &mut ByteCursor<'_>, kind: BpType, is_text_array: bool) -> Result<Set> {
        sets.u8()?;
        let len = sets.uint(4)?;
        let mut rest = sets.inner(len)?;
        let mut set = Set::default();
        let mut statistics = 0;
        while rest.left() > 0 {
            match rest.u8()? {
                0 => set.value = Some(values(&mut rest, kind, is_text_array, &set)?),
                1 | 2 => drop(rest.take(kind.len())?),
                3 => drop(rest.u64()?),
                4 => [set.count, set.shape, set.start] = axes(&mut rest)?,
                5 => drop(rest.uint(4)?),
                6 => set.payload = rest.u64()?,
                7 => set.file = self.file(rest.uint(4)?),
                8 => set.time = rest.uint(4)?,
                9 => statistics = rest.uint(4)?,
                10 => skip_statistics(&mut rest, kind, statistics)?,
                11 => set.operator = Some(transform(&mut rest)?),
                12 => skip_extremes(&mut rest, kind, set.count.len() as u64)?,
                other => return Err(Error::corrupt(format!("no such characteristic: {other}"))),
            }
        }
        Ok(set)
    }

    /// BP3 files without subfiles name none.
    fn file(&self, number: u64) -> u64 {
        if self.version == BpVersion::Bp3 && number == u64::from(u32::MAX) { 0 } else { number }
    }
}

/// Calls `each` with every entry of the index.
fn for_each_entry<'a>(
    index: &mut ByteCursor<'a>,
    mut each: impl FnMut(ByteCursor<'a>) -> Result<()>,
) -> Result<()> {
    let count = index.uint(4)?;
    let len = index.u64()?;
    let end = (index.position() as u64).saturating_add(len);
    let mut passed = 0;
    // ADIOS 1 leaves the lengths of entries out of the length of all.
    while passed < count || (index.position() as u64) < end {
        let at = index.position();
        let entry = index.uint(4).and_then(|len| index.inner(len));
        entry.and_then(&mut each).map_err(|error| error.at(format!("entry at {at:#x}")))?;
        passed += 1;
    }
    Ok(())
}

/// Count, shape and start of all axes.
fn axes(rest: &mut ByteCursor<'_>) -> Result<[Vec<u64>; 3]> {
    let ndim = rest.u8()?;
    rest.uint(2)?;
    let mut axes: [Vec<u64>; 3] = Default::default();
    for _ in 0..ndim {
        for numbers in &mut axes {
            numbers.push(rest.u64()?);
        }
    }
    Ok(axes)
}

/// The texts of a value, or the bytes of all its numbers; attributes may have several.
fn values(rest: &mut ByteCursor<'_>, kind: BpType, is_text_array: bool, set: &Set) -> Result<Vec<Vec<u8>>> {
    let count = match set.count.first() {
        Some(count) if set.shape != [LOCAL_VALUE] && (is_text_array || kind != BpType::Text) => *count,
        _ => 1,
    };
    if kind != BpType::Text {
        let len = count
            .checked_mul(kind.len())
            .ok_or_else(|| Error::corrupt(format!("a value of {count} numbers")))?;
        return Ok(vec![rest.take(len)?.to_vec()]);
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        let len = rest.uint(2)?;
        texts.push(rest.take(len)?.to_vec());
    }
    Ok(texts)
}

fn skip_statistics(rest: &mut ByteCursor<'_>, kind: BpType, which: u64) -> Result<()> {
    // Smallest and greatest value, how many, sum, sum of squares, histogram, whether all are finite.
    let lens = [kind.len(), kind.len(), 4, 8, 8, 0, 1];
    if which & 1 << 5 != 0 {
        return Err(Error::corrupt("a histogram, which is not read here"));
    }
    let wanted = lens.iter().enumerate().filter(|(bit, _)| which >> bit & 1 == 1);
    wanted.map(|(_, len)| rest.take(*len)).try_for_each(|skipped| skipped.map(drop))
}

fn skip_extremes(rest: &mut ByteCursor<'_>, kind: BpType, ndim: u64) -> Result<()> {
    let count = rest.uint(2)?;
    rest.take(2 * kind.len())?;
    if count > 1 {
        rest.take(1 + 8 + 2 * ndim + 2 * count * kind.len())?;
    }
    Ok(())
}

fn transform(rest: &mut ByteCursor<'_>) -> Result<Operator> {
    let len = rest.u8()?;
    let name = String::from_utf8_lossy(rest.take(u64::from(len))?).into_owned();
    rest.u8()?;
    axes(rest)?;
    let len = rest.uint(2)?;
    Ok(Operator { name, notes: rest.take(len)?.to_vec() })
}

impl Operator {
    /// Where the values of a block are that this was done to.
    fn place(self, file: u64, at: u64) -> BlockPlace {
        let filtered = |filter, len| BlockPlace::Filtered { file, at, len, filter };
        match (self.name.as_str(), self.stream_len(), self.block_len()) {
            ("none" | "identity", ..) => BlockPlace::Stored { file, at },
            ("bzip2", Some(len), _) => filtered(Filtered::Bzip2, len),
            ("null" | "blosc" | "zfp", _, Some(len)) => filtered(Filtered::Operator, len),
            _ => BlockPlace::Operator(self.name),
        }
    }

    /// The length of a block that is one compressed stream, as ADIOS2 before 2.8 notes it: bytes before and after, how
    /// many streams, and for each of them where it begins and how long it is before and after.
    fn stream_len(&self) -> Option<u64> {
        let mut notes = ByteCursor::new(&self.notes, ByteOrder::Little);
        let (before, after, count) = (notes.u64().ok()?, notes.u64().ok()?, notes.uint(2).ok()?);
        let stream = [notes.u64().ok()?, notes.u64().ok()?, notes.u64().ok()?, notes.u64().ok()?];
        (notes.left() == 0 && count == 1 && stream == [0, before, 0, after]).then_some(after)
    }

    /// The length of a block that says itself what was done to it, as later versions note it: bytes before and after.
    fn block_len(&self) -> Option<u64> {
        let mut notes = ByteCursor::new(&self.notes, ByteOrder::Little);
        let (_, after) = (notes.u64().ok()?, notes.u64().ok()?);
        (notes.left() == 0).then_some(after)
    }
}

/// Texts of an attribute take elements of one length: more than so many bytes of them are refused.
const MOST_TEXT_BYTES: usize = 16 << 20;

/// The array of an attribute's texts, or of the bytes of its numbers.
pub(super) fn attribute(kind: BpType, order: ByteOrder, values: &[Vec<u8>], is_array: bool) -> Result<Array> {
    let longest = values.iter().map(Vec::len).max().unwrap_or(0);
    let dtype = kind.dtype(order, longest)?;
    let element_len = dtype.stored_len();
    if kind == BpType::Text && values.len().saturating_mul(element_len) > MOST_TEXT_BYTES {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("texts of more than {MOST_TEXT_BYTES} bytes"),
        ));
    }
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend_from_slice(value);
        if kind == BpType::Text {
            bytes.resize(bytes.len() + element_len - value.len(), 0);
        }
    }
    if !is_array && bytes.len() != element_len {
        return Err(Error::corrupt(format!("{} bytes of a value of {element_len}", bytes.len())));
    }
    native::make_native(&dtype, &mut bytes);
    let shape = if is_array { vec![(bytes.len() / element_len) as u64] } else { vec![] };
    Ok(Array { dtype, shape, values: Values::Fixed(bytes) })
}

/// A text whose length stands before it in two bytes.
pub(super) fn text(cursor: &mut ByteCursor<'_>) -> Result<String> {
    let len = cursor.u16()?;
    Ok(String::from_utf8_lossy(cursor.take(len)?).into_owned())
}
