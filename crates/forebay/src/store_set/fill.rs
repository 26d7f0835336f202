//! A set of files into a store: each rank of a replica group reads its share, consecutive samples in large requests.

use std::{sync::Arc, time::Duration};

use forebay_batch::FieldArray;
use forebay_loader::{Batch, Loader, Next, Options, SampleSet, set_identity};
use forebay_plan::{Groups, LoaderState, Shuffle, StateCheck};
use forebay_source::{Error, ErrorKind, Result};
use forebay_store::{
    Balance, Filling, Partition, SampleLens, Store, VariableSpec, Wait, agree, same_on_every_rank,
};

use super::field::StoredField;

/// How a store is filled.
#[derive(Clone, Debug, Default)]
pub struct FillOptions {
    /// Threads, memory, requests and what is done about errors: those of a loader.
    pub loader: Options,
    /// By what the samples are divided among ranks.
    pub balance: Balance,
}

/// How far a rank is with its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillProgress {
    /// Samples that this rank has read.
    pub samples: u64,
    /// Samples of its share.
    pub of: u64,
    /// Bytes of those that it has read.
    pub bytes: u64,
}

/// Bytes of a batch that a rank reads at once: enough that what is read per request counts, little beside the shard.
const BATCH_BYTES: u64 = 8 << 20;

/// More samples than this are not asked for at once.
const MOST_SAMPLES: u64 = 1 << 16;

/// Fills `store` with every field of `set`, which each rank opened alike. Collective.
///
/// Every rank reads its own share. Shares begin where chunks do, as far as there are chunks enough: then no chunk is read by
/// two ranks of a group. `progress` is called after each batch, and ends the filling by an error.
pub fn fill_store(
    store: &Store,
    set: &Arc<SampleSet>,
    options: &FillOptions,
    progress: &mut dyn FnMut(FillProgress) -> Result<()>,
    wait: &Wait<'_>,
) -> Result<()> {
    let specs = agree(&**store.comm(), specs(set), wait)?;
    same_on_every_rank(&**store.comm(), "set of files", &set_identity(set).content, wait)?;
    let partition = partition(store, set, &specs, options.balance);
    let filling = store.begin(&specs, &partition, wait)?;
    let written = write_share(store, &filling, set, options, progress);
    // Some ranks read longer than others: as long as it is known that they live, they are waited for.
    let wait = if store.comm().hears_of_ends() { wait.without_deadline() } else { wait.renewed() };
    store.finish(filling, written, &wait)
}

/// What is stored of each field, and how long its samples are.
fn specs(set: &SampleSet) -> Result<Vec<(VariableSpec, SampleLens)>> {
    let described = set.fields().into_iter().enumerate().map(|(number, facts)| {
        let lens = match set.joined_lens(number) {
            Some(lens) => SampleLens::ragged(&lens),
            None if facts.sample_shape.contains(&None) => {
                let what =
                    "texts and sequences, whose lengths only reading them tells, cannot be kept in a store";
                let error = Error::unsupported(what).at(format!("field '{}'", facts.name));
                return Err(error.hint("leave the field out"));
            }
            None => SampleLens::even(set.len(), 1),
        };
        Ok((StoredField::of(&facts).spec(&facts.name)?, lens))
    });
    described.collect()
}

/// Who holds what: even by the bytes of the largest field, moved to the nearest border of groups of samples that are stored together.
fn partition(
    store: &Store,
    set: &SampleSet,
    specs: &[(VariableSpec, SampleLens)],
    balance: Balance,
) -> Partition {
    let members = store.member().1;
    let largest =
        specs.iter().max_by_key(|(spec, lens)| lens.total().saturating_mul(spec.row_len * spec.runs));
    let Some((_, lens)) = largest else { return Partition::of_counts(vec![0; members]) };
    let even = Partition::even(lens, members, balance);
    let identity = set_identity(set);
    // A share of few groups would become uneven by the move; reading the border's chunk twice costs less.
    if set.len() / members as u64 / identity.group_len.max(1) < GROUPS_OF_A_SHARE {
        return even;
    }
    let Ok(groups) = Groups::new(&identity.part_lens, identity.group_len) else { return even };
    let border = |member: usize| match member == members {
        true => set.len(),
        false => {
            let start = even.samples_of(member).start;
            groups.group(start).map_or(start, |group| groups.range(group).start)
        }
    };
    let mut first = 0;
    Partition::of_counts((0..members).map(|member| {
        let end = border(member + 1).max(first);
        let count = end - first;
        first = end;
        count
    }))
}

