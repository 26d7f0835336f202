//! How a loader works, as the command line says it.

use std::path::PathBuf;

use forebay::{
    Options,
    loader::{OnError, SpillOptions},
    plan::{AUTO_LANES, DEFAULT_WINDOW, Shard, Shuffle, Tail},
    process::ledger,
    size,
};

use crate::Context;

/// How a loader works.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Loader")]
pub(crate) struct LoaderArgs {
    /// Batch size: samples in a batch.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,

    /// Shuffling: full (any sample may come anywhere), block (samples of a few chunks at a time are mixed, so that each chunk
    /// is decoded once) or none.
    #[arg(long, value_name = "ORDER", default_value = "full")]
    shuffle: ShuffleArg,

    /// Random seed of the shuffle.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Lanes of a block shuffle: places in the files that are read in turn; a multiple of the number of ranks [default: 48, or
    /// 24 or 12 where the files have fewer chunk rows].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    lanes: Option<u32>,

    /// Shuffle window of a block shuffle: neighbouring chunk rows whose samples are mixed.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_WINDOW)]
    window: u32,

    /// Reader threads, which read, decode and make batches [default: --threads, or one per core of this rank, at most 16].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    read_threads: Option<u16>,

    /// Memory budget of the loader, such as 2GiB: batches, decoded chunks, buffers [default: half of what this process may take].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,

    /// Prefetched batches: made ahead of the consumer, besides one of each thread; 0 makes each on demand.
    #[arg(long, value_name = "N", default_value_t = 4)]
    prefetch: u16,

    /// Request size aimed at where requests are slow [default: what the file system or object store prefers].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    transfer_size: Option<u64>,

    /// Rank of this process, from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    rank: u32,

    /// World size: how many ranks share each epoch.
    #[arg(long, value_name = "N", default_value_t = 1)]
    world: u32,

    /// Last incomplete batch: what becomes of samples that do not fill one on every rank [default: short, for one rank].
    #[arg(long, value_name = "WHAT")]
    tail: Option<TailArg>,

    /// Unreadable samples: what is done about them.
    #[arg(long, value_name = "WHAT", default_value = "raise")]
    on_error: OnErrorArg,

    /// Spill folder on a local disk, for decoded chunks that do not fit into memory [default: the folder for temporary
    /// files, where it is on a local disk].
    #[arg(long, value_name = "DIR")]
    spill: Option<PathBuf>,

    /// Quota of the spill folder, 0 for no spill [default: half of what is free there].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    spill_quota: Option<u64>,
}

/// The order of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ShuffleArg {
    /// Any sample anywhere.
    Full,
    /// Within windows, so that each chunk is decoded once.
    Block,
    /// As they lie.
    None,
}

impl ShuffleArg {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Block, Self::None];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Block => "block",
            Self::None => "none",
        }
    }
}

/// What becomes of samples that do not fill a batch on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TailArg {
    /// One shorter batch; for one rank alone.
    Short,
    /// Leave them out (drop_last).
    Drop,
    /// Fill the batch with zeros, index -1.
    Pad,
    /// Fill the batch with samples from the start of the epoch.
    Wrap,
}

/// What is done about a sample that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnErrorArg {
    /// End the run with the error.
    Raise,
    /// Leave them out of their batch; a batch of nothing else is left out.
    Skip,
    /// Repeat another sample of the batch in their place.
    Substitute,
}

impl LoaderArgs {
    pub(crate) fn shuffle(&self) -> ShuffleArg {
        self.shuffle
    }

    pub(crate) fn options(&self, context: &Context) -> Options {
        self.options_with(self.shuffle, context)
    }

    /// The options, but with a block shuffle of so many lanes.
    pub(crate) fn options_with_lanes(&self, lanes: u32, context: &Context) -> Options {
        let shuffle = Shuffle::Block { lanes, window: self.window };
        Options { shuffle, ..self.options(context) }
    }

    pub(crate) fn lanes(&self) -> Option<u32> {
        self.lanes
    }

    pub(crate) fn world(&self) -> u32 {
        self.world
    }

    /// The options, but with `shuffle`.
    pub(crate) fn options_with(&self, shuffle: ShuffleArg, context: &Context) -> Options {
        let shuffle = match shuffle {
            ShuffleArg::Full => Shuffle::Full,
            ShuffleArg::Block => {
                Shuffle::Block { lanes: self.lanes.unwrap_or(AUTO_LANES), window: self.window }
            }
            ShuffleArg::None => Shuffle::None,
        };
        let tail = self.tail.map(|tail| match tail {
            TailArg::Short => Tail::Short,
            TailArg::Drop => Tail::Drop,
            TailArg::Pad => Tail::Pad,
            TailArg::Wrap => Tail::Wrap,
        });
        let on_error = match self.on_error {
            OnErrorArg::Raise => OnError::Raise,
            OnErrorArg::Skip => OnError::Skip,
            OnErrorArg::Substitute => OnError::Substitute,
        };
        Options {
            batch_size: self.batch,
            shuffle,
            seed: self.seed,
            shard: Shard { rank: self.rank, world: self.world },
            tail,
            transfer_size: self.transfer_size,
            read_threads: Some(self.threads(context)),
            memory: self.memory,
            prefetch: self.prefetch.into(),
            on_error,
            spill: SpillOptions { folder: self.spill.clone(), quota: self.spill_quota, shared: None },
            ..Options::default()
        }
    }

    fn threads(&self, context: &Context) -> usize {
        let given = self.read_threads.or(context.threads);
        given.map_or_else(|| ledger().threads(), usize::from)
    }

    /// The settings of the loader, in a line.
    pub(crate) fn describe(&self, context: &Context) -> String {
        let mut line = format!("batches of {}, shuffle {}", self.batch, self.shuffle.word());
        if self.shuffle != ShuffleArg::None {
            line += &format!(", seed {}", self.seed);
        }
        line += &format!(", {}", crate::output::show::count(self.threads(context), "thread", "threads"));
        if self.world > 1 {
            line += &format!(", rank {} of {}", self.rank, self.world);
        }
        line
    }
}
