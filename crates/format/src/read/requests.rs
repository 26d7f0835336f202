//! The requests of a read, listed without reading: for callers that fetch them ahead.

use forebay_source::{ByteRange, Result};

use super::{
    gather::{Window, Windows},
    plan::{Step, walk},
};
use crate::Opened;
use forebay_container::{Selection, SourceIndex, Variable};

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
        let mut windows = Windows::default();
        walk(self, variable, selection, &mut |step| {
            match step {
                Step::Stored(placed) => {
                    if let Some(Window { source, range, .. }) = windows.push(placed) {
                        each(source, range);
                    }
                }
                Step::Segment(placed) => each(placed.source, placed.range),
                Step::Encoded(chunk) => each(chunk.extent.source, chunk.extent.range),
                Step::Patch(part, patch) => self.plan(part, &patch.from, each)?,
                Step::Unwritten(_) | Step::Zeros(_) | Step::Barrier => {}
            }
            Ok(())
        })?;
        if let Some(Window { source, range, .. }) = windows.last() {
            each(source, range);
        }
        Ok(())
    }
}
