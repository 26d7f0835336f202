//! Which bytes of which rank go where in a batch.

use std::{collections::BTreeMap, sync::Arc};

use forebay_process::{Error, Result};

use crate::{
    comm::{Window, WindowPiece, WindowRead},
    stats::Traffic,
    store::variable::StoredVariable,
    wait::Wait,
};

/// Rows that stand in a batch where there is no sample of a variable.
#[derive(Clone, Copy, Debug)]
pub enum PaddingRows<'a> {
    /// As many in every such place.
    Each(u64),
    /// By place in the list of samples.
    BySlot(&'a [u64]),
}

impl PaddingRows<'_> {
    fn at(self, slot: usize) -> u64 {
        match self {
            Self::Each(rows) => rows,
            Self::BySlot(rows) => rows.get(slot).copied().unwrap_or(0),
        }
    }
}

/// Samples of one variable, and the memory of a batch that they go to, side by side in the order of the list.
#[derive(Debug)]
pub struct FieldGather<'a> {
    /// The variable.
    pub variable: &'a StoredVariable,
    /// Its samples, in any order, each as often as it is wanted; `None` leaves as many bytes as `padding` says as they are.
    pub samples: &'a [Option<u64>],
    /// Rows that stand where a sample is `None`.
    pub padding: PaddingRows<'a>,
    /// The memory, as long as all of them.
    pub into: &'a mut [u8],
}

impl FieldGather<'_> {
    /// Rows of all samples of a batch, and an error for one that there is not.
    pub fn rows(variable: &StoredVariable, samples: &[Option<u64>], padding: PaddingRows<'_>) -> Result<u64> {
        samples.iter().enumerate().try_fold(0u64, |rows, (slot, sample)| {
            let len = match sample {
                Some(sample) => {
                    variable.check(*sample)?;
                    variable.lens.start_and_len(*sample).1
                }
                None => padding.at(slot),
            };
            rows.checked_add(len).ok_or_else(|| Error::invalid("a batch of more than 2^64 rows"))
        })
    }

    fn check(&self) -> Result<()> {
        let rows = Self::rows(self.variable, self.samples, self.padding)?;
        let len = rows.checked_mul(self.variable.row_len).and_then(|len| len.checked_mul(self.variable.runs));
        if len == Some(self.into.len() as u64) {
            return Ok(());
        }
        let what = format!("the samples have {rows} rows, and the memory for them {} bytes", self.into.len());
        Err(Error::invalid(what).at(format!("variable '{}'", self.variable.name)))
    }
}

/// What is to be read of the ranks of other hosts: the pieces of all fields that share a window, by rank.
#[derive(Debug, Default)]
pub(crate) struct RemoteReads<'a> {
    has_counted: bool,
    windows: Vec<(Arc<dyn Window>, BTreeMap<usize, RemotePieces<'a>>)>,
}

/// The pieces of one rank, and of how many samples they are.
#[derive(Debug, Default)]
struct RemotePieces<'a> {
    pieces: Vec<WindowPiece<'a>>,
    samples: u64,
}

impl<'a> RemoteReads<'a> {
    /// Copies what lies in memory of this host, and notes the rest.
    pub(crate) fn gather(
        &mut self,
        gather: FieldGather<'a>,
        own_rank: usize,
        traffic: &mut Traffic,
    ) -> Result<()> {
        // A sample counts once, however many fields of it are read.
        let counts = !std::mem::replace(&mut self.has_counted, true);
        gather.check()?;
        let FieldGather { variable, samples, padding, into: mut rest } = gather;
        for run in 0..variable.runs {
            for (slot_number, sample) in samples.iter().enumerate() {
                let Some(sample) = sample else {
                    let len = padding.at(slot_number) * variable.row_len;
                    (_, rest) = rest.split_at_mut(usize::try_from(len).unwrap_or(usize::MAX));
                    continue;
                };
                let place = variable.place(*sample);
                let len = usize::try_from(place.run_len).unwrap_or(usize::MAX);
                let (slot, after) = rest.split_at_mut(len);
                rest = after;
                let offset = place.offset + run * place.run_len;
                match variable.window.shared(place.rank) {
                    Some(shard) => {
                        shard.copy_to(offset, slot)?;
                        traffic.count_shared(place.rank == own_rank, place.run_len, counts && run == 0);
                    }
                    None => {
                        let read = self.of_rank(&variable.window, place.rank);
                        read.pieces.push(WindowPiece { offset, into: slot });
                        read.samples += u64::from(counts && run == 0);
                    }
                }
            }
        }
        Ok(())
    }

    fn of_rank(&mut self, window: &Arc<dyn Window>, rank: usize) -> &mut RemotePieces<'a> {
        let known = self.windows.iter().position(|(other, _)| Arc::ptr_eq(other, window));
        let index = known.unwrap_or_else(|| {
            self.windows.push((Arc::clone(window), BTreeMap::new()));
            self.windows.len() - 1
        });
        self.windows[index].1.entry(rank).or_default()
    }

    /// Reads them, window by window, and gives the ranks of which that failed. One that failed once is not waited for again.
    pub(crate) fn read(self, wait: &Wait<'_>, traffic: &mut Traffic) -> Vec<(usize, Error)> {
        let mut failed: BTreeMap<usize, Error> = BTreeMap::new();
        for (window, ranks) in self.windows {
            let ranks = ranks.into_iter().filter(|(rank, _)| !failed.contains_key(rank));
            let (mut reads, facts): (Vec<_>, Vec<_>) = ranks
                .map(|(rank, RemotePieces { pieces, samples })| {
                    let bytes = pieces.iter().map(|piece| piece.into.len() as u64).sum::<u64>();
                    (WindowRead { rank, pieces, outcome: Ok(()) }, (bytes, samples))
                })
                .unzip();
            if reads.is_empty() {
                continue;
            }
            window.get(&mut reads, &wait.renewed());
            for (read, (bytes, samples)) in reads.into_iter().zip(facts) {
                match read.outcome {
                    Ok(()) => traffic.count_remote(bytes, samples),
                    Err(error) => drop(failed.insert(read.rank, error)),
                }
            }
        }
        failed.into_iter().collect()
    }
}
