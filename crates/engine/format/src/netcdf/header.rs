//! The header of a classic file: its dimensions, attributes and variables, as they stand there.

use bytes::Bytes;
use forebay_process::Result;
use forebay_source::{ByteRange, Source, SourceExt};

use super::{
    cursor::{HeaderCursor, HeaderResult, HeaderStop, corrupt},
    kind::{self, NetcdfType},
};
use forebay_container::{Array, Attribute, Values, native};

const DIMENSIONS: u32 = 0x0a;
const VARIABLES: u32 = 0x0b;
const ATTRIBUTES: u32 = 0x0c;

/// What a classic file says of itself.
#[derive(Debug)]
pub(super) struct ClassicHeader {
    /// Bytes of the header; values lie behind it.
    pub(super) len: u64,
    /// How many records there are; `None` where the file's length tells it.
    pub(super) record_count: Option<u64>,
    pub(super) dimensions: Vec<Dimension>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) variables: Vec<HeaderVariable>,
}

/// A named axis.
#[derive(Debug)]
pub(super) struct Dimension {
    pub(super) name: String,
    /// `None` for the axis that grows with the records.
    pub(super) len: Option<u64>,
}

/// A variable.
#[derive(Debug)]
pub(super) struct HeaderVariable {
    pub(super) name: String,
    /// Positions of its axes among the dimensions; none where one of them is not there.
    pub(super) axes: Vec<usize>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) kind: NetcdfType,
    /// Why its axes or its type cannot be made out.
    pub(super) defect: Option<String>,
    /// Where its first value lies.
    pub(super) begin: u64,
}

/// Reads the header of `file`, whose first bytes are `head`.
pub(super) fn read(file: &dyn Source, head: &Bytes) -> Result<ClassicHeader> {
    let file_len = file.id().len;
    let mut bytes = head.clone();
    loop {
        match parse(&bytes) {
            Ok(header) => return Ok(header),
            Err(HeaderStop::Bad(error)) => return Err(error),
            Err(HeaderStop::Short(needed)) if needed > file_len => {
                let what = format!("a header of {needed} bytes or more in a file of {file_len}");
                return Err(corrupt(what));
            }
            Err(HeaderStop::Short(needed)) => {
                // Growing fourfold keeps what is parsed again, and read again from far away, a third of the whole.
                let wanted = needed.max(4 * bytes.len() as u64).min(file_len);
                bytes = file.fetch_one(ByteRange::at(0, wanted))?;
            }
        }
    }
}

fn parse(bytes: &[u8]) -> HeaderResult<ClassicHeader> {
    let mut cursor = HeaderCursor::new(bytes)?;
    let record_count = cursor.record_count()?;
    let mut dimensions = Vec::new();
    for _ in 0..cursor.list(DIMENSIONS, "dimensions")? {
        let (name, len) = (cursor.name()?, cursor.count()?);
        dimensions.push(Dimension { name, len: (len > 0).then_some(len) });
    }
    let attributes = attributes(&mut cursor)?;
    let mut variables = Vec::new();
    for _ in 0..cursor.list(VARIABLES, "variables")? {
        variables.push(variable(&mut cursor, &dimensions)?);
    }
    Ok(ClassicHeader { len: cursor.at(), record_count, dimensions, attributes, variables })
}

fn variable(cursor: &mut HeaderCursor<'_>, dimensions: &[Dimension]) -> HeaderResult<HeaderVariable> {
    let name = cursor.name()?;
    // What is wrong with one variable must not hide the others: where the next begins is known.
    let mut defect = None;
    let mut axes = Vec::new();
    for _ in 0..cursor.count()? {
        let axis = cursor.count()?;
        match usize::try_from(axis).ok().filter(|axis| *axis < dimensions.len()) {
            Some(axis) => axes.push(axis),
            None => defect = Some(format!("dimension {axis} of {}", dimensions.len())),
        }
    }
    if defect.is_some() {
        axes.clear();
    }
    let attributes = attributes(cursor)?;
    let code = cursor.word()?;
    let kind = NetcdfType::of(code).unwrap_or_else(|| {
        defect = Some(unknown_type(code));
        NetcdfType::Number(forebay_container::Number::U8)
    });
    // The length that is stored here does not hold what is longer than 4 GiB: it is worked out from the shape.
    cursor.count()?;
    let begin = cursor.offset()?;
    Ok(HeaderVariable { name, axes, attributes, kind, defect, begin })
}

fn attributes(cursor: &mut HeaderCursor<'_>) -> HeaderResult<Vec<Attribute>> {
    let mut attributes = Vec::new();
    for _ in 0..cursor.list(ATTRIBUTES, "attributes")? {
        let name = cursor.name()?;
        let kind = kind(cursor)?;
        let count = cursor.count()?;
        let Some(len) = count.checked_mul(kind.len()) else {
            return Err(cursor.bad(format!("attribute '{name}' of {count} values")));
        };
        let values = cursor.padded(len)?.to_vec();
        attributes.push(Attribute { name, value: Ok(value(kind, count, values)) });
    }
    Ok(attributes)
}

fn kind(cursor: &mut HeaderCursor<'_>) -> HeaderResult<NetcdfType> {
    let code = cursor.word()?;
    NetcdfType::of(code).ok_or_else(|| cursor.bad(unknown_type(code)))
}

fn unknown_type(code: u32) -> String {
    format!("values of type {code}, of which the format knows 1 to 11")
}

/// An attribute's values: letters are one text, all else a list.
fn value(kind: NetcdfType, count: u64, mut bytes: Vec<u8>) -> Array {
    let (dtype, shape) = match kind {
        NetcdfType::Char if !bytes.is_empty() => (kind::text(bytes.len()), Vec::new()),
        _ => (kind.dtype(), vec![count]),
    };
    native::make_native(&dtype, &mut bytes);
    Array { dtype, shape, values: Values::Fixed(bytes) }
}
