//! Which bytes of which rank go where in a batch.

use std::collections::BTreeMap;

use forebay_source::{Error, Result};

use crate::{
    comm::{WindowPiece, WindowRead},
    stats::Traffic,
    variable::StoredVariable,
};

/// Samples of one variable, and the memory of a batch that they go to, side by side in the order of the list.
#[derive(Debug)]
pub struct FieldGather<'a> {
    /// The variable.
    pub variable: &'a StoredVariable,
    /// Its samples, in any order, each as often as it is wanted; `None` leaves as many bytes as `padding` says as they are.
    pub samples: &'a [Option<u64>],
    /// Rows that stand where a sample is `None`.
    pub padding: u64,
    /// The memory, as long as all of them.
    pub into: &'a mut [u8],
}

impl FieldGather<'_> {
    /// Rows of all samples of a batch, and an error for one that there is not.
    pub fn rows(variable: &StoredVariable, samples: &[Option<u64>], padding: u64) -> Result<u64> {
        samples.iter().try_fold(0u64, |rows, sample| {
            let len = match sample {
                Some(sample) => {
                    variable.check(*sample)?;
                    variable.lens.start_and_len(*sample).1
                }
                None => padding,
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

/// Copies what lies in memory of this host, and lists the rest by rank.
///
/// Neighbours both in a shard and in the batch become one piece.
pub(crate) fn gather<'a>(
    gather: FieldGather<'a>,
    own_rank: usize,
    traffic: &mut Traffic,
) -> Result<Vec<WindowRead<'a>>> {
    gather.check()?;
    let FieldGather { variable, samples, padding, into: mut rest } = gather;
    let mut remote: BTreeMap<usize, Vec<WindowPiece<'a>>> = BTreeMap::new();
    for run in 0..variable.runs {
        for sample in samples {
            let Some(sample) = sample else {
                let len = padding * variable.row_len;
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
                    traffic.count_shared(place.rank == own_rank, place.run_len, run == 0);
                }
                None => {
                    traffic.count_remote(place.run_len, run == 0);
                    remote.entry(place.rank).or_default().push(WindowPiece { offset, into: slot });
                }
            }
        }
    }
    Ok(remote.into_iter().map(|(rank, pieces)| WindowRead { rank, pieces, outcome: Ok(()) }).collect())
}
