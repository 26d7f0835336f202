//! Values that lie end to end in many stretches: read straight into the output, many stretches at a time.

use forebay_source::{Fill, Result, SourceExt};

use super::requests::Each;
use crate::Opened;
use forebay_container::runs::{Part, Runs};
use forebay_container::{Joined, Selection, SourceIndex, Variable, native};

/// So many stretches are asked for at once: as many as one `preadv` takes.
const MOST_FILLS: usize = 1024;

/// Reads `selection` of a variable whose values lie in `joined`.
pub(super) fn read(
    opened: &Opened,
    variable: &Variable,
    joined: &Joined,
    selection: &Selection,
    out: &mut [u8],
) -> Result<()> {
    let element_len = variable.dtype.stored_len();
    let mut rest = &mut *out;
    let mut pending = Pending { opened, source: SourceIndex(0), fills: Vec::new() };
    // In C order both sides rise, so every stretch fills the next bytes of the output.
    for run in runs(variable, selection) {
        let from = run.from * element_len as u64;
        for stretch in joined.stretches(from..from + run.count * element_len as u64) {
            let len = usize::try_from(stretch.range.len()).unwrap_or(usize::MAX).min(rest.len());
            let (into, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            pending.add(stretch.source, Fill { range: stretch.range, into })?;
        }
    }
    pending.fetch()?;
    drop(pending);
    native::make_native(&variable.dtype, out);
    Ok(())
}

/// Names what [`read`] asks for.
pub(super) fn asked(variable: &Variable, joined: &Joined, selection: &Selection, each: &mut Each<'_>) {
    let element_len = variable.dtype.stored_len() as u64;
    for run in runs(variable, selection) {
        let from = run.from * element_len;
        let stretches = joined.stretches(from..from + run.count * element_len);
        stretches.for_each(|stretch| each(stretch.source, stretch.range));
    }
}

fn runs(variable: &Variable, selection: &Selection) -> Runs {
    let shape = selection.shape();
    let start = vec![0; shape.len()];
    Part { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start }.runs()
}

/// Stretches of one source that were not yet asked for.
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
