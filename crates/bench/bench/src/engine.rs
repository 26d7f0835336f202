//! What reads samples: libhdf5, or forebay's own reader, behind one trait.

pub(crate) mod each_file;
pub(crate) mod forebay_files;
pub(crate) mod forebay_plan;
pub(crate) mod hdf5;
mod read_log;
pub(crate) mod synthetic;
#[cfg(test)]
mod tests;

use std::fmt;

use forebay::{
    Result,
    batch::{Buffer, FieldArray, MadeFields, MakerThreads},
    container::{ByteOrder, Dtype, Number, cf::ValueKind},
    plan::Epoch,
};

use crate::workers::worker::{BatchTimes, Preprocessing};

/// An engine's name, as users say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EngineName {
    /// libhdf5, found at run time: per sample open, select, read, close.
    Hdf5,
    /// forebay's own reader, loader and tiers.
    Forebay,
}

impl EngineName {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hdf5 => "hdf5",
            Self::Forebay => "forebay",
        }
    }
}

/// The samples of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepRequest<'a> {
    /// The worker that is to read them, from 0.
    pub(crate) worker: u32,
    /// The samples: `file * samples per file + record`.
    pub(crate) samples: &'a [u64],
    /// Simulated preprocessing of each.
    pub(crate) preprocess: Preprocessing<'a>,
    /// The epoch of the loader that asks.
    pub(crate) epoch: &'a Epoch,
    /// The samples of every rank in this step, where ranks read together; empty otherwise.
    pub(crate) of_ranks: &'a [&'a [u64]],
}

/// A batch, and how long it took.
#[derive(Debug)]
pub(crate) struct StepBatch {
    pub(crate) made: MadeFields,
    pub(crate) times: BatchTimes,
}

impl StepBatch {
    /// A batch of records: bytes of the shape `[samples, bytes of each]`.
    fn of_records(bytes: Buffer, shape: [u64; 2], times: BatchTimes) -> Self {
        let field = FieldArray {
            name: "records".to_owned(),
            dtype: Dtype::Number { number: Number::U8, order: ByteOrder::NATIVE },
            kind: ValueKind::Number,
            shape: shape.to_vec(),
            bytes,
            offsets: None,
        };
        Self { made: MadeFields { fields: vec![field], unverified: None }, times }
    }
}

/// Reads the samples of steps.
///
/// # Contract
///
/// - `read` gives the samples of the request side by side, in its order, and the time that each took.
/// - Where `threads` is [`Any`](MakerThreads::Any), many threads may call it at once.
pub(crate) trait StepReader: fmt::Debug + Send + Sync {
    /// On which threads it may be called.
    fn threads(&self) -> MakerThreads;

    /// Reads one batch.
    fn read(&self, request: &StepRequest<'_>) -> Result<StepBatch>;

    /// True when a rank cannot read without all others: every rank then takes part in every step.
    fn is_together(&self) -> bool {
        false
    }

    /// Takes part in a step of which this rank has no samples; `of_ranks` has those of all.
    fn take_part(&self, _of_ranks: &[&[u64]]) -> Result<()> {
        Ok(())
    }

    /// What it reads with, for reports.
    fn describe(&self) -> String;
}
