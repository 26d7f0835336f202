//! Variables that are being written: every rank writes its own samples, then all are published at once.

use std::sync::Arc;

use forebay_process::{Error, ErrorKind, Grant, Result};
use serde::{Deserialize, Serialize};

use crate::{
    comm::Comm,
    store::{sample_lens::SampleLens, shard_memory::ShardMemory, variable::StoredVariable},
    wait::Wait,
};

/// What a new variable is; the same on every rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableSpec {
    /// Its name.
    pub name: String,
    /// What its values are, for whoever reads them.
    pub description: Vec<u8>,
    /// Bytes of one row of one run.
    pub row_len: u64,
    /// Runs of a sample: the product of the axes before the one along which samples differ.
    pub runs: u64,
}

/// Variables of which this rank writes its part.
#[derive(Debug)]
pub struct Filling {
    pub(crate) comm: Arc<dyn Comm>,
    pub(crate) shard: Arc<ShardMemory>,
    pub(crate) memory: Arc<Grant>,
    pub(crate) variables: Vec<StoredVariable>,
}

impl Filling {
    /// The variables.
    pub fn variables(&self) -> &[StoredVariable] {
        &self.variables
    }

    /// Writes consecutive samples of this rank, from `first` on; `bytes` holds them one after the other.
    pub fn write(&self, variable: usize, first: u64, bytes: &[u8]) -> Result<()> {
        write(&self.variables[variable], &self.shard, self.comm.rank(), first, bytes)
    }

    /// Tells all ranks how the writing of this one went, and publishes what they wrote. An error of one rank is an error on all.
    pub(crate) fn publish(self, written: Result<()>, wait: &Wait<'_>) -> Result<Vec<StoredVariable>> {
        agree(&*self.comm, written, wait)?;
        if let Some(variable) = self.variables.first() {
            variable.window.publish(wait)?;
        }
        Ok(self.variables)
    }
}

/// Writes consecutive samples of `rank` into its shard.
pub(crate) fn write(
    variable: &StoredVariable,
    shard: &ShardMemory,
    rank: usize,
    first: u64,
    bytes: &[u8],
) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let named = |error: Error| error.at(format!("variable '{}'", variable.name));
    let mine = variable.samples_of(rank);
    if !mine.contains(&first) {
        return Err(named(Error::invalid(format!(
            "sample {first} is not among {mine:?}, those of rank {rank}"
        ))));
    }
    let end = variable.lens.start(mine.end) - variable.lens.start(first);
    if bytes.len() as u64 > end * variable.row_len * variable.runs {
        let what = format!("{} bytes from sample {first} on are more than rank {rank} holds", bytes.len());
        return Err(named(Error::invalid(what)));
    }
    let row_bytes = variable.row_len * variable.runs;
    let rows = (bytes.len() as u64).checked_div(row_bytes).unwrap_or(0);
    let last = variable.lens.start(first) + rows;
    let is_whole = rows * row_bytes == bytes.len() as u64
        && variable.lens.start(variable.lens.first_from_row(last)) == last;
    if !is_whole {
        let what = format!("{} bytes from sample {first} on end within a sample", bytes.len());
        return Err(named(Error::invalid(what).hint("write whole samples")));
    }
    shard.write(variable.place(first).offset, bytes).map_err(named)
}

/// `mine` where every rank has succeeded, and the error of the first that has not on all of them. Collective.
pub fn agree<T>(comm: &dyn Comm, mine: Result<T>, wait: &Wait<'_>) -> Result<T> {
    let told = match &mine {
        Ok(_) => Vec::new(),
        Err(error) => [&[kind_number(error.kind())], error.to_string().as_bytes()].concat(),
    };
    let all = comm.all_gather(told, wait)?;
    let mine = mine?;
    match all.iter().position(|told| !told.is_empty()) {
        None => Ok(mine),
        Some(rank) => {
            let (kind, text) = all[rank].split_first().map_or((0, &[][..]), |(kind, text)| (*kind, text));
            let kind = KINDS.get(usize::from(kind)).copied().unwrap_or(ErrorKind::Unavailable);
            Err(Error::new(kind, format!("rank {rank}: {}", String::from_utf8_lossy(text))))
        }
    }
}

/// Kinds of errors by the numbers that ranks tell each other.
const KINDS: [ErrorKind; 9] = [
    ErrorKind::Unavailable,
    ErrorKind::NotFound,
    ErrorKind::Invalid,
    ErrorKind::Corrupt,
    ErrorKind::Unsupported,
    ErrorKind::Full,
    ErrorKind::Denied,
    ErrorKind::Io,
    ErrorKind::Bug,
];

fn kind_number(kind: ErrorKind) -> u8 {
    KINDS.iter().position(|known| *known == kind).and_then(|number| u8::try_from(number).ok()).unwrap_or(0)
}

/// The samples of one rank, as it tells the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum LensMessage {
    Even { count: u64, len: u64 },
    Ragged(Vec<u64>),
}

impl LensMessage {
    pub(crate) fn new(lens: &SampleLens) -> Self {
        match lens.even_len() {
            Some(len) => Self::Even { count: lens.count(), len },
            None => Self::Ragged((0..lens.count()).map(|sample| lens.start_and_len(sample).1).collect()),
        }
    }

    pub(crate) fn lens(&self) -> SampleLens {
        match self {
            Self::Even { count, len } => SampleLens::even(*count, *len),
            Self::Ragged(lens) => SampleLens::ragged(lens),
        }
    }
}
