//! BP5: a folder of `md.idx`, a table of steps, `mmd.0`, formats of records, `md.0`, the records of each step and writer,
//! and `data.N`, the values.

use std::collections::BTreeMap;

use forebay_filter::ByteCursor;
use forebay_process::{Error, ErrorKind, Result};

use super::{
    arrange::{self, BpContents},
    bp4::whole,
    bp5_attributes,
    bp5_blocks::BpPuts,
    bp5_steps::{self, Writers},
    data::{DataFileLayout, DataFiles},
    ffs::Formats,
    head::Head,
    index::Attributes,
    record::FfsRecord,
    series::AllSeries,
};
use crate::Found;
use forebay_container::Container;

/// The only minor version there is: 2.8 and later write it.
const MINOR: u8 = 2;

/// Describes the folder that was found, whose `md.idx` starts with `head`.
pub(super) fn describe(found: &Found<'_>, head: &Head) -> Result<Container> {
    if head.minor != MINOR {
        let what = format!("BP5 of minor version {}, where {MINOR} is read", head.minor);
        return Err(Error::new(ErrorKind::Unsupported, what).hint("rewrite it with ADIOS2 2.8 or later"));
    }
    let (table, table_id) = whole(found, "md.idx")?;
    let (records, records_id) = whole(found, "md.0")?;
    let (formats, formats_id) = whole(found, "mmd.0")?;
    let formats = Formats::parse(&formats, head.order).map_err(|error| error.at(&formats_id.locator))?;
    let mut reading = Bp5Reading { head, formats, series: AllSeries::default(), attributes: BTreeMap::new() };
    // Each step has records of its own: together they are no longer than the file.
    let mut left = records.len() as u64;
    for (number, step) in
        (0..).zip(bp5_steps::parse(&table, head.order).map_err(|error| error.at(&table_id.locator))?)
    {
        let place = |error: Error| error.at(format!("step {number}")).at(&records_id.locator);
        left = left
            .checked_sub(step.len)
            .ok_or_else(|| Error::corrupt("its records take more than the file"))
            .map_err(place)?;
        let cursor = ByteCursor::part(&records, step.at, step.len, head.order).map_err(place)?;
        reading.step(cursor, number, &step.writers).map_err(place)?;
    }
    let Bp5Reading { series, attributes, .. } = reading;
    let files = DataFiles::new(found, DataFileLayout::Inside, vec![table_id, records_id, formats_id]);
    Ok(arrange::container(BpContents { format: "bp5", order: head.order, series, attributes }, files))
}

struct Bp5Reading<'a> {
    head: &'a Head,
    formats: Formats,
    series: AllSeries,
    attributes: Attributes,
}

impl Bp5Reading<'_> {
    /// The records of all writers of one step: lengths first, then variables, then attributes.
    fn step(&mut self, mut records: ByteCursor<'_>, number: u64, writers: &Writers) -> Result<()> {
        records.u64()?;
        let count = writers.count();
        let mut lens = records
            .inner(count.checked_mul(16).ok_or_else(|| Error::corrupt(format!("{count} writers")))?)?;
        for writer in 0..count {
            let block = records.take(lens.u64()?)?;
            self.variables(block, number, writer, writers)
                .map_err(|error| error.at(format!("record of writer {writer}")))?;
        }
        for writer in 0..count {
            let block = records.take(lens.u64()?)?;
            self.attributes(block).map_err(|error| error.at(format!("attributes of writer {writer}")))?;
        }
        Ok(())
    }

    fn variables(&mut self, block: &[u8], step: u64, writer: u64, writers: &Writers) -> Result<()> {
        if block.is_empty() {
            return Ok(());
        }
        let record = FfsRecord::new(self.formats.of(block)?, block)?;
        let is_column_major = self.head.is_column_major;
        BpPuts { step, writer, writers, is_column_major }.note(record.outermost()?, &mut self.series)
    }

    fn attributes(&mut self, block: &[u8]) -> Result<()> {
        if block.is_empty() {
            return Ok(());
        }
        let record = FfsRecord::new(self.formats.of(block)?, block)?;
        bp5_attributes::note(record.outermost()?, self.head.order, &mut self.attributes)
    }
}
