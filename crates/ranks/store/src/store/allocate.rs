//! Memory for new variables: what every rank holds of them, decided alike on all ranks.

use std::{collections::HashSet, fmt, ops::Range, sync::Arc};

use forebay_process::{Error, ErrorKind, Result, ledger};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    comm::Comm,
    store::{
        filling::{Filling, LensMessage, VariableSpec, agree},
        partition::Partition,
        sample_lens::SampleLens,
        shard_memory::{ShardMemory, ShardPlace},
        variable::StoredVariable,
    },
    wait::Wait,
};

/// A variable that is to be made: what it is, how long its samples are, and who holds them.
#[derive(Clone, Debug)]
pub(crate) struct NewVariable {
    pub(crate) spec: VariableSpec,
    pub(crate) lens: SampleLens,
    pub(crate) partition: Partition,
}

/// Where the shard of this rank is made, and how long it may be.
#[derive(Debug)]
pub(crate) struct ShardRoom<'a> {
    pub(crate) members: Range<usize>,
    pub(crate) place: &'a ShardPlace,
    pub(crate) left: Option<u64>,
}

impl NewVariable {
    /// Bytes that `member` holds of it; nothing where that is more than a number holds.
    fn bytes_of(&self, member: usize) -> Option<u64> {
        let samples = self.partition.samples_of(member);
        let rows = self.lens.start(samples.end).checked_sub(self.lens.start(samples.start))?;
        rows.checked_mul(self.spec.row_len)?.checked_mul(self.spec.runs)
    }
}

/// Takes the memory of `variables` on every rank, or on none. Collective.
pub(crate) fn allocate(
    comm: &Arc<dyn Comm>,
    variables: Vec<NewVariable>,
    room: &ShardRoom<'_>,
    wait: &Wait<'_>,
) -> Result<Filling> {
    let own = comm.rank() - room.members.start;
    let made = bases(&variables, room.members.len()).and_then(|(bases, lens)| {
        let len = lens[own];
        if room.left.is_some_and(|left| len > left) {
            return Err(no_room(comm.rank(), len, room.left.unwrap_or(0)));
        }
        let taken = if matches!(room.place, ShardPlace::Memory) { len } else { 0 };
        let memory = Arc::new(ledger().take("store", taken));
        Ok((bases, ShardMemory::new(len, room.place)?, memory))
    });
    let (bases, shard, memory) = agree(&**comm, made, wait)?;
    let shard = Arc::new(shard);
    let window = comm.window(Arc::clone(&shard), wait)?;
    let made = variables.into_iter().zip(bases).map(|(variable, bases)| StoredVariable {
        name: variable.spec.name,
        description: variable.spec.description,
        row_len: variable.spec.row_len,
        runs: variable.spec.runs,
        lens: variable.lens,
        partition: variable.partition,
        members: room.members.clone(),
        bases,
        window: Arc::clone(&window),
    });
    Ok(Filling { comm: Arc::clone(comm), shard, memory, variables: made.collect() })
}

/// Variables of one group whose members bring samples of their own.
pub(crate) fn joined(parts: &[Vec<(VariableSpec, LensMessage)>]) -> Result<Vec<NewVariable>> {
    let first = parts.first().map(Vec::as_slice).unwrap_or_default();
    let specs =
        |part: &[(VariableSpec, LensMessage)]| part.iter().map(|(spec, _)| spec.clone()).collect::<Vec<_>>();
    for part in parts {
        // A rank that brings nothing may not know how long samples are: only what is the same for all is compared.
        if specs(part) != specs(first) {
            let what =
                format!("ranks add different variables: {}, and {}", SpecNames(first), SpecNames(part));
            return Err(
                Error::invalid(what).hint("give every rank the same names, types and shapes of samples")
            );
        }
    }
    let new = |index: usize| {
        let lens: Vec<SampleLens> = parts.iter().map(|part| part[index].1.lens()).collect();
        NewVariable {
            spec: first[index].0.clone(),
            partition: Partition::of_counts(lens.iter().map(SampleLens::count)),
            lens: SampleLens::joined(lens.iter()),
        }
    };
    Ok((0..first.len()).map(new).collect())
}

