//! What is done to a row, by kind: moved as it is, cast, computed, or made a row of zeros and a one.

pub(crate) mod axis_runs;
pub(crate) mod layout;
pub(crate) mod row_floats;
mod single;
#[cfg(target_arch = "x86_64")]
mod wide;

use forebay_container::{Number, cast::Cast};
use forebay_process::{Error, ErrorKind, Result};

use crate::rows::{
    axis_runs::AxisRuns,
    row_floats::{FloatRows, PartPlace, RowScratch},
};

/// What is done to rows.
#[derive(Debug)]
pub(crate) enum RowWork {
    /// Elements of so many bytes are copied.
    Moved(usize),
    /// Numbers are cast, each by the way that rounds once.
    Cast(Cast),
    /// Values are computed.
    Floats(FloatRows),
    /// Whole numbers become rows of zeros and a one.
    OneHot { from: Number, classes: usize, to: Number },
}

/// Neighbouring elements of the source, and where in the row they go.
#[derive(Clone, Copy, Debug)]
struct RowPart {
    /// The first, in the source.
    from: usize,
    len: usize,
    /// The first, in the row.
    to: usize,
    /// True when blocks come last first.
    is_reversed: bool,
}

/// Longer blocks than this are turned round one by one.
const MOST_BLOCK: usize = 64;

impl RowWork {
    /// Makes the row `to` of the elements of `from` that `runs` name, in blocks of `block`; `outer` are the indexes of the row.
    pub(crate) fn run(
        &self,
        from: &[u8],
        to: &mut [u8],
        (runs, block): (&AxisRuns, usize),
        outer: &[usize],
        scratch: &mut RowScratch,
    ) -> Result<()> {
        let turns = matches!(self, Self::Floats(_)) && block <= MOST_BLOCK;
        let mut at = 0;
        for run in runs.runs() {
            let len = run.len * block;
            let part = RowPart { from: run.start * block, len, to: at, is_reversed: run.is_reversed };
            if run.is_reversed && !turns {
                for index in 0..run.len {
                    let from_block = (run.start + run.len - 1 - index) * block;
                    let to_block = at + index * block;
                    let part = RowPart { from: from_block, len: block, to: to_block, is_reversed: false };
                    self.part(from, to, part, outer, scratch)?;
                }
            } else {
                self.part(from, to, part, outer, scratch)?;
            }
            at += len;
        }
        Ok(())
    }

    fn part(
        &self,
        from: &[u8],
        to: &mut [u8],
        part: RowPart,
        outer: &[usize],
        scratch: &mut RowScratch,
    ) -> Result<()> {
        let read = |len: usize| &from[part.from * len..(part.from + part.len) * len];
        match self {
            Self::Moved(len) => to[part.to * len..(part.to + part.len) * len].copy_from_slice(read(*len)),
            Self::Cast(cast) => {
                let len = cast.to.size();
                cast.run(read(cast.from.size()), &mut to[part.to * len..(part.to + part.len) * len]);
            }
            Self::Floats(floats) => {
                let len = floats.to.size();
                let place = PartPlace { at: part.to, outer, is_reversed: part.is_reversed };
                let to = &mut to[part.to * len..(part.to + part.len) * len];
                floats.run(read(floats.from.size()), to, place, scratch);
            }
            Self::OneHot { from: number, classes, to: ones } => {
                let len = classes * ones.size();
                let rows = &mut to[part.to * len..(part.to + part.len) * len];
                return one_hot(*number, read(number.size()), (*classes, *ones), rows);
            }
        }
        Ok(())
    }
}

/// A row of zeros and a one for each whole number of `from`.
fn one_hot(number: Number, from: &[u8], (classes, ones): (usize, Number), to: &mut [u8]) -> Result<()> {
    let mut one = [0; 8];
    let one = &mut one[..ones.size()];
    Cast { from: Number::U8, to: ones, scale: None }.run(&[1], one);
    to.fill(0);
    let widen = Cast { from: number, to: Number::I64, scale: None };
    let rows = to.chunks_exact_mut(classes * ones.size());
    for (element, row) in from.chunks_exact(number.size()).zip(rows) {
        let mut wide = [0; 8];
        widen.run(element, &mut wide);
        let class = i64::from_ne_bytes(wide);
        let place = usize::try_from(class).ok().filter(|class| *class < classes);
        let Some(place) = place else {
            let what = format!("OneHot: {class} is none of {classes} classes");
            return Err(Error::new(ErrorKind::Corrupt, what));
        };
        row[place * ones.size()..(place + 1) * ones.size()].copy_from_slice(one);
    }
    Ok(())
}
