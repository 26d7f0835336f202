//! Which samples need which block.

use std::ops::Range;

use forebay_loader::{IndexAccess, Schedule};

use super::block_numbers::BlockNumbers;

/// The samples that need each block and each source, as runs of neighbours: those of a block are few.
#[derive(Debug)]
pub(super) struct BlockIndex {
    blocks: RunRows,
    sources: RunRows,
}

/// Samples that are neighbours: the first, and one past the last.
pub(super) type SampleRun = [u32; 2];

/// Samples of which an index is made: walking them takes ten seconds of one thread.
const MOST_SAMPLES: u64 = 32 << 20;
/// Blocks of which an index is made: 8 bytes each while it is, 4 bytes afterwards.
const MOST_BLOCKS: u64 = 16 << 20;
/// Runs that it may have, of 8 bytes each and 12 more while it is made.
const MOST_RUNS: usize = 16 << 20;
/// Samples after which it is asked whether the caller still waits.
const SAMPLES_PER_QUESTION: u64 = 4096;

impl BlockIndex {
    /// The index of all samples; nothing where it would be too large, or is no longer wanted.
    pub(super) fn new(
        schedule: &Schedule,
        places: &BlockNumbers,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Self> {
        let sample_count = schedule.sample_count();
        if sample_count > MOST_SAMPLES || places.count() > MOST_BLOCKS {
            return None;
        }
        let mut blocks = Growing::new(places.count())?;
        let mut sources = Growing::new(places.blocks.len() as u64)?;
        let mut asked = Vec::new();
        for sample in 0..sample_count {
            if sample % SAMPLES_PER_QUESTION == 0 && !is_wanted() {
                return None;
            }
            schedule.bytes(sample, IndexAccess::WholeShards, &mut asked);
            let sample = u32::try_from(sample).ok()?;
            for ask in &asked {
                sources.add(ask.source, sample)?;
                let first = places.firsts[ask.source];
                for block in places.blocks[ask.source].covering(ask.range) {
                    blocks.add(usize::try_from(first + block).ok()?, sample)?;
                }
            }
        }
        Some(Self { blocks: blocks.finish(), sources: sources.finish() })
    }

    /// The samples that need `block`, counted over all sources.
    pub(super) fn of_block(&self, block: u64) -> &[SampleRun] {
        self.blocks.row(usize::try_from(block).unwrap_or(usize::MAX))
    }

    /// The samples that need any byte of `source`.
    pub(super) fn of_source(&self, source: usize) -> &[SampleRun] {
        self.sources.row(source)
    }
}

/// Runs, row by row: those of a row rise.
#[derive(Debug)]
struct RunRows {
    /// The first run of each row, and one past the last of all.
    starts: Vec<u32>,
    runs: Vec<SampleRun>,
}

impl RunRows {
    fn row(&self, row: usize) -> &[SampleRun] {
        let bounds = self.starts.get(row).zip(self.starts.get(row.saturating_add(1)));
        let range = bounds.map_or(Range::default(), |(start, end)| *start as usize..*end as usize);
        self.runs.get(range).unwrap_or_default()
    }
}

/// Rows to which samples are added in rising order.
struct Growing {
    /// The last run of each row, which may still grow.
    last: Vec<SampleRun>,
    /// Those before it, with their rows.
    before: Vec<(u32, SampleRun)>,
}

impl Growing {
    fn new(row_count: u64) -> Option<Self> {
        Some(Self { last: vec![[0, 0]; usize::try_from(row_count).ok()?], before: Vec::new() })
    }

    /// Adds `sample` to `row`; nothing when there are too many runs.
    fn add(&mut self, row: usize, sample: u32) -> Option<()> {
        let last = self.last.get_mut(row)?;
        let [start, end] = *last;
        if start < end && sample < end {
            return Some(());
        }
        if start < end && sample == end {
            last[1] = sample + 1;
            return Some(());
        }
        if start < end {
            if self.before.len() >= MOST_RUNS {
                return None;
            }
            self.before.push((u32::try_from(row).ok()?, *last));
        }
        *last = [sample, sample + 1];
        Some(())
    }

    fn finish(self) -> RunRows {
        let row_count = self.last.len();
        let mut starts = vec![0u32; row_count + 1];
        let is_there = |run: &SampleRun| run[0] < run[1];
        for (row, _) in &self.before {
            starts[*row as usize + 1] += 1;
        }
        for (row, run) in self.last.iter().enumerate() {
            starts[row + 1] += u32::from(is_there(run));
        }
        for row in 0..row_count {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut runs = vec![[0, 0]; starts[row_count] as usize];
        let last = self.last.iter().enumerate().filter(|(_, run)| is_there(run));
        let before = self.before.iter().map(|(row, run)| (*row as usize, *run));
        for (row, run) in before.chain(last.map(|(row, run)| (row, *run))) {
            runs[next[row] as usize] = run;
            next[row] += 1;
        }
        RunRows { starts, runs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_run_and_rows_keep_their_order() {
        let mut growing = Growing::new(3).unwrap();
        for (row, sample) in [(0, 0), (2, 0), (0, 1), (0, 1), (0, 5), (2, 6), (0, 7), (0, 8)] {
            growing.add(row, sample).unwrap();
        }
        let rows = growing.finish();
        assert_eq!(rows.row(0), [[0, 2], [5, 6], [7, 9]]);
        assert!(rows.row(1).is_empty());
        assert_eq!(rows.row(2), [[0, 1], [6, 7]]);
        assert!(rows.row(3).is_empty() && rows.row(usize::MAX).is_empty());
    }
}