/// Every group has to hold the same samples, as far as their lengths tell.
pub(crate) fn check_replicas(groups: &[Vec<NewVariable>]) -> Result<()> {
    let facts = |group: &[NewVariable]| -> Vec<_> {
        group.iter().map(|new| (new.spec.clone(), new.lens.count(), new.lens.fingerprint())).collect()
    };
    let Some(first) = groups.first() else { return Ok(()) };
    for (number, group) in groups.iter().enumerate() {
        if facts(group) == facts(first) {
            continue;
        }
        let count = |group: &[NewVariable]| group.first().map_or(0, |new| new.lens.count());
        let what = format!(
            "replica group 0 has {} samples and group {number} has {} or others",
            count(first),
            count(group)
        );
        return Err(Error::invalid(what).hint("each group of `width` ranks holds the whole set"));
    }
    Ok(())
}

/// Makes sure that names are not taken yet.
pub(crate) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::invalid(format!("the store has a variable '{name}' already")));
        }
    }
    Ok(())
}

/// An error where ranks do not say the same of `what`. Collective.
pub fn same_on_every_rank(comm: &dyn Comm, what: &str, mine: &impl Serialize, wait: &Wait<'_>) -> Result<()> {
    let mine = message(mine)?;
    let all = comm.all_gather(mine.clone(), wait)?;
    match all.iter().position(|other| *other != mine) {
        None => Ok(()),
        Some(rank) => Err(differs(what, rank, comm.rank())),
    }
}

/// The error where `rank` says something else than `own` does.
pub(crate) fn differs(what: &str, rank: usize, own: usize) -> Error {
    let what = format!("rank {rank} gives another {what} than rank {own}");
    Error::invalid(what).hint("call it with the same arguments on every rank")
}

/// What a rank tells others, as bytes.
pub(crate) fn message(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value)
        .map_err(|error| Error::new(ErrorKind::Bug, "a message cannot be written").because(error))
}

/// What a rank was told by another.
pub(crate) fn received<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes)
        .map_err(|error| Error::corrupt("a message of another rank cannot be read").because(error))
}

/// Where each variable begins in the shard of each member, and how long the shards are: variables follow each other, each from
/// a multiple of [`ALIGNMENT`] on.
fn bases(variables: &[NewVariable], members: usize) -> Result<(Vec<Vec<u64>>, Vec<u64>)> {
    let mut lens = vec![0u64; members];
    let mut bases = Vec::with_capacity(variables.len());
    for variable in variables {
        let mut base_of = Vec::with_capacity(members);
        for (member, len) in lens.iter_mut().enumerate() {
            let end = variable.bytes_of(member).and_then(|bytes| {
                base_of.push(*len);
                len.checked_add(bytes)?.checked_next_multiple_of(ALIGNMENT)
            });
            *len = end.filter(|end| i64::try_from(*end).is_ok()).ok_or_else(|| {
                let error = Error::new(ErrorKind::Full, "a rank would hold more bytes than it can address");
                error.at(format!("variable '{}'", variable.spec.name))
            })?;
        }
        bases.push(base_of);
    }
    Ok((bases, lens))
}

/// A cache line: no two variables share one.
const ALIGNMENT: u64 = 64;

fn no_room(rank: usize, len: u64, left: u64) -> Error {
    let what = format!("the shard of rank {rank} takes {len} bytes, and {left} are left of what it may take");
    Error::new(ErrorKind::Full, what)
        .hint("use more ranks or a larger width, keep shards on a local disk, or allow more memory")
}

struct SpecNames<'a>(&'a [(VariableSpec, LensMessage)]);

impl fmt::Display for SpecNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .0
            .iter()
            .map(|(spec, _)| format!("'{}' of {} bytes a row", spec.name, spec.row_len))
            .collect();
        f.write_str(&names.join(", "))
    }
}
