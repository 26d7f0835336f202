//! What the ranks know of each other's steps: how many there are, and where they read together, which samples.

use forebay::{
    Error, ErrorKind, Result,
    store::{Comm, Wait},
};
use forebay_workload::EpochOrder;

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
        batches: &EpochOrder,
        is_together: bool,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let samples_of = |step| batches.batch(step).map(|batch| batch.samples);
        let samples = is_together.then(|| (0..batches.len()).map_while(samples_of).collect());
        Self::exchange(comm, batches.len(), samples, wait)
    }

    /// Tells all ranks of `steps`, and of their samples where there are some on every rank.
    fn exchange(
        comm: &dyn Comm,
        steps: u64,
        samples: Option<Vec<Vec<u64>>>,
        wait: &Wait<'_>,
    ) -> Result<Self> {
        let is_together = samples.is_some();
        let mine = postcard::to_stdvec(&(steps, samples.unwrap_or_default()))
            .map_err(|error| Error::new(ErrorKind::Bug, "an order cannot be encoded").because(error))?;
        let mut orders = Self::default();
        for encoded in comm.all_gather(mine, wait)? {
            let (steps, samples): (u64, Vec<Vec<u64>>) = postcard::from_bytes(&encoded).map_err(|error| {
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
                thread::spawn(move || {
                    let (wait, steps) = (Wait::while_ranks_live(), order.len() as u64);
                    let together = RankOrders::exchange(&*comm, steps, Some(order), &wait).unwrap();
                    let alone = RankOrders::exchange(&*comm, steps, None, &wait).unwrap();
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
