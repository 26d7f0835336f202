//! How samples are read.

use serde::{Deserialize, Serialize};

use crate::{
    distribution::TimeDistribution,
    words::words,
    workload::{ElementType, Framework},
};

words! {
    /// The loader whose pattern is replayed.
    LoaderKind as "data loader" {
        /// PyTorch's `DataLoader`.
        PyTorch = "pytorch",
        /// TensorFlow's `tf.data`.
        TensorFlow = "tensorflow",
        /// DALI with readers in Python.
        Dali = "dali",
        /// DALI with readers of its own.
        NativeDali = "native_dali",
        /// No input at all.
        Synthetic = "synthetic",
    }
}

impl LoaderKind {
    /// The loader of `framework`.
    pub fn of(framework: Framework) -> Self {
        match framework {
            Framework::PyTorch | Framework::SkLearn => Self::PyTorch,
            Framework::TensorFlow | Framework::Keras => Self::TensorFlow,
            Framework::Dali => Self::Dali,
        }
    }
}

words! {
    /// Whether an order is shuffled.
    ShuffleMode as "shuffle" {
        /// It is not.
        Off = "off" | "false" | "no",
        /// By the random seed.
        Seed = "seed" | "true" | "yes",
        /// Differently each time.
        Random = "random",
    }
}

words! {
    /// Which samples of an epoch a rank reads.
    RankShare as "rank share" {
        /// DLIO: an equal, contiguous range of the samples, shuffled within it.
        Ranges = "ranges",
        /// h5bench: equally many whole batches, one after the other, of samples that are shuffled over all ranks.
        Batches = "batches",
    }
}

words! {
    /// When samples are read.
    ReadType as "read type" {
        /// When they are asked for.
        OnDemand = "on_demand",
        /// All before the first step.
        Memory = "memory",
    }
}

/// How samples are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReaderSpec {
    /// The loader whose pattern is replayed.
    pub loader: LoaderKind,
    /// Samples of a training batch.
    pub batch_size: u64,
    /// Samples of an evaluation batch.
    pub batch_size_eval: u64,
    /// Workers of each rank; 0 to read in the rank itself.
    pub read_threads: u32,
    /// Threads for computation, which is simulated.
    pub computation_threads: u32,
    /// Batches that are read ahead.
    pub prefetch_size: u32,
    /// Which samples of an epoch a rank reads.
    pub rank_share: RankShare,
    /// Order of files.
    pub file_shuffle: ShuffleMode,
    /// Order of samples.
    pub sample_shuffle: ShuffleMode,
    /// Samples of the shuffle buffer (tfrecord).
    pub shuffle_size: u64,
    /// When samples are read.
    pub read_type: ReadType,
    /// Bytes of a request; whole samples where there is none.
    pub transfer_size: Option<u64>,
    /// Simulated preprocessing of each sample.
    pub preprocess: TimeDistribution,
    /// Whether files are read around the page cache (`O_DIRECT`).
    pub odirect: bool,
    /// The shape of what the trainer is handed; that of the sample where there is none.
    pub transformed_record_dims: Vec<u64>,
    /// The type of what the trainer is handed.
    pub transformed_record_element_type: ElementType,
}

impl Default for ReaderSpec {
    fn default() -> Self {
        Self {
            loader: LoaderKind::TensorFlow,
            batch_size: 1,
            batch_size_eval: 1,
            read_threads: 1,
            computation_threads: 1,
            prefetch_size: 2,
            rank_share: RankShare::Ranges,
            file_shuffle: ShuffleMode::Off,
            sample_shuffle: ShuffleMode::Off,
            shuffle_size: 1024,
            read_type: ReadType::OnDemand,
            transfer_size: None,
            preprocess: TimeDistribution::ZERO,
            odirect: false,
            transformed_record_dims: Vec::new(),
            transformed_record_element_type: ElementType::UInt8,
        }
    }
}
