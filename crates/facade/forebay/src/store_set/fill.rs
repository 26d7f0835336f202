//! A set of files into a store: each rank of a replica group reads its share, consecutive samples in large requests.

use std::sync::Arc;

use forebay_batch::FieldArray;
use forebay_loader::{Batch, Options, SampleSet, set_identity};
use forebay_plan::Groups;
use forebay_process::Result;
use forebay_store::{
    Balance, Filling, Partition, SampleLens, Store, VariableSpec, Wait, agree, same_on_every_rank,
};

use super::{
    field::StoredField,
    share::{FillProgress, FillShare, check_read, patient},
    variable_lens::read_lens,
};

/// How a store is filled.
#[derive(Clone, Debug, Default)]
pub struct FillOptions {
    /// Threads, memory, requests and what is done about errors: those of a loader.
    pub loader: Options,
    /// By what the samples are divided among ranks.
    pub balance: Balance,
}

/// Fills `store` with every field of `set`, which each rank opened alike. Collective.
///
/// Every rank reads its own share. Shares begin where chunks do, as far as there are chunks enough: then no chunk is read by
/// two ranks of a group. Texts and sequences are read twice: the first time for their lengths. `progress` is called after each batch, and
/// ends the filling by an error.
pub fn fill_store(
    store: &Store,
    set: &Arc<SampleSet>,
    options: &FillOptions,
    progress: &mut dyn FnMut(FillProgress) -> Result<()>,
    wait: &Wait<'_>,
) -> Result<()> {
    let described = agree(&**store.comm(), described(set), wait)?;
    same_on_every_rank(&**store.comm(), "set of files", &set_identity(set).content, wait)?;
    let specs = with_lens(store, set, described, &options.loader, progress, wait)?;
    let partition = partition(store, set, &specs, options.balance);
    // Reading lengths may have taken long.
    let filling = store.begin(&specs, &partition, &wait.renewed())?;
    let written = write_share(store, &filling, set, options, progress);
    store.finish(filling, written, &patient(store, wait))
}

/// What is stored of each field, and how long its samples are, where that is known before they are read.
fn described(set: &SampleSet) -> Result<Vec<(VariableSpec, Option<SampleLens>)>> {
    let described = set.fields().into_iter().enumerate().map(|(number, facts)| {
        let lens = match set.joined_lens(number)? {
            Some(lens) => Some(SampleLens::ragged(&lens)),
            None if facts.sample_shape.contains(&None) => None,
            None => Some(SampleLens::even(set.len(), 1)),
        };
        Ok((StoredField::of(&facts).spec(&facts.name)?, lens))
    });
    described.collect()
}

/// The same with the lengths of texts and sequences, which are read for it. Collective.
fn with_lens(
    store: &Store,
    set: &Arc<SampleSet>,
    described: Vec<(VariableSpec, Option<SampleLens>)>,
    loader: &Options,
    progress: &mut dyn FnMut(FillProgress) -> Result<()>,
    wait: &Wait<'_>,
) -> Result<Vec<(VariableSpec, SampleLens)>> {
    let unknown = described.iter().filter(|(_, lens)| lens.is_none());
    let names: Vec<String> = unknown.map(|(spec, _)| spec.name.clone()).collect();
    let read = match names.is_empty() {
        true => Vec::new(),
        false => read_lens(store, set, &names, loader, progress, wait)?,
    };
    let mut read = read.into_iter();
    let known = described.into_iter().map(|(spec, lens)| {
        let lens = lens.or_else(|| read.next()).unwrap_or_else(|| SampleLens::even(0, 0));
        (spec, lens)
    });
    Ok(known.collect())
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
    let samples = variable.samples_of(store.comm().rank());
    let share = FillShare { set, samples, loader: &options.loader };
    let mut done = FillProgress { samples: 0, of: share.len(), bytes: 0 };
    share.read(&mut |read| {
        if let Some((batch, count)) = read {
            done.bytes += write_batch(filling, batch, share.samples.start + done.samples, count)?;
            done.samples += count;
        }
        progress(done)
    })
}

/// Writes the first `count` samples of `batch`, the first of which is `first`.
fn write_batch(filling: &Filling, batch: &Batch, first: u64, count: u64) -> Result<u64> {
    check_read(batch)?;
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
