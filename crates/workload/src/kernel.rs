//! The `write` and `read` kernels of h5bench, after VPIC-IO and BD-CATS: particles written and read in timesteps.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{distribution::TimeDistribution, words::words};

/// One kernel of h5bench, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// What it does.
    pub mode: KernelMode,
    /// The file, below the suite's directory.
    pub file: PathBuf,
    /// How particles lie in memory: one array for each of the eight variables, or an array of structures.
    pub memory_pattern: SpaceLayout,
    /// How particles lie in the file: one data set for each variable, or one of a compound type.
    pub file_pattern: SpaceLayout,
    /// Which part of each data set is read.
    pub selection: KernelPattern,
    /// How many timesteps; each has a group of its own.
    pub timesteps: u32,
    /// Simulated computation after each timestep.
    pub compute: TimeDistribution,
    /// How many timesteps stay open before the oldest is closed.
    pub delayed_close_timesteps: u32,
    /// Particles of each rank along each axis: one to three numbers.
    pub dims: Vec<u64>,
    /// Elements that are read per rank and timestep, for partial reads.
    pub to_read: Option<u64>,
    /// Chunk shape, where data sets are chunked.
    pub chunk_dims: Vec<u64>,
    /// Whether chunks are compressed (gzip).
    pub compress: bool,
    /// Elements from the start of one block to that of the next, per axis.
    pub strides: Vec<u64>,
    /// Elements of a block, per axis.
    pub blocks: Vec<u64>,
    /// How many blocks.
    pub block_count: u64,
    /// Whether metadata operations are collective.
    pub collective_meta: bool,
    /// Whether data transfers are collective.
    pub collective_data: bool,
    /// Whether files go through HDF5's subfiling driver.
    pub subfiling: bool,
    /// Whether each rank has a file of its own.
    pub file_per_rank: bool,
    /// Objects of at least this many bytes are aligned (`H5Pset_alignment`): threshold and alignment.
    pub alignment: Option<(u64, u64)>,
    /// Whether the asynchronous API is used (`MODE` is `ASYNC`).
    pub asynchronous: bool,
    /// The CSV file of the results.
    pub csv: Option<PathBuf>,
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelMode {
    /// Writes particles, timestep by timestep.
    Write,
    /// Reads what the write kernel wrote.
    Read,
}

words! {
    /// How the variables of particles lie side by side.
    SpaceLayout as "pattern" {
        /// Each variable by itself.
        Contig = "contig",
        /// All variables of a particle together.
        Interleaved = "interleaved",
        /// Blocks with gaps between them.
        Strided = "strided",
    }
}

words! {
    /// Which part of a data set a read kernel reads.
    KernelPattern as "read option" {
        /// All.
        Full = "full",
        /// The first elements.
        Partial = "partial",
        /// Blocks with gaps between them.
        Strided = "strided",
        /// Two blocks at the ends of the left diagonal.
        Ldc = "ldc",
        /// Two blocks at the ends of the right diagonal.
        Rdc = "rdc",
        /// Blocks with a stride along both axes (cross stencil).
        Cs = "cs",
        /// A frame along the border.
        Prl = "prl",
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            mode: KernelMode::Write,
            file: "test.h5".into(),
            memory_pattern: SpaceLayout::Contig,
            file_pattern: SpaceLayout::Contig,
            selection: KernelPattern::Full,
            timesteps: 1,
            compute: TimeDistribution::ZERO,
            delayed_close_timesteps: 0,
            dims: vec![1],
            to_read: None,
            chunk_dims: Vec::new(),
            compress: false,
            strides: vec![0],
            blocks: vec![0],
            block_count: 1,
            collective_meta: false,
            collective_data: false,
            subfiling: false,
            file_per_rank: false,
            alignment: None,
            asynchronous: false,
            csv: None,
        }
    }
}
