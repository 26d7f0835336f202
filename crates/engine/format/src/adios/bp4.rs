//! BP4: a folder of `md.idx`, a table of steps, `md.0`, the index of each step, and `data.N`, the values.

use std::collections::BTreeMap;

use bytes::Bytes;
use forebay_filter::ByteCursor;
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, SourceExt, SourceId};

use super::{
    arrange::{self, BpContents},
    data::{DataFileLayout, DataFiles},
    head::Head,
    index::{Attributes, BpVersion, IndexReading, text},
    series::AllSeries,
};
use crate::Found;
use forebay_container::Container;

/// Bytes of a row of the table of steps.
const ROW_LEN: u64 = 64;

/// Describes the folder that was found, whose `md.idx` starts with `head`.
pub(super) fn describe(found: &Found<'_>, head: &Head) -> Result<Container> {
    let (mut series, mut attributes) = (AllSeries::default(), BTreeMap::new());
    let (table, table_id) = whole(found, "md.idx")?;
    let (index, index_id) = whole(found, "md.0")?;
    // Each step has an index of its own: together they are no longer than the file.
    let mut index_left = index.len() as u64;
    for (step, row) in rows(&table, head).map_err(|error| error.at(&table_id.locator))? {
        let read = row.read(&index, head, (step, &mut index_left), (&mut series, &mut attributes));
        read.map_err(|error| error.at(format!("step {step}")).at(&index_id.locator))?;
    }
    let files = DataFiles::new(found, DataFileLayout::Inside, vec![table_id, index_id]);
    Ok(arrange::container(BpContents { format: "bp4", order: head.order, series, attributes }, files))
}

/// All bytes of the file `name` in the folder that was found.
pub(super) fn whole(found: &Found<'_>, name: &str) -> Result<(Bytes, SourceId)> {
    let Some(source) = found.inside(name)? else {
        let error = Error::new(ErrorKind::Corrupt, format!("{name} is not there"));
        return Err(error.hint("copy the whole folder"));
    };
    let bytes = source.fetch_one(ByteRange::at(0, source.id().len))?;
    Ok((bytes, source.id().clone()))
}

/// Where the index of one step lies.
struct Row {
    groups: u64,
    variables: u64,
    attributes: u64,
    end: u64,
}

/// The rows of the table, by step from 0; the last row of a step counts.
fn rows(table: &[u8], head: &Head) -> Result<BTreeMap<u64, Row>> {
    let mut rows = BTreeMap::new();
    let mut cursor = ByteCursor::new(table, head.order);
    cursor.take(Head::LEN)?;
    while cursor.left() > 0 {
        let mut row = cursor.inner(ROW_LEN)?;
        let (step, rank) = (row.u64()?, row.u64()?);
        let row = Row { groups: row.u64()?, variables: row.u64()?, attributes: row.u64()?, end: row.u64()? };
        if rank == 0 {
            rows.insert(step.saturating_sub(1), row);
        }
    }
    Ok(rows)
}

impl Row {
    fn read(
        &self,
        index: &[u8],
        head: &Head,
        (step, left): (u64, &mut u64),
        (series, attributes): (&mut AllSeries, &mut Attributes),
    ) -> Result<()> {
        let len = self.end.checked_sub(self.groups).filter(|len| *len <= *left);
        let len =
            len.ok_or_else(|| Error::corrupt(format!("its index is said to end at {:#x}", self.end)))?;
        *left -= len;
        if self.variables < self.groups || self.attributes < self.variables {
            return Err(Error::corrupt("the parts of its index are out of order"));
        }
        let part = |start: u64, end: u64| {
            let len = end
                .checked_sub(start)
                .ok_or_else(|| Error::corrupt("the parts of its index are out of order"))?;
            ByteCursor::part(index, start, len, head.order)
        };
        let is_column_major = is_column_major(part(self.groups, self.variables)?)?;
        let reading =
            IndexReading { version: BpVersion::Bp4, order: head.order, is_column_major, step: Some(step) };
        reading.variables(part(self.variables, self.attributes)?, series)?;
        reading.attributes(part(self.attributes, self.end)?, attributes)
    }
}

/// True where the first group of writers says that its axes are in Fortran's order.
pub(super) fn is_column_major(mut groups: ByteCursor<'_>) -> Result<bool> {
    groups.u64()?;
    groups.u64()?;
    if groups.left() == 0 {
        return Ok(false);
    }
    groups.uint(2)?;
    text(&mut groups)?;
    Ok(groups.u8()? == b'y')
}
