//! Values that lie end to end in many segments: read straight into the output, many segments at a time.

use forebay_source::{Fill, Result, SourceExt};

use super::requests::Each;
use crate::Opened;
use forebay_container::runs::{Part, Runs};
use forebay_container::{Segment, Segments, Selection, SourceIndex, Variable, native};

/// So many segments are asked for at once: as many as one `preadv` takes.
const MOST_FILLS: usize = 1024;

/// Reads `selection` of a variable whose values lie in `segments`.
pub(super) fn read(
    opened: &Opened,
    variable: &Variable,
    segments: &Segments,
    selection: &Selection,
    out: &mut [u8],
) -> Result<()> {
    let element_len = variable.dtype.stored_len();
    let mut rest = &mut *out;
    let mut pending = Pending { opened, source: SourceIndex(0), fills: Vec::new() };
    // In C order both sides rise, so every segment fills the next bytes of the output.
    for run in runs(variable, selection) {
        let from = run.from * element_len as u64;
        for Segment { bytes, stored } in segments.of(from..from + run.count * element_len as u64) {
            let len = usize::try_from(bytes.end - bytes.start).unwrap_or(usize::MAX).min(rest.len());
            let (into, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            match stored {
                Some((source, range)) => pending.add(source, Fill { range, into })?,
                None => into.fill(0),
            }
        }
    }
    pending.fetch()?;
    drop(pending);
    native::make_native(&variable.dtype, out);
    Ok(())
}

/// Names what [`read`] asks for.
pub(super) fn asked(variable: &Variable, segments: &Segments, selection: &Selection, each: &mut Each<'_>) {
    let element_len = variable.dtype.stored_len() as u64;
    for run in runs(variable, selection) {
        let from = run.from * element_len;
        let stored = segments.of(from..from + run.count * element_len).filter_map(|segment| segment.stored);
        stored.for_each(|(source, range)| each(source, range));
    }
}

fn runs(variable: &Variable, selection: &Selection) -> Runs {
    let shape = selection.shape();
    let start = vec![0; shape.len()];
    Part { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start }.runs()
}

/// Segments of one source that were not yet asked for.
struct Pending<'a, 'out> {
    opened: &'a Opened,
    source: SourceIndex,
    fills: Vec<Fill<'out>>,
}

impl<'out> Pending<'_, 'out> {
    fn add(&mut self, source: SourceIndex, fill: Fill<'out>) -> Result<()> {
        if source != self.source || self.fills.len() == MOST_FILLS {
            self.fetch()?;
        }
        self.source = source;
        self.fills.push(fill);
        Ok(())
    }

    fn fetch(&mut self) -> Result<()> {
        if self.fills.is_empty() {
            return Ok(());
        }
        let fetched = self.opened.source(self.source)?.fetch_into(&mut self.fills);
        self.fills.clear();
        fetched
    }
}
