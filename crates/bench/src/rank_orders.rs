//! What the ranks know of each other's steps: how many there are, and where they read together, which samples.

use forebay::{
    Error, ErrorKind, Result,
    store::{Comm, Wait},
};
use forebay_workload::BatchOrder;

/// The steps of all ranks in one epoch.
#[derive(Debug, Default)]
pub(crate) struct RankOrders {
    /// Steps of the rank that has most.
    pub(crate) steps: u64,
    /// The samples of each step, by rank; none where each rank reads alone.
    samples: Vec<Vec<Vec<u64>>>,
}

impl RankOrders {
    /// The steps of a rank that knows of no others.
    pub(crate) fn alone(steps: u64) -> Self {
        Self { steps, samples: Vec::new() }
    }

    /// Tells all ranks of `batches`, with their samples if ranks read together. Collective.
    pub(crate) fn gather(
        comm: &dyn Comm,
        batches: &[BatchOrder],
        is_together: bool,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let samples = if is_together { batches } else { &[] };
        let samples: Vec<&[u64]> = samples.iter().map(|batch| &batch.samples[..]).collect();
        let mine = postcard::to_stdvec(&(batches.len() as u64, samples))
            .map_err(|error| Error::new(ErrorKind::Bug, "an order cannot be encoded").because(error))?;
        let mut orders = Self::default();
        for told in comm.all_gather(mine, wait)? {
            let (steps, samples): (u64, Vec<Vec<u64>>) = postcard::from_bytes(&told).map_err(|error| {
                Error::new(ErrorKind::Bug, "the order of a rank cannot be decoded").because(error)
            })?;
            orders.steps = orders.steps.max(steps);
            orders.samples.push(samples);
        }
        if !is_together {
            orders.samples.clear();
        }
        Ok(orders)
    }

    /// The samples of every rank in `step`.
    pub(crate) fn of_step(&self, step: u64) -> Vec<&[u64]> {
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        self.samples.iter().map(|steps| steps.get(step).map_or(&[][..], |samples| samples)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use forebay::store::LocalComm;

    use super::*;

    #[test]
    fn ranks_know_who_has_most_steps_and_what_each_reads() {
        let orders: Vec<Vec<Vec<u64>>> = vec![vec![vec![1, 2], vec![3]], vec![vec![7]], vec![]];
        let ranks = LocalComm::on_hosts(&[0, 0, 0]).into_iter().map(Arc::new).zip(orders);
        let threads: Vec<_> = ranks
            .map(|(comm, order)| {
                let batches: Vec<BatchOrder> =
                    order.into_iter().map(|samples| BatchOrder { worker: 0, samples }).collect();
                thread::spawn(move || {
                    let wait = Wait::while_ranks_live();
                    let together = RankOrders::gather(&*comm, &batches, true, &wait).unwrap();
                    let alone = RankOrders::gather(&*comm, &batches, false, &wait).unwrap();
                    (together, alone)
                })
            })
            .collect();
        for thread in threads {
            let (together, alone) = thread.join().unwrap();
            assert_eq!((together.steps, alone.steps), (2, 2));
            assert_eq!(together.of_step(0), [&[1, 2][..], &[7], &[]]);
            assert_eq!(together.of_step(1), [&[3][..], &[], &[]]);
            assert_eq!(alone.of_step(0), Vec::<&[u64]>::new());
        }
    }
}
