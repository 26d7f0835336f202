//! No input at all: batches of zeros, as DLIO's synthetic loader hands them out.

use std::sync::Arc;

use forebay::{
    Error, Result,
    batch::{Arena, MakerThreads},
};

use super::{StepBatch, StepReader, StepRequest};
use crate::{
    reading::sample_reader::SampleTimes,
    workers::worker::{BatchTimes, monotonic_ns},
};

/// Makes batches of samples that are read from nowhere.
#[derive(Debug)]
pub(crate) struct SyntheticReader {
    sample_len: u64,
    threads: MakerThreads,
    arena: Arc<Arena>,
}

impl SyntheticReader {
    /// Samples of `sample_len` bytes, made by `threads`, with `memory` for batches that wait.
    pub(crate) fn new(sample_len: u64, threads: u32, memory: u64) -> Self {
        let threads = if threads == 0 { MakerThreads::Caller } else { MakerThreads::Any };
        Self { sample_len, threads, arena: Arena::new(memory) }
    }
}

impl StepReader for SyntheticReader {
    fn threads(&self) -> MakerThreads {
        self.threads
    }

    fn read(&self, request: &StepRequest<'_>) -> Result<StepBatch> {
        let count = request.samples.len() as u64;
        let len = usize::try_from(count * self.sample_len);
        let bytes = self.arena.take(len.map_err(|_| Error::invalid("a batch is too long"))?)?;
        let sample = SampleTimes { bytes: self.sample_len, ..SampleTimes::default() };
        let times = BatchTimes {
            samples: vec![sample; request.samples.len()],
            preprocess_s: request.preprocess.of_all(),
            worker: 0,
            began_ns: monotonic_ns(),
        };
        Ok(StepBatch::of_records(bytes, [count, self.sample_len], times))
    }

    fn describe(&self) -> String {
        "no input".to_owned()
    }
}
