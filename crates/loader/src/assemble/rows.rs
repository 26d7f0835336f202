//! Samples that are runs of stored bytes: their sources put them where they belong.

use std::ops::Range;

use forebay_format::{PlainRows, RowPlace, SourceIndex, Variable, fill_all, native};
use forebay_source::{ByteRange, Fill, Result, Source};

use super::fetch::Target;
use crate::{column::ColumnPart, layout::Stretch, set::place, stats::Counters};

/// What is asked of all files for one field of a batch. It is gathered first and asked for afterwards: the processor
/// waits for many lines of memory at once.
#[derive(Debug, Default)]
pub(super) struct Rows<'a, 'm> {
    asked: Vec<Asked<'a>>,
    fills: Vec<Fill<'m>>,
}

#[derive(Debug)]
struct Asked<'a> {
    source: &'a dyn Source,
    part: &'a ColumnPart,
    is_native: bool,
    /// Which of the fills.
    fills: Range<usize>,
}

impl<'a, 'm> Rows<'a, 'm> {
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { asked: Vec::new(), fills: Vec::with_capacity(count) }
    }

    /// Adds samples of one file.
    pub(super) fn add(
        &mut self,
        part: &'a ColumnPart,
        stretch: &'a Stretch,
        targets: &mut [Target<'m>],
    ) -> Result<()> {
        match stretch {
            Stretch::One { start, row_len, source, is_native } => {
                let first = self.fills.len();
                for target in targets.iter_mut() {
                    let Some(rows) = part.index.rows(target.located.number, &[]) else { continue };
                    let range =
                        ByteRange::at(start + rows.start * row_len, (rows.end - rows.start) * row_len);
                    self.fills.push(Fill { range, into: std::mem::take(&mut target.into) });
                }
                let source = source.get(&part.opened)?;
                self.asked.push(Asked {
                    source,
                    part,
                    is_native: *is_native,
                    fills: first..self.fills.len(),
                });
                Ok(())
            }
            Stretch::Many => {
                let variable = part.variable();
                self.add_chunks(part, variable, targets).map_err(|error| place(&part.opened, variable, error))
            }
        }
    }

    /// Adds samples whose rows lie in several chunks.
    fn add_chunks(
        &mut self,
        part: &'a ColumnPart,
        variable: &'a Variable,
        targets: &mut [Target<'m>],
    ) -> Result<()> {
        let Some(rows) = PlainRows::of(variable) else { return Ok(()) };
        let row_len = usize::try_from(rows.row_len()).unwrap_or(usize::MAX);
        let is_native = native::is_native(&variable.dtype);
        let mut asked: Option<(SourceIndex, Asked<'a>)> = None;
        for target in targets.iter_mut() {
            let Some(wanted) = part.index.rows(target.located.number, &variable.grid.shape) else { continue };
            let (mut row, mut rest) = (wanted.start, std::mem::take(&mut target.into));
            while row < wanted.end && !rest.is_empty() {
                let (at, together) = rows.locate(row, wanted.end - row)?;
                let len =
                    usize::try_from(together).unwrap_or(usize::MAX).saturating_mul(row_len).min(rest.len());
                let (into, after) = rest.split_at_mut(len);
                rest = after;
                row += together;
                let RowPlace::Stored { source, range } = at else {
                    fill_all(variable, into);
                    continue;
                };
                let next = self.fills.len();
                self.fills.push(Fill { range, into });
                match &mut asked {
                    Some((same, asked)) if *same == source => asked.fills.end = next + 1,
                    _ => {
                        self.asked.extend(asked.take().map(|(_, asked)| asked));
                        let fills = next..next + 1;
                        asked = Some((
                            source,
                            Asked { source: part.opened.source(source)?, part, is_native, fills },
                        ));
                    }
                }
            }
        }
        self.asked.extend(asked.map(|(_, asked)| asked));
        Ok(())
    }

    /// Asks for everything that was added.
    pub(super) fn run(mut self, counters: &Counters) -> Result<()> {
        // All sources at once: what they look at to find the bytes is in no cache when there are many of them.
        for asked in &self.asked {
            if let Some(fill) = self.fills.get(asked.fills.start) {
                asked.source.expect(fill.range);
            }
        }
        let mut rest = &mut self.fills[..];
        let mut bytes = 0;
        for this in &self.asked {
            let (own, after) = rest.split_at_mut(this.fills.len());
            rest = after;
            let fetched = this.source.fetch_into(own);
            // The source names itself; which variable it was, it cannot know.
            fetched.map_err(|error| error.at(format!("variable '{}'", this.part.variable().name)))?;
            for fill in own.iter_mut() {
                bytes += fill.range.len();
                if !this.is_native {
                    native::make_native(&this.part.variable().dtype, fill.into);
                }
            }
        }
        Counters::add(&counters.read_bytes, bytes);
        Counters::add(&counters.requests, self.fills.len() as u64);
        Ok(())
    }
}