/// With this many groups in a share, moving its ends makes it at most an eighth longer.
const GROUPS_OF_A_SHARE: u64 = 8;

fn write_share(
    store: &Store,
    filling: &Filling,
    set: &Arc<SampleSet>,
    options: &FillOptions,
    progress: &mut dyn FnMut(FillProgress) -> Result<()>,
) -> Result<()> {
    let Some(variable) = filling.variables().first() else { return Ok(()) };
    let share = variable.samples_of(store.comm().rank());
    let mut done = FillProgress { samples: 0, of: share.end - share.start, bytes: 0 };
    if share.is_empty() {
        return progress(done);
    }
    let mean = (set.delivered_len() / set.len().max(1)).max(1);
    let most = (BATCH_BYTES / mean).clamp(1, MOST_SAMPLES);
    // Batches of one length that end, all but some samples, where the share does: what follows is another rank's to read.
    let batches = done.of.div_ceil(most);
    let batch_size = done.of.div_ceil(batches);
    let loader = Options {
        batch_size,
        shuffle: Shuffle::None,
        shard: Default::default(),
        tail: None,
        ..options.loader.clone()
    };
    let loader = Loader::new(Arc::clone(set), loader)?;
    let state = LoaderState { position: share.start, ..loader.state() };
    let _ = loader.load_state(&state, StateCheck::Strict)?;
    let mut run = loader.start_steps(batches)?;
    while done.samples < done.of {
        match loader.next(&mut run, Duration::from_millis(100))? {
            Next::Waiting => progress(done)?,
            Next::End => return Err(Error::new(ErrorKind::Bug, "the samples ended before the share did")),
            Next::Batch(batch) => {
                let count = (batch.samples.len() as u64).min(done.of - done.samples);
                done.bytes += write_batch(filling, &batch, share.start + done.samples, count)?;
                done.samples += count;
                progress(done)?;
            }
        }
    }
    Ok(())
}

/// Writes the first `count` samples of `batch`, the first of which is `first`.
fn write_batch(filling: &Filling, batch: &Batch, first: u64, count: u64) -> Result<u64> {
    if let Some(failed) = batch.failed.first() {
        // A store holds every sample: none can be left out or stand in for another.
        let what = format!("sample {} cannot be read: {}", failed.sample, failed.why);
        return Err(Error::corrupt(what).hint("mend the file, or leave it out of the set"));
    }
    let mut bytes = 0;
    for (number, field) in batch.fields.iter().enumerate() {
        let variable = &filling.variables()[number];
        bytes += match &field.offsets {
            Some(offsets) if variable.runs() > 1 => {
                write_runs(filling, number, field, &offsets[..=to_usize(count)], first)?
            }
            offsets => {
                let rows = offsets.as_ref().map_or(count, |offsets| offsets[to_usize(count)].cast_unsigned());
                let len = to_usize(rows * variable.row_len());
                filling.write(number, first, &field.bytes[..len])?;
                len as u64
            }
        };
    }
    Ok(bytes)
}

/// Samples that are joined along an axis behind the first: each is put together from its part of every run.
fn write_runs(
    filling: &Filling,
    number: usize,
    field: &FieldArray,
    offsets: &[i64],
    first: u64,
) -> Result<u64> {
    let variable = &filling.variables()[number];
    let (row_len, runs) = (to_usize(variable.row_len()), to_usize(variable.runs()));
    let run_len = field.bytes.len() / runs.max(1);
    let mut sample_bytes = Vec::new();
    let mut written = 0;
    for (sample, ends) in (first..).zip(offsets.windows(2)) {
        let range = to_usize(ends[0].cast_unsigned()) * row_len..to_usize(ends[1].cast_unsigned()) * row_len;
        sample_bytes.clear();
        for run in 0..runs {
            sample_bytes.extend_from_slice(&field.bytes[run * run_len..][range.clone()]);
        }
        filling.write(number, sample, &sample_bytes)?;
        written += sample_bytes.len() as u64;
    }
    Ok(written)
}

/// A count of what lies in memory, as an index.
fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
