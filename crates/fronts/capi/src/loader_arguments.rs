//! How a loader works, as C says it.

use forebay::{
    Error, Options, Result,
    loader::OnError,
    plan::{Shard, Shuffle, Tail},
};

use crate::border::VersionedArguments;

/// `forebay_loader_options`: 0 stands for what holds when nothing is said.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoaderArguments {
    pub(crate) size: usize,
    pub(crate) batch_size: u64,
    pub(crate) seed: u64,
    pub(crate) epochs: u64,
    pub(crate) memory: u64,
    pub(crate) shuffle: u32,
    pub(crate) tail: u32,
    pub(crate) rank: u32,
    pub(crate) world: u32,
    pub(crate) threads: u32,
    pub(crate) prefetch: u32,
    pub(crate) held: u32,
    pub(crate) on_error: u32,
    pub(crate) manual_commit: u32,
    pub(crate) reserved: u32,
}

// SAFETY: numbers that fill whole words, so that there is no padding, and any bytes are a value.
unsafe impl VersionedArguments for LoaderArguments {}

/// `FOREBAY_NO_PREFETCH`: each batch is made when it is asked for.
const NO_PREFETCH: u32 = u32::MAX;

impl LoaderArguments {
    /// The options of the loader.
    pub(crate) fn options(&self) -> Result<Options> {
        let default = Options::default();
        if self.reserved != 0 {
            return Err(Error::invalid("is not 0").at("reserved"));
        }
        let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let prefetch = match self.prefetch {
            0 => default.prefetch,
            NO_PREFETCH => 0,
            batches => count(batches),
        };
        Ok(Options {
            batch_size: self.batch_size.max(1),
            shuffle: one_of(self.shuffle, &[Shuffle::None, Shuffle::Full, Shuffle::BLOCK], "shuffle")?,
            seed: self.seed,
            shard: Shard { rank: self.rank, world: self.world.max(1) },
            tail: one_of(
                self.tail,
                &[None, Some(Tail::Short), Some(Tail::Drop), Some(Tail::Pad), Some(Tail::Wrap)],
                "tail",
            )?,
            read_threads: (self.threads > 0).then(|| count(self.threads)),
            memory: (self.memory > 0).then_some(self.memory),
            prefetch,
            held: if self.held == 0 { default.held } else { count(self.held) },
            on_error: one_of(
                self.on_error,
                &[OnError::Raise, OnError::Skip, OnError::Substitute],
                "on_error",
            )?,
            ..default
        })
    }

    /// Epochs that follow each other without a pause.
    pub(crate) fn epochs(&self) -> u64 {
        self.epochs.max(1)
    }

    /// True where batches count in the state as they are given out.
    pub(crate) fn commits(&self) -> bool {
        self.manual_commit == 0
    }
}

/// The choice of this number.
fn one_of<T: Clone>(number: u32, choices: &[T], name: &str) -> Result<T> {
    let chosen = usize::try_from(number).ok().and_then(|number| choices.get(number));
    chosen
        .cloned()
        .ok_or_else(|| Error::invalid(format!("{number} is none of its {} values", choices.len())).at(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeros() -> LoaderArguments {
        LoaderArguments {
            size: size_of::<LoaderArguments>(),
            batch_size: 0,
            seed: 0,
            epochs: 0,
            memory: 0,
            shuffle: 0,
            tail: 0,
            rank: 0,
            world: 0,
            threads: 0,
            prefetch: 0,
            held: 0,
            on_error: 0,
            manual_commit: 0,
            reserved: 0,
        }
    }

    #[test]
    fn zeros_are_the_defaults() {
        assert_eq!(zeros().options().unwrap(), Options::default());
        assert_eq!((zeros().epochs(), zeros().commits()), (1, true));
    }

    #[test]
    fn numbers_become_choices_and_others_are_refused() {
        let given =
            LoaderArguments { shuffle: 2, tail: 3, prefetch: NO_PREFETCH, rank: 1, world: 4, ..zeros() };
        let options = given.options().unwrap();
        assert_eq!((options.shuffle, options.tail), (Shuffle::BLOCK, Some(Tail::Pad)));
        assert_eq!((options.prefetch, options.shard), (0, Shard { rank: 1, world: 4 }));
        let error = LoaderArguments { shuffle: 3, ..zeros() }.options().unwrap_err();
        assert_eq!(error.to_string(), "shuffle: 3 is none of its 3 values");
        assert!(LoaderArguments { reserved: 1, ..zeros() }.options().is_err());
    }
}
