//! One `tf.train.Example`: which features it has and where their values lie.
//!
//! ```text
//! Example   { 1: Features }                      SequenceExample { 1: Features, 2: FeatureLists }
//! Features  { 1: { 1: name, 2: Feature } … }
//! Feature   { 1: BytesList | 2: FloatList | 3: Int64List }, each list { 1: value … }, numbers packed or not
//! ```

use forebay_filter::protobuf::{MOST_VARINT_BYTES, Wire, tag, varint};
use forebay_process::Result;
use forebay_source::ByteRange;

use super::{
    columns::{Columns, FeatureKind, List},
    window::FileWindow,
};

/// Longer names are not kept: nobody writes them, and every record repeats them.
const MOST_NAME_BYTES: u64 = 4096;
/// Lists of more values are counted, but their values not read.
const MOST_READ_FLOATS: u64 = 8;
/// The same for whole numbers, which have no place of their own where their count differs from record to record.
const MOST_READ_INTEGERS: u64 = 1 << 20;

/// What a payload turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParsedExample {
    /// An Example, whose features were noted.
    Example,
    /// A SequenceExample.
    Sequence,
    /// Something else, by what stands at this byte.
    Other {
        /// Where.
        at: u64,
    },
}

/// Reads Examples through `window` and notes their features in `columns`.
pub(super) struct Example<'a, 'w> {
    pub(super) window: &'a mut FileWindow<'w>,
    pub(super) columns: &'a mut Columns,
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
struct MessageField {
    number: u64,
    wire: Wire,
    /// Its value's bytes.
    value: ByteRange,
}

/// `None` stands for bytes that are no Example; what cannot be read is an error.
type ExampleStep<T> = Result<Option<T>>;

impl Example<'_, '_> {
    /// Notes the features of the Example that `payload` holds.
    pub(super) fn read(&mut self, payload: ByteRange) -> Result<ParsedExample> {
        let mut rest = payload;
        while !rest.is_empty() {
            let at = rest.start;
            let Some(field) = self.field(&mut rest)? else { return Ok(ParsedExample::Other { at }) };
            match (field.number, field.wire) {
                (1, Wire::Long) => {
                    if self.features(field.value)?.is_none() {
                        return Ok(ParsedExample::Other { at });
                    }
                }
                (2, Wire::Long) => return Ok(ParsedExample::Sequence),
                _ => return Ok(ParsedExample::Other { at }),
            }
        }
        Ok(ParsedExample::Example)
    }

    fn features(&mut self, mut rest: ByteRange) -> ExampleStep<()> {
        while !rest.is_empty() {
            let Some(entry) = self.field(&mut rest)? else { return Ok(None) };
            if (entry.number, entry.wire) != (1, Wire::Long) || self.entry(entry.value)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn entry(&mut self, mut rest: ByteRange) -> ExampleStep<()> {
        let (mut name, mut feature) = (None, None);
        while !rest.is_empty() {
            let Some(field) = self.field(&mut rest)? else { return Ok(None) };
            match (field.number, field.wire) {
                (1, Wire::Long) if field.value.len() <= MOST_NAME_BYTES => {
                    let bytes = self.window.get(field.value)?;
                    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(None) };
                    name = Some(self.columns.number(text));
                }
                (2, Wire::Long) => feature = Some(field.value),
                _ => return Ok(None),
            }
        }
        let name = name.unwrap_or_else(|| self.columns.number(""));
        let mut rest = feature.unwrap_or(ByteRange::at(0, 0));
        while !rest.is_empty() {
            let Some(field) = self.field(&mut rest)? else { return Ok(None) };
            let kind = match (field.number, field.wire) {
                (1, Wire::Long) => FeatureKind::Bytes,
                (2, Wire::Long) => FeatureKind::Float,
                (3, Wire::Long) => FeatureKind::Int64,
                _ => return Ok(None),
            };
            let Some(list) = self.list(kind, field.value)? else { return Ok(None) };
            self.columns.note(name, kind, list);
        }
        Ok(Some(()))
    }

    /// The list of `kind` that `message` holds.
    fn list(&mut self, kind: FeatureKind, message: ByteRange) -> ExampleStep<List> {
        let mut list = List { message, ..List::default() };
        let mut rest = message;
        while !rest.is_empty() {
            let Some(field) = self.field(&mut rest)? else { return Ok(None) };
            if field.number != 1 {
                return Ok(None);
            }
            let value = field.value;
            list.run_count += 1;
            list.run = value;
            match (kind, field.wire) {
                (FeatureKind::Bytes, Wire::Long) => list.count += 1,
                (FeatureKind::Float, Wire::Long) if value.len() % 4 == 0 => {
                    list.count += value.len() / 4;
                    if list.count <= MOST_READ_FLOATS {
                        list.values.extend_from_slice(self.window.get(value)?);
                    }
                }
                (FeatureKind::Float, Wire::Four) => {
                    list.count += 1;
                    if list.count <= MOST_READ_FLOATS {
                        list.values.extend_from_slice(self.window.get(value)?);
                    }
                }
                (FeatureKind::Int64, Wire::Long) => {
                    if self.packed(value, &mut list)?.is_none() {
                        return Ok(None);
                    }
                }
                (FeatureKind::Int64, Wire::Varint) => {
                    let Some((number, _)) = varint(self.window.get(value)?) else { return Ok(None) };
                    list.count += 1;
                    if list.count <= MOST_READ_INTEGERS {
                        list.values.extend_from_slice(&number.to_le_bytes());
                    }
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(list))
    }

    /// Adds the whole numbers that stand one after the other in `bytes`.
    fn packed(&mut self, bytes: ByteRange, list: &mut List) -> ExampleStep<()> {
        let mut left = Vec::with_capacity(MOST_VARINT_BYTES);
        let mut is_sound = true;
        self.window.each_part(bytes, |part| {
            for byte in part {
                left.push(*byte);
                if byte & 0x80 == 0 {
                    list.count += 1;
                    match varint(&left) {
                        Some((number, _)) if list.count <= MOST_READ_INTEGERS => {
                            list.values.extend_from_slice(&number.to_le_bytes());
                        }
                        Some(_) => {}
                        None => is_sound = false,
                    }
                    left.clear();
                } else if left.len() >= MOST_VARINT_BYTES {
                    is_sound = false;
                    left.clear();
                }
            }
        })?;
        Ok((is_sound && left.is_empty()).then_some(()))
    }

    /// The field that `rest` starts with, which it then no longer has.
    fn field(&mut self, rest: &mut ByteRange) -> ExampleStep<MessageField> {
        let Some((number, wire)) = self.varint(rest)?.and_then(tag) else { return Ok(None) };
        let len = match wire {
            Wire::Four => 4,
            Wire::Eight => 8,
            Wire::Long => match self.varint(rest)? {
                Some(len) => len,
                None => return Ok(None),
            },
            Wire::Varint => {
                let start = rest.start;
                if self.varint(rest)?.is_none() {
                    return Ok(None);
                }
                return Ok(Some(MessageField { number, wire, value: ByteRange { start, end: rest.start } }));
            }
        };
        if len > rest.len() {
            return Ok(None);
        }
        let value = ByteRange::at(rest.start, len);
        rest.start = value.end;
        Ok(Some(MessageField { number, wire, value }))
    }

    fn varint(&mut self, rest: &mut ByteRange) -> ExampleStep<u64> {
        let len = rest.len().min(MOST_VARINT_BYTES as u64);
        let Some((number, len)) = varint(self.window.get(ByteRange::at(rest.start, len))?) else {
            return Ok(None);
        };
        rest.start += len as u64;
        Ok(Some(number))
    }
}
