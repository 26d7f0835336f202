//! What every rank knows of a variable: how long its samples are, who holds them, and where.

use std::{ops::Range, sync::Arc};

use forebay_process::{Error, Result};

use crate::{
    comm::Window,
    store::{partition::Partition, sample_lens::SampleLens},
};

/// A variable of a store.
///
/// A sample consists of `runs` runs of as many rows: one run, unless its ragged axis is not the first. Edges of a graph, an
/// array of 2 x E, are two runs of E rows; batches join them run by run.
#[derive(Debug)]
pub struct StoredVariable {
    pub(crate) name: String,
    /// What its values are, in the words of whoever made it.
    pub(crate) description: Vec<u8>,
    pub(crate) row_len: u64,
    pub(crate) runs: u64,
    pub(crate) lens: SampleLens,
    pub(crate) partition: Partition,
    /// The ranks of the replica group.
    pub(crate) members: Range<usize>,
    /// Where the variable begins in the shard of each member.
    pub(crate) bases: Vec<u64>,
    pub(crate) window: Arc<dyn Window>,
}

/// Where the bytes of a sample lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SamplePlace {
    pub(crate) rank: usize,
    pub(crate) offset: u64,
    /// Bytes of one run.
    pub(crate) run_len: u64,
}

impl StoredVariable {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its values are, as its maker described them.
    pub fn description(&self) -> &[u8] {
        &self.description
    }

    /// How many samples it has.
    pub fn sample_count(&self) -> u64 {
        self.partition.count()
    }

    /// Bytes of one row of one run.
    pub fn row_len(&self) -> u64 {
        self.row_len
    }

    /// Runs of a sample.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// The rows of every sample.
    pub fn lens(&self) -> &SampleLens {
        &self.lens
    }

    /// Bytes of `sample`.
    pub fn sample_len(&self, sample: u64) -> Result<u64> {
        self.check(sample)?;
        Ok(self.lens.start_and_len(sample).1 * self.row_len * self.runs)
    }

    /// Bytes that this rank keeps to know where samples lie.
    pub fn registry_memory(&self) -> u64 {
        self.lens.memory() + (self.bases.len() * 2 * size_of::<u64>()) as u64
    }

    /// The rank that holds `sample` in this rank's group.
    pub fn rank_of(&self, sample: u64) -> Result<usize> {
        self.check(sample)?;
        Ok(self.members.start + self.partition.member_of(sample))
    }

    /// The samples that `rank` holds; none for a rank of another group.
    pub fn samples_of(&self, rank: usize) -> Range<u64> {
        match self.members.contains(&rank) {
            true => self.partition.samples_of(rank - self.members.start),
            false => 0..0,
        }
    }

    /// An error that names the variable where there is no such sample.
    pub(crate) fn check(&self, sample: u64) -> Result<()> {
        if sample < self.sample_count() {
            return Ok(());
        }
        let what = format!("sample {sample} of {}", self.sample_count());
        Err(Error::invalid(what).at(format!("variable '{}'", self.name)))
    }

    /// Where `sample` lies; it is below the count.
    pub(crate) fn place(&self, sample: u64) -> SamplePlace {
        let member = self.partition.member_of(sample);
        let (start, len) = self.lens.start_and_len(sample);
        let before = start - self.lens.start(self.partition.samples_of(member).start);
        let offset = self.bases[member] + before * self.row_len * self.runs;
        SamplePlace { rank: self.members.start + member, offset, run_len: len * self.row_len }
    }
}
