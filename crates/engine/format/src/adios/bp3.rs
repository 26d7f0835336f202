//! BP1 to BP3: one file of values and, at its end, their index and a footer of 56 bytes that tells where it begins.
//!
//! ```text
//! values … │ groups │ variables │ attributes │ 28 bytes of text │ places of the three u64 │ order u8, 0, kind u8, version u8
//! ```

use std::collections::BTreeMap;

use forebay_filter::ByteCursor;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, Source, SourceExt};

use super::{
    arrange::{self, BpContents},
    bp4::is_column_major,
    data::{DataFileLayout, DataFiles},
    index::{BpVersion, IndexReading},
    series::AllSeries,
};
use crate::Found;
use forebay_container::{ByteOrder, Container};

const FOOTER_LEN: u64 = 56;
/// The footer begins with these words.
const WORDS: &[u8] = b"ADIOS-BP v";
/// What the footer says of a file whose values are in others beside it.
const HAS_SUBFILES: u8 = 3;

/// The footer, where the file has one of ADIOS's.
pub(super) fn footer(file: &dyn Source) -> Result<Option<Vec<u8>>> {
    let Some(start) = file.id().len.checked_sub(FOOTER_LEN) else { return Ok(None) };
    let bytes = file.fetch_one(ByteRange::at(start, FOOTER_LEN))?;
    Ok(bytes.starts_with(WORDS).then(|| bytes.to_vec()))
}

/// Describes the file that was found.
pub(super) fn describe(found: &Found<'_>) -> Result<Container> {
    let file = found.need_file()?;
    let footer = footer(&**file)?.ok_or_else(|| Error::corrupt("no footer of ADIOS"))?;
    let layout = check(&footer)?;
    let order = ByteOrder::Little;
    let mut places = ByteCursor::new(&footer, order);
    places.take(28)?;
    let (groups, variables, attributes) = (places.u64()?, places.u64()?, places.u64()?);
    let end = file.id().len - FOOTER_LEN;
    if !(groups <= variables && variables <= attributes && attributes <= end) {
        return Err(Error::corrupt(format!("its footer says that the index begins at {groups:#x}")));
    }
    let range = ByteRange::checked(groups, end - groups, file.id().len)?;
    let index = file.fetch_one(range)?;
    let part = |from: u64, to: u64| ByteCursor::part(&index, from - groups, to - from, order);
    let is_column_major = is_column_major(part(groups, variables)?)?;
    let reading = IndexReading { version: BpVersion::Bp3, order, is_column_major, step: None };
    let (mut series, mut noted) = (AllSeries::default(), BTreeMap::new());
    reading.variables(part(variables, attributes)?, &mut series)?;
    reading.attributes(part(attributes, end)?, &mut noted)?;
    let said = BpContents { format: "bp3", order, series, attributes: noted };
    Ok(arrange::container(said, DataFiles::new(found, layout, vec![file.id().clone()])))
}

/// Where the values of a file with this footer are.
fn check(footer: &[u8]) -> Result<DataFileLayout> {
    let flags: [u8; 4] = footer.last_chunk().copied().unwrap_or_default();
    match flags {
        // ADIOS 1 sets the highest bit, ADIOS2 the lowest.
        [0x80 | 1, ..] => {
            let error = Error::new(ErrorKind::Unsupported, "a BP3 file from a big-endian machine");
            Err(error.hint("rewrite it as BP5 with adios2_reorganize on such a machine"))
        }
        [0, _, HAS_SUBFILES, 3] => Ok(DataFileLayout::Beside),
        [0, _, _, 1..=3] => Ok(DataFileLayout::Itself),
        [order, _, _, version] => {
            Err(Error::corrupt(format!("its footer says version {version}, byte order {order}")))
        }
    }
}
