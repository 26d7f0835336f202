//! The requests of a read, listed without reading: for callers that fetch them ahead.

use forebay_process::Result;
use forebay_source::ByteRange;

use super::plan::{ReadStep, walk};
use crate::Opened;
use forebay_container::{
    Selection, SourceIndex, Variable,
    windows::{ReadWindow, WindowJoiner},
};

impl Opened {
    /// Calls `each` with the ranges that [`read_into`](Self::read_into) requests on one thread, nearly in that order;
    /// with none for what a library reads. The indexes of shards are read for it, and not listed.
    pub fn plan(
        &self,
        variable: &Variable,
        selection: &Selection,
        each: &mut dyn FnMut(SourceIndex, ByteRange),
    ) -> Result<()> {
        selection.check(&variable.grid.shape)?;
        self.read_indexes_of(variable, selection)?;
        let mut windows = WindowJoiner::default();
        walk(self, variable, selection, &mut |step| {
            match step {
                ReadStep::Stored(placed) => {
                    if let Some(ReadWindow { source, range, .. }) = windows.push(placed) {
                        each(source, range);
                    }
                }
                ReadStep::Segment(placed) => each(placed.source, placed.range),
                ReadStep::Encoded(chunk) => each(chunk.extent.source, chunk.extent.range),
                ReadStep::Patch(part, patch) => self.plan(part, &patch.from, each)?,
                ReadStep::Unwritten(_) | ReadStep::Zeros(_) | ReadStep::Barrier => {}
            }
            Ok(())
        })?;
        if let Some(ReadWindow { source, range, .. }) = windows.last() {
            each(source, range);
        }
        Ok(())
    }
}
