//! Lengths of texts and sequences, which only reading them tells: each rank of a replica group reads a part of them, and tells the
//! others, before the store has memory for them.

use std::sync::Arc;

use forebay_loader::{Options, SampleSet};
use forebay_process::{Error, ErrorKind, Result};
use forebay_store::{Balance, Partition, SampleLens, Store, Wait, agree};

use super::share::{FillProgress, FillShare, check_read, patient};

/// How long the samples of the fields `names` of `set` are. Collective.
pub(super) fn read_lens(
    store: &Store,
    set: &Arc<SampleSet>,
    names: &[String],
    loader: &Options,
    progress: &mut dyn FnMut(FillProgress) -> Result<()>,
    wait: &Wait<'_>,
) -> Result<Vec<SampleLens>> {
    let comm = &**store.comm();
    let (member, members) = store.member();
    let even = Partition::even(&SampleLens::even(set.len(), 1), members, Balance::Count);
    // Fields that cannot stand by themselves are read with all others.
    let alone = set.of_fields(names).ok().filter(|alone| alone.len() == set.len());
    let set = alone.map_or_else(|| Arc::clone(set), Arc::new);
    let share = FillShare { set: &set, samples: even.samples_of(member), loader };
    let wait = patient(store, wait);
    let mine = agree(comm, lens_of(&share, names, progress).and_then(|lens| written(&lens)), &wait)?;
    let all = comm.all_gather(mine, &wait)?;
    let mut whole = vec![Vec::new(); names.len()];
    for rank in store.groups().members(store.groups().group_of(comm.rank())) {
        let part: Vec<Vec<u64>> = postcard::from_bytes(&all[rank]).map_err(|error| {
            Error::corrupt("the lengths that another rank tells cannot be read").because(error)
        })?;
        for (whole, part) in whole.iter_mut().zip(part) {
            whole.extend(part);
        }
    }
    Ok(whole.iter().map(|lens| SampleLens::ragged(lens)).collect())
}

fn written(lens: &[Vec<u64>]) -> Result<Vec<u8>> {
    postcard::to_stdvec(lens)
        .map_err(|error| Error::new(ErrorKind::Bug, "lengths cannot be written").because(error))
}

/// By field of `names`, how long each sample of `share` is.
fn lens_of(
    share: &FillShare<'_>,
    names: &[String],
    progress: &mut dyn FnMut(FillProgress) -> Result<()>,
) -> Result<Vec<Vec<u64>>> {
    let mut lens = vec![Vec::new(); names.len()];
    share.read(&mut |read| {
        let Some((batch, count)) = read else {
            return progress(FillProgress { samples: 0, of: share.len(), bytes: 0 });
        };
        check_read(batch)?;
        for (name, lens) in names.iter().zip(&mut lens) {
            let field = batch.fields.iter().find(|field| field.name == *name);
            let offsets = field.and_then(|field| field.offsets.as_deref());
            let offsets = offsets
                .ok_or_else(|| Error::new(ErrorKind::Bug, format!("field '{name}' has no lengths")))?;
            let each = offsets.windows(2).map(|ends| ends[1].abs_diff(ends[0]));
            lens.extend(each.take(usize::try_from(count).unwrap_or(usize::MAX)));
        }
        Ok(())
    })?;
    Ok(lens)
}
