//! A part of a large set that stands for all of it, where walking all samples would take too long.

use std::sync::Arc;

use forebay_plan::{Groups, Plan, Sampler, Shuffle, Subset, Tail};
use forebay_process::Result;

use crate::{
    options::Options,
    set::{SampleSet, shuffle_group::set_identity},
};

/// The plan of epochs over a share of `set`, where `whole` is that over all of it.
pub(crate) fn plan_of(set: &SampleSet, options: &Options, whole: &Plan, share: WalkedShare) -> Result<Plan> {
    let options = Options { shuffle: whole.spec().shuffle, sampler: Sampler::default(), ..options.clone() };
    let options = scaled(&options, share);
    let Some(subset) = &whole.sampler().subset else {
        return options.plan(Groups::new(&first(set, share), whole.group_len())?);
    };
    let walked = share.part.min(subset.len());
    let subset = subset.then(&Subset::slice(subset.len(), 0, 1, walked)?)?;
    // What is drawn from it is used as a full shuffle uses it.
    let sampler = Sampler { subset: Some(Arc::new(subset)), draws: None };
    Options { sampler, ..options }.plan_of(&set_identity(set))
}

/// The first samples of a set, which stand for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkedShare {
    pub(crate) part: u64,
    pub(crate) all: u64,
}

impl WalkedShare {
    pub(crate) fn is_all(self) -> bool {
        self.part == self.all
    }

    /// This share of `amount`.
    pub(crate) fn of(self, amount: u64) -> u64 {
        times(amount, self.part, self.all)
    }

    /// That of which this share is `amount`.
    pub(crate) fn all_of(self, amount: u64) -> u64 {
        times(amount, self.all, self.part)
    }
}

/// `amount * by / over`.
pub(crate) fn times(amount: u64, by: u64, over: u64) -> u64 {
    if by == over {
        return amount;
    }
    let product = u128::from(amount) * u128::from(by) / u128::from(over.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// The options with which a share of a set is walked: a batch of a full shuffle shall meet as large a part of the units
/// as it does in the whole set.
fn scaled(options: &Options, share: WalkedShare) -> Options {
    let batch_size = match options.shuffle {
        Shuffle::Full => share.of(options.batch_size).max(1),
        Shuffle::Block { .. } | Shuffle::None => options.batch_size,
    };
    // A part of a set that comes out even among ranks need not do so itself.
    let tail = options.tail.or((options.shard.world > 1).then_some(Tail::Drop));
    Options { batch_size, tail, ..options.clone() }
}

/// The samples of each part that are walked.
fn first(set: &SampleSet, share: WalkedShare) -> Vec<u64> {
    let mut left = share.part;
    let cut = set.part_lens().into_iter().map(|len| {
        let own = left.min(len);
        left -= own;
        own
    });
    cut.filter(|len| *len > 0).collect()
}
